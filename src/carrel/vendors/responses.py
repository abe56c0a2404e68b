"""Tool calls in the responses of vendors, as objects of their SDKs or as dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["ModelCall", "decoded_arguments", "member"]


class ModelCall(msgspec.Struct, frozen=True):
    """Tool call as the model wrote it: the arguments are an object, or the raw text if it is not one."""

    id: str
    name: str
    arguments: Any


def member(value: Any, *names: str) -> Any:
    """Return the first of the named members of a dictionary, or attributes of an object, that is not None."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def decoded_arguments(value: Any) -> Any:
    """Parse arguments that a model wrote as JSON text; return the text itself if it is not JSON. Empty text means no
    arguments.
    """
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value) if value.strip() else {}
    except (msgspec.DecodeError, RecursionError):
        return value
