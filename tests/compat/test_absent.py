"""``carrel.compat.absent``: what to use in place of modules and names that the mirrors do not have."""

from __future__ import annotations

import pytest

from carrel.compat.absent import NotMirroredError, explain


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "from carrel.compat.mcp import MCPError",
            "mcp has no MCPError in carrel.compat: mcp 1 has McpError;",
        ),
        ("from carrel.compat.mcp2 import McpError", "mcp 2 has MCPError; programs for mcp 1 run with --compat=mcp1"),
        ("from carrel.compat.mcp import Client", "mcp 1 has ClientSession; programs for mcp 2 run with --compat=mcp2"),
        (
            "from carrel.compat.mcp.types import DiscoverResult",
            "mcp.types has no DiscoverResult in carrel.compat: mcp 2 has it; programs for mcp 2 run with --compat=mcp2",
        ),
        ("from carrel.compat.mcp2.shared.dispatcher import Dispatcher", "use Server.run with a pair of streams"),
        ("from carrel.compat.mcp2.client.streamable_http import streamablehttp_client", "streamable_http_client"),
        ("from carrel.compat.mcp.types import TextContents", "in carrel.compat; did you mean 'TextContent'?"),
        ("from carrel.compat.fastmcp import Qqqqq", "run the program without --compat, with the package itself"),
        ("from carrel.compat.mcp import types\ntypes.Qqqqq", "mcp.types has no Qqqqq in carrel.compat"),
    ],
)
def test_a_name_that_is_not_mirrored_is_explained(code: str, words: str) -> None:
    with pytest.raises((ImportError, AttributeError)) as caught:
        exec(code, {})
    text = explain(caught.value)
    assert text is not None
    assert words in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "code", ["import json\njson.nothing", "from json import nothing", "import no_such_module_here", "[].x"]
)
def test_errors_of_other_modules_are_not_explained(code: str) -> None:
    with pytest.raises((ImportError, AttributeError)) as caught:
        exec(code, {})
    assert explain(caught.value) is None


def test_a_module_is_explained_by_its_own_message() -> None:
    assert (
        explain(NotMirroredError("mcp.cli.run"))
        == "mcp.cli.run is not mirrored by carrel.compat: the command is `carrel`"
    )
