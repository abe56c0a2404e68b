"""Windows of huge files: one client asks for what costs the most, another reads a small file meanwhile."""

import contextlib
import os
import time

import pytest

from carrel.sources.content.window import MAX_SCAN
from support.measured_server import PATIENCE, connect, message, under_attack

HUGE = 200 * 1024**3


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "small.txt").write_text("small")
    with (tmp_path / "huge.log").open("w") as file:
        file.write("a first line\n")
        os.truncate(file.fileno(), HUGE)  # a hole: without any line feed, and without any block on the disk
    return tmp_path


def test_a_line_far_into_a_huge_file_is_refused_with_the_limit_and_what_to_use(folder):
    with under_attack("serve", str(folder)) as server:
        started = server.cpu()
        error = server.ask("resources/read", uri=f"file://{folder}/huge.log?lines=100000")["error"]
        assert error["code"] == -32602
        assert f"first {MAX_SCAN:,} bytes" in error["message"]
        assert f"byte {MAX_SCAN:,} is in line 2" in error["message"]
        assert f"?bytes={MAX_SCAN}-" in error["message"]
        assert "?tail=200" in error["message"]
        metered = server.cpu()
        error = server.ask("resources/read", uri=f"file://{folder}/huge.log?lines={MAX_SCAN + 2}")["error"]
        assert f"first {MAX_SCAN:,} bytes" in error["message"]
        assert metered - started < 5
        assert server.cpu() - metered < max(0.2, (metered - started) / 2), "its number alone tells that it is too far"
        answer = server.ask("resources/read", uri=f"file://{folder}/huge.log?lines=1")
        assert answer["result"]["contents"][0]["text"] == "a first line\n"


def test_windows_of_a_huge_file_keep_nothing_from_other_clients_and_end_with_their_client(folder):
    body, headers = message("resources/read", uri=f"file://{folder}/huge.log?lines=100000")
    with (
        under_attack("serve", str(folder)) as server,
        server.honest_reads(f"file://{folder}/small.txt") as reads,
        contextlib.ExitStack() as stack,
    ):
        before = server.rss()
        idle = server.cpu()
        reads.wait_for(50)
        alone = server.cpu() - idle
        attackers = [stack.enter_context(contextlib.closing(connect(server.port))) for _ in range(40)]
        for attacker in attackers:
            attacker.request("POST", "/mcp", body, headers)
        reads.wait_for(100)
        assert server.rss() - before < 40
        for attacker in attackers:
            attacker.close()
        until = time.monotonic() + PATIENCE
        used = 1000.0
        while used > 2 * alone + 0.2:  # seconds of the processor; only the reads of the other client are left
            assert time.monotonic() < until, "threads still read for a client that is gone"
            idle = server.cpu()
            reads.wait_for(50)
            used = server.cpu() - idle
        reads.check(worst=5.0)  # looking through a hole costs processor time, of which there may be little
        with contextlib.closing(connect(server.port)) as again:
            small, small_headers = message("resources/read", uri=f"file://{folder}/small.txt")
            again.request("POST", "/mcp", small, small_headers)
            assert again.getresponse().status == 200
