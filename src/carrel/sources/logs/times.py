"""Times of logs: durations and instants in URIs, and the timestamps of common formats.

Assumptions for incomplete timestamps: without a time zone, a timestamp is in the zone of the option ``timezone``, or of
this machine (if an hour occurs twice, the first one). Without a year, it is the last matching day before the file was
modified, with one day of tolerance.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple

from carrel.errors import ConfigError, InvalidParams

__all__ = ["DURATION", "TimestampParser", "duration_of", "instant_of", "iso", "zone_of"]

DURATION = re.compile(r"(?:(\d{1,6})w)?(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,10})s?)?", re.ASCII)
ISO_DURATION = re.compile(
    r"P(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,8})M)?(?:(\d{1,10})(?:\.\d{1,9})?S)?)?", re.ASCII
)
SECONDS = (604_800, 86_400, 3600, 60, 1)

MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
ISO = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)? ?(Z|UTC|[+-]\d\d:?\d\d)?\Z",
    re.ASCII,
)
ACCESS = re.compile(r"(\d\d)/(\w{3})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-]\d{4})\Z", re.ASCII)
SYSLOG = re.compile(r"(\w{3}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\Z", re.ASCII)
APACHE = re.compile(r"\w{3} (\w{3}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))? (\d{4})\Z", re.ASCII)
KLOG = re.compile(r"(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6})\Z", re.ASCII)
NUMBER = re.compile(r"-?\d{1,19}(?:\.\d{1,12})?\Z", re.ASCII)

MAX_KEPT = 4096  # timestamps that are remembered: neighbouring lines have the same second
LATEST = 253_402_300_799  # the end of the year 9999
DAY = 86_400


def duration_of(text: str, name: str = "timeframe") -> float:
    """Return the seconds of a duration such as ``5m``, ``1h30m``, ``2d`` or ``PT5M``.

    Raises:
        InvalidParams: the text is not a duration; ``name`` is the variable.
    """
    found = DURATION.fullmatch(text) or ISO_DURATION.fullmatch(text)
    if found is not None and any(found.groups()):
        return float(sum(int(digits or 0) * unit for digits, unit in zip(found.groups(), SECONDS, strict=True)))
    raise InvalidParams(
        f"Invalid params: {name}: {text[:50]!r} is not a duration; it should look like 5m, 2h, 1d or PT5M",
        parameter=name,
    )


def instant_of(text: str, name: str, now: float, zone: tzinfo | None) -> float:
    """Return an instant, in seconds since 1970: ISO 8601, seconds since 1970, or a duration before now.

    Raises:
        InvalidParams: the text has another format; ``name`` is the variable.
    """
    try:
        if ISO.match(text):
            return TimestampParser(zone, now).iso(text)
        if len(text) >= 9 and NUMBER.match(text):
            return float(text)
        return now - duration_of(text, name)
    except (ValueError, OverflowError, OSError, InvalidParams):
        message = f"{text[:50]!r} is not a time; it should look like 2025-01-31T08:00:00Z, 2025-01-31 or 2h (ago)"
        raise InvalidParams(f"Invalid params: {name}: {message}", parameter=name) from None


def iso(instant: float) -> str:
    """Return an instant as ISO 8601 in UTC, to the microsecond."""
    moment = datetime.fromtimestamp(min(max(instant, 0), LATEST), UTC)
    text = moment.isoformat(timespec="microseconds" if moment.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def zone_of(name: str | None) -> tzinfo | None:
    """Return a time zone by its name, or None for the local time zone.

    Raises:
        ConfigError: there is no such time zone.
    """
    if name is None:
        return None
    from zoneinfo import ZoneInfo  # it takes a few milliseconds to load

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise ConfigError(f"timezone: there is no time zone {name!r} on this machine") from None


class Moment(NamedTuple):
    """Fields of a timestamp without a time zone."""

    year: int
    month: int
    day: int
    hour: int = 0
    minute: int = 0
    second: int = 0


class TimestampParser:
    """Reader of timestamps of one file, modified at ``modified`` (seconds since 1970).

    The methods raise ``ValueError`` if the text is not a time in their format.
    """

    def __init__(self, zone: tzinfo | None, modified: float) -> None:
        self._zone = zone
        self._modified = modified
        self._kept: dict[str, float] = {}

    def read(self, text: str, kind: str) -> float | None:
        """Return the instant of a timestamp, by the name of its format, or None if it is not a time."""
        key, fraction = text, None
        if kind == "iso":
            parts = ISO.match(text)
            if parts is None:
                return None
            key, fraction = f"{text[:19]}{parts[8] or ''}" if parts[6] else text, parts[7]
        found = self._kept.get(key)
        try:
            if found is None:
                if len(self._kept) >= MAX_KEPT:
                    self._kept.clear()
                found = self._kept[key] = getattr(self, kind)(key)
        except (ValueError, OverflowError, OSError):
            return None
        return found + float(f"0.{fraction}") if fraction else found

    def iso(self, text: str) -> float:
        """Return the instant of ``2025-01-31T08:00:00,123+01:00`` and its like."""
        found = ISO.match(text)
        if found is None:
            raise ValueError(text)
        year, month, day, hour, minute, second, fraction, zone = found.groups()
        moment = Moment(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
        return self._instant(moment, fraction, offset_of(zone))

    def access(self, text: str) -> float:
        """Return the instant of ``31/Jan/2025:08:00:00 +0100``."""
        day, month, year, hour, minute, second, zone = fields(ACCESS, text)
        moment = Moment(int(year), month_of(month), int(day), int(hour), int(minute), int(second))
        return self._instant(moment, None, offset_of(zone))

    def syslog(self, text: str) -> float:
        """Return the instant of ``Jan 31 08:00:00``."""
        month, day, hour, minute, second, fraction = fields(SYSLOG, text)
        return self._recent(month_of(month), int(day), int(hour), int(minute), int(second), fraction)

    def klog(self, text: str) -> float:
        """Return the instant of ``0131 08:00:00.123456``."""
        month, day, hour, minute, second, fraction = fields(KLOG, text)
        return self._recent(int(month), int(day), int(hour), int(minute), int(second), fraction)

    def apache(self, text: str) -> float:
        """Return the instant of ``Fri Jan 31 08:00:00.123456 2025``."""
        month, day, hour, minute, second, fraction, year = fields(APACHE, text)
        moment = Moment(int(year), month_of(month), int(day), int(hour), int(minute), int(second))
        return self._instant(moment, fraction, None)

    def value(self, value: object) -> float | None:
        """Return the instant of a JSON value: text, or a number of seconds, milli-, micro- or nanoseconds."""
        if isinstance(value, str):
            if NUMBER.match(value):
                return self.value(float(value))
            return self.read(value, "iso") if ISO.match(value) else self._other(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        for unit in (1, 1e3, 1e6, 1e9):
            if 0 <= value / unit <= LATEST / 50:  # until the year 2130
                return value / unit
        return None

    def _other(self, value: str) -> float | None:
        found = self.read(value, "access")
        return self.read(value, "apache") if found is None else found

    def _instant(self, moment: Moment, fraction: str | None, zone: tzinfo | None) -> float:
        if moment.second == 60:  # a leap second
            return self._instant(moment._replace(second=59), fraction, zone) + 1
        whole = datetime(*moment, tzinfo=zone or self._zone).timestamp()
        return whole + float(f"0.{fraction}") if fraction else whole

    def _recent(self, month: int, day: int, hour: int, minute: int, second: int, fraction: str | None) -> float:
        latest = self._modified + DAY
        year = datetime.fromtimestamp(latest, UTC).year
        for candidate in range(year + 1, year - 9, -1):  # eight years: between two leap days
            try:
                found = self._instant(Moment(candidate, month, day, hour, minute, second), fraction, None)
            except ValueError:
                continue
            if found <= latest:
                return found
        raise ValueError("no such day")


def fields(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    found = pattern.match(text)
    if found is None:
        raise ValueError(text)
    return found.groups()


def month_of(name: str) -> int:
    number = MONTHS.get(name.lower())
    if number is None:
        raise ValueError(name)
    return number


def offset_of(zone: str | None) -> tzinfo | None:
    """Return the time zone of ``Z``, ``+01:00`` or ``+0100``."""
    if zone is None:
        return None
    if zone in ("Z", "UTC"):
        return UTC
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return timezone(timedelta(minutes=-minutes if zone[0] == "-" else minutes))
