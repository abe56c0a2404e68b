"""Servers written for ``fastmcp``: they list and answer the same on Carrel as on the original."""

from __future__ import annotations

import pytest

from compat.fastmcp.comparison import PROGRAMS, compare

pytestmark = pytest.mark.slow


def test_tools_resources_and_prompts_answer_the_same() -> None:
    plan = {
        "form": {"value": "a"},
        "read": ["user://bob/7", "path://a/b/c", "q://z?b=5&c=7", "q://z"],
        "tools": [
            ["add", {"a": "5"}],
            ["add", {"a": 1, "zz": 2}],
            ["fails", {"kind": "value"}],
            ["untyped", {"a": [1]}],
            ["user", {"user": '{"name": "x"}'}],
        ],
        "prompts": [["messages", {"a": "x", "n": "7", "xs": "[1,2]"}], ["messages", {"a": "x", "n": "zz"}]],
    }
    answers = compare([str(PROGRAMS / "fast.py")], plan)
    assert answers["call ask {}"]["content"][0]["text"] == "accept a"
    assert answers['call add {"a": "5"}']["structuredContent"] == {"result": 7}
    assert len(answers["tools"]["tools"]) > 25


def test_mounted_servers_middleware_lifespan_and_visibility_answer_the_same() -> None:
    answers = compare([str(PROGRAMS / "whole.py")], {"read": ["data://child/note", "item://child/3"]})
    names = [tool["name"] for tool in answers["tools"]["tools"]]
    assert "child_double" in names
    assert "secret" not in names
