"""Prints the models of ``mcp.types`` with their fields, and its constants."""

import json

from mcp import types
from pydantic import BaseModel

models = {}
for name in dir(types):
    kind = getattr(types, name)
    if isinstance(kind, type) and issubclass(kind, BaseModel) and "[" not in name and kind.__module__ == "mcp.types":
        models[name] = {key: [field.alias, repr(field.default)] for key, field in kind.model_fields.items()}
constants = {name: getattr(types, name) for name in dir(types) if name.isupper()}
print(json.dumps([models, constants]))
