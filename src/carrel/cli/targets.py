"""Targets of ``carrel serve`` and ``carrel install``: the paths and URLs that are shared, checked beforehand."""

# No pathlib, whose import takes a few milliseconds: clients wait for a stdio server to start.
# ruff: noqa: PTH100, PTH110, PTH111, PTH112, PTH113, PTH118, PTH119

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from carrel.cli.source_flags import SourceFlags
from carrel.errors import ConfigError
from carrel.sources.registry import find, no_source, scheme_of
from carrel.uri.parse import UriError, file_path

__all__ = ["Target", "Targets", "check_paths", "check_skills", "default_name", "read_targets"]


class Target(NamedTuple):
    """Something to share: its scheme, its absolute path or its URL, and the options of its source."""

    scheme: str
    place: str
    options: dict[str, Any]


class Targets(list[Target]):
    """All that is shared."""

    def places(self, *schemes: str) -> list[str]:
        """Return the paths, or the URLs, of these schemes."""
        return [target.place for target in self if target.scheme in schemes]

    @property
    def shared(self) -> list[str]:
        """The paths and URLs, without skills."""
        return [target.place for target in self if target.scheme != "skills"]

    @property
    def skills(self) -> list[str]:
        """The folders of skills."""
        return self.places("skills")


def target_of(target: str, options: dict[str, Any], folder: str = "") -> Target:
    """Return the target that a path, relative to a folder, or a URL names.

    Raises:
        ConfigError: there is no source for it.
    """
    scheme = scheme_of(target)
    if scheme not in ("file", "skills"):
        if find(scheme) is None:
            raise no_source(target)
        return Target(scheme, target, options)
    path = path_of(target) if scheme == "file" else target.partition(":")[2]
    return Target(scheme, os.path.join(folder, os.path.expanduser(path)), options)


def read_targets(
    given: argparse.Namespace, flags: SourceFlags, others: Iterable[tuple[str, dict[str, Any]]] = (), folder: str = ""
) -> Targets:
    """Return what the command line shares, and others, whose paths are relative to a folder.

    Raises:
        ConfigError: a path cannot be shared, there is no source for a URL, or a flag is for none of them.
    """
    skills = [f"skills:{path}" for path in given.skills]
    here = [target_of(target, {}) for target in (*given.targets, *skills)]
    schemes = {target.scheme for target in here}
    for flag in flags.unused(given, schemes) if here else ():
        owners = [f"{scheme}:" for scheme, some in flags.by_scheme.items() if flag in [one.flag for one in some]]
        raise ConfigError(f"{flag} is an option of {' and '.join(owners)}, and nothing of that kind is shared")
    found = [Target(scheme, place, flags.options(given, scheme)) for scheme, place, _ in here]
    found += [target_of(target, options, folder) for target, options in others]
    checked = {
        "file": iter(check_paths([place for scheme, place, _ in found if scheme == "file"])),
        "skills": iter(check_skills([place for scheme, place, _ in found if scheme == "skills"])),
    }
    return Targets(
        target._replace(place=next(checked[target.scheme])) if target.scheme in checked else target for target in found
    )


def path_of(target: str) -> str:
    """Return the path that a path or a ``file:`` URL names.

    Raises:
        ConfigError: the URL names no path on this machine.
    """
    if not target.lower().startswith("file:") or os.path.lexists(target):
        return target
    try:
        return file_path(target)
    except UriError as error:
        raise ConfigError(f"{target} cannot be shared: {error}") from None


def check_paths(paths: list[str]) -> list[str]:
    """Check the paths to share, and return them as absolute paths.

    Raises:
        ConfigError: a path is missing, is neither file nor folder, is not readable, or is given twice.
    """
    checked: list[str] = []
    for path in paths:
        whole = os.path.abspath(os.path.expanduser(path))
        if not os.path.exists(whole):
            raise ConfigError(f"no such file or folder: {path}{nearest(whole)}")
        if not (os.path.isdir(whole) or os.path.isfile(whole)):
            raise ConfigError(f"{path} is neither a file nor a folder")
        if not os.access(whole, os.R_OK | os.X_OK if os.path.isdir(whole) else os.R_OK):
            raise ConfigError(f"{path} may not be read by you")
        for other in checked:
            if inside(whole, other) or inside(other, whole):
                raise ConfigError(f"{path} and {other} share the same files; give only the outer one")
        checked.append(whole)
    return checked


def check_skills(folders: list[str]) -> list[str]:
    """Check the folders of skills, and return them as absolute paths.

    Raises:
        ConfigError: a path is missing, is not a folder, is not readable, or is given twice.
    """
    checked = check_paths(folders)
    for folder, path in zip(folders, checked, strict=True):
        if not os.path.isdir(path):
            raise ConfigError(f"--skills {folder} is not a folder")
    return checked


def inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def default_name(paths: list[str]) -> str:
    """Return the default name of a server that shares these paths."""
    return os.path.basename(paths[0]) or "carrel"


def nearest(path: str) -> str:
    """Return a "did you mean" hint for a missing path, or an empty string."""
    from difflib import get_close_matches  # imported only after a mistake

    parent, name = os.path.split(path)
    try:
        with os.scandir(parent) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return ""
    close = get_close_matches(name, names, n=1)
    return f" (did you mean {os.path.join(parent, close[0])}?)" if close else ""
