"""``carrel studio``: the link on standard output, the page behind it, and the end."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from carrel.cli.server.studio import name_of
from support.carrel_process import BOOKS, COMMAND, PATIENCE, carrel, command

pytestmark = pytest.mark.slow


@contextmanager
def studio(
    *arguments: str, cwd: Path | None = None, start: Callable[..., list[str]] = command
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start the command, and give the link that it prints."""
    with subprocess.Popen(
        start("studio", *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline(), process
        finally:
            if process.poll() is None:
                process.kill()


def module(*arguments: str) -> list[str]:
    """Return the command line of a new process, which no fork stands for."""
    return [*COMMAND, *arguments]


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Press Ctrl-C, and return the rest of both outputs."""
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode in (0, 130), errors
    return output, errors


def ask(link: str, path: str) -> Any:
    origin, _, token = link.strip().partition("/#token=")
    request = urllib.request.Request(origin + path, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return json.load(response)


def test_the_link_is_the_only_line_and_ctrl_c_ends_the_command(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A")
    with studio(str(tmp_path), BOOKS, "--no-open", start=module) as (link, process):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#token=[\w-]{43}\n", link)
        servers = ask(link, "/api/state")["servers"]
        assert [(server["name"], server["transport"]) for server in servers] == [
            (tmp_path.name, "memory"),
            ("books", "stdio"),
        ]
        with pytest.raises(HTTPError, match="401"):
            urllib.request.urlopen(link.partition("#")[0] + "api/state", timeout=PATIENCE)
        output, errors = end(process)
    assert output == ""
    assert "keep it to yourself" in errors
    assert "Traceback" not in errors
    assert link.partition("token=")[2].strip() not in errors


def test_the_stream_of_events_does_not_delay_the_end(tmp_path: Path) -> None:
    with studio(str(tmp_path), "--no-open") as (link, process):
        origin, _, token = link.strip().partition("/#token=")
        request = urllib.request.Request(f"{origin}/api/events", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            assert response.readline() == b": ready\n"
            end(process)


def test_a_failed_server_is_shown_with_a_checklist(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(
        json.dumps(
            {
                "mcpServers": {
                    "gone": {"command": "no-such-program-for-carrel"},
                    "web": {"url": "http://127.0.0.1:9/mcp"},
                }
            }
        )
    )
    with studio("mcp.json", "--no-open", cwd=tmp_path) as (link, process):
        servers: dict[str, Any] = {}
        while not servers or any(not server["checklist"] for server in servers.values()):
            servers = {server["name"]: server for server in ask(link, "/api/state")["servers"]}
        assert {server["state"] for server in servers.values()} == {"failed"}
        assert [(check["step"], check["ok"]) for check in servers["gone"]["checklist"]] == [
            ("program", False),
            ("initialize", None),
        ]
        assert [(check["step"], check["ok"]) for check in servers["web"]["checklist"]][:3] == [
            ("dns", True),
            ("tcp", False),
            ("http", None),
        ]
        end(process)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--port", "0", "no-such-file.py"), "no such file: no-such-file.py"),
        (("--port", "70000", "."), "--port"),
        (("--header", "a: b", "."), "--header is for URLs"),
        (("nothing.json",), "there is no configuration file nothing.json"),
    ],
)
def test_wrong_arguments_are_one_line(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = carrel("studio", *arguments, "--no-open", cwd=tmp_path, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_taken_port_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = carrel("studio", ".", "--no-open", "--port", port, cwd=tmp_path, text=True)
    assert done.returncode == 2
    assert f"port {port} is in use" in done.stderr


def test_sources_are_named_by_the_last_part_of_their_path(tmp_path: Path) -> None:
    assert name_of(str(tmp_path)) == tmp_path.name
    assert name_of("sqlite:///data/shop.db") == "shop"
    assert name_of("git:.") == "git:."
    assert name_of("s3://bucket/notes/?region=x") == "notes"


def test_no_secret_of_a_target_is_printed_or_on_the_page() -> None:
    secret = "0pen-sesame"
    urls = [f"http://ann:{secret}@127.0.0.1:9/mcp?sig={secret}", f"other=http://127.0.0.1:9/mcp?token={secret}"]
    with studio(*urls, f"postgres://ann:{secret}@127.0.0.1:9/shop", "--no-open") as (link, process):
        state: dict[str, Any] = {"servers": []}
        while not state["servers"] or any(server["state"] != "failed" for server in state["servers"]):
            state = ask(link, "/api/state")
        assert secret not in json.dumps(state)
        output, errors = end(process)
    assert secret not in output + errors


def test_a_target_that_is_none_ends_the_command_without_its_secret() -> None:
    done = carrel("studio", "x://:0pen-sesame@x/y", "--no-open", "--debug")
    assert done.returncode != 0
    assert b"0pen-sesame" not in done.stdout + done.stderr


RECORDED = '{"time":0,"direction":"in","message":{"jsonrpc":"2.0","id":1,"method":"ping"}}\n'


def test_a_recording_is_opened_without_servers(tmp_path: Path) -> None:
    (tmp_path / "session.jsonl").write_text(RECORDED)
    with studio("session.jsonl", "--no-open", cwd=tmp_path) as (link, process):
        state = ask(link, "/api/state")
        assert (state["recording"], state["servers"]) == ("session.jsonl", [])
        assert [row["method"] for row in ask(link, "/api/wire")["rows"]] == ["ping"]
        end(process)


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("garbage\n" + RECORDED, (), "session.jsonl is not a recording of carrel record: line 1 is damaged"),
        (RECORDED + RECORDED[:40], (), "session.jsonl is not a recording of carrel record: line 2 is damaged"),
        (RECORDED, (".",), "session.jsonl is a recording, which is opened without servers"),
    ],
)
def test_a_damaged_recording_is_not_served_as_a_text(
    tmp_path: Path, text: str, more: tuple[str, ...], message: str
) -> None:
    (tmp_path / "session.jsonl").write_text(text)
    done = carrel("studio", "--no-open", "session.jsonl", *more, cwd=tmp_path)
    assert done.returncode == 2
    assert message.encode() in done.stderr
    assert done.stdout == b""


def test_other_json_lines_are_served_as_a_text(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"event":"login"}\n')
    with studio("events.jsonl", "--no-open", cwd=tmp_path) as (link, process):
        assert [server["name"] for server in ask(link, "/api/state")["servers"]] == ["events.jsonl"]
        end(process)
