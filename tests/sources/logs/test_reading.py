"""Reading of logs: by time in large files, over rotations, in pages, with damage and hostile content."""

import bz2
import gzip
import json
import logging
import logging.handlers
import lzma
import os
import random
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carrel import Client, Server
from carrel.catalog.provider import Request
from carrel.errors import ConfigError, InvalidParams, ResourceNotFound
from carrel.sources.logs import reader as reader_module
from carrel.sources.logs.budget import ReadBudget
from carrel.sources.logs.options import LogsOptions
from carrel.sources.logs.query import NAMES as QUERY_NAMES
from carrel.sources.logs.rotation import COMPRESSIONS, rotated
from carrel.sources.logs.source import LogsSource
from carrel.testing import Caller, running
from carrel.wire.resources import TextResourceContents
from support.debian import program

Share = Callable[..., Awaitable[Callable[..., Awaitable[TextResourceContents]]]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    path.mkdir()
    return path


@pytest.fixture
async def share(folder: Path) -> AsyncIterator[Share]:
    """Return a function that shares ``*.log`` in the folder, and returns one that reads a URI."""
    async with AsyncExitStack() as stack:

        async def share(target: str | None = None, **options: Any) -> Callable[..., Awaitable[TextResourceContents]]:
            given = {"log_name": "app", "timezone": "UTC", **options}
            source = LogsSource(target or f"logs:{folder}/*.log", LogsOptions(**given))
            await stack.enter_async_context(running(source))

            async def read(uri: str) -> TextResourceContents:
                [contents] = await Caller(source).read_resource(f"logs://{uri}")
                assert isinstance(contents, TextResourceContents)
                return contents

            return read

        yield share


@pytest.fixture
def budgets(monkeypatch: pytest.MonkeyPatch) -> list[ReadBudget]:
    """Return the list of the budgets of all reads: what each has read."""
    made: list[ReadBudget] = []

    def make(most: int, seconds: float) -> ReadBudget:
        made.append(ReadBudget(most, seconds))
        return made[-1]

    monkeypatch.setattr(reader_module, "ReadBudget", make)
    return made


def timestamp(instant: float) -> str:
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def line(instant: float, text: str, level: str = "INFO") -> str:
    return f"{timestamp(instant)} {level} {text}\n"


def texts(contents: TextResourceContents) -> list[str]:
    return [each for each in contents.text.splitlines() if not each.startswith("# ")]


# By time


@pytest.mark.asyncio
async def test_five_minutes_of_ten_gibibytes_are_found_by_reading_little(
    folder: Path, share: Share, budgets: list[ReadBudget]
) -> None:
    now, size = time(), 10 * 2**30
    with (folder / "large.log").open("wb") as file:
        for share_of_file in range(100):  # ten days of entries, with holes between them
            offset = size * share_of_file // 100
            file.seek(offset)
            start = now - 864_000 * (100 - share_of_file) / 100
            file.write(b"\n" + "".join(line(start + each, f"old {each}") for each in range(60)).encode())
        file.seek(size)
        file.write(b"\n" + "".join(line(now - 600 + each, f"new {each}") for each in range(600)).encode())
    read = await share()
    contents = await read("recent?timeframe=5m")
    found = texts(contents)
    assert 298 <= len(found) <= 301
    assert found[-1].endswith("new 599")
    assert budgets[-1].read < 1_000_000
    start = now - 864_000 * 0.5
    middle = await read(f"app/large.log?since={start + 9.5:.6f}&until={start + 12.5:.6f}")
    assert [each.split("INFO ")[1] for each in texts(middle) if each] == ["old 10", "old 11", "old 12"]
    assert budgets[-1].read < 1_000_000
    assert len(texts(await read("app/large.log?tail=650"))) == 650


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(2, 6))])
@pytest.mark.asyncio
async def test_binary_search_finds_what_a_look_at_all_lines_does(folder: Path, share: Share, seed: int) -> None:
    random_ = random.Random(seed)
    start = time() - 100_000
    entries: list[tuple[float, str]] = []
    instant = start
    for number in range(3000):
        instant += random_.expovariate(1.0)
        late = instant - random_.uniform(0, 9) * (random_.random() < 0.1)  # out of order, within the margin
        extra = "".join(
            f"  at line {each}\n" for each in range(random_.choice([0, 0, 0, 3, 2000]) if number % 50 == 0 else 0)
        )
        entries.append((late, f"entry {number}\n{extra}"))
    (folder / "a.log").write_text("".join(f"{timestamp(late)} INFO {text}" for late, text in entries))
    read = await share(max_answer=10_000_000)
    for _ in range(5):
        since = random_.uniform(start - 10, instant)
        until = random_.uniform(since, since + 500)
        wanted = {text.split("\n")[0] for late, text in entries if since <= late <= until}
        contents = await read(f"app/a.log?since={since:.6f}&until={until:.6f}")
        found = [each.split("INFO ")[1] for each in texts(contents) if " INFO " in each]
        assert len(found) == len(set(found))
        assert set(found) == wanted


@pytest.mark.asyncio
async def test_pages_go_on_with_earlier_entries_until_all_were_there_once(folder: Path, share: Share) -> None:
    start = time() - 5000
    # Many at one instant, so that a time alone is no place to go on.
    (folder / "a.log").write_text("".join(line(start + number // 40, f"entry {number}") for number in range(500)))
    (folder / "b.log").write_text("".join(line(start + number // 7, f"other {number}") for number in range(100)))
    read = await share(max_entries=33)
    uri, found = "recent?timeframe=1d", list[str]()
    for _ in range(30):
        contents = await read(uri)
        found += [each.split("INFO ")[1] for each in texts(contents)]
        assert contents.meta is not None
        if "carrel/earlier" not in contents.meta:
            break
        uri = contents.meta["carrel/earlier"].removeprefix("logs://")
    assert sorted(found) == sorted([f"entry {n}" for n in range(500)] + [f"other {n}" for n in range(100)])


@pytest.mark.asyncio
async def test_level_and_pattern_select_entries(folder: Path, share: Share) -> None:
    now = time()
    (folder / "a.log").write_text(
        line(now - 3, "one") + line(now - 2, "two", "WARNING") + line(now - 1, "three\n  caused by x=17", "ERROR")
    )
    read = await share()
    assert len(texts(await read("recent?timeframe=5m&level=warning"))) == 3
    assert (await read("recent?timeframe=5m&level=err")).text.endswith("three\n  caused by x=17\n")
    assert (await read("recent?timeframe=5m&match=x%3D%5Cd%2B")).text.endswith("x=17\n")
    assert (await read("recent?timeframe=5m&match=x%3D1.%24&level=critical")).text == ""
    assert (await read("recent?timeframe=5m&match=tw")).text.endswith("WARNING two\n")
    assert "one" in (await read("app/a.log")).text
    assert next(each.split()[-1] for each in texts(await read("app/a.log?tail=2"))) == "two"


@pytest.mark.asyncio
async def test_a_pattern_that_would_go_back_and_forth_does_not(folder: Path, share: Share) -> None:
    (folder / "a.log").write_text(line(time(), "a" * 10_000 + "b"))
    read = await share()
    assert texts(await read("recent?match=%28a%2B%29%2B%24")) == []  # (a+)+$
    with pytest.raises(InvalidParams, match="RE2"):
        await read("recent?match=%28%3F%3Da%29")  # (?=a)


@pytest.mark.asyncio
async def test_fields_of_structured_logs_come_as_json(folder: Path, share: Share) -> None:
    now = int(time())
    (folder / "a.log").write_text(json.dumps({"ts": now, "level": "warn", "msg": "x", "user": {"id": 7}}) + "\n")
    read = await share()
    contents = await read("app/a.log?fields=time,level,user")
    assert contents.mime_type == "application/x-ndjson"
    assert json.loads(contents.text)["user"] == {"id": 7}
    assert json.loads(contents.text)["level"] == "warning"
    assert json.loads((await read("recent?timeframe=5m&fields=*")).text)["log"] == "app/a.log"


@pytest.mark.asyncio
async def test_statistics_count_levels_and_messages(folder: Path, share: Share) -> None:
    now = time()
    entries = [line(now - 100 + each, f"request {each} took {each * 3} ms") for each in range(50)]
    (folder / "a.log").write_text("".join(entries) + line(now, "disk full", "ERROR"))
    read = await share()
    found = json.loads((await read("statistics?timeframe=1h")).text)
    assert (found["entries"], found["levels"], found["complete"]) == (51, {"info": 50, "error": 1}, True)
    assert found["messages"][0] == {"count": 50, "level": "info", "message": "INFO request * took * ms"}
    assert sum(bucket.get("info", 0) for bucket in found["buckets"]) == 50
    assert json.loads((await read("statistics?timeframe=1h&level=error&log=a.log")).text)["entries"] == 1


# Rotation and compression


def names(name: str) -> tuple[str, str, int, str]:
    return tuple(rotated(name))


@pytest.mark.asyncio
async def test_names_of_rotated_files_lead_to_their_log() -> None:
    assert names("app.log") == ("app.log", "", 0, "")
    assert names("app.log.12.gz") == ("app.log", "", 12, ".gz")
    assert names("app.log-20250131.xz") == ("app.log", "20250131", 0, ".xz")
    assert names("app.log.2025-01-31") == ("app.log", "20250131", 0, "")
    assert names("app.log.2025-01-31_23-59-59") == ("app.log", "20250131235959", 0, "")
    assert names("app-2025-01-31.log") == ("app.log", "20250131", 0, "")
    assert names("app-2025-01-31.log.zst") == ("app.log", "20250131", 0, ".zst")
    assert names("v1.2.log") == ("v1.2.log", "", 0, "")


@pytest.mark.asyncio
async def test_every_compression_is_read(folder: Path, share: Share) -> None:
    zstd = pytest.importorskip("backports.zstd") if not shutil.which("zstd") else None
    now = time()

    def part(number: int) -> bytes:
        return "".join(line(now - 600 + number * 10 + each, f"{number}.{each}\n  more") for each in range(10)).encode()

    def pack(data: bytes) -> bytes:
        if zstd is not None:
            return zstd.compress(data)
        return subprocess.run(["zstd", "-c"], input=data, capture_output=True, check=True).stdout

    (folder / "a.log.4.zst").write_bytes(pack(part(0)))
    (folder / "a.log.3.xz").write_bytes(lzma.compress(part(1)) + lzma.compress(b""))
    (folder / "a.log.2.bz2").write_bytes(bz2.compress(part(2)))
    (folder / "a.log.1.gz").write_bytes(gzip.compress(part(3)))
    (folder / "a.log.1").write_bytes(part(3))  # being compressed
    (folder / "a.log").write_bytes(part(4))
    read = await share()
    found = [each.split("INFO ")[1] for each in texts(await read("recent?timeframe=1h")) if "INFO" in each]
    assert found == [f"{number}.{each}" for number in range(5) for each in range(10)]
    tail = await read("app/a.log?tail=15")
    assert next(each.split("INFO ")[1] for each in texts(tail) if "INFO" in each) == "3.5"


@pytest.mark.asyncio
async def test_damaged_and_huge_compressed_files_are_noted(folder: Path, share: Share) -> None:
    data = "".join(line(time() - 5, f"entry {each}") for each in range(20_000)).encode()
    whole = gzip.compress(data)
    (folder / "a.log.1.gz").write_bytes(whole[: len(whole) // 2])
    (folder / "b.log.1.gz").write_bytes(gzip.compress((b"x" * 99 + b"\n") * 50_000))
    (folder / "c.log.1.zst").write_bytes(b"no such thing")
    (folder / "d.log.1.xz").write_bytes(b"")
    read = await share(max_search=1_000_000)
    assert "damaged" in (await read("app/a.log")).text
    assert "entry 8" in (await read("app/a.log")).text
    assert "1,000,000 bytes were looked through" in (await read("app/b.log")).text
    assert "c.log.1.zst" in (await read("app/c.log")).text
    assert (await read("app/d.log")).text == ""


@pytest.mark.asyncio
async def test_logs_that_python_rotates_are_one(folder: Path, share: Share) -> None:
    handler = logging.handlers.RotatingFileHandler(folder / "py.log", maxBytes=4000, backupCount=20)
    handler.setFormatter(logging.Formatter("%(asctime)s - %(name)s - %(levelname)s - %(message)s"))
    logger = logging.Logger("shop")
    logger.addHandler(handler)
    for number in range(400):
        logger.warning("entry %d", number)
        if number % 100 == 0:
            try:
                raise ValueError(number)
            except ValueError:
                logger.exception("failed")
    handler.close()
    assert len(list(folder.iterdir())) > 5
    read = await share(timezone=None)
    contents = await read("recent?timeframe=5m&level=warning")
    found = [each.rpartition(" ")[2] for each in texts(contents) if " WARNING " in each]
    assert found == [str(number) for number in range(400)]
    assert contents.text.count("ValueError: ") == 4
    assert (await read("app/py.log?level=error")).text.count("Traceback (most recent call last):") == 4


@pytest.mark.parametrize("how", ["create", "copytruncate", "create\ndateext", "compress\ndelaycompress"])
@pytest.mark.asyncio
async def test_logs_that_logrotate_rotates_are_one(folder: Path, share: Share, tmp_path: Path, how: str) -> None:
    logrotate = program("logrotate")
    path = folder / "a.log"
    rules = tmp_path / "logrotate.conf"
    rules.write_text(
        f"{path} {{\nsu root root\nrotate 9\n{how}\n}}\n" if os.getuid() == 0 else f"{path} {{\nrotate 9\n{how}\n}}\n"
    )
    now = time()
    folder.chmod(0o755)
    for number in range(3):
        with path.open("a") as file:
            file.write("".join(line(now - 100 + number * 10 + each, f"{number}.{each}") for each in range(10)))
        if number < (1 if "dateext" in how else 2):
            subprocess.run([logrotate, "-f", "-s", tmp_path / "state", rules], check=True, capture_output=True)
    read = await share()
    found = [each.split("INFO ")[1] for each in texts(await read("recent?timeframe=1h"))]
    assert found == [f"{number}.{each}" for number in range(3) for each in range(10)]


# What is in files, and next to them


@pytest.mark.asyncio
async def test_holes_nul_bytes_and_half_lines_do_no_harm(folder: Path, share: Share) -> None:
    now = time()
    with (folder / "a.log").open("wb") as file:  # copytruncate, while the program goes on where it was
        file.seek(50_000_000)
        file.write(b"".join(line(now - 9 + each, f"e{each}").encode() for each in range(3)))
        file.write(line(now - 1, "half a li").encode()[:-3])
    read = await share()
    for uri in ("recent?timeframe=5m", "app/a.log", "app/a.log?tail=4"):
        assert [each.split("INFO ")[1] for each in texts(await read(uri))] == ["e0", "e1", "e2", "half a "]


@pytest.mark.asyncio
async def test_endless_lines_are_cut_and_bad_bytes_shown(folder: Path, share: Share) -> None:
    now = time()
    long = line(now, "x" * 3_000_000)
    (folder / "a.log").write_bytes(
        line(now, "é" * 30 + "\udce9 \x1b[31m").encode("utf-8", "surrogateescape") + long.encode()
    )
    read = await share()
    first, second = texts(await read("recent"))
    assert first.endswith(r"é\xe9 \x1b[31m")
    assert "more characters" in second
    assert len(second) < 20_000


@pytest.mark.asyncio
async def test_forged_escape_sequences_and_line_breaks_are_shown_as_escapes(folder: Path, share: Share) -> None:
    (folder / "a.log").write_text(line(time(), "user=\x1b]0;x\x07\r2025 forged\u2028x\u202e"))
    read = await share()
    assert texts(await read("recent"))[0].endswith(r"user=\x1b]0;x\x07\r2025 forged\u2028x\u202e")


@pytest.mark.asyncio
async def test_other_encodings_are_read_and_binary_files_noted(folder: Path, share: Share) -> None:
    (folder / "a.log").write_bytes(line(time(), "服务器发生错误,请检查数据库连接是否正常").encode("gb18030"))
    (folder / "b.log").write_bytes(bytes(range(256)) * 40)
    plain = "".join(line(time(), f"request {number} done") for number in range(2000))
    kyrillic = line(time(), "Не удалось сохранить файл настроек").encode("koi8_r")
    (folder / "d.log").write_bytes(plain.encode() + kyrillic * 3 + plain.encode())
    (folder / "c.log").write_bytes(line(time(), "x").encode("utf-16"))
    read = await share()
    assert "数据库" in (await read("app/a.log")).text
    assert "b.log is left out: it is not text" in (await read("app/b.log")).text
    assert "UTF-16" in (await read("app/c.log")).text
    assert "Не удалось сохранить" in (await read("app/d.log?match=настроек")).text


@pytest.mark.asyncio
async def test_links_and_names_that_leave_the_folder_are_refused(folder: Path, share: Share, tmp_path: Path) -> None:
    (tmp_path / "secret.log").write_text("secret\n")
    (folder / "out.log").symlink_to(tmp_path / "secret.log")
    (folder / "in.log").symlink_to("real.log")
    (folder / "real.log").write_text("real\n")
    os.mkfifo(folder / "pipe.log")
    read = await share()
    for bad in ("out.log", "pipe.log", "..%2Fsecret.log", "../secret.log", "%2e%2e/secret.log", ".hidden.log"):
        with pytest.raises(ResourceNotFound):
            await read(f"app/{bad}")
    assert (await read("app/in.log")).text == "real\n"
    assert "secret" not in (await read("recent?tail=100")).text


@pytest.mark.asyncio
async def test_secrets_are_redacted_before_they_can_be_searched(folder: Path, share: Share) -> None:
    text = "password=hunter2 Authorization: Bearer abcdefgh postgres://bob:geheim@db/x card 4111-1111"
    (folder / "a.log").write_text(line(time(), text))
    read = await share(redact_secrets=True, redact=(r"\d{4}-\d{4}",))
    shown = (await read("recent")).text
    for secret in ("hunter2", "abcdefgh", "geheim", "4111"):
        assert secret not in shown
    assert (await read("recent?match=hunter2")).text == ""
    assert "***@db/x" in shown
    with pytest.raises(ConfigError, match="redact"):
        LogsSource(f"logs:{folder}", LogsOptions(redact=("(",)))


@pytest.mark.asyncio
async def test_a_search_over_the_limit_ends_and_says_where_to_go_on(folder: Path, share: Share) -> None:
    start = time() - 1000
    rest = "x" * 400
    (folder / "a.log").write_text("".join(line(start + each / 10, f"entry {each} {rest}") for each in range(9000)))
    read = await share(max_search=500_000)
    uri, pages = "app/a.log?match=entry%205%20", 0
    while True:
        contents = await read(uri)
        pages += 1
        if texts(contents):
            break
        assert "500,000 bytes were looked through" in contents.text
        assert contents.meta is not None
        uri = contents.meta["carrel/earlier"].removeprefix("logs://")
    assert "entry 5 " in contents.text
    assert 5 < pages < 30


@pytest.mark.asyncio
async def test_a_caller_sees_only_the_logs_that_are_visible(folder: Path) -> None:
    (folder / "a.log").write_text(line(time(), "one"))
    (folder / "b.log").write_text(line(time(), "two"))
    source = LogsSource(f"logs:{folder}", LogsOptions(log_name="app", timezone="UTC"))
    async with running(source):
        request = Request(visible=lambda uri: "b.log" not in uri)
        for uri in ("logs://recent", "logs://app", "logs://statistics", "logs://app?tail=10"):
            [contents] = (await source.read_resource(uri, request)).contents
            assert "two" not in contents.text
            assert "b.log" not in contents.text
        with pytest.raises(ResourceNotFound):
            await source.read_resource("logs://app/b.log", request)


@pytest.mark.asyncio
async def test_a_link_shows_no_log_that_is_hidden_from_the_caller(folder: Path) -> None:
    (folder / "real.log").write_text(line(time(), "secret"))
    (folder / "link.log").symlink_to("real.log")
    source = LogsSource(f"logs:{folder}", LogsOptions(log_name="app", timezone="UTC"))
    async with running(source):
        request = Request(visible=lambda uri: "real.log" not in uri)
        for uri in ("logs://recent", "logs://app/link.log", "logs://statistics"):
            [contents] = (await source.read_resource(uri, request)).contents
            assert isinstance(contents, TextResourceContents)
            assert "secret" not in contents.text
        assert "secret" in (await Caller(source).read_resource("logs://app/link.log"))[0].text


@pytest.mark.asyncio
async def test_large_entries_of_one_instant_are_all_reached(folder: Path, share: Share) -> None:
    now = time()
    (folder / "a.log").write_text("".join(line(now, f"entry {each} {'x' * 900}") for each in range(60)))
    read = await share(max_answer=5000)
    uri, found = "app/a.log?timeframe=5m", list[str]()
    while uri:
        contents = await read(uri)
        found += [each.split()[4] for each in texts(contents)]
        uri = (contents.meta or {}).get("carrel/earlier", "").removeprefix("logs://")
        assert len(found) <= 60
    assert sorted(found, key=int) == [str(each) for each in range(60)]


@pytest.mark.asyncio
async def test_an_endless_entry_ends(folder: Path, share: Share) -> None:
    (folder / "a.log").write_text(line(time(), "x") + "  at y\n" * 100_000 + ("  " + "z" * 16_000 + "\n") * 100)
    read = await share(max_answer=5000)
    assert len((await read("app/a.log")).text) < 200_000


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(max_size=300) | st.text(max_size=200).map(str.encode), ending=st.sampled_from(["", *COMPRESSIONS])
)
def test_any_bytes_are_read_or_noted(data: bytes, ending: str, tmp_path: Path) -> None:
    (tmp_path / f"a.log{ending}").write_bytes(data)
    reader = LogsSource(f"logs:{tmp_path}/a.log*", LogsOptions(log_name="app"))._reader
    assert "\x1b" not in reader.read_resource("logs://app/a.log?tail=9").text
    reader.read_resource("logs://recent?timeframe=1h&fields=*")
    reader.read_resource("logs://statistics")
    (tmp_path / f"a.log{ending}").unlink()


NAMES = st.sampled_from([*QUERY_NAMES, "x", ""])
VALUES = st.text(max_size=12) | st.sampled_from(
    ["5m", "1h", "2025-01-31", "error", "*", "9", "-1", "%", "%ff", "(", "a*"]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pairs=st.lists(st.tuples(NAMES, VALUES), max_size=4),
    base=st.sampled_from(["recent", "statistics", "app", "app/a.log", "x"]),
)
def test_any_query_is_answered_or_refused(pairs: list[tuple[str, str]], base: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(line(time(), "x"))
    reader = LogsSource(f"logs:{tmp_path}/*.log", LogsOptions(log_name="app"))._reader
    try:
        reader.read_resource(f"logs://{base}?" + "&".join(f"{name}={value}" for name, value in pairs))
    except (InvalidParams, ResourceNotFound):
        pass


@pytest.mark.asyncio
async def test_several_places_are_one_source(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "logs"
    other.mkdir(parents=True)
    (folder / "a.log").write_text(line(time(), "one"))
    (other / "b.jsonl").write_text(json.dumps({"ts": time(), "msg": "two"}) + "\n")
    first = LogsSource(f"logs:{folder}/*.log", LogsOptions(timezone="UTC"))
    first.join(LogsSource(f"logs:{other}"))
    first.join(LogsSource(f"logs:{folder}/a.log", LogsOptions(log_name="recent")))
    async with running(first):
        uris = [item.uri for item in await Caller(first).resources()]
        assert uris[2:] == [
            "logs://logs",
            "logs://logs-2",
            "logs://logs-2/b.jsonl",
            "logs://logs/a.log",
            "logs://recent-2",
            "logs://recent-2/a.log",
        ]
        [contents] = await Caller(first).read_resource("logs://recent?timeframe=5m&match=two")
        assert contents.text.startswith("[logs-2/b.jsonl]")


@pytest.mark.asyncio
async def test_there_is_an_error_for_each_wrong_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="needs a path"):
        LogsSource("logs:")
    with pytest.raises(ConfigError, match="no time zone 'Mars/X'"):
        LogsSource("logs:/tmp", LogsOptions(timezone="Mars/X"))
    with pytest.raises(ConfigError, match="There is no"):
        await LogsSource(f"logs:{tmp_path}/missing/*.log").start(None)  # type: ignore[arg-type]
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="journalctl"):
        LogsSource("logs:journal")


async def test_several_logs_of_one_server_are_one_provider(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.log").write_text(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} INFO from {name}\n")
    app = Server("shop")
    first = app.add_provider(f"logs:{tmp_path}/a").provider
    assert app.add_provider(f"logs:{tmp_path}/b").provider is first
    app.add_provider(f"logs:{tmp_path}/a", namespace="again")
    async with Client(app) as client:
        assert {"logs://a/x.log", "logs://b/x.log"} <= {each.uri for each in await client.list_resources()}
        [recent] = (await client.read_resource("logs://recent")).contents
        assert "from a" in recent.text
        assert "from b" in recent.text
        [other] = (await client.read_resource("again+logs://recent")).contents
        assert "from b" not in other.text
        with pytest.raises(ConfigError, match="There is a provider logs already: add all logs before"):
            await app.add_provider(f"logs:{tmp_path}/b")


async def test_a_log_that_does_not_exist_yet_is_named_in_a_warning(
    folder: Path, share: Share, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "there.log").write_text("2026-01-01T00:00:00Z one\n")
    with caplog.at_level(logging.WARNING, "carrel"):
        for target in ("there.log", "*.log", "missing.log"):
            await share(f"logs:{folder}/{target}", log_name=target[0].replace("*", "all"))
    assert [record.getMessage() for record in caplog.records] == [f"logs: there is no {folder}/missing.log yet"]
