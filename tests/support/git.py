"""A git repository made with the real git, in a directory of a test, untouched by the configuration of the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from copy import copy
from pathlib import Path

import pytest

__all__ = ["Repository"]

GIT = shutil.which("git")


class Repository:
    """A repository at ``path``, made by ``git init`` with these arguments."""

    def __init__(self, path: Path, *arguments: str) -> None:
        self.path = path
        self._clock = 1_700_000_000
        path.mkdir(parents=True, exist_ok=True)
        self.run("init", "-q", "-b", "main", "--template=", *arguments)

    def copy(self, path: Path) -> Repository:
        """Return a copy at another path."""
        shutil.copytree(self.path, path, symlinks=True)
        other = copy(self)
        other.path = path
        return other

    @property
    def git_dir(self) -> Path:
        """Where HEAD is."""
        inside = self.path / ".git"
        return inside if inside.exists() else self.path

    def run(self, *arguments: str | bytes, input: bytes = b"", folder: Path | None = None) -> str:
        """Run git, and return its output without the last line feed."""
        if GIT is None:
            pytest.fail("these tests need git in PATH")
        self._clock += 60
        date = f"{self._clock} +0200"
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Ada Lovelace",
            "GIT_AUTHOR_EMAIL": "ada@example.com",
            "GIT_COMMITTER_NAME": "Ada Lovelace",
            "GIT_COMMITTER_EMAIL": "ada@example.com",
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_DATE": date,
        }
        done = subprocess.run(
            [GIT, *arguments], cwd=folder or self.path, env=environment, input=input, capture_output=True, timeout=60
        )
        assert done.returncode == 0, (arguments, done.stderr.decode("utf-8", "replace"))
        return done.stdout.decode("utf-8", "replace").removesuffix("\n")

    def put(self, path: str | bytes, data: str | bytes) -> None:
        """Write a file into the working tree."""
        target = os.path.join(os.fsencode(self.path), os.fsencode(path))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)

    def commit(self, message: str = "A commit", **files: str | bytes) -> str:
        """Commit everything in the working tree, and return the id of the commit."""
        for name, data in files.items():
            self.put(name, data)
        self.run("add", "-A")
        self.run("commit", "-q", "--allow-empty", "-m", message)
        return self.run("rev-parse", "HEAD")

    def id(self, name: str = "HEAD") -> str:
        """Return the id that a name leads to."""
        return self.run("rev-parse", "--verify", name)
