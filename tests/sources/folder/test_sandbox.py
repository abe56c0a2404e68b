"""Attacks on a folder that is shared: nothing outside of it, and nothing left out of it, can be had by any question."""

import os
import socket
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from carrel.errors import MCPError, ResourceForbidden, ResourceNotFound
from carrel.sources.files.source import FilesSource
from carrel.sources.folder.sandbox import SandboxRoot
from carrel.sources.folder.selection import FileSelection
from carrel.sources.folder.tree import START, Tree
from carrel.testing import Caller, belongs
from carrel.uri.parse import encode_path
from carrel.uri.template import UriTemplate

SECRET = "the secret"
Share = Callable[..., Awaitable[FilesSource]]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Return a directory next to the root with a secret in it."""
    path = tmp_path / "outside"
    path.mkdir()
    (path / "secret.txt").write_text(SECRET)
    return path


async def everything(source: FilesSource) -> str:
    """Return what every question that does not name a file gets as an answer, as one text."""
    answers: list[Any] = [
        await Caller(source).resources(),
        await Caller(source).search("s", 1000),
        await Caller(source).search("e", 1000),
    ]
    prefixes, pages = [""], [source.uri]
    while prefixes:
        found = await Caller(source).complete(f"{source.uri}/{{+path}}", "path", prefixes.pop(), {})
        answers.append(found)
        prefixes += [value for value in found.values if value.endswith("/")]
    while pages:
        page = await Caller(source).list_directory(pages.pop(), None, 1000)
        answers.append(page)
        pages += [child.uri for child in page.items if child.mime_type == "inode/directory"]
        answers += [await Caller(source).read_resource(uri) for uri in pages]
    answers += [await Caller(source).read_resource(resource.uri) for resource in answers[0]]
    return repr(answers)


async def refused(source: FilesSource, uri: str) -> None:
    for ask in (Caller(source).read_resource, lambda uri: Caller(source).list_directory(uri, None, 10)):
        with pytest.raises((ResourceNotFound, ResourceForbidden)):
            await ask(uri)


async def test_a_link_that_leads_out_is_neither_seen_nor_followed(
    folder: Path, put: Callable[..., Path], share: Share, secret: Path
) -> None:
    put("inside.txt")
    (folder / "file").symlink_to(secret / "secret.txt")
    (folder / "directory").symlink_to(secret)
    (folder / "relative").symlink_to("../outside/secret.txt")
    (folder / "hop").symlink_to("directory")
    (folder / "up").symlink_to("..")
    (folder / "sub").mkdir()
    (folder / "sub" / "around").symlink_to("../../outside")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")
    source = await share()
    paths = ["file", "directory", "directory/secret.txt", "relative", "hop/secret.txt", "up/outside/secret.txt"]
    for path in [*paths, "sub/around/secret.txt", "dangling", "loop", "loop/x", "up", "up/root/inside.txt"]:
        await refused(source, f"{source.uri}/{path}")
    seen = await everything(source)
    assert SECRET not in seen
    assert not any(name in seen for name in ("secret", "hop", "relative", "around", "dangling", "loop"))


async def test_a_link_that_stays_inside_is_followed(folder: Path, put: Callable[..., Path], share: Share) -> None:
    put("releases/2/notes.txt", "two")
    (folder / "current").symlink_to("releases/2")
    (folder / "absolute").symlink_to(folder / "releases")
    (folder / "releases" / "latest.txt").symlink_to("../current/notes.txt")
    (folder / "round").symlink_to("../root/releases/2/notes.txt")
    source = await share()
    for path in ("current/notes.txt", "absolute/2/notes.txt", "releases/latest.txt", "round"):
        assert (await Caller(source).read_resource(f"{source.uri}/{path}"))[0].text == "two"
    names = [resource.uri.removeprefix(source.uri) for resource in await Caller(source).resources()]
    assert names == ["", "/round", "/releases/latest.txt", "/releases/2/notes.txt"]
    children = await Caller(source).list_directory(f"{source.uri}/absolute", None, 10)
    assert [child.name for child in children.items] == ["2", "latest.txt"]


async def test_a_link_inside_does_not_lead_to_what_is_left_out(
    folder: Path, put: Callable[..., Path], share: Share
) -> None:
    for path in (".env", ".ssh/key", "build/out.txt", "private/x.txt"):
        put(path, SECRET)
    put(".gitignore", "build/\n")
    put("visible.txt")
    for number, target in enumerate((".env", ".ssh", ".ssh/key", "build", "build/out.txt", "private", "private/x.txt")):
        (folder / f"other{number}").symlink_to(target)
    source = await share(exclude=["/private"])
    for path in ("other0", "other1", "other1/key", "other2", "other3/out.txt", "other4", "other5/x.txt", "other6"):
        await refused(source, f"{source.uri}/{path}")
    seen = await everything(source)
    assert SECRET not in seen
    assert "other" not in seen


async def test_links_that_lead_out_are_followed_if_that_was_asked_for(folder: Path, share: Share, secret: Path) -> None:
    (folder / "directory").symlink_to(secret)
    (folder / "file").symlink_to(secret / "secret.txt")
    (secret / "back").symlink_to(folder)  # would go on for ever
    (secret / ".hidden").write_text("hidden")
    source = await share(follow_symlinks=True)
    names = [resource.uri.removeprefix(source.uri) for resource in await Caller(source).resources()]
    assert names == ["", "/file", "/directory/secret.txt"]
    assert (await Caller(source).read_resource(f"{source.uri}/directory/secret.txt"))[0].text == SECRET
    await refused(source, f"{source.uri}/directory/.hidden")


async def test_a_folder_with_a_longer_name_is_another_folder(
    tmp_path: Path, put: Callable[..., Path], share: Share
) -> None:
    put("x.txt")
    (tmp_path / "rootX").mkdir()
    (tmp_path / "rootX" / "secret.txt").write_text(SECRET)
    source = await share()
    for uri in (f"{source.uri}X/secret.txt", f"{source.uri}X", f"{source.uri[:-1]}", f"{source.uri}%58/secret.txt"):
        assert not belongs(source, uri)
        with pytest.raises(ResourceNotFound):
            await Caller(source).read_resource(uri)


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "sub/../../outside/secret.txt",
        "%2e%2e/outside/secret.txt",
        "%2E%2E/outside/secret.txt",
        ".%2e/outside/secret.txt",
        "..%2foutside%2fsecret.txt",
        "%2e%2e%2foutside%2fsecret.txt",
        "sub%2f..%2f..%2foutside%2fsecret.txt",
        "..%5coutside%5csecret.txt",
        "..\\outside\\secret.txt",
        "sub\\..\\..\\outside",
        "%252e%252e/outside/secret.txt",
        "%c0%ae%c0%ae/outside/secret.txt",
        "/outside/secret.txt",
        "//outside/secret.txt",
        "./inside.txt",
        "sub/./x.txt",
        "sub//x.txt",
        "inside.txt%00.png",
        "inside.txt\0",
        "%00",
        "inside.txt/",
        "inside.txt/.",
        "inside.txt/x",
        "inside.txt::$DATA",
        "inside.txt:stream",
        "C:/Windows/win.ini",
        "C%3A/Windows/win.ini",
        "\\\\server\\share",
        "%5c%5cserver%5cshare",
        "CON",
        "inside.txt.",
        "inside.txt%20",
        "~/secret.txt",
        "$HOME",
        "INSIDE.TXT",
        "x" * 300,
        "x/" * 3000,
    ],
)
async def test_no_spelling_of_a_path_leads_out_or_to_a_file_by_another_name(
    path: str, put: Callable[..., Path], share: Share, secret: Path
) -> None:
    put("inside.txt", "inside")
    put("sub/x.txt", "inside")
    source = await share()
    for uri in (f"{source.uri}/{path}", f"{source.uri}/{path}?tail=5"):
        # A slash at the end of a file's name is the one that changes nothing.
        if path == "inside.txt/":
            assert (await Caller(source).read_resource(uri))[0].text == "inside"
            continue
        for ask in (Caller(source).read_resource(uri), Caller(source).list_directory(uri, None, 10)):
            with pytest.raises(MCPError):
                await ask


@pytest.mark.parametrize(
    "uri",
    [
        "file://server/share/secret.txt",
        "file:////server/share",
        "file:secret.txt",
        "file:",
        "file://",
        "file:///",
        "file:///etc/passwd",
        "FILE:///etc/passwd",
        "http://localhost/etc/passwd",
        "/etc/passwd",
        "",
    ],
)
async def test_other_places_are_not_owned(uri: str, share: Share) -> None:
    source = await share()
    assert not belongs(source, uri)
    with pytest.raises(MCPError):
        await Caller(source).read_resource(uri)


async def test_the_same_place_may_be_spelled_as_rfc_8089_allows(put: Callable[..., Path], share: Share) -> None:
    put("糖 (1).txt", "same")
    source = await share()
    path = source.uri.removeprefix("file://")
    for uri in (
        f"file://{path}/%E7%B3%96%20%281%29.txt",
        f"file://{path}/%e7%b3%96%20(1).txt",
        f"file://{path}/糖%20(1).txt",
        f"file://localhost{path}/%E7%B3%96%20(1).txt",
        f"FILE:{path}/%E7%B3%96%20(1).txt",
    ):
        assert belongs(source, uri)
        assert (await Caller(source).read_resource(uri))[0].text == "same"


async def test_excluded_files_are_in_no_response(put: Callable[..., Path], share: Share) -> None:
    put(".gitignore", "*.key\n/build/\n")
    put("sub/.gitignore", "local*\n")
    put(".git/config", SECRET)
    put("sub/.git/config", SECRET)
    hidden = [".env", ".ssh/id", "sub/.hidden/x", "server.key", "sub/deep/a.key", "build/app", "sub/local.txt", "tmp/x"]
    for path in hidden:
        put(path, SECRET)
    put("sub/deep/shown.txt")
    source = await share(exclude=["tmp"])
    for path in [
        *hidden,
        ".git/config",
        "sub/.git/config",
        ".git",
        ".gitignore",
        "build",
        "tmp",
        ".ssh",
        "sub/.hidden",
    ]:
        await refused(source, f"{source.uri}/{path}")
        assert not (await Caller(source).complete(f"{source.uri}/{{+path}}", "path", path)).values
    seen = await everything(source)
    assert SECRET not in seen
    assert not any(
        path.rpartition("/")[2].strip(".") in seen for path in ("server.key", "a.key", "local.txt", ".git/config")
    )


async def test_git_is_never_shared(put: Callable[..., Path], share: Share) -> None:
    put(".git/config", SECRET)
    put("sub/.GIT/config", SECRET)
    put(".github/workflow.yml")
    source = await share(hidden=True, gitignore=False)
    for path in (".git", ".git/config", "sub/.GIT/config"):
        await refused(source, f"{source.uri}/{path}")
    seen = await everything(source)
    assert SECRET not in seen
    assert "workflow.yml" in seen


async def test_pipes_sockets_and_devices_are_not_opened(folder: Path, share: Share, put: Callable[..., Path]) -> None:
    put("x.txt")
    os.mkfifo(folder / "pipe")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "socket"))
    (folder / "null").symlink_to("/dev/null")
    try:
        source = await share(follow_symlinks=True)
        for name in ("pipe", "socket", "null"):
            await refused(source, f"{source.uri}/{name}")
            await refused(source, f"{source.uri}/{name}?tail=1")
        assert [resource.name for resource in await Caller(source).resources()] == ["root", "x.txt"]
    finally:
        server.close()


def test_a_directory_that_is_replaced_by_a_link_between_two_steps_is_not_walked_through(
    folder: Path, put: Callable[..., Path], secret: Path
) -> None:
    put("sub/secret.txt", "harmless")

    class Passage:
        """Lets everything pass, and replaces it when it has been looked at and is about to be opened."""

        def enter(self, handle: object, parts: tuple[str, ...]) -> None:
            pass

        def admits(self, name: str, is_directory: bool) -> bool:
            if name == "sub" and is_directory:
                (folder / "sub").rename(folder / "away")
                (folder / "sub").symlink_to(secret)
            if name == "last.txt":
                (folder / "last.txt").unlink()
                (folder / "last.txt").symlink_to(secret / "secret.txt")
            if name == "pipe.txt":
                (folder / "pipe.txt").unlink()
                os.mkfifo(folder / "pipe.txt")
            return True

        admits_link = admits

    root = SandboxRoot(str(folder))
    with pytest.raises(OSError, match="directory"):
        root.open(("sub", "secret.txt"), Passage)
    for name in ("last.txt", "pipe.txt"):
        put(name, "harmless")
        with pytest.raises(OSError, match=r"link|neither"):
            root.open((name,), Passage)


def test_a_directory_that_is_replaced_all_the_time_never_leads_out(
    folder: Path, put: Callable[..., Path], secret: Path
) -> None:
    put("sub/secret.txt", "harmless")
    (folder / "trap").symlink_to(secret)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for one, other in (("sub", "away"), ("trap", "sub"), ("sub", "trap"), ("away", "sub")):
                os.rename(folder / one, folder / other)

    attacker = threading.Thread(target=swap)
    attacker.start()
    tree = Tree(SandboxRoot(str(folder)), FileSelection())
    outcomes = set()
    try:
        for _ in range(3000):
            try:
                with tree.open(("sub", "secret.txt")) as node:
                    outcomes.add(os.read(node.descriptor, 100))
            except OSError:
                outcomes.add(b"refused")
    finally:
        stop.set()
        attacker.join()
    assert outcomes <= {b"harmless", b"refused"}


@pytest.mark.parametrize("handles", [True, False])
def test_the_walk_by_path_refuses_what_the_walk_by_handle_refuses(
    handles: bool, folder: Path, put: Callable[..., Path], secret: Path
) -> None:
    put("sub/x.txt", "inside")
    (folder / "out").symlink_to(secret)
    (folder / "in").symlink_to("sub")
    os.mkfifo(folder / "pipe")
    tree = Tree(SandboxRoot(str(folder), handles=handles), FileSelection())
    for parts in (("sub", "x.txt"), ("in", "x.txt")):
        with tree.open(parts) as node:
            assert os.read(node.descriptor, 10) == b"inside"
            assert node.parts == ("sub", "x.txt")
    for parts in (
        ("out",),
        ("out", "secret.txt"),
        ("pipe",),
        ("sub", "..", "..", "outside"),
        ("..",),
        (".git",),
        ("nope",),
    ):
        with pytest.raises(OSError, match=r".+"):
            tree.open(parts)
    assert [entry.parts for entry in tree.page(START, 10)[0]] == [("sub", "x.txt")]


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be nobody for a while, if we are root, whom no permission stops."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_an_unreadable_file_is_forbidden_and_others_are_listed(share: Share) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        for path in ("locked.txt", "open.txt", "closed/x.txt"):
            (root / path).parent.mkdir(exist_ok=True)
            (root / path).write_text("x")
        source = await share(root)
        await Caller(source).resources()
        (root / "locked.txt").chmod(0)
        (root / "closed").chmod(0)
        with unprivileged():
            for path in ("locked.txt", "closed/x.txt"):
                with pytest.raises(ResourceForbidden):
                    await Caller(source).read_resource(f"{source.uri}/{path}")
            with pytest.raises(ResourceForbidden):
                await Caller(source).list_directory(f"{source.uri}/closed", None, 10)
            assert [resource.name for resource in await Caller(source).resources()] == [
                source.title,
                "locked.txt",
                "open.txt",
            ]
            assert len(await Caller(source).search("x.txt", 10)) == 0
        (root / "closed").chmod(0o755)


async def test_a_very_deep_chain_of_directories_is_cut_off(
    folder: Path, share: Share, put: Callable[..., Path]
) -> None:
    put("top.txt")
    where = os.open(folder, os.O_RDONLY)
    try:
        for _ in range(2000):  # deeper than any path may be long
            os.mkdir("deep", dir_fd=where)
            inner = os.open("deep", os.O_RDONLY, dir_fd=where)
            os.close(where)
            where = inner
    finally:
        os.close(where)
    source = await share()
    assert [resource.name for resource in await Caller(source).resources()] == ["root", "top.txt"]
    assert await Caller(source).search("top", 5)
    await refused(source, source.uri + "/deep" * 1500)
    remove_deep(folder)


def remove_deep(folder: Path) -> None:
    """Remove what is too deep for rmtree, from the inside."""
    while (folder / "deep").exists():
        where = folder / "deep"
        for _ in range(200):
            if not (where / "deep").exists():
                break
            where = where / "deep"
        if where == folder / "deep":
            where.rmdir()
        elif (where / "deep").exists():
            (where / "deep").rename(folder / "rest")
            while where != folder:
                where.rmdir()
                where = where.parent
            (folder / "rest").rename(folder / "deep")
        else:
            while where != folder:
                where.rmdir()
                where = where.parent


async def test_names_that_have_no_uri_are_left_out(put: Callable[..., Path], share: Share) -> None:
    put("back\\slash.txt")
    put("fine.txt")
    source = await share()
    assert [resource.name for resource in await Caller(source).resources()] == ["root", "fine.txt"]


@pytest.mark.parametrize(
    "name",
    [
        "a b.txt",
        "a#b.txt",
        "a?b.txt",
        "100%.txt",
        "a%20b.txt",
        "糖尿病.txt",
        "😀.md",
        b"caf\xe9.txt",
        "a&b=c;d,e@f.txt",
        "'\"<>{}[]|^`.txt",
        "~tilde",
        "-dash",
        "con",
        " leading",
        "trailing ",
        "new\nline",
        "\u00e9",
        "e\u0301",
        "x" * 255,
    ],
)
async def test_every_name_goes_there_and_back(name: str | bytes, put: Callable[..., Path], share: Share) -> None:
    put(name, "the text")
    source = await share()
    found = (await Caller(source).resources())[1]
    assert found.uri == f"{source.uri}/{encode_path([os.fsdecode(name)])}"
    assert found.uri.isascii()
    assert (await Caller(source).read_resource(found.uri))[0].text == "the text"
    assert found.name == os.fsencode(name).decode("utf-8", "replace")
    [suggested] = (await Caller(source).complete(f"{source.uri}/{{+path}}", "path", "")).values
    expanded = UriTemplate(f"{source.uri}/{{+path}}").expand({"path": suggested})
    assert (await Caller(source).read_resource(expanded))[0].text == "the text"
