"""ConfigFiles: reads the servers in a host's configuration files, and detects changes of the files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from carrel.host.config.discover import unique
from carrel.host.config.read import read_file
from carrel.host.config.server_config import ConfigFile, ConfigProblem, ServerConfig
from carrel.log import Log
from carrel.regular_file import timestamp_of

__all__ = ["ConfigFiles"]

log = Log("carrel.host")


class ConfigFiles:
    """Configuration files, plus ``given`` servers."""

    def __init__(self, given: Iterable[ServerConfig], paths: Iterable[Path | str]) -> None:
        self.given = list(given)
        self.paths = [Path(path) for path in paths]
        self.problems: Sequence[ConfigProblem] = ()
        """Problems in the files."""
        self._timestamps: list[tuple[int, int, int] | None] = []

    @property
    def changed(self) -> bool:
        """Whether a file has changed since the last read."""
        return [timestamp_of(path) for path in self.paths] != self._timestamps

    def read(self, current: Iterable[ServerConfig]) -> list[ServerConfig]:
        """Read the files, and return all servers: the given servers, and the servers in the files.

        If the entry or the file of a ``current`` server has become invalid, keep the server's configuration.
        """
        self._timestamps = [
            timestamp_of(path) for path in self.paths
        ]  # first, so that a change during the read is detected later
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
