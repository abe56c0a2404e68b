"""Types of the protocol of 2025-11-25, as pydantic models with the names and aliases of ``mcp.types``.

A model is created from the table when it is first used.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, FileUrl

from carrel.compat.mcp.types import base
from carrel.compat.type_models import Models
from carrel.compat.type_table import ALIASES, MESSAGES, MODELS

_CONSTANTS = {f"TASK_{name.upper()}": name for name in ("forbidden", "optional", "required")} | {
    f"TASK_STATUS_{name.upper()}": name for name in ("working", "input_required", "completed", "failed", "cancelled")
}
_PUBLIC = {name: getattr(base, name) for name in base.__all__}
_INTERNAL = {
    "Model": base.Model,
    "ContentList": base.ContentList,
    "Uri": base.Uri,
    "UnionModel": base.UnionModel,
    "Any": Any,
    "Literal": Literal,
    "StrictInt": Annotated[int, Field(strict=True)],
    "datetime": datetime,
}
_MODELS = Models(
    {"models": MODELS, "messages": MESSAGES, "aliases": ALIASES},
    {**_PUBLIC, **_CONSTANTS, **_INTERNAL, "FileUrl": FileUrl},
    module=__name__,
)

__all__ = sorted({*_MODELS.names} - _INTERNAL.keys())


def __getattr__(name: str) -> Any:
    try:
        value = _MODELS[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
