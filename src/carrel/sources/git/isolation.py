"""Isolation of git from a repository that may be hostile: a git directory of our own, with nothing in it to execute.

Programs that git runs are named by configuration, hooks and attributes, and git reads these from the git directory. So
it is given another one, in a temporary directory, whose configuration is ours and which has no hooks, refs, remotes or
attributes. Only the objects are those of the repository. Refs are read by Carrel, and git is told object ids.

On systems with symbolic links the directory of objects is ours as well, with links to packs and loose objects, so that
alternates are not followed, even if they are added while the repository is shared.
"""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH100, PTH103, PTH116, PTH118, PTH208, PTH211

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from threading import Lock
from time import time_ns
from typing import IO
from weakref import finalize

from carrel.errors import ConfigError
from carrel.sources.git.repository import FAN_OUT, Repository

__all__ = ["Isolation", "end", "find_git"]

LEAST_VERSION = (2, 25)
SETTLED = 2_100_000_000  # nanoseconds: a directory modified this recently may change with the same timestamp

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
        ConfigError: it is not installed, or too old.
    """
    program = shutil.which("git")
    if program is None:
        raise ConfigError("git: URLs need git, which is not in PATH: https://git-scm.com/downloads")
    program = os.path.abspath(program)
    check_git(program)
    return program


@cache
def check_git(program: str) -> None:
    """Check that git works, and is not too old; once.

    Raises:
        ConfigError: it does not, or is.
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
        self._git = find_git()
        self._max_memory = max_memory
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
        self._seen = -1  # when that directory was modified, in nanoseconds since 1970
        self._linked: set[str] = set()
        self._lock = Lock()
        self._fill(repository, alternates)

    def _fill(self, repository: Repository, alternates: bool) -> None:
        objects = os.path.join(self.folder, "objects")
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
        self._real = os.path.abspath(repository.objects)
        for name in ("pack", os.path.join("info", "commit-graph"), os.path.join("info", "commit-graphs")):
            os.symlink(os.path.join(self._real, name), os.path.join(objects, name))
        self.refresh()

    def refresh(self) -> None:
        """Link the directories of loose objects that are new. To be called before git is asked for anything."""
        if self._real is None:
            return
        try:
            modified = os.stat(self._real).st_mtime_ns
            if modified == self._seen:
                return
            with self._lock:
                for name in FAN_OUT.intersection(os.listdir(self._real)) - self._linked:
                    os.symlink(os.path.join(self._real, name), os.path.join(self.folder, "objects", name))
                    self._linked.add(name)
                # One that was made in the same tick of the clock would not be noticed later.
                self._seen = modified if time_ns() - modified > SETTLED else -1
        except FileNotFoundError:
            pass  # it has been removed, and git will say so

    def spawn(self, *arguments: str, stdin: bool = False) -> subprocess.Popen[bytes]:
        """Start git; its output is a pipe, and with ``stdin`` its input as well."""
        self.refresh()
        process = subprocess.Popen(  # noqa: S603
            [self._git, "--no-pager", *arguments],
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment,
            cwd=self.folder,
            bufsize=0,
        )
        if sys.platform == "linux":
            import resource  # deferred: only there

            try:
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (self._max_memory, self._max_memory))
            except (ProcessLookupError, PermissionError, ValueError, OSError):
                pass  # it has ended, or has a lower limit already
        return process

    def close(self) -> None:
        """Remove the directory."""
        self._remove()


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
