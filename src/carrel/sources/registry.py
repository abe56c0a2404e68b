"""Registry of sources: URL scheme -> class, options struct and install hint, open to other packages.

A package adds a source with one entry point in the group ``carrel.sources``, whose name is the scheme:

    [project.entry-points."carrel.sources"]
    mbox = "carrel_mbox:MailboxSource"

The class is a ``Provider`` that is called with a URL and an instance of its attribute ``options``, a msgspec struct. A
source is imported only when it is opened, and the list of installed packages is read only for a scheme that Carrel
itself does not have.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeAlias, TypeVar

import msgspec

from carrel.catalog.provider import Provider
from carrel.errors import ConfigError
from carrel.sources.options import NoOptions

__all__ = ["GROUP", "SOURCES", "Source", "find", "installed", "no_source", "open", "scheme_of"]

GROUP = "carrel.sources"
"""Name of the entry point group."""

Options: TypeAlias = type[msgspec.Struct]
T = TypeVar("T")


class Source(msgspec.Struct, frozen=True):
    """Row of the registry. Classes are named as ``module:name``, and imported by its methods.

    ``install`` is the command that installs what the source needs; ``options`` is set where the struct can be imported
    without the source, which makes the command line start faster.
    """

    scheme: str
    summary: str
    source: str
    install: str
    options: str | None = None

    def load(self) -> Callable[[str, Any], Provider]:
        """Import the class.

        Raises:
            ConfigError: a package that it needs is missing.
        """
        found: Callable[[str, Any], Provider] = self._import(self.source)
        return found

    def load_options(self) -> Options:
        """Import the options struct.

        Raises:
            ConfigError: a package that it needs is missing.
        """
        loaded = getattr(self.load(), "options", NoOptions) if self.options is None else self._import(self.options)
        found: Options = loaded
        return found

    def _import(self, name: str) -> Any:
        module, _, attribute = name.partition(":")
        try:
            return getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name is not None and error.name.split(".")[0] == "carrel":
                raise
            raise ConfigError(f"{self.scheme}: URLs need the package {error.name}: {self.install}") from error
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"the source for {self.scheme}: URLs cannot be loaded from {name}: {error}") from error


SOURCES = {
    row.scheme: row
    for row in (
        Source(
            "file",
            "a folder or a file, by its path or as file:///path",
            "carrel.sources.files.source:FilesSource",
            "pip install 'carrel[files]'",
            "carrel.sources.files.options:FilesOptions",
        ),
        Source(
            "skills",
            "a folder of Agent Skills, as skills:PATH",
            "carrel.sources.skills.source:SkillsSource",
            "pip install 'carrel[skills]'",
            "carrel.sources.skills.options:SkillsOptions",
        ),
    )
}
"""Sources that come with Carrel, by scheme."""


def installed() -> dict[str, Source]:
    """Return the sources of other packages, by scheme, in order. They are found, and not imported."""
    from importlib.metadata import entry_points  # it takes 20 ms to load

    found: dict[str, Source] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        package = point.dist.name if point.dist is not None else point.module.partition(".")[0]
        source = Source(point.name, f"from the package {package}", point.value, f"pip install --upgrade {package}")
        found.setdefault(point.name, source)
    return found


def find(scheme: str) -> Source | None:
    """Return the source of a scheme, or None."""
    return SOURCES.get(scheme) or installed().get(scheme)


def open(target: str | os.PathLike[str], options: msgspec.Struct | None = None, **named: Any) -> Provider:
    """Return the provider for a path or a URL, not started yet.

    Options are an instance of the source's options struct, or its fields by name.

    Raises:
        ConfigError: there is no source for such URLs, an option is wrong, or a package is missing.
    """
    target = os.fspath(target)
    scheme = scheme_of(target)
    source = find(scheme)
    if source is None:
        raise no_source(target)
    kind = source.load_options()
    if options is None:
        options = read_options(kind, named, f"{scheme}:")
    elif named or not isinstance(options, kind):
        raise ConfigError(f"the options of {target} are a {kind.__name__}, or given by name")
    return source.load()(target, options)


def no_source(target: str) -> ConfigError:
    """Return the error that there is no source for a URL."""
    known = ", ".join(f"{name}:" for name in dict.fromkeys((*SOURCES, *installed())))
    return ConfigError(
        f"There is no source for {scheme_of(target)}: URLs; there are paths, and URLs that begin with {known} "
        f"(a path with a colon in it can be written ./{target})"
    )


def read_options(kind: type[T], values: Mapping[str, Any], owner: str) -> T:
    """Return the options struct with these values.

    Raises:
        ConfigError: there is no such option, or its value is of the wrong type; ``owner`` says whose options they are.
    """
    try:
        return msgspec.convert(dict(values), kind)
    except msgspec.ValidationError as error:
        text = str(error).replace("Object contains unknown field", "there is no option").replace("- at `$.", "for `")
        raise ConfigError(f"{owner} {text}") from None


def scheme_of(target: str) -> str:
    """Return the scheme of a URL in lower case; ``file`` for a path."""
    scheme, colon, _ = target.partition(":")
    letters = scheme.replace("+", "").replace("-", "").replace(".", "")
    if not colon or not letters.isalnum() or not letters.isascii() or not scheme[0].isalpha():
        return "file"
    # One letter is a Windows drive.
    return "file" if len(scheme) == 1 or os.path.lexists(target) else scheme.lower()
