"""``carrel record``: sessions in files, on stdio and over HTTP."""

import json
import os
import sys

import aiohttp
import pytest

from carrel import Client
from carrel.cli.recording.recording import Recorder
from carrel.errors import ConfigError
from support.carrel_process import BOOKS, carrel, command, listening, serving
from support.http_process import free_port


def messages(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_every_message_of_a_session_on_stdio_is_a_line_with_its_time(tmp_path):
    file = tmp_path / "session.jsonl"
    done = carrel("call", "add", "a=1", "b=2", "--", *command("record", BOOKS, str(file)))
    assert (done.returncode, done.stdout) == (0, b"3\n")
    lines = messages(file)
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
    (call,) = [line for line in lines if line["message"].get("method") == "tools/call"]
    assert call["direction"] == "in"
    (progress,) = [line for line in lines if line["message"].get("method") == "notifications/progress"]
    assert progress["direction"] == "out"
    assert progress["message"]["params"]["progressToken"] == call["message"]["id"]


async def test_a_session_over_http_is_recorded_by_a_proxy_of_this_machine(tmp_path):
    file = tmp_path / "session.jsonl"
    with serving("run", BOOKS) as (url, _), listening("record", url, str(file), "--port", str(free_port())) as proxy:
        seen = []
        async with Client(proxy) as client:
            result = await client.call_tool("add", {"a": 1, "b": 2}, progress=lambda *step: seen.append(step))
        async with aiohttp.ClientSession() as session:
            evil = await session.post(proxy, headers={"Host": "evil.example"}, json={})
            foreign = await session.post(proxy, headers={"Origin": "https://evil.example"}, json={})
    assert (result.text, seen, evil.status, foreign.status) == ("3", [(1, 2, "half")], 403, 403)
    methods = [line["message"].get("method") for line in messages(file)]
    assert {"server/discover", "tools/call", "notifications/progress"} <= set(methods)


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["http://127.0.0.1:9/mcp", "FILE"], 2, "a URL needs --port PORT"),
        ([BOOKS, "FILE", "--port", "8000"], 2, "--port is for URLs"),
        ([BOOKS, "/no/such/folder/x"], 2, "cannot be written"),
        (["FILE", "--", "/no/such/program"], 3, "cannot be started"),
    ],
)
def test_wrong_use_is_explained(tmp_path, arguments, code, complaint):
    done = carrel("record", *(str(tmp_path / "x") if one == "FILE" else one for one in arguments))
    assert done.returncode == code
    assert complaint in done.stderr.decode()


def test_the_exit_code_is_that_of_the_server_and_what_is_no_json_is_recorded_as_text(tmp_path):
    file = tmp_path / "x"
    done = carrel("record", str(file), "--", "python3", "-c", "print('noise'); raise SystemExit(7)")
    assert (done.returncode, done.stdout) == (7, b"noise\n")
    assert messages(file)[0]["message"] == "noise\n"


def test_a_recorder_ignores_empty_lines_and_what_comes_after_its_end(tmp_path):
    recorder = Recorder(str(tmp_path / "x"))
    recorder.add("in", b" \n")
    recorder.close()
    recorder.add("in", b"{}")
    assert (tmp_path / "x").read_bytes() == b""
    with pytest.raises(ConfigError):
        Recorder(str(tmp_path))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
@pytest.mark.parametrize("exists", [False, True])
def test_only_the_user_can_read_a_recording_from_its_creation_on(tmp_path, monkeypatch, exists):
    file = tmp_path / "session.jsonl"
    if exists:
        file.write_text("old")
        file.chmod(0o644)
    monkeypatch.setattr(os, "fchmod", os.fchmod if exists else lambda *_: None)
    before = os.umask(0)
    try:
        recorder = Recorder(str(file))
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600
    recorder.close()
    assert file.read_bytes() == b""
