"""Files, history, differences, blame, refs and search of real repositories, and their changes."""

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel import sources
from carrel.errors import ConfigError, InvalidParams, MCPError, ResourceNotFound, ResourceTooLarge
from carrel.sources.git.location import RepositoryUris
from carrel.sources.git.objects import DamagedObject, parse_commit, parse_tag, parse_tree
from carrel.sources.git.source import GitSource
from carrel.testing import Caller, Listener, running
from support.git import Repository

Share = Callable[..., Awaitable[Caller]]


async def read(caller: Caller, path: str) -> str:
    [part] = await caller.read_resource(f"git://shop/{path}")
    return part.text


# Opening


@pytest.mark.parametrize("form", ["git:{}", "git+file:{}", "git+file://{}", "GIT+FILE://localhost{}"])
def test_a_repository_is_opened_by_any_form_of_its_path(form: str, tmp_path: Path) -> None:
    source = sources.open(form.format(tmp_path / "Shop.git"))
    assert isinstance(source, GitSource)
    assert (source.path, source.uri) == (str(tmp_path / "Shop.git"), "git://shop")


@pytest.mark.parametrize("target", ["git://example.com/x", "git+https://example.com/x.git", "git+ssh://host/x"])
def test_a_remote_repository_is_refused_with_advice(target: str) -> None:
    with pytest.raises(ConfigError, match="clone it"):
        sources.open(target)


async def test_what_is_no_repository_is_refused(tmp_path: Path, share: Share, repository: Repository) -> None:
    (repository.path / "src").mkdir()
    for path, message in (
        (tmp_path, "no git repository at"),
        (tmp_path / "none", "no folder"),
        (repository.path / "src", f"there is one at {repository.path}"),
    ):
        with pytest.raises(ConfigError, match=message):
            await share(path)
    (repository.git_dir / "HEAD").unlink()
    with pytest.raises(ConfigError, match="HEAD, refs or objects are missing"):
        await share()


async def test_a_repository_without_git_in_path_is_refused(
    share: Share, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match=r"need git, which is not in PATH"):
        await share()


async def test_refs_in_a_format_that_is_not_read_are_refused(share: Share, repository: Repository) -> None:
    with open(repository.git_dir / "config", "a") as file:
        file.write("[extensions]\n\trefStorage = reftable\n")
    with pytest.raises(ConfigError, match="refs migrate"):
        await share()


async def test_an_empty_repository_has_no_files_and_no_history_yet(share: Share, repository: Repository) -> None:
    caller = await share()
    assert [one.uri for one in await caller.resources()] == ["git://shop", "git://shop/branches", "git://shop/tags"]
    assert await read(caller, "branches") == "[\n]\n"
    with pytest.raises(ResourceNotFound, match="no commits yet"):
        await caller.read_resource("git://shop/log/HEAD")
    assert not await caller.search("x", 5)
    repository.commit("one", **{"a.txt": "one\n"})
    assert await read(caller, "file/HEAD/a.txt") == "one\n"


async def test_a_repository_with_sha256_is_read(share: Share, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "long" / "shop", "--object-format=sha256")
    first = repository.commit("one", **{"a.txt": "one\n"})
    repository.commit("two", **{"a.txt": "two\n"})
    assert len(first) == 64
    caller = await share(repository.path)
    assert await read(caller, f"file/{first}/a.txt") == await read(caller, f"file/{first[:12]}/a.txt") == "one\n"
    assert "-one\n+two\n" in await read(caller, "diff/HEAD")
    assert "+one\n" in await read(caller, f"diff/{first}")
    assert len(re.findall(r"^[0-9a-f]{10} ", await read(caller, "blame/HEAD/a.txt"), re.M)) == 1


async def test_a_worktree_and_a_submodule_are_repositories_of_their_own(
    share: Share, repository: Repository, tmp_path: Path
) -> None:
    library = Repository(tmp_path / "library")
    library.commit("one", **{"lib.txt": "lib\n"})
    repository.commit("one", **{"a.txt": "one\n"})
    repository.run("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.path), "vendor/lib")
    repository.commit("a submodule")
    repository.run("worktree", "add", "-q", "-b", "topic", str(tmp_path / "topic"))
    repository.run("commit", "-q", "--allow-empty", "-m", "in the worktree", folder=tmp_path / "topic")
    caller = await share(tmp_path / "topic")
    [log] = await caller.read_resource("git://topic/log/HEAD?limit=1")
    assert "in the worktree" in log.text
    inner = await share(repository.path / "vendor" / "lib")
    [text] = await inner.read_resource("git://lib/file/HEAD/lib.txt")
    assert text.text == "lib\n"
    # In the repository around it, a submodule is shown as what it is.
    caller = await share()
    [entry] = await caller.directory("git://shop/tree/HEAD/vendor")
    assert (entry.mime_type, entry.description) == (
        "application/x-git-submodule",
        f"submodule at commit {library.id()}",
    )
    assert await read(caller, "file/HEAD/vendor/lib") == f"Subproject commit {library.id()}\n"
    for path in ("file/HEAD/vendor/lib/lib.txt", "tree/HEAD/vendor/lib"):
        with pytest.raises(ResourceNotFound):
            await caller.read_resource(f"git://shop/{path}")


# Reading


async def test_a_file_is_read_at_any_revision(share: Share, repository: Repository) -> None:
    ids = [repository.commit(f"number {n}", **{"dir/a.txt": f"text {n}\n"}) for n in range(3)]
    repository.run("tag", "-a", "v1.0", "-m", "release", ids[1])
    repository.run("tag", "light", ids[0])
    repository.run("branch", "feature/x", ids[1])
    repository.run("update-ref", "refs/remotes/origin/main", ids[0])
    caller = await share()
    for ref, n in {
        "HEAD": 2, "main": 2, "@": 2, "HEAD~1": 1, "main~2": 0, "HEAD%5E": 1, "v1.0": 1, "v1.0~1": 0, "light": 0,
        "feature%2Fx": 1, "refs%2Fheads%2Ffeature%2Fx": 1, "heads%2Fmain": 2, "origin%2Fmain": 0, ids[1]: 1,
        ids[0][:7]: 0,
    }.items():  # fmt: skip
        assert await read(caller, f"file/{ref}/dir/a.txt") == f"text {n}\n", ref
    for ref in ("HEAD~3", "feature", "HEAD%5E2", "HEAD~1~9", "v2", "abc"):
        with pytest.raises(ResourceNotFound):
            await caller.read_resource(f"git://shop/file/{ref}/dir/a.txt")


async def test_large_files_are_read_in_windows(share: Share, repository: Repository) -> None:
    repository.commit("large", **{"log.txt": "".join(f"line {n}\n" for n in range(1, 100_001))})
    caller = await share(max_size=10_000)
    assert await read(caller, "file/HEAD/log.txt?lines=50000-50001") == "line 50000\nline 50001\n"
    assert await read(caller, "file/HEAD/log.txt?tail=1") == "line 100000\n"
    assert await read(caller, "file/HEAD/log.txt?bytes=0-5") == "line 1"
    with pytest.raises(ResourceTooLarge, match="tail=200"):
        await caller.read_resource("git://shop/file/HEAD/log.txt")
    with pytest.raises(ResourceTooLarge, match="lines=1-1000"):
        await caller.read_resource("git://shop/blame/HEAD/log.txt")
    assert "50000| line 50000\n" in await read(caller, "blame/HEAD/log.txt?lines=50000-50001")
    caller = await share(max_scan=1000)
    with pytest.raises(ResourceTooLarge, match="max_scan"):
        await caller.read_resource("git://shop/file/HEAD/log.txt?tail=1")


async def test_encodings_of_messages_files_and_names_are_recognised(share: Share, repository: Repository) -> None:
    repository.put("gbk.txt", "这是中文文本，用于测试编码识别。\n".encode("gb18030"))
    repository.put(b"caf\xe9.txt", "coffee\n")
    repository.put("日本語.md", "こんにちは\n")
    repository.run("add", "-A")
    repository.run("config", "i18n.commitEncoding", "ISO-8859-1")
    repository.run("commit", "-q", "-F", "-", input="Überprüfung\n".encode("latin-1"))
    caller = await share()
    assert "\n\nÜberprüfung\n" in await read(caller, "commit/HEAD")
    assert "这是中文" in await read(caller, "file/HEAD/gbk.txt")
    assert await read(caller, "file/HEAD/caf%E9.txt") == "coffee\n"
    assert "coffee" in await read(caller, "blame/HEAD/caf%E9.txt")
    uris = [entry.uri for entry in await caller.directory("git://shop/tree/HEAD")]
    assert "git://shop/file/HEAD/caf%E9.txt" in uris
    assert "git://shop/file/HEAD/%E6%97%A5%E6%9C%AC%E8%AA%9E.md" in uris
    [hit] = await caller.search("日本", 5)
    assert hit.resource.name == "日本語.md"


async def test_lines_that_are_found_and_differences_have_the_encoding_of_their_file(
    share: Share, repository: Repository
) -> None:
    line = "total = 1  # 合計を表示する\n"
    repository.put("a.py", ("# 図書館は午前九時に開きます。\n" * 5 + line).encode("cp932"))
    repository.put("b.py", ("# Библиотека открывается в девять.\n" * 5 + "total = 2  # всего\n").encode("koi8_r"))
    repository.put("c.py", "total = 3  # 合計\n")
    repository.run("add", "-A")
    repository.run("commit", "-q", "-m", "one")
    caller = await share()
    assert await read(caller, "grep/HEAD?query=total") == (
        f"a.py:6: {line}b.py:6: total = 2  # всего\nc.py:1: total = 3  # 合計\n"
    )
    patch = await read(caller, "diff/HEAD")
    for text in (line, "всего", "total = 3  # 合計"):
        assert f"{text}" in patch
    [part] = await caller.read_resource("git://shop/file/HEAD/a.py?tail=1")
    assert (part.text, part.meta["carrel/encoding"]) == (line, "cp932")


async def test_a_pointer_of_git_lfs_is_shown_as_such(share: Share, repository: Repository) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 12345\n"
    repository.commit("lfs", **{"video.mp4": pointer})
    caller = await share()
    [part] = await caller.read_resource("git://shop/file/HEAD/video.mp4")
    assert (part.text, part.mime_type) == (pointer, "text/plain")
    assert part.meta == {"carrel/lfs": {"oid": f"sha256:{'a' * 64}", "size": 12345}}


async def test_a_directory_is_read_whole_and_by_lines(share: Share, repository: Repository) -> None:
    repository.commit("one", **{"b.txt": "x", "a/c.txt": "y", "z.py": "pass\n"})
    caller = await share()
    whole = await read(caller, "tree/HEAD")
    assert [(one["name"], one["mimeType"]) for one in json.loads(whole)] == [
        ("a", "inode/directory"), ("b.txt", "text/plain"), ("z.py", "text/x-python")
    ]  # fmt: skip
    lines = whole.splitlines(keepends=True)
    for window, wanted in (("2-3", lines[1:3]), ("1-2", lines[:2]), ("4-", lines[3:]), ("1-", lines), ("5", lines[4:])):
        assert await read(caller, f"tree/HEAD?lines={window}") == "".join(wanted), window
    assert await read(caller, "tree/HEAD?tail=2") == "".join(lines[-2:])


# History


async def test_a_log_comes_in_pages_that_stay_right_when_commits_are_added(
    share: Share, repository: Repository
) -> None:
    ids = [repository.commit(f"number {n}", **{f"{n % 2}.txt": f"{n}\n"}) for n in range(7)][::-1]
    caller = await share()
    found, uri = [], "git://shop/log/main?limit=3"
    while uri:
        [part] = await caller.read_resource(uri)
        page = json.loads(part.text)
        found += [commit["id"] for commit in page["commits"]]
        uri = page["next"]
        repository.commit("another one")
    assert found == ids
    page = json.loads(await read(caller, "log/main?path=1.txt"))
    assert [commit["subject"] for commit in page["commits"]] == ["number 5", "number 3", "number 1"]
    assert page["commits"][0] == {
        "uri": f"git://shop/commit/{ids[1]}", "id": ids[1], "parents": [ids[2]],
        "author": "Ada Lovelace <ada@example.com>", "date": page["commits"][0]["date"], "subject": "number 5",
    }  # fmt: skip
    assert re.fullmatch(r"2023-11-1\dT\d\d:\d\d:\d\d\+02:00", page["commits"][0]["date"])
    other = repository.run("commit-tree", "main^{tree}", "-m", "elsewhere")
    for query in (f"after={other}", "limit=0", "limit=x", "path=../x", "order=date"):
        with pytest.raises(InvalidParams):
            await caller.read_resource(f"git://shop/log/main?{query}")


async def test_a_commit_names_its_author_message_refs_and_files(share: Share, repository: Repository) -> None:
    first = repository.commit("one", **{"a.txt": "one\n", "b.txt": "b\n"})
    (repository.path / "b.txt").unlink()
    second = repository.commit("Two\n\nMore about it.", **{"a.txt": "two\n", "c.txt": "c\n"})
    repository.run("tag", "v2")
    text = await read(await share(), "commit/v2")
    assert text.startswith(f"commit {second}\nRefs: main, v2\nParent: git://shop/commit/{first}\nAuthor: Ada Lovelace ")
    assert text.endswith("Two\n\nMore about it.\n\n3 files changed\nM a.txt\nD b.txt\nA c.txt\n")
    for line in re.findall(r"git://\S+", text):
        assert (await (await share()).read_resource(line))[0].text


async def test_diffs_of_refs_with_slashes_of_files_and_from_where_branches_parted(
    share: Share, repository: Repository
) -> None:
    repository.commit("base", **{"a.txt": "base\n", "dir/b.txt": "base\n"})
    repository.run("checkout", "-q", "-b", "feature/x")
    repository.commit("feature", **{"a.txt": "feature\n", "dir/b.txt": "feature\n"})
    repository.run("checkout", "-q", "main")
    repository.commit("main", **{"c.txt": "main\n"})
    caller = await share()
    both = await read(caller, "diff/main..feature%2Fx")
    assert re.findall(r"^[+-]\w+", both, re.M) == ["-base", "+feature", "-main", "-base", "+feature"]
    assert "c.txt" not in await read(caller, "diff/main...feature%2Fx")
    assert (await read(caller, "diff/main..feature%2Fx?path=dir")).count("diff --git") == 1
    assert await read(caller, "diff/main..main") == ""
    small = await share(max_size=200)
    with pytest.raises(ResourceTooLarge) as raised:
        await small.read_resource("git://shop/diff/main..feature%2Fx")
    assert "git://shop/diff/main..feature%2Fx?path=a.txt" in raised.value.message
    repository.run("checkout", "-q", "--orphan", "alone")
    repository.commit("alone")
    with pytest.raises(ResourceNotFound, match="no common history"):
        await caller.read_resource("git://shop/diff/main...alone")


async def test_branches_and_tags_say_where_they_lead(share: Share, repository: Repository) -> None:
    first = repository.commit("one", **{"a.txt": "one\n"})
    repository.run("tag", "-a", "v1", "-m", "The first\n\nrelease")
    repository.run("tag", "-a", "v1-again", "-m", "a tag of a tag", "v1")
    repository.run("branch", "v1")
    repository.run("tag", "blob", repository.id("HEAD:a.txt"))
    repository.run("update-ref", "refs/remotes/origin/x/y", first)
    caller = await share()
    branch = json.loads(await read(caller, "branch/main"))
    assert (branch["ref"], branch["head"], branch["commit"]["id"]) == ("refs/heads/main", True, first)
    # A name that a tag has as well is written in full, where a short one would lead to the tag.
    assert json.loads(await read(caller, "branch/v1"))["tree"] == "git://shop/tree/refs%2Fheads%2Fv1"
    tag = json.loads(await read(caller, "tag/v1"))
    assert (tag["message"], tag["tree"]) == ("The first\n\nrelease\n", "git://shop/tree/v1")
    assert json.loads(await read(caller, "tag/v1-again"))["commit"]["id"] == first
    assert json.loads(await read(caller, "tag/blob"))["object"]["type"] == "blob"
    names = {one.uri: one for one in await caller.directory("git://shop/branches")}
    assert list(names) == [
        "git://shop/branch/main", "git://shop/branch/refs%2Fremotes%2Forigin%2Fx%2Fy", "git://shop/branch/v1"
    ]  # fmt: skip
    for name in ("origin%2Fx%2Fy", "refs%2Fremotes%2Forigin%2Fx%2Fy"):  # as in file/origin%2Fx%2Fy/a.txt
        branch = json.loads(await read(caller, f"branch/{name}"))
        assert (branch["ref"], branch["commit"]["id"]) == ("refs/remotes/origin/x/y", first)
    assert json.loads(await read(caller, "branch/refs%2Fheads%2Fmain"))["ref"] == "refs/heads/main"
    assert json.loads(await read(caller, "tag/refs%2Ftags%2Fv1"))["ref"] == "refs/tags/v1"
    for path in ("branch/y", "branch/blob", "tag/main", "branch/refs%2Ftags%2Fv1", "branch/..%2Fheads%2Fmain"):
        with pytest.raises(ResourceNotFound):
            await read(caller, path)
    listed = [one.uri for one in await caller.resources()]
    assert [uri for uri in listed if "/branch/" in uri] == ["git://shop/branch/main", "git://shop/branch/v1"]
    main = names["git://shop/branch/main"]
    assert (main.annotations.priority, main.description) == (1.0, "one")
    assert main.annotations.last_modified == "2023-11-14T22:16:20Z" or main.annotations.last_modified.endswith("Z")


async def test_search_finds_names_contents_and_commits(share: Share, repository: Repository) -> None:
    first = repository.commit(
        "Add the frobnicator", **{"src/parser.py": "x = 1\n", "README.md": "A Parser of things\n"}
    )
    repository.commit("other", **{"data.bin": b"\0parser", "notes.txt": "one\nwith (brackets) [a-z]* and Ünïcode\n"})
    caller = await share()
    hits = await caller.search("parser", 10)
    assert [(hit.resource.uri.rpartition("/")[2], hit.snippet) for hit in hits] == [
        ("parser.py", None), ("README.md", "1: A Parser of things")
    ]  # fmt: skip
    assert [hit.resource.uri for hit in await caller.search("frobnicator", 5)] == [f"git://shop/commit/{first}"]
    assert (await caller.search(first[:10], 5))[0].resource.uri == f"git://shop/commit/{first}"
    for query in ("(brackets)", "[a-z]*", "ünïcode"):
        assert [hit.resource.name for hit in await caller.search(query, 5)] == ["notes.txt"], query
    assert await read(caller, "grep/HEAD?query=parser") == "README.md:1: A Parser of things\n"
    assert await read(caller, f"grep/{first}?query=brackets") == ""
    both = await read(caller, "grep/HEAD?query=one%20brackets")
    assert both.startswith("notes.txt:1: one\nnotes.txt:2: with (brackets)")
    assert await read(caller, "grep/HEAD?query=parser%20brackets") == ""
    assert "notes.txt:2:" in await read(caller, "grep/HEAD?query=%28brackets%29&path=notes.txt")
    with pytest.raises(InvalidParams):
        await caller.read_resource("git://shop/grep/HEAD?query=%20")


async def test_completion_knows_refs_commits_and_paths_at_the_ref(share: Share, repository: Repository) -> None:
    first = repository.commit("Fix the ROUNDING of prices", **{"old/a.txt": "x", "b#c.txt": "y"})
    repository.run("branch", "feature/old")
    repository.run("mv", "old", "new")
    repository.commit("Move")
    repository.run("tag", "v1.0")
    caller = await share()
    template = "git://shop/file/{ref}/{+path}"

    async def suggested(variable: str, value: str, of: str = template, **context: str) -> list[str]:
        return (await caller.complete(of, variable, value, context)).values

    assert (await suggested("ref", ""))[:4] == ["HEAD", "feature/old", "main", "v1.0"]
    assert await suggested("ref", "feat") == ["feature/old"]
    assert await suggested("ref", "rounding") == [first]
    assert await suggested("ref", first[:8]) == [first]
    assert await suggested("path", "") == ["new/", "b%23c.txt"]
    assert await suggested("path", "old/", ref="feature/old") == ["old/a.txt"]
    assert await suggested("path", "old/") == []
    assert await suggested("path", "b", "git://shop/log/{ref}{?path,limit,after}") == ["b#c.txt"]
    assert await suggested("path", "", "git://shop/tree/{ref}/{+path}") == ["new/"]
    assert await suggested("name", "v", "git://shop/tag/{name}") == ["v1.0"]


# Changes


async def test_moved_refs_change_what_is_subscribed_to_and_nothing_else(share: Share, repository: Repository) -> None:
    first = repository.commit("one", **{"a.txt": "one\n", "b.txt": "b\n"})
    repository.run("branch", "fixed")
    caller = await share()
    uris = [f"git://shop/{path}" for path in (
        "file/HEAD/a.txt", "file/main/b.txt", "file/fixed/a.txt", "log/main", "log/fixed", f"file/{first}/a.txt",
        "file/main/new.txt", "blame/main/a.txt", "diff/fixed..main", "tree/main",
    )]  # fmt: skip
    async with Listener(caller.provider) as listener:
        listener.interest.uris = set(uris)
        listener.interest.notify()
        repository.commit("two", **{"a.txt": "two\n", "new.txt": "new\n"})
        heard = {}
        while "git://shop/branch/main" not in heard or "git://shop/log/main" not in heard:
            heard |= {change.uri: change.kind for change in await listener.batch()}
        assert heard.pop("git://shop/file/main/new.txt") == "created"
        changed = ("file/HEAD/a.txt", "log/main", "blame/main/a.txt", "diff/fixed..main", "tree/main", "branch/main")
        changed += ("branches", "tree/HEAD", "log/HEAD")
        assert heard == {f"git://shop/{path}": "changed" for path in changed}
        repository.run("pack-refs", "--all")
        repository.run("tag", "v1")
        await listener.hear("git://shop/tag/v1", "created")
        repository.run("checkout", "-q", "fixed")
        await listener.hear("git://shop/file/HEAD/a.txt", "changed")
        repository.run("branch", "-D", "main")
        await listener.hear("git://shop/branch/main", "removed")
        listener.interest.uris = {"git://shop/branch/origin%2Fx"}
        listener.interest.notify()
        repository.run("update-ref", "refs/remotes/origin/x", first)
        await listener.hear("git://shop/branch/origin%2Fx", "created")


async def test_commits_in_a_worktree_are_reported_by_the_repository(
    share: Share, repository: Repository, tmp_path: Path
) -> None:
    repository.commit("one")
    repository.run("worktree", "add", "-q", "-b", "topic", str(tmp_path / "topic"))
    caller = await share(tmp_path / "topic")
    async with Listener(caller.provider) as listener:
        repository.run("commit", "-q", "--allow-empty", "-m", "two", folder=tmp_path / "topic")
        await listener.hear("git://topic/log/HEAD", "changed")


async def test_two_repositories_of_one_name_are_told_apart_by_an_option(repository: Repository) -> None:
    repository.commit("one", **{"a.txt": "one\n"})
    one, other = sources.open(f"git:{repository.path}"), sources.open(f"git:{repository.path}", repository="Other One")
    async with running(one), running(other):
        assert other.prefixes == ("git://other%20one",)
        assert (await Caller(other).read_resource("git://other%20one/file/HEAD/a.txt"))[0].text == "one\n"


# Parsers


@given(st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_objects_of_any_bytes_are_parsed_or_damaged(data: bytes) -> None:
    for parse in (parse_tree, parse_commit, parse_tag):
        for text in (data, b"tree " + b"a" * 40 + b"\nauthor " + data, b"100644 " + data):
            try:
                parse(text, 40)
            except DamagedObject:
                pass


@given(st.lists(st.text(max_size=8), max_size=5), st.text(max_size=12))
@settings(max_examples=80, deadline=None)
def test_uris_of_any_text_are_parsed_or_refused(segments: list[str], query: str) -> None:
    names = RepositoryUris("shop")
    for kind in ("file", "diff", "log", "branch", ""):
        try:
            names.parse("/".join(["git://shop", kind, *segments]) + (f"?{query}" if query else ""))
        except MCPError:
            pass


NAMES = st.text(st.characters(blacklist_characters="\0/", blacklist_categories=("Cs",)), min_size=1, max_size=12)


@given(st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.lists(NAMES, max_size=4))
@settings(max_examples=80, deadline=None)
def test_a_ref_and_a_path_come_back_from_their_uri(ref: str, parts: list[str]) -> None:
    if not {".", ".."} & set(parts):
        location = RepositoryUris("Shop").parse(RepositoryUris("Shop").uri("file", ref, tuple(parts)))
        assert (location.kind, location.ref, location.parts) == ("file", ref, tuple(parts))
