"""Pages of tools: which tools models may see, and references to pages in ``_meta``."""

from __future__ import annotations

from typing import Any

import pytest

from carrel.catalog.tool_pages import for_models, with_page_uris, without_page
from carrel.wire.tools import Tool


@pytest.mark.parametrize(
    ("ui", "seen"),
    [
        ({"visibility": ["app"]}, False),
        ({"visibility": []}, False),
        ({"visibility": ["app", "model"]}, True),
        ({"visibility": ("model",)}, True),
        ({"visibility": "app"}, True),
        ({}, True),
        ("app", True),
        (None, True),
    ],
)
def test_models_see_tools_that_are_not_for_pages_only(ui: Any, seen: bool) -> None:
    assert for_models(ui) is seen


def test_uris_of_pages_are_changed_and_other_uris_removed() -> None:
    meta = {"ui": {"resourceUri": "ui://a", "x": 1}, "ui/resourceUri": "https://a.example", "y": 2}
    changed = with_page_uris(meta, lambda uri: f"{uri}/b")
    assert changed == {"ui": {"resourceUri": "ui://a/b", "x": 1}, "y": 2}


def test_a_tool_without_its_page_keeps_the_rest_of_its_meta() -> None:
    tool = Tool(name="t", input_schema={}, meta={"ui": {}, "ui/resourceUri": "ui://a", "y": 2})
    assert without_page(tool).meta == {"y": 2}
    assert without_page(Tool(name="t", input_schema={}, meta={"ui": {}})).meta is None
