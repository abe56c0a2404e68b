"""Configuration files of a host: the servers in them, as they are now, and whether they have changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from carrel.host.config.discover import unique
from carrel.host.config.read import read_file
from carrel.host.config.server_config import ConfigFile, Problem, ServerConfig
from carrel.host.config.stamps import Stamp, stamps_of
from carrel.log import Log

__all__ = ["ConfigFiles"]

log = Log("carrel.host")


class ConfigFiles:
    """Configuration files, with servers that were ``given`` besides them."""

    def __init__(self, given: Iterable[ServerConfig], paths: Iterable[Path | str]) -> None:
        self.given = list(given)
        self.paths = [Path(path) for path in paths]
        self.problems: Sequence[Problem] = ()
        """Problems in the files."""
        self._stamps: list[Stamp] = []

    @property
    def changed(self) -> bool:
        """Whether a file has changed since they were read."""
        return stamps_of(self.paths) != self._stamps

    def read(self, current: Iterable[ServerConfig]) -> list[ServerConfig]:
        """Return all servers: those that were given, and those in the files, as they are now.

        One of the ``current`` servers whose entry, or whose file, cannot be read any more stays as it is.
        """
        self._stamps = stamps_of(self.paths)  # first: a change while they are read is seen later
        read = [read_file(path) for path in self.paths]
        self.problems = [problem for file in read for problem in file.problems]
        for problem in self.problems:
            log.warning("%s", problem)
        kept = [
            config
            for problem in self.problems
            for config in current
            if config.origin is not None and config.origin.file == problem.file and problem.entry in (None, config.name)
        ]
        return unique([ConfigFile("given", Path(), self.given), *read, ConfigFile("kept", Path(), kept)])
