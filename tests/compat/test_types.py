"""``carrel.compat.mcp.types``: the models have the names, fields, aliases and defaults of the original."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from pydantic import BaseModel

from carrel.compat.mcp import types
from compat.comparison import original

pytestmark = pytest.mark.slow

DUMP = """
import json, mcp.types as types
from pydantic import BaseModel
models = {}
for name in dir(types):
    kind = getattr(types, name)
    if isinstance(kind, type) and issubclass(kind, BaseModel) and "[" not in name and kind.__module__ == "mcp.types":
        models[name] = {key: [field.alias, repr(field.default)] for key, field in kind.model_fields.items()}
constants = {name: getattr(types, name) for name in dir(types) if name.isupper()}
print(json.dumps([models, constants]))
"""


def fields_of(kind: type[BaseModel]) -> dict[str, Any]:
    return {key: [field.alias, repr(field.default)] for key, field in kind.model_fields.items()}


def test_every_model_of_the_original_is_there_with_its_fields() -> None:
    done = subprocess.run([original(), "-c", DUMP], capture_output=True, text=True, timeout=60, check=True)
    models, constants = json.loads(done.stdout)
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
