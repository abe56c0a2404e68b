"""``carrel.compat.mcp.types``: the models have the names, fields, aliases and defaults of the original."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from carrel.compat.mcp import types
from compat.comparison import HERE, on_original, run

pytestmark = pytest.mark.slow


def fields_of(kind: type[BaseModel]) -> dict[str, Any]:
    return {key: [field.alias, repr(field.default)] for key, field in kind.model_fields.items()}


def test_every_model_of_the_original_is_there_with_its_fields() -> None:
    models, constants = json.loads(run(on_original([str(HERE / "programs" / "models.py")])))
    assert len(models) > 130
    assert {name: fields_of(getattr(types, name)) for name in models} == models
    assert {name: getattr(types, name) for name in constants} == constants


def test_fields_that_a_model_does_not_know_are_kept() -> None:
    tool = types.Tool.model_validate({"name": "a", "inputSchema": {}, "_meta": {"b": 1}, "more": 2})
    assert tool.model_dump(by_alias=True, exclude_none=True) == {
        "name": "a",
        "inputSchema": {},
        "_meta": {"b": 1},
        "more": 2,
    }
