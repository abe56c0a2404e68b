"""Golden conversations: what each revision of the protocol looks like on the wire, on stdio and over HTTP."""

from __future__ import annotations

import pytest

from golden.conversation import Conversation, conversations
from golden.players import play

CASES = [
    pytest.param(conversation, transport, id=f"{conversation.revision}/{conversation.path.stem}-{transport}")
    for conversation in conversations()
    for transport in ("stdio", "http")
    if conversation.only in (None, transport)
]
#: One conversation of each revision: that a process is no different shows in any of them.
PROCESSES = [conversation for conversation in conversations() if conversation.path.stem == "resources"]


@pytest.mark.parametrize(("conversation", "transport"), CASES)
async def test_the_server_says_exactly_what_the_conversation_says(conversation: Conversation, transport: str) -> None:
    await play(conversation, transport)


@pytest.mark.slow
@pytest.mark.parametrize("conversation", [pytest.param(each, id=each.revision) for each in PROCESSES])
async def test_a_process_says_the_same_on_its_standard_streams(conversation: Conversation) -> None:
    await play(conversation, "process")


def test_every_revision_has_conversations() -> None:
    revisions = {conversation.revision for conversation in conversations()}
    assert revisions == {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}
