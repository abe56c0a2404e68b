"""Everything that goes over the wire in the golden conversations, judged by oracles that are not ours."""

from __future__ import annotations

import pytest
from mcp_types import methods

from golden.conversation import conversations
from golden.players import play
from interop.oracle import Witness

REVISIONS = sorted({conversation.revision for conversation in conversations()})
#: Messages of features that this server does not have, or that it sends only when it ends.
ABSENT = {"subscriptions/listen"}
#: What a server may send in this revision only when it ends.
ABSENT_IN = {"2026-07-28": {"notifications/cancelled"}}
#: What a server may ask, by the first revision that has it; all but the last ask by requests.
QUESTIONS = {"roots/list": "2024-11-05", "sampling/createMessage": "2024-11-05", "elicitation/create": "2025-06-18"}


@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_message_of_the_revision_is_as_others_know_it(revision: str) -> None:
    seen: set[str] = set()
    complaints: list[str] = []
    for conversation in conversations():
        if conversation.app == "tasks":
            continue  # the oracles know tasks in neither form
        if conversation.revision == revision:
            witness = Witness(revision)
            await play(conversation, conversation.only or "stdio", witness)
            seen |= witness.seen
            complaints += [f"{conversation.path.name}: {complaint}" for complaint in witness.complaints]
    assert not complaints, "\n".join(complaints)
    known = [*methods.SERVER_RESULTS, *methods.SERVER_NOTIFICATIONS]
    wanted = {method for method, version in known if version == revision} - ABSENT - ABSENT_IN.get(revision, set())
    assert wanted | {method for method, since in QUESTIONS.items() if since <= revision} <= seen


@pytest.mark.parametrize(
    ("revision", "result", "complaint"),
    [
        ("2025-11-25", {"resources": [], "ttlMs": 5}, "2025-11-25 has no ttlMs"),
        ("2025-11-25", {"resources": [{"name": "no URI"}]}, "uri"),
        ("2025-06-18", {"resources": [{"uri": "a:b", "name": 5}]}, "5 is not of type"),
        ("2026-07-28", {"resources": [], "ttlMs": 0, "cacheScope": "private"}, "resultType"),
        ("2026-07-28", {"resources": [], "resultType": "complete"}, "ttlMs"),
    ],
)
def test_the_oracles_complain_of_what_is_wrong(revision: str, result: dict[str, object], complaint: str) -> None:
    witness = Witness(revision)
    witness.sent({"jsonrpc": "2.0", "id": 1, "method": "resources/list"})
    witness.heard({"jsonrpc": "2.0", "id": 1, "result": result})
    assert any(complaint in each for each in witness.complaints), witness.complaints
