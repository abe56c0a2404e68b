"""Configuration file of ``carrel serve``: the command line as TOML.

    name = "project"

    [[sources]]
    url = "./docs"                 # relative to the file
    include = ["*.md"]

    [[sources]]
    url = "mbox:~/mail/inbox"

The keys of a source are the fields of its options struct; sizes may be written as on the command line.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from carrel.cli.source_flags import flags_of
from carrel.errors import ConfigError
from carrel.limits import Limits
from carrel.sources.registry import find, no_source, read_options, scheme_of

__all__ = ["ServeFile", "read_serve_file"]


class ServeFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Contents of the file. What is None is not in it."""

    name: str | None = None
    tools: bool | None = None
    page_size: int | None = None
    limits: Limits | None = None
    sources: list[dict[str, Any]] = []

    def targets(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the path or the URL of each source, and its options.

        Raises:
            ConfigError: there is no source for a URL, or it has no such option.
        """
        return [target_in(dict(entry)) for entry in self.sources]


def read_serve_file(path: str) -> ServeFile:
    """Read a configuration file.

    Raises:
        ConfigError: it cannot be read, is not TOML, or has a key that there is not.
    """
    import tomllib  # only where there is such a file

    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    return read_options(ServeFile, values, f"{path}:")


def target_in(entry: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    url = entry.pop("url", None)
    if not isinstance(url, str):
        raise ConfigError('each of the sources needs a url, for example url = "./docs"')
    source = find(scheme_of(url))
    if source is None:
        raise no_source(url)
    for flag in flags_of(source):
        value = entry.get(flag.name)
        if flag.metavar == "SIZE" and flag.read is not None and isinstance(value, str):
            try:
                entry[flag.name] = flag.read(value)
            except argparse.ArgumentTypeError as error:
                raise ConfigError(f"{flag.name} of {url}: {error}") from None
    read_options(source.load_options(), entry, f"{url}:")
    return url, entry
