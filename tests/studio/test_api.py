"""The data of the API: the types of the page have the same members."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

import carrel.context
from carrel.studio import api, apps, bodies, chat_api, hand_over, skills

LIB = Path(__file__).parents[2] / "ui/src/lib"
TYPES = "".join((LIB / name).read_text(encoding="utf-8") for name in ("types.ts", "chat-types.ts"))
INTERFACES = dict(re.findall(r"^export interface (\w+)(?:<T>)? \{\n(.*?)^\}", TYPES, re.MULTILINE | re.DOTALL))
STRUCTS = {**vars(api), **vars(apps), **vars(hand_over), **vars(bodies), **vars(chat_api), **vars(skills)}
#: Structs with another name in the page.
NAMED = {"Operation": "OperationView", "Skill": "SkillView"}


@pytest.mark.parametrize("name", sorted(INTERFACES))
def test_an_interface_of_the_page_has_the_members_of_its_struct(name: str) -> None:
    struct = STRUCTS[NAMED.get(name, name)]
    members = re.findall(r"^  (\w+)\??:", INTERFACES[name], re.MULTILINE)
    assert sorted(members) == sorted(field.encode_name for field in msgspec.structs.fields(struct))


def test_every_struct_of_responses_has_an_interface() -> None:
    written = {NAMED.get(name, name) for name in INTERFACES}
    # Written where they are used, or sent without a type.
    inline = {
        "DiffLine",
        "Counts",
        "LeftOutItem",
        "Part",
        "ProgressView",
        "SampledMessage",
        "ChatSummaries",
        "PageEvent",
    }
    found = {
        name
        for name, value in STRUCTS.items()
        if isinstance(value, type) and issubclass(value, api.Payload) and value is not api.Payload
    }
    assert found - written - inline <= {"Key", "SearchResult", "Completions"}


def test_an_event_has_only_its_own_members() -> None:
    event = api.PageEvent(seq=3, type="questionClosed", id="x")
    assert msgspec.json.decode(msgspec.json.encode(event)) == {"seq": 3, "type": "questionClosed", "id": "x"}


def test_the_page_translates_reasons_that_the_packer_gives() -> None:
    page = re.search(r"LEFT_OUT[^{]*\{(.*?)\}", (LIB / "reasons.ts").read_text(encoding="utf-8"), re.DOTALL)
    source = "".join(path.read_text(encoding="utf-8") for path in Path(carrel.context.__file__).parent.glob("*.py"))
    assert page is not None
    for reason in re.findall(r'^ *"?([^":]+)"?: "', page[1], re.MULTILINE):
        assert f'"{reason}"' in source
    assert 'f"near-duplicate of ' in source
