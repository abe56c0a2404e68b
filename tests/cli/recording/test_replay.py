"""``carrel replay``: a recording as a server."""

import json

import pytest

from carrel.cli.recording.recording import Recording
from carrel.cli.recording.replay import replies
from carrel.errors import ConfigError
from support.carrel_process import BOOKS, carrel, command, listening


def recording(tmp_path, *lines):
    file = tmp_path / "session.jsonl"
    file.write_text(
        "".join(json.dumps({"time": 0, "direction": way, "message": message}) + "\n" for way, message in lines)
    )
    return Recording(str(file))


def request(id, method="tools/call", token=None, **params):
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, **meta}}


def response(id, **result):
    return {"jsonrpc": "2.0", "id": id, "result": result}


def test_a_recorded_session_is_served_to_another_client(tmp_path):
    file = str(tmp_path / "session.jsonl")
    carrel("call", "add", "a=1", "b=2", "--", *command("record", BOOKS, file))
    replayed = carrel("call", "add", "a=1", "b=2", "--", *command("replay", file))
    assert (replayed.stdout, replayed.stderr) == (b"3\n", b"1 of 2 half\n")
    other = carrel("call", "add", "a=1", "b=3", "--", *command("replay", file))
    assert other.returncode == 1
    assert (
        b'This request was not recorded: tools/call {"name":"add","arguments":{"a":1,"b":3}}; recorded are'
        in other.stderr
    )
    with listening("replay", file, "--http", "0") as url:
        over_http = carrel("call", url, "add", "a=1", "b=2")
    assert (over_http.stdout, over_http.stderr) == (b"3\n", b"1 of 2 half\n")


def test_an_old_session_is_served_to_a_new_client(tmp_path):
    info = {
        "protocolVersion": "2024-11-05",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "old", "version": "1"},
    }
    recording(
        tmp_path,
        ("in", request(0, "initialize", protocolVersion="2024-11-05")),
        ("out", response(0, **info)),
        ("in", request(1, "tools/list")),
        ("out", response(1, tools=[{"name": "t", "inputSchema": {"type": "object"}}])),
    )
    done = carrel("tools", "--", *command("replay", str(tmp_path / "session.jsonl")))
    assert (done.returncode, done.stdout) == (0, b"t\n")


def test_equal_requests_get_their_answers_in_order_and_then_the_last_again(tmp_path):
    served = recording(
        tmp_path,
        ("in", request(1, name="t")),
        ("in", request(2, name="t")),
        ("out", response(2, n=2)),
        ("out", response(1, n=1)),
    )
    answers = [served.answer(request(f"x{number}", name="t")) for number in range(3)]
    assert answers == [[response("x0", n=1)], [response("x1", n=2)], [response("x2", n=2)]]


def test_progress_and_subscriptions_get_the_ids_of_the_new_request(tmp_path):
    key = "io.modelcontextprotocol/subscriptionId"
    served = recording(
        tmp_path,
        ("in", request(1, name="t", token="old")),
        (
            "out",
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "old", "progress": 1}},
        ),
        ("out", response(1)),
        ("in", request(2, "subscriptions/listen")),
        ("out", {"jsonrpc": "2.0", "method": "notifications/x", "params": {"_meta": {key: 2}}}),
    )
    progress, answer = served.answer(request(7, name="t", token="new"))
    assert (progress["params"]["progressToken"], answer["id"]) == ("new", 7)
    (notice,) = served.answer(request(8, "subscriptions/listen"))
    assert notice["params"]["_meta"] == {key: 8}


def test_what_was_not_recorded_is_an_error_that_says_so(tmp_path):
    served = recording(tmp_path, ("in", request(1, name="t")), ("out", response(1)))
    (unknown,) = served.answer(request(1, "prompts/list"))
    assert unknown["error"] == {"code": -32601, "message": "This request was not recorded: prompts/list {}"}
    (other,) = served.answer(request(1, name="u"))
    assert other["error"]["code"] == -32602
    assert served.answer(request(1, "ping")) == [response(1)]
    assert [one["error"]["code"] for one in replies(served, b"{") + replies(served, b"[1]")] == [-32700, -32600]
    assert replies(served, b"\n") + replies(served, b'{"method":"notifications/x"}') == []


def test_a_file_that_is_no_recording_is_refused(tmp_path):
    (tmp_path / "x").write_text('{"time": 1}\n')
    for name, complaint in (("x", "line 1"), ("none", "cannot be read")):
        with pytest.raises(ConfigError, match=complaint):
            Recording(str(tmp_path / name))
