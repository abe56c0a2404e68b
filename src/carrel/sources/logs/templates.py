"""Resource templates of logs, and suggestions for their variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from carrel.sources.logs.levels import LEVELS
from carrel.wire.resources import ResourceTemplate

__all__ = ["SUGGESTED", "templates"]

DURATIONS = ("5m", "15m", "1h", "6h", "1d", "7d")
QUERY = "{?timeframe,since,until,level,match,tail,fields}"

SUGGESTED: dict[str, Sequence[str]] = {
    "duration": DURATIONS,
    "timeframe": DURATIONS,
    "since": DURATIONS,
    "until": DURATIONS,
    "level": LEVELS,
    "tail": ("20", "100", "200", "1000"),
    "fields": ("*", "time,level,message"),
}


def templates(locations: Iterable[str]) -> list[ResourceTemplate]:
    """Return the templates for locations of these names."""
    found = [
        ResourceTemplate(
            "logs://recent?timeframe={duration}{&level,match}",
            "recent",
            title="Recent log entries",
            description="Entries of all logs in the last 5m, 2h or 1d, of a level and above, that match a pattern",
            mime_type="text/plain",
        ),
        ResourceTemplate(
            "logs://recent{?since,until,level,match,tail,fields}",
            "entries",
            title="Log entries of a time",
            description="Entries of all logs between two times (ISO 8601), or the last ones; with fields as JSON",
            mime_type="text/plain",
        ),
        ResourceTemplate(
            "logs://statistics?timeframe={duration}{&level,match,log}",
            "statistics",
            title="Log statistics",
            description="Levels over time, and the most frequent messages",
            mime_type="application/json",
        ),
    ]
    found += [
        ResourceTemplate(
            f"logs://{location}/{{+log}}{QUERY}",
            location,
            title=f"Entries of one log of {location}",
            description="Entries of one log, with the files that rotation has made of it",
            mime_type="text/plain",
        )
        for location in locations
    ]
    return found
