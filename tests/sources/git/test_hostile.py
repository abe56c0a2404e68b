"""A hostile repository executes nothing, leads out to nothing, and breaks nothing."""

import os
import re
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from carrel.catalog.paging import all_of
from carrel.errors import ConfigError, InvalidParams, MCPError, ResourceError, ResourceNotFound
from carrel.sources.git.process import ObjectPipe
from carrel.sources.git.refs import is_ref_name
from carrel.testing import Caller
from carrel.wire.resources import BlobResourceContents
from support.git import Repository

Share = Callable[..., Awaitable[Caller]]

PROGRAMS = """
[core]
	fsmonitor = {program}
	pager = {program}
	editor = {program}
	sshCommand = {program}
	askPass = {program}
	hooksPath = {hooks}
	gitProxy = {program}
	alternateRefsCommand = {program}
	attributesFile = {attributes}
[pager]
	log = {program}
	diff = {program}
	blame = {program}
	grep = {program}
[diff]
	external = {program}
[diff "evil"]
	command = {program}
	textconv = {program}
[filter "evil"]
	clean = {program}
	smudge = {program}
	process = {program}
	required = true
[merge "evil"]
	driver = {program}
[alias]
	cat-file = !{program}
	rev-list = !{program}
[gpg]
	program = {program}
[log]
	showSignature = true
[credential]
	helper = !{program}
[uploadpack]
	packObjectsHook = {program}
[remote "origin"]
	url = ext::{program}
	promisor = true
	partialCloneFilter = blob:none
	uploadpack = {program}
[extensions]
	partialClone = origin
[include]
	path = {included}
[blame]
	ignoreRevsFile = {included}
"""


async def read_everything(caller: Caller) -> None:
    """Read each kind of resource, search, and complete every variable."""
    for resource in await caller.resources():
        await caller.read_resource(resource.uri)
    for path in (
        "file/HEAD/a.txt",
        "file/HEAD/a.txt?lines=1-1",
        "blame/HEAD/a.txt",
        "commit/HEAD",
        "diff/HEAD",
        "diff/HEAD~1..HEAD?path=a.txt",
        "diff/HEAD~1...HEAD",
        "log/HEAD?path=a.txt",
        "grep/HEAD?query=two",
    ):
        await caller.read_resource(f"git://shop/{path}")
    await caller.directory("git://shop/tree/HEAD")
    await caller.search("two", 10)
    for template in await caller.templates():
        for variable in re.findall(r"ref|path|base", template.uri_template):
            await caller.complete(template.uri_template, variable, "")


async def test_nothing_that_configuration_attributes_or_hooks_name_is_executed(
    repository: Repository, share: Share, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    program = tmp_path / "evil.sh"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\n')
    program.chmod(0o755)
    repository.commit("one", **{"a.txt": "one\n"})
    repository.commit("two", **{"a.txt": "two\n", ".gitattributes": "* diff=evil filter=evil merge=evil\n"})
    attributes = repository.git_dir / "info" / "attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text("* diff=evil filter=evil\n")
    hooks = repository.git_dir / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit", "fsmonitor-watchman"):
        (hooks / name).symlink_to(program)
    included = tmp_path / "included"
    included.write_text(f"[core]\n\tfsmonitor = {program}\n")
    with open(repository.git_dir / "config", "a") as file:
        file.write(PROGRAMS.format(program=program, hooks=hooks, attributes=attributes, included=included))
    # The same with the git of every day, to see that the trap works.
    os.system(f"cd {repository.path} && git -c safe.directory='*' diff HEAD~1 HEAD >{tmp_path}/out 2>&1")
    assert ran.exists()
    ran.unlink()
    caller = await share()
    await read_everything(caller)
    assert not ran.exists(), ran.read_text()
    [patch] = await caller.read_resource("git://shop/diff/HEAD?path=a.txt")
    assert "-one\n+two\n" in patch.text


async def test_a_missing_object_of_a_partial_clone_is_an_error_and_nothing_is_fetched(
    repository: Repository, share: Share, tmp_path: Path
) -> None:
    repository.commit("one", **{"a.txt": "one\n", "b.txt": "bee\n"})
    blob = repository.id("HEAD:a.txt")
    loose = repository.git_dir / "objects" / blob[:2] / blob[2:]
    loose.unlink()
    ran = tmp_path / "ran"
    with open(repository.git_dir / "config", "a") as file:
        file.write(
            f'[extensions]\n\tpartialClone = origin\n[remote "origin"]\n\turl = "ext::touch {ran}"\n\tpromisor = true\n'
            '[protocol "ext"]\n\tallow = always\n'
        )
    pack = repository.git_dir / "objects" / "pack"
    pack.mkdir(exist_ok=True)
    (pack / "pack-0.promisor").touch()
    caller = await share()
    for path in ("file/HEAD/a.txt", "file/HEAD/a.txt?lines=1-1", "diff/HEAD", "blame/HEAD/a.txt"):
        with pytest.raises(ResourceNotFound, match="shallow or partial clone"):
            await caller.read_resource(f"git://shop/{path}")
    assert (await caller.read_resource("git://shop/file/HEAD/b.txt"))[0].text == "bee\n"
    assert [entry.size for entry in await caller.directory("git://shop/tree/HEAD")] == [None, 4]
    assert not ran.exists()


async def test_a_shallow_clone_ends_where_it_was_cut(repository: Repository, share: Share, tmp_path: Path) -> None:
    ids = [repository.commit(f"Commit {number}", **{"a.txt": f"{number}\n"}) for number in range(4)]
    shallow = tmp_path / "cut"
    repository.run("clone", "-q", "--depth=2", f"file://{repository.path}", str(shallow))
    caller = await share(shallow)
    [log] = await caller.read_resource("git://cut/log/HEAD")
    assert [id in log.text for id in ids] == [False, True, True, True]  # the first is named as a parent only
    with pytest.raises(ResourceNotFound, match="shallow or partial clone"):
        await caller.read_resource("git://cut/file/HEAD~2/a.txt")


@pytest.mark.parametrize("how", ["alternates", "objects", "pack", "loose", "commit-graph", "refs"])
async def test_objects_of_another_repository_are_refused_unless_that_is_allowed(
    how: str, repository: Repository, share: Share, tmp_path: Path
) -> None:
    secret = Repository(tmp_path / "secret")
    commit = secret.commit("secret", **{"key.txt": "secret\n"})
    repository.commit("mine", **{"a.txt": "mine\n"})
    objects, theirs = repository.git_dir / "objects", secret.git_dir / "objects"
    if how == "alternates":
        (objects / "info").mkdir(exist_ok=True)
        (objects / "info" / "alternates").write_text(f"{theirs}\n")
    elif how == "objects":
        objects.rename(objects.with_name("mine"))
        objects.symlink_to(theirs)
    elif how == "pack":
        secret.run("repack", "-adq")
        (objects / "pack").rename(objects / "mine") if (objects / "pack").exists() else None
        (objects / "pack").symlink_to(theirs / "pack")
    elif how == "refs":
        (repository.git_dir / "refs").rename(repository.git_dir / "mine")
        (repository.git_dir / "refs").symlink_to(secret.git_dir / "refs")
    elif how == "loose":
        (objects / commit[:2]).mkdir(exist_ok=True)
        (objects / commit[:2] / commit[2:]).symlink_to(theirs / commit[:2] / commit[2:])
    else:
        (objects / "info").mkdir(exist_ok=True)
        (objects / "info" / "commit-graph").symlink_to(theirs / "info" / "commit-graph")
    with pytest.raises(ConfigError, match="the option alternates allows that"):
        await share()
    if how == "alternates":
        caller = await share(alternates=True)
        [text] = await caller.read_resource(f"git://shop/file/{commit}/key.txt")
        assert text.text == "secret\n"


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
async def test_alternates_that_are_added_later_are_not_followed(
    repository: Repository, share: Share, tmp_path: Path
) -> None:
    secret = Repository(tmp_path / "secret")
    commit = secret.commit("secret", **{"key.txt": "secret\n"})
    repository.commit("mine", **{"a.txt": "mine\n"})
    caller = await share()
    info = repository.git_dir / "objects" / "info"
    info.mkdir(exist_ok=True)
    (info / "alternates").write_text(f"{secret.git_dir / 'objects'}\n")
    with pytest.raises(ResourceNotFound):
        await caller.read_resource(f"git://shop/commit/{commit}")
    assert (await caller.read_resource("git://shop/file/HEAD/a.txt"))[0].text == "mine\n"


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
@pytest.mark.parametrize("how", ["file", "fan-out", "new fan-out", "pack", "packs", "objects", "git"])
async def test_links_to_other_objects_that_are_made_later_are_not_followed(
    how: str, repository: Repository, share: Share, tmp_path: Path
) -> None:
    secret = Repository(tmp_path / "secret")
    commit = secret.commit("secret", **{"key.txt": "secret\n"})
    blob = secret.run("rev-parse", "HEAD:key.txt")
    mine = repository.commit("mine", **{"a.txt": "mine\n"})
    if how == "fan-out":
        (repository.git_dir / "objects" / commit[:2]).mkdir(exist_ok=True)
    if how in ("pack", "packs"):
        repository.run("repack", "-adq")
        secret.run("repack", "-adq")
    caller = await share()
    assert (await caller.read_resource("git://shop/file/HEAD/a.txt"))[0].text == "mine\n"
    objects, theirs = repository.git_dir / "objects", secret.git_dir / "objects"
    if how == "file":
        for id in (commit, blob, secret.run("rev-parse", "HEAD^{tree}")):
            (objects / id[:2]).mkdir(exist_ok=True)
            (objects / id[:2] / id[2:]).symlink_to(theirs / id[:2] / id[2:])
    elif how in ("fan-out", "new fan-out"):
        if (objects / commit[:2]).exists():
            (objects / commit[:2]).rename(tmp_path / "old")
        (objects / commit[:2]).symlink_to(theirs / commit[:2])
    elif how == "pack":
        (objects / "pack").rename(tmp_path / "old")
        (objects / "pack").symlink_to(theirs / "pack")
    elif how == "packs":
        for path in (theirs / "pack").iterdir():
            (objects / "pack" / path.name).symlink_to(path)
    elif how == "objects":
        objects.rename(tmp_path / "old")
        objects.symlink_to(theirs)
    else:
        repository.git_dir.rename(tmp_path / "old")
        (repository.path / ".git").symlink_to(secret.git_dir)
    for name in (commit, commit[:7], "main"):
        for uri in (
            f"git://shop/file/{name}/key.txt",
            f"git://shop/commit/{name}",
            f"git://shop/log/{name}",
            f"git://shop/grep/{name}?query=secret",
        ):
            try:
                [contents] = await caller.read_resource(uri)
            except MCPError:
                continue
            assert "secret" not in contents.text
    if how in ("file", "fan-out", "new fan-out") and mine[:2] != commit[:2]:
        assert (await caller.read_resource(f"git://shop/commit/{mine}"))[0].text


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
async def test_links_that_are_made_between_a_check_and_the_answer_are_noticed(
    repository: Repository, share: Share, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = Repository(tmp_path / "secret")
    commit = secret.commit("secret", **{"key.txt": "secret\n"})
    repository.commit("mine", **{"a.txt": "mine\n"})
    fan_out = repository.git_dir / "objects" / commit[:2]
    fan_out.mkdir(exist_ok=True)
    caller = await share()
    ask = ObjectPipe.ask

    def swap(pipe: ObjectPipe, *ids: str) -> None:
        fan_out.rename(tmp_path / "old")
        fan_out.symlink_to(secret.git_dir / "objects" / commit[:2])
        monkeypatch.setattr(ObjectPipe, "ask", ask)
        ask(pipe, *ids)

    monkeypatch.setattr(ObjectPipe, "ask", swap)
    with pytest.raises(ResourceError) as raised:
        await caller.read_resource(f"git://shop/commit/{commit}")
    assert fan_out.is_symlink()
    assert "Ada" not in raised.value.message
    with pytest.raises(ResourceNotFound):
        await caller.read_resource(f"git://shop/commit/{commit}")
    assert (await caller.read_resource("git://shop/file/HEAD/a.txt"))[0].text == "mine\n"


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
async def test_refs_are_not_read_through_links_to_directories(
    repository: Repository, share: Share, tmp_path: Path
) -> None:
    secret = Repository(tmp_path / "secret")
    secret.commit("secret", **{"key.txt": "secret\n"})
    id = repository.commit("mine", **{"a.txt": "mine\n"})
    caller = await share()
    heads = repository.git_dir / "refs" / "heads"
    (heads / "away").symlink_to(tmp_path)
    (tmp_path / "found").write_text(f"{id}\n")
    with pytest.raises(ResourceNotFound):
        await caller.read_resource("git://shop/commit/away%2Ffound")
    heads.rename(tmp_path / "old")
    heads.symlink_to(secret.git_dir / "refs" / "heads")
    assert list(await caller.directory("git://shop/branches")) == []


async def test_a_git_file_leads_only_to_the_repository_of_that_worktree(
    repository: Repository, share: Share, tmp_path: Path
) -> None:
    repository.commit("secret", **{"key.txt": "secret\n"})
    evil = tmp_path / "evil"
    evil.mkdir()
    for target in (repository.git_dir, "../shop/.git", tmp_path / "missing", "", "a\0b"):
        (evil / ".git").write_text(f"gitdir: {target}\n")
        with pytest.raises(ConfigError):
            await share(evil)
    (evil / ".git").unlink()
    (evil / ".git").symlink_to(repository.git_dir)
    with pytest.raises(ConfigError, match="leads out of it"):
        await share(evil)
    # A directory that pretends to be a worktree of another repository, and is none of it.
    fake = tmp_path / "evil2" / "fake"
    fake.mkdir(parents=True)
    (fake.parent / ".git").write_text("gitdir: fake\n")
    (fake / "gitdir").write_text(f"{fake.parent / '.git'}\n")
    for common in (repository.git_dir, "a\0b"):
        (fake / "commondir").write_text(f"{common}\n")
        with pytest.raises(ConfigError):
            await share(fake.parent)
    (fake / "gitdir").write_text("a\0b\n")
    with pytest.raises(ConfigError):
        await share(fake.parent)


async def test_links_in_the_tree_are_shown_and_never_followed(
    repository: Repository, share: Share, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    for name, target in {"out": "../secret.txt", "etc": "/etc", "loop": "loop"}.items():
        (repository.path / name).symlink_to(target)
    repository.commit()
    caller = await share()
    for name, target in {"out": "../secret.txt", "etc": "/etc", "loop": "loop"}.items():
        [link] = await caller.read_resource(f"git://shop/file/HEAD/{name}")
        assert (link.text, link.mime_type) == (target, "inode/symlink")
    for path in ("file/HEAD/etc/passwd", "tree/HEAD/etc", "file/HEAD/loop/loop", "blame/HEAD/etc/passwd"):
        with pytest.raises(ResourceNotFound):
            await caller.read_resource(f"git://shop/{path}")


@pytest.mark.parametrize(
    "name",
    ["--output=x", "-x", "HEAD --", "main:a.txt", "@{-1}", ":/secret", "^main", "a..b", "../config", "refs/../config",
     "config", "main^{tree}", "main@{0}", "FETCH_HEAD", "logs/HEAD", "objects", "\n", "main\nHEAD", "é", "x" * 5000],
)  # fmt: skip
async def test_names_that_are_no_refs_lead_nowhere(name: str, repository: Repository, share: Share) -> None:
    repository.commit("one", **{"a.txt": "one\n"})
    caller = await share()
    text = quote(name, safe="")
    for path in (f"file/{text}/a.txt", f"log/{text}", f"commit/{text}", f"branch/{text}", f"tag/{text}"):
        with pytest.raises((ResourceNotFound, InvalidParams)):
            await caller.read_resource(f"git://shop/{path}")


async def test_paths_that_look_like_options_or_patterns_are_names(repository: Repository, share: Share) -> None:
    for name in ("--output=x", "-p", ":(glob)**", "*", "[a]", ":!x", "a\nb"):
        repository.put(name, f"file {name!r}\n")
    repository.commit()
    repository.put("other.txt", "other\n")
    repository.commit()
    caller = await share()
    for name in ("--output=x", "-p", ":(glob)**", "*", "[a]", ":!x", "a\nb"):
        path = quote(name, safe="")
        [text] = await caller.read_resource(f"git://shop/file/HEAD/{path}")
        assert text.text == f"file {name!r}\n"
        [blame] = await caller.read_resource(f"git://shop/blame/HEAD/{path}")
        assert repr(name) in blame.text
        [log] = await caller.read_resource(f"git://shop/log/HEAD?path={path}")
        assert log.text.count('"id"') == 1
        [diff] = await caller.read_resource(f"git://shop/diff/HEAD~1?path={path}")
        assert diff.text.count("diff --git") == 1
    assert not (repository.path / "x").exists()


async def test_refs_with_odd_names_and_contents_are_left_out(
    repository: Repository, share: Share, tmp_path: Path
) -> None:
    id = repository.commit("one", **{"a.txt": "one\n"})
    heads = repository.git_dir / "refs" / "heads"
    for name in ("-option", "a b", "x.lock", "a..b", "tilde~1", "new\nline", "ctrl\x01"):
        (heads / name).write_text(f"{id}\n")
    (heads / "loop").write_text("ref: refs/heads/loop\n")
    (heads / "one").write_text("ref: refs/heads/two\n")
    (heads / "two").write_text("ref: refs/heads/one\n")
    (heads / "out").write_text("ref: ../../config\n")
    (heads / "short").write_text("1234\n")
    (heads / "gone").write_text(f"{'1' * 40}\n")
    (heads / "link").symlink_to("/etc/passwd")
    (heads / "away").symlink_to(tmp_path)
    (heads / "large").write_bytes(b"x" * 3_000_000)
    os.mkfifo(heads / "pipe")
    (repository.git_dir / "packed-refs").write_text(
        f"# pack-refs\n{id} refs/heads/packed\n{id} refs/heads/../../x\n{id} HEAD\nx\n{id} refs/heads/-y\n^{id}\n\n"
    )
    caller = await share()
    branches = [entry.name for entry in await caller.directory("git://shop/branches")]
    assert branches == ["-option", "-y", "gone", "main", "packed"]  # as git allows them; it is told ids only
    assert (await caller.read_resource("git://shop/file/refs%2Fheads%2F-option/a.txt"))[0].text == "one\n"
    with pytest.raises(ResourceNotFound, match="no object"):
        await caller.read_resource("git://shop/log/gone")


def damage(repository: Repository, id: str, data: bytes) -> None:
    loose = repository.git_dir / "objects" / id[:2] / id[2:]
    loose.parent.mkdir(exist_ok=True)
    if loose.exists():
        loose.chmod(0o644)
    loose.write_bytes(data)


async def test_damaged_objects_are_an_error_and_the_next_request_is_answered(
    repository: Repository, share: Share
) -> None:
    repository.commit("one", **{"a.txt": "one\n", "b.txt": "bee\n", "dir/c.txt": "sea\n"})
    text, tree = repository.id("HEAD:a.txt"), repository.id("HEAD:dir")
    contents = {
        "nothing": b"",
        "no zlib": b"nonsense" * 100,
        "a wrong size": zlib.compress(b"blob 3\0" + b"x" * 100_000),
        "a bomb": zlib.compress(b"blob 5\0" + b"\0" * 50_000_000),
        "a huge size": zlib.compress(b"blob 999999999999999\0x"),
        "no header": zlib.compress(b"x" * 100),
    }
    caller, refused = await share(max_seconds=100), list[str]()
    for how, data in contents.items():
        damage(repository, text, data)
        for window in ("", "?bytes=0-10"):
            try:
                [part] = await caller.read_resource(f"git://shop/file/HEAD/a.txt{window}")
            except ResourceError as error:
                refused.append(str(error))
                continue
            # git shows as much of a file as its header announces, and drops the rest.
            assert how in ("a wrong size", "a bomb"), how
            assert len(part.blob if isinstance(part, BlobResourceContents) else part.text) <= 5
        assert (await caller.read_resource("git://shop/file/HEAD/b.txt"))[0].text == "bee\n"
    assert not [error for error in refused if "took longer" in error]
    for body in (b"tree 5\0abcde", b"tree 30\0100644 name\0" + b"x" * 18, b"tree 9\0blah x\0\1\2"):
        damage(repository, tree, zlib.compress(body))
        with pytest.raises(ResourceError):
            await caller.directory("git://shop/tree/HEAD/dir")


async def searchable(caller: Caller) -> list[str]:
    """Return the URIs of all that a search index has."""
    return [resource.uri async for resource in all_of(caller.provider.list_searchable)]


async def test_objects_that_contain_themselves_end(repository: Repository, share: Share) -> None:
    repository.commit("one", **{"a.txt": "one\n", "dir/c.txt": "sea\n"})
    tree, top = repository.id("HEAD:dir"), repository.id("HEAD^{tree}")
    body = b"40000 again\0" + bytes.fromhex(tree) + b"40000 dir\0" + bytes.fromhex(tree)
    damage(repository, tree, zlib.compress(b"tree %d\0" % len(body) + body))
    id = "ab" * 20
    commit = f"tree {top}\nparent {id}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\nself\n".encode()
    damage(repository, id, zlib.compress(b"commit %d\0" % len(commit) + commit))
    tag = "cd" * 20
    body = f"object {tag}\ntype tag\ntag x\ntagger A <a> 1 +0000\n\nself\n".encode()
    damage(repository, tag, zlib.compress(b"tag %d\0" % len(body) + body))
    caller, hurried = await share(max_seconds=100), await share(max_seconds=0.5)
    deep = "/".join(["dir", *["again"] * 300])
    assert {entry.name for entry in await caller.directory(f"git://shop/tree/HEAD/{deep}")} == {"again", "dir"}
    for uri in (f"log/{id}", f"log/{id}~99999", f"commit/{tag}", f"log/{tag}", f"grep/{id}?query=x", "diff/HEAD"):
        try:
            await hurried.read_resource(f"git://shop/{uri}")
        except MCPError:
            pass
    await caller.search("c.txt", 10)
    assert "git://shop/log/HEAD" in await searchable(caller)
    assert (await caller.read_resource("git://shop/file/HEAD/a.txt"))[0].text == "one\n"


async def test_names_in_trees_that_lead_out_are_left_out(repository: Repository, share: Share) -> None:
    repository.commit("one", **{"a.txt": "one\n"})
    blob = repository.id("HEAD:a.txt")
    body = b"".join(
        b"100644 " + name + b"\0" + bytes.fromhex(blob) for name in (b"..", b".", b"", b"a/b", b"../x", b"good")
    )
    tree = repository.run("hash-object", "-w", "-t", "tree", "--literally", "--stdin", input=body)
    repository.run("update-ref", "refs/heads/odd", repository.run("commit-tree", tree, "-m", "odd"))
    caller = await share()
    assert [entry.name for entry in await caller.directory("git://shop/tree/odd")] == ["good"]
    [text] = await caller.read_resource("git://shop/tree/odd")
    assert ".." not in text.text
    repository.run("update-ref", "HEAD", "refs/heads/odd")
    assert not any(".." in uri or uri.endswith("/.") for uri in await searchable(caller))


def test_names_of_refs_are_those_that_git_allows(repository: Repository) -> None:
    names = [
        "main",
        "a/b",
        "a.b",
        "a-b",
        "-a",
        "a/-b",
        ".a",
        "a/.b",
        "a.",
        "a.lock",
        "a/b.lock/c",
        "a..b",
        "a//b",
        "/a",
    ]
    names += ["a/", "a b", "a~b", "a^b", "a:b", "a?b", "a*b", "a[b", "a\\b", "a@{b", "@", "a@b", "é", "a\x7fb", "{a}"]
    for name in names:
        allowed = True
        try:
            repository.run("check-ref-format", f"refs/heads/{name}")
        except AssertionError:
            allowed = False
        assert is_ref_name(f"refs/heads/{name}") == allowed, name
