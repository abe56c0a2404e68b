"""Base of resources."""

from __future__ import annotations

import abc
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from carrel.compat.mcp2 import types

__all__ = ["Resource"]

#: For pydantic, which reads annotations at run time.
Icon: Any = types.Icon
Annotations: Any = types.Annotations


class Resource(BaseModel, abc.ABC):
    """Resource of a server. Its default name is the URI."""

    model_config = ConfigDict(defer_build=True, validate_default=True, extra="forbid")

    uri: str
    name: str | None = None
    title: str | None = None
    description: str | None = None
    mime_type: str = "text/plain"
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None

    @field_validator("name", mode="before")
    @classmethod
    def _named(cls, name: str | None, info: ValidationInfo) -> str:
        if name:
            return name
        if not info.data.get("uri"):
            raise ValueError("Either name or uri must be provided")
        return str(info.data["uri"])

    @abc.abstractmethod
    async def read(self) -> str | bytes:
        """Return the contents."""
