"""Arguments of tools and prompts as clients send them, and the options of tools and servers about them."""

from __future__ import annotations

from typing import Any

import pytest

from carrel import Server
from carrel.errors import ConfigError
from carrel.transports import memory
from support.memory_client import ALL, LATEST, NOVEMBER, call, error, listed, result


def repeat(text: str, times: int = 1, separators: list[str] | None = None) -> str:
    """Repeat a text."""
    return (separators or [" "])[0].join([text] * times)


@pytest.mark.parametrize("revision", ALL)
async def test_tools_take_text_for_numbers_lists_and_nothing(revision: str) -> None:
    app = Server("s")
    app.tool(structured=False)(repeat)
    async with memory.connect(app, revision) as peer:
        sent: dict[str, Any] = {"text": "5", "times": "2", "separators": '["-"]'}
        assert (await call(peer, "repeat", **sent))["content"][0]["text"] == "5-5"
        sent = {"text": "null", "times": None, "separators": "null"}
        assert (await call(peer, "repeat", **sent))["content"][0]["text"] == "null"


@pytest.mark.parametrize(
    ("server", "tool", "accepted"),
    [(False, None, True), (True, None, False), (True, False, True), (False, True, False)],
)
async def test_a_tool_is_as_strict_as_it_says_or_else_as_its_server(
    server: bool, tool: bool | None, accepted: bool
) -> None:
    app = Server("s", strict=server)
    app.tool(strict=tool)(repeat)
    async with memory.connect(app, LATEST) as peer:
        found = await call(peer, "repeat", text="x", times="2")
        assert ("isError" not in found) is accepted
        if not accepted:
            message = "Invalid arguments: Argument `times` must be an integer, not a string"
            assert found["content"][0]["text"] == message
        (tool_listed,) = await listed(peer, "tools")
        assert tool_listed["inputSchema"]["properties"]["times"] == {"type": "integer", "default": 1}


@pytest.mark.parametrize(
    ("server", "tool", "accepted"),
    [("reject", None, False), ("ignore", None, True), ("reject", "ignore", True), ("ignore", "reject", False)],
)
async def test_a_tool_ignores_unknown_arguments_if_it_or_its_server_says_so(
    server: Any, tool: Any, accepted: bool
) -> None:
    app = Server("s", unknown_arguments=server)
    app.tool(unknown_arguments=tool)(repeat)
    async with memory.connect(app, NOVEMBER) as peer:
        found = await call(peer, "repeat", text="x", time=3)
        assert ("isError" not in found) is accepted
        if not accepted:
            message = "Invalid arguments: Unknown argument `time`; the arguments are `times`, `text`, `separators`"
            assert found["content"][0]["text"] == message
        (tool_listed,) = await listed(peer, "tools")
        assert tool_listed["inputSchema"]["additionalProperties"] is False


async def test_prompts_tell_the_names_of_their_arguments_and_ignore_others_if_the_server_says_so() -> None:
    for app in (Server("s"), Server("s", unknown_arguments="ignore")):
        app.prompt()(repeat)
        async with memory.connect(app) as peer:
            sent = {"text": "x", "times": "2", "separator": "-"}
            if app.endpoint.runtime.settings.unknown_arguments == "reject":
                refused = await error(peer, "prompts/get", name="repeat", arguments=sent)
                names = "the arguments are `separators`, `text`, `times`"
                assert refused["message"] == f"Invalid params: Unknown argument `separator`; {names}"
            else:
                found = await result(peer, "prompts/get", name="repeat", arguments=sent)
                assert found["messages"][0]["content"]["text"] == "x x"


async def test_an_empty_text_is_no_value_of_an_optional_prompt_argument() -> None:
    app = Server("s")
    app.prompt()(repeat)
    async with memory.connect(app) as peer:
        found = await result(peer, "prompts/get", name="repeat", arguments={"text": "x", "times": ""})
        assert found["messages"][0]["content"]["text"] == "x"


async def test_variables_of_templates_that_are_empty_have_their_defaults() -> None:
    app = Server("s")

    @app.resource("x://list{?page}")
    async def page(page: int = 7) -> str:
        return str(page)

    async with memory.connect(app) as peer:
        for uri in ("x://list?page=", "x://list"):
            assert (await result(peer, "resources/read", uri=uri))["contents"][0]["text"] == "7"


def test_unknown_arguments_are_refused_or_ignored_and_nothing_else() -> None:
    wrong: Any = "drop"
    message = "unknown_arguments must be 'reject' or 'ignore', not 'drop'"
    with pytest.raises(ConfigError, match=message):
        Server("s", unknown_arguments=wrong)
    with pytest.raises(ConfigError, match=message):
        Server("s").tool(unknown_arguments=wrong)(repeat)
