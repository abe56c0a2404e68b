"""stdio: real processes, attacked through their standard streams.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
"""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
from contextlib import suppress

import pytest

from carrel.transports.lines import Lines
from support.memory_client import PLAIN
from support.stdio_process import (
    SERVERS,
    Child,
    between,
    call,
    call_with_progress,
    cancelled,
    encode,
    environment,
    initialize,
    request,
    running,
    stateless,
    text_of,
)

MEGABYTE = 1_000_000
#: A server that gives work longer to end than a test waits for its process.
PATIENT = "grace=1000"
LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


def ping(id):
    return request(id, "ping")


def fill(child: Child, data: bytes) -> bytes:
    """Write until the server has stopped reading; return what it did not take."""
    view = memoryview(data)
    while view and (sent := child.send_some(view, 0.5)):
        view = view[sent:]
    return bytes(view)


# Text and lines


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "utf-16"},
    ],
    ids=str,
)
def test_text_is_utf8_whatever_the_locale(env):
    with running(env=env) as child:
        child.open()
        assert text_of(child.ask(call(1, "echo", text="糖尿病 é 🙂"))) == "糖尿病 é 🙂"
        assert child.finish() == []


def test_a_line_may_come_in_pieces():
    data = encode(call(2, "echo", text="糖尿病"))
    half = data.index("尿".encode()) + 1
    with running() as child:
        child.open()
        child.send(encode(ping(1)) + data[:half])
        assert child.read()["id"] == 1  # so the first piece has been read
        child.send(data[half : half + 3])
        child.send(data[half + 3 :])
        assert text_of(child.read()) == "糖尿病"


def test_line_ends_may_be_those_of_windows_and_blank_lines_mean_nothing():
    with running() as child:
        child.open()
        child.send(encode(ping(1)).strip() + b"\r\n\r\n\n  \t \n" + encode(ping(2)).strip() + b"\r\n")
        assert [child.read()["id"], child.read()["id"]] == [1, 2]
        assert child.finish() == []


def test_many_messages_in_one_write_are_answered_in_order():
    with running() as child:
        child.open()
        child.send(*(ping(id) for id in range(1, 1001)))
        assert [child.read()["id"] for _ in range(1000)] == list(range(1, 1001))


@pytest.mark.parametrize("line", [b"\xff\xfe{}", b'{"jsonrpc":"2.0","id":1,"method":"pi\xffng"}', b"{", b"\x00"])
def test_invalid_json_or_utf8_is_a_parse_error_and_the_next_message_is_answered(line):
    with running() as child:
        child.open()
        child.send(line + b"\n", ping(2))
        error = child.read()
        assert error["error"]["code"] == -32700
        assert "id" not in error
        assert child.read() == {"jsonrpc": "2.0", "id": 2, "result": {}}


def test_a_line_of_100_megabytes_is_refused_in_bounded_memory():
    with running(fork=False) as child:
        child.open()
        before = child.peak
        for _ in range(100):
            child.send(b"x" * MEGABYTE)
        child.send(b"\n", ping(2))
        error = child.read()
        assert error["error"]["code"] == -32600
        assert "16777216 bytes" in error["error"]["message"]
        assert child.read()["id"] == 2
        assert child.peak - before < 40 * MEGABYTE


def test_the_limit_of_a_message_is_exact_wherever_its_line_ends():
    message = encode(ping(1))[:-1]
    fits, too_long = message.ljust(1000), message.ljust(1001)
    with running("max=1000") as child:
        child.send(encode(initialize()) + fits + b"\n" + too_long + b"\n" + fits + b"\n")
        assert [child.read().get("id", "refused") for _ in range(4)] == [0, 1, "refused", 1]
        child.send(too_long[:600])
        child.send(too_long[600:] + b"\n" + fits[:600])
        assert "id" not in child.read()
        child.send(fits[600:] + b"\n" + too_long)
        assert child.read()["id"] == 1
        assert ["error" in message for message in child.finish()] == [True]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_the_same_however_the_stream_is_cut(size):
    stream = b"a\n\nbc\r\n" + b"d" * 20 + b"\n" + b"e" * 21 + b"\nf" * 3 + b"g" * 50
    lines = Lines(20)
    found = [line for start in range(0, len(stream), size) for line in lines.feed(stream[start : start + size])]
    assert found == [b"a", b"", b"bc\r", b"d" * 20, None, b"f", b"f"]
    assert lines.finish() == [None]
    assert lines.finish() == []


def test_a_line_that_comes_in_many_small_pieces_is_one_line():
    lines = Lines(100_000)
    for number in range(30_000):
        assert lines.feed(b"%03d" % (number % 1000)) == []
    (line,) = lines.feed(b"\n")
    assert line == b"".join(b"%03d" % (number % 1000) for number in range(30_000))
    assert lines.finish() == []


# The end


def test_a_last_line_without_an_end_is_answered():
    with running() as child:
        child.open()
        child.send(encode(ping(1))[:-1])
        assert child.finish() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


def test_a_closed_stream_lets_work_finish_and_ends_listening():
    with running() as child:
        child.open()
        child.send(call(1, "later", text="done"), encode(stateless("l", "subscriptions/listen", notifications={}))[:-1])
        rest = child.finish()
    assert [message.get("id", message.get("method")) for message in rest] == [
        "notifications/subscriptions/acknowledged",
        "notifications/cancelled",
        "l",
        1,
    ]
    assert text_of(rest[3]) == "done"


@LOOPS
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_listening_with_a_result_and_work_well(number, loop, tmp_path):
    os.mkfifo(tmp_path / "go")
    with running(loop, PATIENT) as child:
        child.send(stateless("a", "subscriptions/listen", notifications={"resourceSubscriptions": ["memo://text"]}))
        assert child.read()["method"] == "notifications/subscriptions/acknowledged"
        child.send(
            stateless("b", "tools/call", name="when_told", arguments={"fifo": str(tmp_path / "go")}),
            stateless(1, "resources/list"),
        )
        assert child.read()["id"] == 1
        child.process.send_signal(number)
        teardown, answer = child.read(), child.read()
        (tmp_path / "go").write_text("done")
        (done,) = [json.loads(line) for line in child.read_lines()]
        assert child.wait() == 0
        assert child.errors() == ""
    assert (teardown["method"], teardown["params"]["requestId"]) == ("notifications/cancelled", "a")
    assert answer["id"] == "a"
    assert answer["result"] == {"resultType": "complete", "_meta": answer["result"]["_meta"]}
    assert answer["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "a"
    assert text_of(done) == "done"


def test_work_that_does_not_end_is_cancelled_when_the_grace_is_over():
    with running("grace=0.1") as child:
        child.open()
        child.send(call_with_progress(1, "wait"))
        child.read()
        assert child.finish() == []


def test_a_function_that_hangs_in_a_thread_does_not_keep_the_process():
    with running("grace=0.1", fork=False) as child:
        child.open()
        child.send(call_with_progress(1, "hang"))
        child.read()
        assert child.finish() == []


def test_a_closed_standard_input_ends_the_server():
    with open(os.devnull) as nothing:
        done = subprocess.run(
            [sys.executable, SERVERS / "plain.py"], stdin=nothing, capture_output=True, timeout=60, env=environment()
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_closed_standard_streams_are_a_config_error(closed):
    command = ["sh", "-c", f'exec "$0" "$1" {closed}', sys.executable, str(SERVERS / "plain.py")]
    done = subprocess.run(command, capture_output=True, input=b"", timeout=60, env=environment())
    assert done.returncode == 1
    assert done.stdout == b""
    if closed != "2>&-":
        assert done.stderr.endswith(b"ConfigError: standard input, output and error must be open\n")


# A client that is gone


@LOOPS
@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("streams", ["pipes", "sockets"])
def test_a_client_that_dies_ends_the_process_at_once_and_quietly(streams, busy, loop):
    if streams == "pipes":
        server_in, to_server = os.pipe()
        from_server, server_out = os.pipe()
    else:
        to_server, server_in = (end.detach() for end in socket.socketpair())
        from_server, server_out = (end.detach() for end in socket.socketpair())
    with between(server_in, server_out, to_server, from_server, loop, PATIENT) as child:
        child.open()
        if busy:
            child.send(call_with_progress(1, "wait"))
            assert child.read()["method"] == "notifications/progress"
            child.send(call(2, "count", n=100_000))
        child.send(*(ping(id) for id in range(3, 100)))
        child.go_deaf()
        if streams == "pipes":
            child.hang_up()
        assert child.wait() == 0
        assert child.errors() == ""


@LOOPS
def test_a_client_that_stops_reading_for_good_ends_the_process_although_it_keeps_writing(loop):
    with running(loop) as child:
        child.open()
        child.go_deaf()
        with suppress(BrokenPipeError):  # it may have noticed already
            child.send(ping(1))
        assert child.wait() == 0
        assert child.errors() == ""


# A client that reads slowly


@LOOPS
def test_a_server_stops_reading_while_its_client_does_not_read_and_everything_arrives_once_it_does(loop):
    requests = 24_000
    with running(loop, fork=False) as child:
        child.open()
        before = child.peak
        data = b"".join(
            encode(ping(id) if id % 2 else call(id, "echo", text="x" * 200)) for id in range(1, requests + 1)
        )
        rest = fill(child, data)
        assert len(rest) > len(data) // 2
        assert child.peak - before < 20 * MEGABYTE
        seen = []
        while len(seen) < requests:
            while rest and (sent := child.send_some(rest, 0)):
                rest = rest[sent:]
            seen.append(child.read()["id"])
        assert seen == list(range(1, requests + 1))
        assert child.finish() == []


@LOOPS
def test_large_answers_to_small_requests_wait_for_a_slow_reader_too(loop):
    with running(loop, fork=False) as child:
        child.open()
        before = child.peak
        child.send(*(request(id, "resources/read", {"uri": "memo://big"}) for id in range(1, 81)))
        child.send(*([ping(81)] * 500))  # more than the pipe holds: the server has read the rest
        assert child.peak - before < 30 * MEGABYTE
        assert [child.read()["id"] for _ in range(80)] == list(range(1, 81))
        assert [child.read()["id"] for _ in range(500)] == [81] * 500
        assert child.peak - before < 30 * MEGABYTE


def test_a_handler_that_awaits_its_messages_waits_for_a_slow_reader():
    with running(fork=False) as child:
        child.open()
        before = child.peak
        child.send(call(1, "count", n=40_000), call(2, "later", text="x"))
        assert fill(child, encode(ping(3)) * 40_000)
        assert child.peak - before < 20 * MEGABYTE
        numbers = []
        while (message := child.read()).get("id") != 1:
            if message.get("method") == "notifications/message":
                numbers.append(message["params"]["data"])
        assert numbers == list(range(40_000))


def test_changes_that_a_slow_reader_missed_arrive_once_before_the_end(tmp_path):
    os.mkfifo(tmp_path / "touched")
    with running() as child:
        child.open()
        for id in (1, 2):
            child.send(stateless(id, "subscriptions/listen", notifications={"resourceSubscriptions": ["memo://text"]}))
            child.read()
        child.send(call(3, "touch", times=10, fifo=str(tmp_path / "touched")))
        child.send(*(request(id, "resources/read", {"uri": "memo://big"}) for id in range(4, 8)))
        assert (tmp_path / "touched").read_text() == "touched"
        child.process.send_signal(signal.SIGTERM)
        rest = [json.loads(line) for line in child.read_lines()]
        assert child.wait() == 0
    updates = [message["params"]["_meta"] for message in rest if message.get("method", "").endswith("updated")]
    subscriptions = [meta["io.modelcontextprotocol/subscriptionId"] for meta in updates]
    assert {1, 2} == set(subscriptions)
    assert len(subscriptions) < 10
    for id in (1, 2):
        end = next(place for place, message in enumerate(rest) if message.get("id") == id)
        assert not any(
            message.get("params", {}).get("_meta", {}).get("io.modelcontextprotocol/subscriptionId") == id
            for message in rest[end + 1 :]
        )


# What else is on standard output and input


def test_stray_output_ends_up_on_standard_error():
    kinds = ["print", "unprintable", "binary", "descriptor", "child", "shell", "libc", "reopened", "buffered"]
    with running("noise", env={"PYTHONIOENCODING": "ascii", "PYTHONUNBUFFERED": ""}) as child:
        child.open()
        for id, kind in enumerate(kinds, 1):
            assert text_of(child.ask(call(id, "shout", how=kind))) == "shouted"
        child.hang_up()
        assert list(child.read_lines()) == []
        assert child.wait() == 0
        strays = child.errors()
    for kind in (*kinds, "at import", "unfinished", "libc at import"):
        expected = "stray \\u7cd6\\u5c3f\\u75c5" if kind == "unprintable" else f"stray {kind}"
        assert expected in strays


def test_standard_input_is_read_by_the_transport_only():
    with running() as child:
        child.open()
        child.send(call(1, "child_reads"), ping(2))
        replies = {message["id"]: message for message in (child.read(), child.read())}
        assert text_of(replies[1]) == "nothing"
        assert replies[2]["result"] == {}


def test_child_processes_inherit_no_end_of_the_conversation():
    with running(fork=False) as child:
        child.open()
        listed = json.loads(text_of(child.ask(call(1, "child_descriptors"))).replace("'", '"'))
    assert listed == ["0", "1", "2", "3"]  # 3 is the directory that is being listed


# Streams that are not pipes


def test_a_conversation_can_be_in_files(tmp_path):
    questions, answers = tmp_path / "questions", tmp_path / "answers"
    count = 30_000
    with open(questions, "wb") as file:
        file.write(encode(initialize()))
        file.writelines(encode(ping(id)) for id in range(1, count))
        file.write(encode(call(count, "later", text="x"))[:-1])
    with open(questions, "rb") as stdin, open(answers, "wb") as stdout:
        done = subprocess.run(
            [sys.executable, SERVERS / "plain.py"],
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=60,
            env=environment(),
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert [json.loads(line)["id"] for line in answers.read_bytes().splitlines()] == list(range(count + 1))


def test_a_large_file_of_questions_is_not_read_faster_than_it_is_answered(tmp_path):
    questions = tmp_path / "questions"
    line = encode(ping("x" * 1000))
    with open(questions, "wb") as file:
        file.write(encode(initialize()) + line * 60_000)
    from_server, stdout = os.pipe()
    with between(
        os.open(questions, os.O_RDONLY), stdout, os.open(os.devnull, os.O_WRONLY), from_server, fork=False
    ) as child:
        assert child.read()["id"] == 0
        before = child.peak
        assert sum(1 for _ in child.read_lines()) == 60_000
        assert child.process.stdin is None
        assert child.wait() == 0
    assert before < 100 * MEGABYTE


@pytest.mark.parametrize("output", ["pipe", "terminal"])
def test_a_conversation_can_be_at_a_terminal(output):
    ours, theirs = pty.openpty()
    settings = termios.tcgetattr(theirs)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    from_server, stdout = os.pipe() if output == "pipe" else (ours, theirs)
    with between(theirs, stdout, ours, from_server, fork=False) as child:
        child.open()
        assert text_of(child.ask(call(1, "echo", text="é"))) == "é"
        child.send(b"\x04")  # Ctrl-D
        assert child.wait() == 0
        assert child.errors() == "'plain' waits for an application on standard input; Ctrl-C stops it\n"


@LOOPS
def test_a_conversation_can_be_on_sockets_as_node_makes_them(loop):
    to_server, server_in = (end.detach() for end in socket.socketpair())
    from_server, server_out = (end.detach() for end in socket.socketpair())
    with between(server_in, server_out, to_server, from_server, loop) as child:
        child.open()
        child.send(*(ping(id) for id in range(1, 5001)))
        assert [child.read()["id"] for _ in range(5000)] == list(range(1, 5001))
        assert child.finish() == []


def test_a_conversation_can_be_on_one_socket_as_inetd_and_socat_make_it():
    ours, theirs = socket.socketpair()
    with ours, between(theirs.detach(), os.dup(1), os.dup(ours.fileno()), os.dup(ours.fileno())) as _:
        pass  # with a standard output of its own it is the case above; here both are the same socket
    ours, theirs = socket.socketpair()
    descriptor = theirs.detach()
    with ours, between(descriptor, descriptor, os.dup(ours.fileno()), os.dup(ours.fileno())) as child:
        child.open()
        child.send(call(1, "later", text="x"), ping(2))
        assert [child.read()["id"], child.read()["id"]] == [2, 1]
        child.send(ping(3))
        ours.shutdown(socket.SHUT_WR)
        assert [json.loads(line)["id"] for line in child.read_lines()] == [3]
        assert child.wait() == 0
        assert child.errors() == ""


# Cancelling


@LOOPS
def test_a_cancelled_request_stops_its_handler_and_has_no_answer(loop):
    with running(loop) as child:
        child.open()
        child.send(call_with_progress(1, "wait"))
        assert child.read()["method"] == "notifications/progress"
        child.send(cancelled(1), cancelled(1), cancelled("unknown"), call(2, "was_stopped"))
        assert text_of(child.read()) == "stopped"
        assert text_of(child.ask(call(1, "echo", text="the id is free again"))) == "the id is free again"
        assert child.finish() == []


def test_a_request_can_be_cancelled_before_it_has_begun():
    with running() as child:
        child.open()
        child.send(call(1, "wait"), cancelled(1), call(2, "was_stopped"))
        assert text_of(child.read()) == "stopped"
        assert text_of(child.ask(call(1, "echo", text="the id is free again"))) == "the id is free again"
        assert child.finish() == []


def test_a_handler_that_never_stops_talking_can_be_cancelled_and_others_have_their_turn():
    with running() as child:
        child.open()
        child.send(call(1, "count", n=10_000_000))
        while child.read().get("method") != "notifications/message":
            pass
        child.send(ping(2))
        while (message := child.read()).get("id") != 2:
            assert "method" in message
        child.send(cancelled(1), ping(3))
        while (message := child.read()).get("id") != 3:
            assert "method" in message
        assert len(child.finish()) < 5000


def test_a_handler_that_ignores_its_cancellation_is_not_answered():
    with running() as child:
        child.open()
        child.send(call_with_progress(1, "stubborn"))
        assert child.read()["method"] == "notifications/progress"
        child.send(cancelled(1), call(2, "was_stopped"))
        assert child.read()["id"] == 2
        assert child.finish() == []


def test_a_handler_that_is_cancelled_from_elsewhere_is_an_internal_error():
    with running() as child:
        child.open()
        assert child.ask(call(1, "broken"))["error"] == PLAIN


def test_a_cancelled_listen_request_hears_nothing_more():
    with running() as child:
        child.open()
        child.send(stateless("l", "subscriptions/listen", notifications={"resourceSubscriptions": ["memo://text"]}))
        assert child.read()["method"] == "notifications/subscriptions/acknowledged"
        child.send(cancelled("l"))
        assert text_of(child.ask(call(1, "touch", times=1))) == "touched"
        assert child.finish() == []


# Many at once


def test_100_requests_at_a_time_get_their_own_answers():
    with running() as child:
        child.open()
        ids = [id if id % 2 else f"id-{id}" for id in range(100)]
        child.send(*(call(id, "later" if id in ids[::3] else "echo", text=f"answer {id}") for id in ids))
        replies = [child.read() for _ in ids]
    assert {reply["id"]: text_of(reply) for reply in replies} == {id: f"answer {id}" for id in ids}


def test_too_many_requests_at_a_time_are_refused_in_words():
    with running("grace=0.1") as child:
        child.open()
        child.send(*(call(id, "wait") for id in range(1, 4100)))
        refused = [child.read() for _ in range(3)]
        assert [reply["id"] for reply in refused] == [4097, 4098, 4099]
        assert {reply["error"]["message"] for reply in refused} == {
            "Too many requests at a time: at most 4096 (max_requests_in_flight)"
        }
        child.send(*(cancelled(id) for id in range(1, 4097)), call(5000, "was_stopped"))
        assert text_of(child.read()) == "stopped"
        assert child.finish() == []


def test_an_id_in_use_is_refused():
    with running("grace=0.1") as child:
        child.open()
        child.send(call(1, "wait"), call(1, "echo", text="x"))
        assert "still in use" in child.read()["error"]["message"]
        assert child.finish() == []
