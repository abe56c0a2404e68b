"""Isolate git from a repository that may be hostile, with a private git directory that contains nothing to execute.

Configuration, hooks and attributes name programs that git runs, and git reads them from the git directory. So git runs
with a temporary git directory that has Carrel's configuration, and no hooks, refs, remotes or attributes. Only the
objects come from the repository. Carrel reads the refs, and passes object ids to git.

On systems with symbolic links, the object directory is private as well. It contains links to packs and loose objects,
so that alternates are not followed, even if they are added while the repository is shared. A directory of the
repository that contains symbolic links is skipped: the links might lead to the objects of another repository.
"""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH100, PTH103, PTH108, PTH116, PTH118, PTH120, PTH208, PTH211

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from stat import S_ISDIR, S_ISLNK, S_ISREG
from threading import Lock
from time import time_ns
from typing import IO
from weakref import finalize

from carrel.errors import ConfigError
from carrel.sources.git.repository import FAN_OUT, Repository

__all__ = ["Isolation", "end", "find_git"]

LEAST_VERSION = (2, 25)
PACK = "pack"
SHARED = (PACK, "info/commit-graph", "info/commit-graphs")
SETTLED = 2_100_000_000  # nanoseconds: a directory modified this recently may change with the same timestamp

#: Shell command that limits its data segment (KiB), unless it has a lower limit, and then becomes another program.
LIMITED = 'ulimit -d "$0" 2>/dev/null; exec "$@"'
CONFIG = """[core]
	repositoryformatversion = {version}
	bare = true
	bigFileThreshold = 8m
	packedGitWindowSize = 32m
	packedGitLimit = 256m
	deltaBaseCacheLimit = 16m
	disambiguate = committish
	fsmonitor = false
	attributesFile =
	hooksPath =
	quotePath = false
[grep]
	threads = 2
[pack]
	threads = 1
[diff]
	external =
	renameLimit = 500
[log]
	mailmap = false
[gc]
	auto = 0
[maintenance]
	auto = false
[protocol]
	allow = never
{extensions}"""


def find_git() -> str:
    """Return the path of git.

    Raises:
        ConfigError: git is not installed, or too old.
    """
    program = shutil.which("git")
    if program is None:
        raise ConfigError("git: URLs need git, which is not in PATH: https://git-scm.com/downloads")
    program = os.path.abspath(program)
    check_git(program)
    return program


@cache
def check_git(program: str) -> None:
    """Check once that git works, and is not too old.

    Raises:
        ConfigError: git does not work, or is too old.
    """
    try:
        text = subprocess.run([program, "version"], capture_output=True, timeout=30, check=True).stdout.decode()  # noqa: S603
        version = tuple(int(number) for number in text.split()[2].split(".")[:2])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise ConfigError(f"{program} does not work: {error}") from None
    if version < LEAST_VERSION:
        raise ConfigError(f"git: URLs need git 2.25 or later, and {program} is {text.strip()}")


class Isolation:
    """A temporary git directory for the objects of a repository, until ``close``, and the processes that use it.

    ``max_memory`` limits the memory of each process (Linux).

    Raises:
        ConfigError: git is missing, or there is no temporary directory.
    """

    def __init__(self, repository: Repository, max_memory: int, *, alternates: bool = False) -> None:
        self._command = [find_git()]
        if sys.platform == "linux":
            self._command = [shutil.which("sh") or "/bin/sh", "-c", LIMITED, str(max_memory // 1024), *self._command]
        try:
            self.folder = tempfile.mkdtemp(prefix="carrel-git-")
        except OSError as error:
            raise ConfigError(f"git needs a temporary directory: {error.strerror}") from None
        self._remove = finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._environment = {
            name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR") if name in os.environ
        }
        self._environment |= {
            "GIT_DIR": self.folder,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_SHALLOW_FILE": os.path.join(repository.common_dir, "shallow"),
            "HOME": self.folder,
            "XDG_CONFIG_HOME": self.folder,
            "LC_ALL": "C.UTF-8",
        }
        self._real: str | None = None  # the objects of the repository, where they are linked
        self._inode = (-1, -1)  # its device and inode
        self._seen = -1  # when it was modified, in nanoseconds since 1970
        self._names: frozenset[str] = frozenset()  # the directories in it
        self._linked: dict[str, tuple[int, int] | None] = {}  # inode and time of the last change; None: look again
        self._breaches = 0
        self._lock = Lock()
        self._fill(repository, alternates)

    def _fill(self, repository: Repository, alternates: bool) -> None:
        for name in ("refs", "objects", os.path.join("objects", "info")):
            os.makedirs(os.path.join(self.folder, name))
        is_sha1 = repository.object_format == "sha1"
        extensions = "" if is_sha1 else f"[extensions]\n\tobjectFormat = {repository.object_format}\n"
        config = CONFIG.format(version=0 if is_sha1 else 1, extensions=extensions)
        for name, text in (("config", config), ("HEAD", "ref: refs/heads/none\n")):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:  # noqa: PTH123
                file.write(text)
        if alternates or os.name == "nt":
            self._environment["GIT_OBJECT_DIRECTORY"] = repository.objects
            return
        self._real = os.path.realpath(repository.objects)
        self.refresh()

    def refresh(self, ids: Iterable[str] | None = None) -> int:
        """Link the directories of objects that are new, and unlink a directory that has symbolic links in it.

        Call it before a request to git, and again before using the response. Return how many linked directories had
        such links so far: if the number has changed, the answer may come from elsewhere. With ``ids``, only the
        directories of these objects, and the packs, are checked.
        """
        if self._real is None:
            return 0
        with self._lock:
            try:
                info = os.stat(self._real)
            except FileNotFoundError:
                return self._breaches  # it has been removed, and git will report it
            if (info.st_dev, info.st_ino) != self._inode:
                if os.path.realpath(self._real) != self._real:
                    self._breaches += len(self._linked)
                    for name in tuple(self._linked):
                        self._unlink(name)
                    return self._breaches
                self._inode, self._seen = (info.st_dev, info.st_ino), -1
            modified = info.st_mtime_ns
            if modified != self._seen:
                self._names = FAN_OUT.intersection(os.listdir(self._real))
                # A change in the same tick of the clock would not be noticed later.
                self._seen = modified if time_ns() - modified > SETTLED else -1
            for name in (*self._names, *SHARED) if ids is None else {PACK, *(id[:2] for id in ids)}:
                self._look(self._real, name)
            return self._breaches

    def _look(self, real: str, name: str) -> None:
        """Link a directory or a file of objects, or unlink it if it is or has a symbolic link."""
        path = f"{real}/{name}"
        try:
            info = os.lstat(path)
            above = os.lstat(os.path.dirname(path)) if name.startswith("info") else info
        except OSError:  # it does not exist
            self._unlink(name)
            return
        fingerprint = (info.st_ino, info.st_ctime_ns)
        if self._linked.get(name) == fingerprint and not S_ISLNK(above.st_mode):
            return
        if S_ISLNK(above.st_mode) or has_links(path, info.st_mode):
            self._breaches += name in self._linked
            self._unlink(name)
            return
        if name not in self._linked:
            os.symlink(path, os.path.join(self.folder, "objects", name))
        self._linked[name] = fingerprint if time_ns() - info.st_ctime_ns > SETTLED else None

    def _unlink(self, name: str) -> None:
        if name in self._linked:
            os.unlink(os.path.join(self.folder, "objects", name))
            del self._linked[name]

    def spawn(self, *arguments: str, stdin: bool = False) -> subprocess.Popen[bytes]:
        """Start git; its output is a pipe, and with ``stdin`` its input as well."""
        self.refresh()
        return subprocess.Popen(  # noqa: S603
            [*self._command, "--no-pager", *arguments],
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment,
            cwd=self.folder,
            bufsize=0,
        )

    def close(self) -> None:
        """Remove the directory."""
        self._remove()


def has_links(path: str, mode: int) -> bool:
    """Return whether a path is a symbolic link, or a directory with one in it."""
    if not S_ISDIR(mode):
        return not S_ISREG(mode)
    try:
        with os.scandir(path) as entries:
            return any(entry.is_symlink() for entry in entries)
    except OSError:
        return False  # git cannot read it either


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process, and close its pipes."""
    pipes: tuple[IO[bytes] | None, ...] = (process.stdin, process.stdout)
    process.kill()
    for pipe in pipes:
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                pass
    process.wait()
