"""The files source against the contract that every source is held to."""

import os
from pathlib import Path

import pytest

from carrel.errors import InvalidCursor
from carrel.sources.files.options import FilesOptions
from carrel.sources.files.source import FilesSource
from carrel.testing import Caller, ProviderContract, running
from carrel.uri.parse import file_uri
from support.contract_choice import BACKEND, VARIANT


class TestFolder(ProviderContract):
    foreign = "file:///nobody/has/this"
    options = FilesOptions(max_size=100_000)

    @pytest.fixture
    def provider(self, tmp_path: Path) -> FilesSource:
        root = tmp_path / "root"
        for path in ("README.md", "src/main.rs", "src/lib/a b#c%.py", "docs/糖尿病.txt", "docs/😀.md", "data.json"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(f"This is {path}.\n")
        (root / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")
        (root / "large.log").write_text("a line of the log\n" * 20_000)
        return FilesSource(root, self.options)

    def again(self, provider: FilesSource) -> FilesSource:
        return FilesSource(provider.path, self.options)

    async def create(self, provider: FilesSource) -> str:
        number = len(os.listdir(provider.path))
        path = Path(provider.path, f"docs/new {number}.txt")
        while path.exists():
            path = path.with_name(f"{path.stem}+.txt")
        path.write_text("new\n")
        return file_uri(path)

    async def change(self, provider: FilesSource, uri: str) -> None:
        with open(self.path(provider, uri), "a") as file:
            file.write("more\n")

    async def remove(self, provider: FilesSource, uri: str) -> None:
        os.remove(self.path(provider, uri))

    async def shown_in(self, provider: FilesSource, uri: str) -> list[str]:
        return [uri, *(f"{uri}?{window}" for window in ("lines=1-1", "tail=1", "bytes=0-1"))]

    async def lists_with_new(self, provider: FilesSource) -> list[str]:
        return [f"{provider.uri}/docs", f"{provider.uri}/docs?lines=1-3", f"{provider.uri}/docs?tail=1"]

    def missing(self, provider: FilesSource) -> str:
        return f"{provider.uri}/docs/missing.txt"

    async def too_large(self, provider: FilesSource) -> str:
        return f"{provider.uri}/large.log"

    async def container(self, provider: FilesSource) -> str:
        return provider.uri

    async def searched(self, provider: FilesSource) -> tuple[str, str]:
        return "main", f"{provider.uri}/src/main.rs"

    async def completed(self, provider: FilesSource) -> tuple[str, str, str, str]:
        return f"{provider.uri}/{{+path}}", "path", "src/m", "src/main.rs"

    async def test_a_cursor_that_was_tampered_with_is_refused(self, provider: FilesSource) -> None:
        async with running(provider):
            cursor = (await Caller(provider).list_resources(None, 2)).next_cursor
            for bad in (cursor[:-1], cursor + "A", cursor[::-1], f" {cursor}", cursor * 2, cursor.swapcase()):
                with pytest.raises(InvalidCursor):
                    await Caller(provider).list_resources(bad, 2)

    @staticmethod
    def path(provider: FilesSource, uri: str) -> Path:
        return next(path for path in Path(provider.path).rglob("*") if file_uri(path) == uri)


class TestFolderWithPatterns(TestFolder):
    """The same where every name has to be decided about, and there is much that is left out."""

    ordinary = VARIANT
    options = FilesOptions(max_size=100_000, exclude=("secret/",))

    @pytest.fixture
    def provider(self, tmp_path: Path) -> FilesSource:
        plain = TestFolder.provider.__wrapped__(self, tmp_path)
        root = Path(plain.path)
        (root / ".gitignore").write_text("*.o\n/build/\n!kept.o\n")
        (root / "docs" / ".gitignore").write_text("draft*\n")
        for path in ("build/x.txt", "src/main.o", "docs/draft.txt", ".hidden/x.txt", "src/.env", "secret/key.txt"):
            (root / path).parent.mkdir(exist_ok=True)
            (root / path).write_text("not shared\n")
        (root / "outside").symlink_to("/etc")
        return FilesSource(root, self.options)


class TestFolderWithLinks(TestFolder):
    """The same where links lead to files, to folders, through one another, out, in a circle, and nowhere."""

    ordinary = BACKEND | {"test_a_hostile_uri_meets_with_a_documented_error"}

    @pytest.fixture
    def provider(self, tmp_path: Path) -> FilesSource:
        plain = TestFolder.provider.__wrapped__(self, tmp_path)
        root = Path(plain.path)
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "secret.txt").write_text("secret")
        (root / ".env").write_text("secret")
        (root / "ignored.o").write_text("secret")
        (root / ".gitignore").write_text("*.o\n")
        os.mkfifo(root / "pipe")
        (root / ("d/" * 5)).mkdir(parents=True)
        for name, target in {
            "readme": "README.md",
            "absolute": root / "README.md",
            "code": "src",
            "hop": "code/lib",
            "skip": "docs/../hop/a b#c%.py",
            "up": "src/../README.md",
            "docs/back": "../src",
            "around": "../root/README.md",
            "far": "d/" * 3,
            **{f"chain{number}": f"chain{number + 1}" for number in range(5)},
            "chain5": "README.md",
            "long": "self/" * 40 + "README.md",
            "out": "../outside",
            "outfile": "../outside/secret.txt",
            "outer": "out/secret.txt",
            "hidden": ".env",
            "excluded": "ignored.o",
            "nowhere": "missing",
            "loop": "loop",
            "circle": "docs/circle",
            "docs/circle": "../circle",
            "top": "..",
            "self": ".",
            "topipe": "pipe",
        }.items():
            (root / name).symlink_to(target)
        return FilesSource(root, self.options)

    async def unreadable(self, provider: FilesSource) -> list[str]:
        refused = ["out", "out/secret.txt", "outfile", "outer", ".env", "hidden", "ignored.o", "excluded", "nowhere"]
        refused += ["loop", "loop/x", "circle", "docs/circle/x", "top/x", "long", "self/" * 41 + "README.md", "pipe"]
        refused += ["topipe", "README.md/x"]
        refused += ["d/" * 130, "far/" + "d/" * 125, "readme/x", "code/missing", "x" * 300, "README.md?lines=99-100"]
        return [f"{provider.uri}/{path.replace(' ', '%20')}" for path in refused]

    async def test_links_within_the_folder_are_read(self, provider: FilesSource) -> None:
        async with running(provider):
            for path in ("readme", "absolute", "up", "around", "chain0", "self/self/readme"):
                assert (await Caller(provider).read_resource(f"{provider.uri}/{path}"))[
                    0
                ].text == "This is README.md.\n"
            for path in ("skip", "hop/a%20b%23c%25.py", "docs/back/lib/a%20b%23c%25.py"):
                assert (await Caller(provider).read_resource(f"{provider.uri}/{path}"))[
                    0
                ].text == "This is src/lib/a b#c%.py.\n"


class TestFolderWithFollowedLinks(TestFolderWithLinks):
    """The same where links that lead out are followed as well."""

    ordinary = VARIANT
    options = FilesOptions(max_size=100_000, follow_symlinks=True)

    @pytest.fixture
    def provider(self, tmp_path: Path) -> FilesSource:
        plain = TestFolderWithLinks.provider.__wrapped__(self, tmp_path)
        (tmp_path / "outside" / "back").symlink_to(plain.path)
        return FilesSource(plain.path, self.options)

    async def unreadable(self, provider: FilesSource) -> list[str]:
        led_out = ("out", "outfile", "outer", "top")
        return [
            uri
            for uri in await TestFolderWithLinks.unreadable(self, provider)
            if uri.removeprefix(f"{provider.uri}/").split("/")[0] not in led_out
        ]
