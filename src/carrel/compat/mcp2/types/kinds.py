"""Methods with cacheable results, and methods whose results may ask the client, without the models of all methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from carrel.compat.mcp2.types.base import InputRequired

__all__ = ["CACHEABLE_METHODS", "INPUT_REQUIRED_METHODS", "CacheableMethod", "is_input_required"]

CacheableMethod = Literal[
    "prompts/list", "resources/list", "resources/read", "resources/templates/list", "server/discover", "tools/list"
]
CACHEABLE_METHODS: frozenset[str] = frozenset(get_args(CacheableMethod))
INPUT_REQUIRED_METHODS = frozenset(("prompts/get", "resources/read", "tools/call"))


def is_input_required(result: object) -> bool:
    """Return whether a result, as a model or as JSON, has questions to the client."""
    if isinstance(result, Mapping):
        return result.get("resultType") == "input_required"
    return isinstance(result, InputRequired)
