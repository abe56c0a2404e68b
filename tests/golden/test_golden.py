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


@pytest.mark.parametrize(("conversation", "transport"), CASES)
async def test_the_server_says_exactly_what_the_conversation_says(conversation: Conversation, transport: str) -> None:
    await play(conversation, transport)


def test_every_revision_has_conversations() -> None:
    revisions = {conversation.revision for conversation in conversations()}
    assert revisions == {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}
