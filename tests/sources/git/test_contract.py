"""The git source against the contract that every source is held to."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from carrel.sources.git.options import GitOptions
from carrel.sources.git.source import GitSource
from carrel.testing import ProviderContract
from carrel.wire.resources import Resource
from support.contract_choice import VARIANT
from support.git import Repository


class TestWorkingTree(ProviderContract):
    foreign = "git://another/file/HEAD/README.md"
    options = GitOptions(max_size=100_000)
    repository: Repository

    @pytest.fixture(scope="session")
    @staticmethod
    def made(tmp_path_factory: pytest.TempPathFactory) -> Repository:
        """Return a repository that is made once, to be copied."""
        repository = Repository(tmp_path_factory.mktemp("made") / "shop")
        for path in ("README.md", "src/main.rs", "src/lib/a b#c%.py", "docs/糖尿病.txt"):
            repository.put(path, f"This is {path}.\n")
        repository.put("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0")
        repository.commit("The first files")
        repository.put("large.log", "a line of the log\n" * 20_000)
        repository.commit("A log")
        repository.run("branch", "feature/login")
        repository.run("tag", "-a", "v1.0", "-m", "The first release")
        return repository

    @pytest.fixture
    def provider(self, made: Repository, tmp_path: Path) -> GitSource:
        self.repository = made.copy(tmp_path / "shop")
        return GitSource(self.location(), self.options)

    def location(self) -> str:
        return f"git:{self.repository.path}"

    def again(self, provider: GitSource) -> GitSource:
        return GitSource(self.location(), self.options)

    async def create(self, provider: GitSource) -> str:
        number = len(self.repository.run("branch", "--list").splitlines())
        self.repository.run("branch", f"topic/{number}")
        return f"git://shop/branch/topic%2F{number}"

    async def change(self, provider: GitSource, uri: str) -> None:
        """Move the branch to a commit with another README.md."""
        name, run = uri.removeprefix("git://shop/branch/").replace("%2F", "/"), self.repository.run
        blob = run("hash-object", "-w", "--stdin", input=b"Something else\n" + run("rev-parse", name).encode())
        listed = run("ls-tree", "main").replace(self.repository.id("main:README.md"), blob)
        commit = run("commit-tree", run("mktree", input=listed.encode()), "-m", "Something else")
        run("update-ref", f"refs/heads/{name}", commit)

    async def remove(self, provider: GitSource, uri: str) -> None:
        self.repository.run("branch", "-D", uri.removeprefix("git://shop/branch/").replace("%2F", "/"))

    async def shown_in(self, provider: GitSource, uri: str) -> list[str]:
        ref = uri.rpartition("/")[2]
        ends = {"log": ("", "?limit=1"), "commit": ("",), "tree": ("", "?lines=1-2")}
        ends |= {"file": ("/README.md", "/README.md?tail=1"), "blame": ("/README.md",), "diff": ("?path=README.md",)}
        locations = [f"{kind}/{ref}{end}" for kind, some in ends.items() for end in some]
        locations += [f"diff/main..{ref}", f"grep/{ref}?query=This"]
        return [uri, *(f"git://shop/{location}" for location in locations)]

    async def lists_with_new(self, provider: GitSource) -> list[str]:
        return ["git://shop/branches"]

    def missing(self, provider: GitSource) -> str:
        return "git://shop/file/HEAD/missing.txt"

    async def too_large(self, provider: GitSource) -> str:
        return "git://shop/file/HEAD/large.log"

    async def container(self, provider: GitSource) -> str:
        return "git://shop/tree/HEAD"

    async def searched(self, provider: GitSource) -> tuple[str, str]:
        return "main", "git://shop/file/HEAD/src/main.rs"

    async def completed(self, provider: GitSource) -> tuple[str, str, str, str]:
        return "git://shop/file/{ref}/{+path}", "path", "src/m", "src/main.rs"

    async def windows(self, provider: GitSource, whole: Sequence[Resource]) -> list[str]:
        """Return some from each template: most take a process of git, and each is read many times."""
        return (await super().windows(provider, whole))[::8]

    async def unreadable(self, provider: GitSource) -> list[str]:
        refused = ("file/HEAD/src", "file/nowhere/README.md", "tree/HEAD/README.md", "commit/0123456789", "branch/none")
        refused += ("file/HEAD/../README.md", "file/HEAD/README.md?lines=9-12", "tag/none", "log/HEAD?limit=0", "other")
        refused += ("log/main..HEAD", "file/--output=x/README.md", "diff/-x..HEAD", "file/HEAD", "grep/HEAD")
        return [f"git://shop/{path}" for path in refused]


class TestBareRepository(TestWorkingTree):
    """The same for a bare repository, with packed objects and packed refs."""

    ordinary = VARIANT

    @pytest.fixture(scope="session")
    @staticmethod
    def made(tmp_path_factory: pytest.TempPathFactory) -> Repository:
        """Return a repository that is made once, to be copied."""
        made = TestWorkingTree.made.__wrapped__(tmp_path_factory)
        bare = made.path.with_name("shop.git")
        made.run("clone", "-q", "--bare", str(made.path), str(bare))
        made.path = bare
        made.run("gc", "-q")
        made.run("pack-refs", "--all")
        return made
