"""The logs source against the contract that every source is held to."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from carrel.sources.logs.options import LogsOptions
from carrel.sources.logs.source import LogsSource
from carrel.testing import ProviderContract


class TestLogs(ProviderContract):
    foreign = "file:///nobody/has/this"
    options = LogsOptions(log_name="app", notify_every=1, search_tool=True)
    folder: Path

    @pytest.fixture
    def provider(self, tmp_path: Path) -> LogsSource:
        self.folder = folder = tmp_path / "logs"
        folder.mkdir()
        # Between two reads of everything at once no entry may come to be older than 15 minutes.
        start = datetime.now(UTC) - timedelta(minutes=10)
        lines = [f"{start + timedelta(seconds=each):%Y-%m-%d %H:%M:%S%z} INFO entry {each}\n" for each in range(30)]
        for name in ("web.log", "a b#c%.log", "糖尿病.log", "sub.log"):
            (folder / name).write_text("".join(lines))
        (folder / "web.log.1").write_text("".join(lines[:5]))
        (folder / "empty.log").touch()
        (folder / "json.log").write_text(
            "".join(json.dumps({"ts": start.timestamp(), "n": each}) + "\n" for each in range(9))
        )
        (folder / "not shared.txt").write_text("secret")
        (folder / "out.log").symlink_to("/etc/hostname")
        return LogsSource(f"logs:{folder}/*.log", self.options)

    def again(self, provider: LogsSource) -> LogsSource:
        return LogsSource(f"logs:{self.folder}/*.log", self.options)

    async def create(self, provider: LogsSource) -> str:
        number = len(list(self.folder.iterdir()))
        path = self.folder / f"new{number}x.log"
        while path.exists():
            path = path.with_name(f"{path.stem}y.log")
        path.write_text("new\n")
        return f"logs://app/{path.name}"

    async def change(self, provider: LogsSource, uri: str) -> None:
        with (self.folder / uri.rpartition("/")[2]).open("a") as file:
            file.write("more\n")

    async def remove(self, provider: LogsSource, uri: str) -> None:
        (self.folder / uri.rpartition("/")[2]).unlink()

    async def shown_in(self, provider: LogsSource, uri: str) -> list[str]:
        queries = [f"{uri}?{query}" for query in ("tail=2", "match=more", "level=error")]
        others = ("recent", "recent?match=more", "statistics", "app?match=more", "app?level=error")
        return [uri, *queries, *(f"logs://{other}" for other in others)]

    async def lists_with_new(self, provider: LogsSource) -> list[str]:
        return ["logs://app", "logs://recent", "logs://statistics"]

    def missing(self, provider: LogsSource) -> str:
        return "logs://app/missing.log"

    async def container(self, provider: LogsSource) -> str:
        return "logs://app"

    async def unreadable(self, provider: LogsSource) -> list[str]:
        refused = [
            "out.log",
            "not%20shared.txt",
            "web.log.1",
            "../etc",
            "web.log?tail=0",
            "web.log?tail=1001",
            "web.log?x=1",
        ]
        refused += [
            "web.log?level=loud",
            "web.log?match=(",
            "web.log?since=now",
            "web.log?timeframe=5x",
            "web.log?tail=1&tail=2",
        ]
        refused += ["web.log?timeframe=5m&since=1h", "web.log?since=5m&until=10m", "web.log?log=missing"]
        return [f"logs://app/{each}" for each in refused]

    async def searched(self, provider: LogsSource) -> tuple[str, str]:
        return "web", "logs://app/web.log"

    async def completed(self, provider: LogsSource) -> tuple[str, str, str, str]:
        return "logs://app/{+log}{?timeframe,since,until,level,match,tail,fields}", "log", "w", "web.log"

    async def called(self, provider: LogsSource) -> tuple[str, dict[str, Any]]:
        return "search_logs", {"match": "entry 7", "timeframe": "1h"}
