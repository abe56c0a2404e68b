"""Base class of resources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from carrel.compat.mcp.types.base import Annotations, Icon, Uri

__all__ = ["Resource"]

MIME_TYPE = r"^[a-zA-Z0-9]+/[a-zA-Z0-9\-+.]+(;\s*[a-zA-Z0-9\-_.]+=[a-zA-Z0-9\-_.]+)*$"


class Resource(BaseModel, ABC):
    """Resource with a URI. Without a name, that is its name."""

    model_config = ConfigDict(defer_build=True, validate_default=True)

    uri: Uri
    name: str | None = None
    title: str | None = None
    description: str | None = None
    mime_type: str = Field(default="text/plain", pattern=MIME_TYPE)
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _set_name(self) -> Resource:
        self.name = self.name or str(self.uri)
        return self

    @abstractmethod
    async def read(self) -> str | bytes:
        """Return the contents."""
