"""The files source against the contract that every source is held to."""

import os
from pathlib import Path

import pytest

from carrel.errors import InvalidCursor
from carrel.protocol.uri import file_uri
from carrel.sources.files import FilesSource
from carrel.testing import SourceContract, running


class TestFolder(SourceContract):
    foreign = "file:///nobody/has/this"

    @pytest.fixture
    def source(self, tmp_path: Path) -> FilesSource:
        root = tmp_path / "root"
        for path in ("README.md", "src/main.rs", "src/lib/a b#c%.py", "docs/糖尿病.txt", "docs/😀.md", "data.json"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(f"This is {path}.\n")
        (root / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")
        (root / "large.log").write_text("a line of the log\n" * 20_000)
        return FilesSource(root, max_size=100_000)

    async def create(self, source: FilesSource) -> str:
        number = len(os.listdir(source.path))
        path = Path(source.path, f"docs/new {number}.txt")
        while path.exists():
            path = path.with_name(f"{path.stem}+.txt")
        path.write_text("new\n")
        return file_uri(path)

    async def change(self, source: FilesSource, uri: str) -> None:
        with open(self.path(source, uri), "a") as file:
            file.write("more\n")

    async def remove(self, source: FilesSource, uri: str) -> None:
        os.remove(self.path(source, uri))

    def missing(self, source: FilesSource) -> str:
        return f"{source.uri}/docs/missing.txt"

    async def too_large(self, source: FilesSource) -> str:
        return f"{source.uri}/large.log"

    async def container(self, source: FilesSource) -> str:
        return source.uri

    async def searched(self, source: FilesSource) -> tuple[str, str]:
        return "main", f"{source.uri}/src/main.rs"

    async def completed(self, source: FilesSource) -> tuple[str, str, str, str]:
        return f"{source.uri}/{{+path}}", "path", "src/m", "src/main.rs"

    async def test_a_cursor_that_was_tampered_with_is_refused(self, source: FilesSource) -> None:
        async with running(source):
            cursor = (await source.list(None, 2)).next_cursor
            for bad in (cursor[:-1], cursor + "A", cursor[::-1], f" {cursor}", cursor * 2, cursor.swapcase()):
                with pytest.raises(InvalidCursor):
                    await source.list(bad, 2)

    @staticmethod
    def path(source: FilesSource, uri: str) -> Path:
        return next(path for path in Path(source.path).rglob("*") if file_uri(path) == uri)


class TestFolderWithPatterns(TestFolder):
    """The same where every name has to be decided about, and there is much that is left out."""

    @pytest.fixture
    def source(self, tmp_path: Path) -> FilesSource:
        plain = TestFolder.source.__wrapped__(self, tmp_path)
        root = Path(plain.path)
        (root / ".gitignore").write_text("*.o\n/build/\n!kept.o\n")
        (root / "docs" / ".gitignore").write_text("draft*\n")
        for path in ("build/x.txt", "src/main.o", "docs/draft.txt", ".hidden/x.txt", "src/.env", "secret/key.txt"):
            (root / path).parent.mkdir(exist_ok=True)
            (root / path).write_text("not shared\n")
        (root / "outside").symlink_to("/etc")
        return FilesSource(root, max_size=100_000, exclude=["secret/"])
