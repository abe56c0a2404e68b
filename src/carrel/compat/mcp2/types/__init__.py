"""Types of the protocol of all revisions, as pydantic models with the names of ``mcp_types``.

A model is created from the tables when it is first used.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, FileUrl, TypeAdapter

from carrel.compat import type_table as rows
from carrel.compat.mcp2.types import base, jsonrpc
from carrel.compat.mcp2.types.table import ALIASES, MESSAGES, MODELS, REMOVED
from carrel.compat.mcp2.types.version import LATEST_PROTOCOL_VERSION
from carrel.compat.type_models import Models

_PUBLIC = {module_name: getattr(base, module_name) for module_name in base.__all__} | {
    name: getattr(jsonrpc, name) for name in jsonrpc.__all__
}
_INTERNAL = {
    "Model": base.MCPModel,
    "OpenModel": base.OpenModel,
    "ContentList": base.ContentList,
    "InputRequired": base.InputRequired,
    "Uri": str,
    "Annotated": Annotated,
    "Any": Any,
    "Field": Field,
    "FileUrl": FileUrl,
    "Literal": Literal,
    "TypeAdapter": TypeAdapter,
}
_MODELS = Models(
    {
        "models": rows.MODELS + MODELS.lstrip(),
        "messages": rows.MESSAGES + MESSAGES.lstrip(),
        "aliases": rows.ALIASES + ALIASES.lstrip(),
    },
    {**_PUBLIC, **_INTERNAL, "LATEST_PROTOCOL_VERSION": LATEST_PROTOCOL_VERSION},
    module=__name__,
    snake_case=True,
)

__all__ = sorted({*_MODELS.names} - _INTERNAL.keys() - REMOVED)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _MODELS[name]
    return value


def __dir__() -> list[str]:
    return __all__
