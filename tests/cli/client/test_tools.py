"""``carrel tools``: tools in detail."""

import json

from carrel.cli.client.tools import described
from carrel.wire.tools import Tool, ToolAnnotations
from support.carrel_process import BOOKS, carrel


def test_tools_are_shown_with_their_arguments_and_one_by_its_name():
    everything = carrel("tools", BOOKS).stdout.decode()
    assert everything.startswith("add\n  Add two numbers.\n\n  At length.\n    a  integer\n    b  integer\n")
    assert "\n\ngreet\n    name    string\n    times?  integer\n" in everything
    assert carrel("tools", BOOKS, "fail").stdout.decode().startswith("fail\n")
    assert [tool["name"] for tool in json.loads(carrel("tools", BOOKS, "add", "--json").stdout)] == ["add"]


def test_a_tool_that_there_is_not_is_an_error_with_the_near_name():
    done = carrel("tools", BOOKS, "gret")
    assert done.returncode == 2
    assert done.stderr.endswith(b"has no tool 'gret'; did you mean 'greet'?\n")


def test_annotations_are_words_and_control_characters_are_escaped():
    tool = Tool(
        name="x",
        description="\x1b[2Jclear",
        input_schema={"properties": {"a": True, "b": {"type": "string", "description": "one\ntwo"}}},
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=False, open_world_hint=False),
    )
    assert described(tool) == (
        "x\n  \\x1b[2Jclear\n    a?  any value\n    b?  string     one two\n"
        "  (reads only, stays within the server, says the server)"
    )
