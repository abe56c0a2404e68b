"""Targets of ``carrel serve`` and ``carrel install``: the paths and URLs to share, and their validation."""

# No pathlib, whose import takes a few milliseconds: clients wait for a stdio server to start.
# ruff: noqa: PTH100, PTH110, PTH111, PTH112, PTH113, PTH118, PTH119

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from carrel.cli.server.http_options import warn
from carrel.cli.source_flags import SourceFlags
from carrel.errors import ConfigError
from carrel.near_names import near_path
from carrel.redaction import without_secrets
from carrel.sources.registry import find, no_source, scheme_of
from carrel.uri.parse import UriError, file_path

if TYPE_CHECKING:
    from carrel.catalog.provider import Provider
    from carrel.cli.config.read import Configuration
    from carrel.server.app import Server

__all__ = ["Target", "Targets", "app_location", "check_paths", "check_skills", "default_name", "read_targets", "share"]


class Target(NamedTuple):
    """Something to share: its scheme, its absolute path or its URL, and the options of its source.

    If an ``optional`` target cannot be opened, it is skipped with a warning.
    """

    scheme: str
    location: str
    options: dict[str, Any]
    optional: bool = False

    def __repr__(self) -> str:
        return f"Target({without_secrets(self.location)!r})"  # without options, which may be secret


class Targets(list[Target]):
    """All shared targets. ``flags`` are the flags of the command line for them, without secrets."""

    flags: Sequence[str] = ()

    def locations(self, *schemes: str) -> list[str]:
        """Return the paths or URLs of the targets with these schemes."""
        return [target.location for target in self if target.scheme in schemes]

    @property
    def shared(self) -> list[str]:
        """The paths, and the URLs without passwords. Skills are not included."""
        return [without_secrets(target.location) for target in self if target.scheme != "skills"]

    @property
    def skills(self) -> list[str]:
        """The folders of skills."""
        return self.locations("skills")


def target_of(target: str, options: dict[str, Any], folder: str = "") -> Target:
    """Return the target for a URL, or for a path relative to a folder.

    Raises:
        ConfigError: no source supports it.
    """
    if "\0" in target:
        raise ConfigError(f"a path or URL ({target.partition(':')[0][:20]!r}…) contains a NUL character")
    scheme = scheme_of(target)
    if scheme not in ("file", "skills"):
        source = find(scheme)
        if source is None:
            raise no_source(target)
        return Target(source.scheme, source.absolute(target, folder), options)
    path = path_of(target) if scheme == "file" else target.partition(":")[2]
    return Target(scheme, os.path.join(folder, os.path.expanduser(path)), options)


def read_targets(given: argparse.Namespace, flags: SourceFlags, configuration: Configuration | None = None) -> Targets:
    """Return the targets of the command line, then the targets of the configuration. Flags apply to both.

    Raises:
        ConfigError: a path cannot be shared, no source supports a URL, or a flag applies to no target.
    """
    skills = [f"skills:{path}" for path in given.skills]
    here = [target_of(target, {}) for target in (*given.targets, *skills)]
    found = [target._replace(options=flags.options(given, target.scheme)) for target in here]
    found += [
        target._replace(options={**target.options, **flags.options(given, target.scheme)})
        for target in ([] if configuration is None else configured(configuration))
    ]
    for flag in flags.unused(given, {target.scheme for target in found}) if found else ():
        owners = [f"{scheme}:" for scheme, some in flags.by_scheme.items() if flag in [one.flag for one in some]]
        raise ConfigError(f"{flag} is an option of {' and '.join(owners)}, but no target is of that kind")
    found = [target for target in found if not (target.optional and is_missing(target))]
    checked = {
        "file": iter(check_paths([target.location for target in found if target.scheme == "file"])),
        "skills": iter(check_skills([target.location for target in found if target.scheme == "skills"])),
    }
    return Targets(
        target._replace(location=next(checked[target.scheme])) if target.scheme in checked else target
        for target in found
    )


def configured(configuration: Configuration) -> list[Target]:
    """Return the targets of a configuration.

    Raises:
        ConfigError: a URL names no path on this machine.
    """
    found = [
        target_of(source.location, source.options, configuration.folder)._replace(optional=source.optional)
        for source in configuration.sources
    ]
    return found + [target_of(f"skills:{folder}", {}) for folder in configuration.settings.skills.folders]


def app_location(configuration: Configuration, file: str) -> str:
    """Return the ``file`` of ``[app]``: a Python file relative to the configuration, or a module by its name."""
    if file.endswith(".py") or ".py:" in file:
        return os.path.join(configuration.folder, os.path.expanduser(file))
    return file


def share(app: Server[Any], targets: Targets) -> list[Provider]:
    """Add the targets to a server. Return the providers of the targets, except skills.

    Raises:
        ConfigError: a required source cannot be opened.
    """
    from carrel import sources

    providers: list[Provider] = []
    for target in targets:
        if target.scheme == "skills":
            continue
        try:
            opened = sources.open(target.location, **target.options)
        except ConfigError as error:
            if not target.optional:
                raise
            warn(f"{without_secrets(target.location)} is left out: {error}")
            continue
        provider = app.add_provider(opened, optional=target.optional).provider
        providers += [] if provider in providers else [provider]
    for target in targets:
        if target.scheme == "skills":
            app.skills(target.location, **target.options)
    return providers


def is_missing(target: Target) -> bool:
    """Return whether a path is missing, and print a warning if so."""
    if target.scheme not in ("file", "skills") or os.path.exists(target.location):
        return False
    warn(f"{target.location} is left out: there is no such file or folder")
    return True


def path_of(target: str) -> str:
    """Return the path of a ``file:`` URL. A path is returned unchanged.

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
            raise ConfigError(f"no such file or folder: {path}{near_path(whole)}")
        if not (os.path.isdir(whole) or os.path.isfile(whole)):
            raise ConfigError(f"{path} is neither a file nor a folder")
        if not os.access(whole, os.R_OK | os.X_OK if os.path.isdir(whole) else os.R_OK):
            raise ConfigError(f"{path} cannot be read: permission denied")
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
    """Return the default name of a server for these paths and URLs, without the user names and options of URLs."""
    name = paths[0]
    if "://" in name and not os.path.lexists(name):
        name = name.partition("?")[0].rpartition("@")[2]
    return os.path.basename(name) or "carrel"
