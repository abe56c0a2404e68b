"""Discover a git repository: its directories, its object format, and whether it refers to objects outside.

Only the format of objects and refs is read from the configuration of the repository.

https://git-scm.com/docs/gitrepository-layout
"""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH100, PTH110, PTH111, PTH112, PTH113, PTH114, PTH118, PTH120, PTH208

from __future__ import annotations

import os
from stat import S_ISREG
from typing import NamedTuple

from carrel.errors import ConfigError
from carrel.sources.folder.describe import display
from carrel.sources.folder.sandbox import relative_to

__all__ = ["Repository", "find_repository", "read_inside", "read_small"]

MAX_SMALL = 1024 * 1024  # bytes of a file such as HEAD or config
DIGITS = {"sha1": 40, "sha256": 64}
EMPTY_TREES = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
FAN_OUT = frozenset(f"{number:02x}" for number in range(256))


class Repository(NamedTuple):
    """A repository on disk. ``git_dir`` has HEAD, ``common_dir`` has refs and objects; they differ in a worktree."""

    path: str
    git_dir: str
    common_dir: str
    object_format: str

    @property
    def objects(self) -> str:
        """The directory of objects."""
        return os.path.join(self.common_dir, "objects")

    @property
    def digits(self) -> int:
        """The number of hexadecimal digits of an object id."""
        return DIGITS[self.object_format]

    @property
    def empty_tree(self) -> str:
        """The id of the tree without entries."""
        return EMPTY_TREES[self.object_format]

    @property
    def is_partial(self) -> bool:
        """Whether it is a shallow or a partial clone, so that objects may be missing."""
        if os.path.exists(os.path.join(self.common_dir, "shallow")):
            return True
        try:
            return any(name.endswith(".promisor") for name in os.listdir(os.path.join(self.objects, "pack")))
        except OSError:
            return False


def find_repository(path: str, *, alternates: bool = False) -> Repository:
    """Find the repository at a path: a working tree, a worktree of another repository, or a bare repository.

    Raises:
        ConfigError: the path has no repository, its format is not supported, or it uses alternate object directories
            and ``alternates`` is false.
    """
    path = os.path.abspath(os.path.expanduser(path))
    shown = display(path)
    if not os.path.isdir(path):
        raise ConfigError(f"There is no folder {shown}")
    link = os.path.join(path, ".git")
    if os.path.isfile(link):
        git_dir, common_dir = follow(path, link)
    elif os.path.isdir(link):
        git_dir = common_dir = link
        if not alternates and relative_to(os.path.realpath(link), os.path.realpath(path)) is None:
            raise ConfigError(f"{shown} has a .git that leads out of it; the option alternates allows that")
    elif is_git_dir(path):
        git_dir = common_dir = path
    else:
        above = next((one for one in parents(path) if os.path.lexists(os.path.join(one, ".git"))), None)
        hint = "" if above is None else f"; there is one at {display(above)}"
        raise ConfigError(f"There is no git repository at {shown}{hint}")
    if not is_git_dir(common_dir):
        raise ConfigError(f"{display(common_dir)} is not a git repository: HEAD, refs or objects are missing")
    # Resolved once: a link that takes the place of a directory later leads nowhere.
    repository = Repository(path, os.path.realpath(git_dir), os.path.realpath(common_dir), formats(common_dir))
    if os.path.islink(os.path.join(common_dir, "refs")) and not alternates:
        raise ConfigError(f"{shown} has its refs elsewhere: refs is a link; the option alternates allows that")
    if not alternates:
        check_objects(repository)
    return repository


def parents(path: str) -> list[str]:
    found = []
    while (above := os.path.dirname(path)) != path:
        found.append(path := above)
    return found


def is_git_dir(path: str) -> bool:
    return os.path.lexists(os.path.join(path, "HEAD")) and all(
        os.path.isdir(os.path.join(path, name)) for name in ("objects", "refs")
    )


def follow(path: str, link: str) -> tuple[str, str]:
    """Follow a ``.git`` file to the repository that it names, if that belongs to this working tree.

    A ``.git`` file could name any repository of the machine. The repository of a worktree names the working tree in
    turn, and the repository of a submodule is inside the enclosing repository.

    Raises:
        ConfigError: the file names no repository, or a repository that does not belong to this working tree.
    """
    text = read_path(link) or b""
    if not text.startswith(b"gitdir:"):
        raise ConfigError(f"{display(link)} does not name a repository")
    target = os.fsdecode(text[7:].strip())
    git_dir = os.path.realpath(os.path.join(path, target))
    back = read_path(os.path.join(git_dir, "gitdir"))
    real = os.path.realpath(path)
    if back is not None and os.path.realpath(os.path.join(git_dir, os.fsdecode(back.strip()))) == os.path.join(
        real, ".git"
    ):
        common = os.fsdecode((read_path(os.path.join(git_dir, "commondir")) or b"").strip())
        common_dir = os.path.realpath(os.path.join(git_dir, common))
        if os.path.dirname(os.path.dirname(git_dir)) == common_dir:
            return git_dir, common_dir
    modules = (os.path.realpath(os.path.join(above, ".git", "modules")) for above in parents(real))
    if any(relative_to(git_dir, module) for module in modules):
        return git_dir, git_dir
    raise ConfigError(
        f"{display(path)} has its repository at {display(git_dir)}, which does not name this folder in turn; "
        f"share it as git:{display(git_dir)}"
    )


def read_path(path: str) -> bytes | None:
    """Return the path in a small file, or None if the file does not exist or contains a NUL, which no path has."""
    found = read_small(path)
    return None if found is None or b"\0" in found else found


def read_inside(folder: str, name: str) -> bytes | None:
    """Return a small regular file at a path below a folder, or None if it is missing or the path contains a link."""
    *parts, last = name.split("/")
    if os.open not in os.supports_dir_fd:
        path = os.path.join(folder, *parts)
        return read_small(os.path.join(path, last)) if os.path.realpath(path) == path else None
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        inner = os.open(folder, flags)
        try:
            for part in parts:
                outer, inner = inner, os.open(part, flags, dir_fd=inner)  # if this fails, inner is closed below
                os.close(outer)
            return read_small(last, inner)
        finally:
            os.close(inner)
    except (OSError, ValueError):
        return None


def read_small(path: str, folder: int | None = None) -> bytes | None:
    """Return a small regular file, or None if it does not exist. Links are not followed, and pipes do not block.

    With ``folder``, a descriptor, the path is relative to that folder.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags, dir_fd=folder)
    except (OSError, ValueError):
        return None
    try:
        info = os.fstat(descriptor)
        if not S_ISREG(info.st_mode) or info.st_size > MAX_SMALL:
            return None
        return os.read(descriptor, info.st_size + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def formats(common_dir: str) -> str:
    """Return the format of objects, from the extensions that the configuration has.

    Raises:
        ConfigError: the repository needs an extension that is not supported.
    """
    section, found = "", {}
    text = (read_small(os.path.join(common_dir, "config")) or b"").decode("utf-8", "replace")
    for line in text.splitlines():
        line = line.strip().lower()
        if line.startswith("["):
            section, _, line = line[1:].partition("]")
        key, _, value = line.partition("=")
        if section.strip() == "extensions" and key.strip():
            found[key.strip()] = value.split("#")[0].split(";")[0].strip().strip('"')
    if found.get("refstorage", "files") != "files":
        raise ConfigError(
            f"{display(common_dir)} keeps its refs in the format {found['refstorage'][:50]}, which is not supported; "
            "git refs migrate --ref-format=files converts them"
        )
    object_format = found.get("objectformat", "sha1")
    if object_format not in DIGITS:
        raise ConfigError(f"{display(common_dir)} has objects in the unknown format {object_format[:50]}")
    return object_format


def check_objects(repository: Repository) -> None:
    """Check that all objects are the repository's own.

    Raises:
        ConfigError: it has alternates, or links that lead to objects elsewhere.
    """
    shown, objects = display(repository.path), repository.objects
    advice = "the option alternates allows that"
    if read_small(os.path.join(objects, "info", "alternates")):
        raise ConfigError(f"{shown} uses objects of other repositories (objects/info/alternates); {advice}")
    if os.path.islink(objects):
        raise ConfigError(f"{shown} has its objects elsewhere: {display(objects)} is a link; {advice}")
    loose = FAN_OUT.intersection(os.listdir(objects))
    for name in ("", "pack", "info", os.path.join("info", "commit-graphs"), *loose):
        try:
            with os.scandir(os.path.join(objects, name)) as entries:
                linked = next((entry.path for entry in entries if entry.is_symlink()), None)
        except OSError:
            continue
        if linked is not None:
            raise ConfigError(f"{shown} has objects elsewhere: {display(linked)} is a link; {advice}")
