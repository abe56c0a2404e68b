"""What may follow what in the messages to a model.

https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#message-content-constraints
"""

from __future__ import annotations

from typing import Any

import pytest

from carrel import Context, Server
from carrel.wire.client_features import SamplingMessage, ToolResultContent, ToolUseContent
from carrel.wire.content import TextContent
from support.answering_client import SAMPLE, answering, said
from support.memory_client import LATEST, NOVEMBER

pytestmark = pytest.mark.requirement


USE = ToolUseContent("1", "weather", {"city": "Oslo"})
USED = SamplingMessage("assistant", [USE])
TEXT = TextContent("And now?")
RESULT = ToolResultContent("1", [TEXT])
QUESTION = SamplingMessage("user", TEXT)


async def asked(revision: str, *messages: SamplingMessage) -> list[Any]:
    """Return what a client is asked when a handler wants to send these messages."""
    app = Server("s")

    @app.tool()
    async def ponder(context: Context) -> str:
        return (await context.sample(list(messages), 10)).text

    async with answering(app, revision, {SAMPLE: said("x")}) as client:
        await client.request("tools/call", name="ponder")
    found: list[Any] = client.asked
    return found


# requirement: 2026-07-28:client/sampling#tool-result-messages-1
@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_a_message_with_results_of_tools_has_nothing_else_in_it(revision: str) -> None:
    assert await asked(revision, QUESTION, USED, SamplingMessage("user", [RESULT]))
    assert await asked(revision, QUESTION, USED, SamplingMessage("user", [RESULT, TEXT])) == []


# requirement: 2026-07-28:client/sampling#tool-use-and-result-balance-1
@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
@pytest.mark.parametrize(
    "after",
    [
        (),
        (QUESTION,),
        (SamplingMessage("user", [ToolResultContent("2", [TEXT])]),),
        (QUESTION, SamplingMessage("user", [RESULT])),
    ],
    ids=["nothing", "another message", "another id", "late"],
)
async def test_every_use_of_a_tool_is_followed_by_its_result(revision: str, after: tuple[SamplingMessage, ...]) -> None:
    assert await asked(revision, QUESTION, USED, *after) == []
