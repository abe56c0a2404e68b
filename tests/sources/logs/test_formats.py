"""Formats of log lines: which line is of which format, its time, its level and its fields."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.errors import InvalidParams
from carrel.sources.logs.entries import group, shown
from carrel.sources.logs.formats import FORMATS, detect
from carrel.sources.logs.levels import LEVELS, level_of
from carrel.sources.logs.times import TimestampParser, duration_of, instant_of, iso
from support.processor_time import loops

NOW = datetime(2025, 2, 1, 12, tzinfo=UTC).timestamp()


def timestamps(zone: str = "UTC", modified: float = NOW) -> TimestampParser:
    return TimestampParser(ZoneInfo(zone), modified)


@pytest.mark.parametrize(
    ("line", "name", "time", "level", "message"),
    [
        (
            '{"time":"2025-01-31T08:00:00.5Z","level":"warn","msg":"x"}',
            "json",
            "2025-01-31T08:00:00.500000Z",
            "warning",
            "x",
        ),
        ('{"ts":1738310400.25,"level":50,"message":"x"}', "json", "2025-01-31T08:00:00.250000Z", "error", "x"),
        (
            '{"log":"ERROR x\\n","time":"2025-01-31T08:00:00.000000001Z"}',
            "json",
            "2025-01-31T08:00:00Z",
            "error",
            "ERROR x\n",
        ),
        ('{"timestamp":1738310400000,"severity":"CRITICAL"}', "json", "2025-01-31T08:00:00Z", "critical", None),
        (
            "2025-01-31T09:00:00.123456789+01:00 stderr F FATAL x",
            "cri",
            "2025-01-31T08:00:00.123457Z",
            "critical",
            "FATAL x",
        ),
        ("<165>1 2025-01-31T08:00:00Z host app 12 ID47 - x", "syslog5424", "2025-01-31T08:00:00Z", "notice", "- x"),
        ("<11>Jan 31 08:00:00 host app[12]: x", "syslog", "2025-01-31T08:00:00Z", "error", "x"),
        ("Dec 31 23:59:59 host cron: x", "syslog", "2024-12-31T23:59:59Z", None, "x"),
        ("Feb 29 08:00:00 host cron: x", "syslog", "2024-02-29T08:00:00Z", None, "x"),
        ("2025-01-31T08:00:00+00:00 host sshd[9]: x", "syslog-iso", "2025-01-31T08:00:00Z", None, "x"),
        (
            '::1 - bob [31/Jan/2025:09:00:00 +0100] "GET /a HTTP/1.1" 404 12',
            "access",
            "2025-01-31T08:00:00Z",
            "warning",
            None,
        ),
        ('::1 - - [31/Jan/2025:08:00:00 +0000] "\\"x" 503 - "-" "a"', "access", "2025-01-31T08:00:00Z", "error", None),
        ("2025/01/31 08:00:00 [emerg] 1#2: *3 x", "nginx-error", "2025-01-31T08:00:00Z", "emergency", "*3 x"),
        (
            "[Fri Jan 31 08:00:00.5 2025] [core:crit] [pid 1] x",
            "apache-error",
            "2025-01-31T08:00:00.500000Z",
            "critical",
            "[pid 1] x",
        ),
        ("E0131 08:00:00.000001    1 main.go:12] x", "klog", "2025-01-31T08:00:00.000001Z", "error", "x"),
        (
            'time="2025-01-31T08:00:00Z" level=fatal msg="a \\"b\\""',
            "logfmt",
            "2025-01-31T08:00:00Z",
            "critical",
            'a "b"',
        ),
        (
            "2025-01-31 08:00:00,123 - name - WARNING - x",
            "timestamped",
            "2025-01-31T08:00:00.123000Z",
            "warning",
            " - name - WARNING - x",
        ),
        (
            "2025-01-31 08:00:00.123 [main] ERROR com.x.Y - x",
            "timestamped",
            "2025-01-31T08:00:00.123000Z",
            "error",
            None,
        ),
        ("[2025-01-31T08:00:00-05:00] app.INFO: x", "timestamped", "2025-01-31T13:00:00Z", "info", " app.INFO: x"),
        ("ERROR:root:x", "python", None, "error", "x"),
        ("all is well", "plain", None, None, "all is well"),
    ],
)
def test_a_line_is_understood(line: str, name: str, time: str | None, level: str | None, message: str | None) -> None:
    format = detect([line, "  continued"], timestamps())
    assert format.name == name
    head = format.head(line, timestamps())
    assert head is not None
    assert (None if head.time is None else iso(head.time)) == time
    assert head.level == level
    if message is not None:
        assert format.fields(line)["message"] == message


def test_times_without_a_zone_are_in_that_of_the_option() -> None:
    head = FORMATS["timestamped"].head("2025-07-01 12:00:00 x", timestamps("Europe/Berlin"))
    assert head is not None
    assert head.time is not None
    assert iso(head.time) == "2025-07-01T10:00:00Z"


def test_a_time_without_a_year_is_the_last_before_the_file_was_modified() -> None:
    january = datetime(2025, 1, 2, tzinfo=UTC).timestamp()
    assert iso(timestamps(modified=january).syslog("Dec 31 10:00:00")) == "2024-12-31T10:00:00Z"
    assert iso(timestamps(modified=january).syslog("Jan  2 10:00:00")) == "2025-01-02T10:00:00Z"


def test_the_format_is_that_of_most_lines_although_a_traceback_is_longer() -> None:
    lines = [
        "2025-01-31 08:00:00,123 ERROR x",
        "Traceback (most recent call last):",
        '  File "a.py"',
        "ValueError: x",
    ] * 5
    assert detect(lines, timestamps()).name == "timestamped"
    assert detect(lines, timestamps(), "plain").name == "plain"


def test_a_traceback_stays_with_its_entry() -> None:
    lines = ["ValueError: before", "2025-01-31 08:00:00 ERROR x", "Traceback:", "  line", "2025-01-31 08:00:01 INFO y"]
    before, entries = group(lines, FORMATS["timestamped"], timestamps(), NOW)
    assert before == ["ValueError: before"]
    assert [entry.text for entry in entries] == ["2025-01-31 08:00:00 ERROR x\nTraceback:\n  line", lines[4]]
    assert entries[0].fields()["message"] == " ERROR x\nTraceback:\n  line"


def test_what_a_container_wrote_in_parts_is_put_together() -> None:
    time = "2025-01-31T08:00:00Z"
    lines = [f"{time} stdout P one, ", f"{time} stdout F two", f"{time} stdout F three", f"{time} stdout F   at x"]
    _, entries = group(lines, FORMATS["cri"], timestamps(), NOW)
    assert [entry.text for entry in entries] == [f"{time} stdout P one, two", f"{time} stdout F three\n  at x"]


def test_broken_json_is_an_entry_with_the_time_of_the_one_before() -> None:
    _, entries = group(['{"ts":1738310400}', '{"ts":17383'], FORMATS["json"], timestamps(), NOW)
    assert [entry.time for entry in entries] == [1738310400, 1738310400]


def test_endless_lines_are_cut() -> None:
    _, [entry] = group(["x" * 1_000_000], FORMATS["plain"], timestamps(), NOW)
    assert len(entry.text) < 20_000
    assert entry.text.endswith("(983,616 more characters)")


def test_control_characters_are_shown_as_escapes() -> None:
    assert shown("a\x1b[2Jb\r\x00\u202ec\u200bd\te é 协议") == r"a\x1b[2Jb\r\x00\u202ec\u200bd" + "\te é 协议"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300),
        ("90", 90),
        ("90s", 90),
        ("2h", 7200),
        ("1d", 86400),
        ("1h30m", 5400),
        ("PT5M", 300),
        ("P1DT2H", 93600),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert duration_of(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "5 m", "-5m", "5x", "P", "PT", "٥m", "1e3", "5m5", "9" * 20])
def test_what_is_no_duration_is_refused(text: str) -> None:
    if text == "5m5":
        assert duration_of(text) == 305
        return
    with pytest.raises(InvalidParams):
        duration_of(text)


@given(st.text(max_size=40) | st.from_regex(r"[0-9TZ:.+PDHMSs-]{0,30}", fullmatch=True))
def test_any_text_is_an_instant_or_refused(text: str) -> None:
    try:
        assert isinstance(instant_of(text, "since", NOW, UTC), float)
    except InvalidParams as error:
        assert error.data is None or "parameter" in error.data  # noqa: PT017


FRAGMENTS = st.sampled_from(
    [
        "2025-01-31 08:00:00",
        "2025-02-30T99:99:99Z",
        "Jan 32 25:61:61",
        "{",
        '{"ts":',
        '"time":',
        "1e999",
        "[",
        "]",
        '"',
        "\\",
        "level=",
        "<999>1 ",
        " stdout P ",
        " stderr F",
        "I0231 99:00:00.000000 1 x] ",
        "[31/Foo/2025:08:00:00 +9999]",
        "=",
        "\x00",
    ]
)


@settings(max_examples=80)
@given(st.lists(st.lists(FRAGMENTS | st.text(max_size=20), max_size=8).map("".join), max_size=12))
def test_any_lines_are_entries_of_any_format_and_none_is_lost(lines: list[str]) -> None:
    lines = [line.replace("\n", " ") for line in lines]
    for format in FORMATS.values():
        before, entries = group(lines, format, timestamps(), NOW)
        assert all(entry.level is None or entry.level in LEVELS for entry in entries)
        assert all(isinstance(entry.fields(), dict) for entry in entries)
        if format.name != "cri":  # it joins lines
            assert [*before, *(line for entry in entries for line in entry.lines)] == lines
    detect(lines, timestamps())


@given(st.one_of(st.text(max_size=12), st.integers(), st.floats(), st.none(), st.booleans(), st.lists(st.integers())))
def test_any_value_is_a_level_or_none(value: object) -> None:
    assert level_of(value) in (None, *LEVELS)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "line",
    [
        "a=" * 8000,
        '"' * 16000,
        "\\" * 16000,
        'a="' + "\\" * 16000,
        "[" * 16000,
        "1 - - [" + "a" * 16000,
        "{" * 16000,
        '1 - - [31/Jan/2025:08:00:00 +0000] "' + '\\"' * 8000,
        "{" + '"a":{' * 3000,
        "<1>" * 5000,
        "Jan  1 08:00:00 " + "x" * 9999,
    ],
)
def test_hostile_lines_take_no_long_time(name: str, line: str) -> None:
    def read() -> None:
        for _ in range(10):
            FORMATS[name].head(line, timestamps())
            FORMATS[name].fields(line)

    assert loops(read) < 200  # a pattern that goes back and forth takes minutes
