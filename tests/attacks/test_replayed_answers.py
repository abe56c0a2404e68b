"""Answers that are sent again: to buy twice for one agreement, and to fill the memory of a server."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any

from support.measured_server import META, connect, message, under_attack
from support.servers import SERVERS

VENDING = SERVERS / "vending.py"
CAPABLE = {**META, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
SURE = {"sure": {"action": "accept"}}
USED = "Invalid params: requestState has been used already; make the request again without it"


def buy(connection: HTTPConnection, **params: Any) -> dict[str, Any]:
    """Call the tool, and return the message that answers."""
    body, headers = message("tools/call", name="buy", _meta=CAPABLE, **params)
    connection.request("POST", "/mcp", body, headers)
    text = connection.getresponse().read().decode()
    reply: dict[str, Any] = json.loads(text if text.startswith("{") else text.rpartition("data: ")[2])
    return reply


def test_one_agreement_buys_one_thing_however_many_send_it_at_once() -> None:
    with under_attack(script=VENDING) as server:

        def replay(state: str) -> dict[str, Any]:
            with contextlib.closing(connect(server.port)) as connection:
                return buy(connection, inputResponses=SURE, requestState=state)

        with contextlib.closing(connect(server.port)) as connection:
            state = buy(connection)["result"]["requestState"]
        with server.honest_reads("sold://all") as reads, ThreadPoolExecutor(30) as pool:
            replies = list(pool.map(replay, [state] * 300))
        reads.check()
        assert len([reply for reply in replies if "result" in reply]) == 1
        assert {reply["error"]["message"] for reply in replies if "error" in reply} == {USED}
        assert server.ask("resources/read", uri="sold://all")["result"]["contents"][0]["text"] == "1"


def test_many_used_states_take_little_memory() -> None:
    with under_attack(script=VENDING) as server, contextlib.closing(connect(server.port)) as connection:
        for number in range(1100):
            if number == 100:
                before = server.rss()
            state = buy(connection)["result"]["requestState"]
            assert "result" in buy(connection, inputResponses=SURE, requestState=state)
        grown = server.rss() - before
    assert grown < 4, f"1000 used states took {grown:.1f} MiB"
