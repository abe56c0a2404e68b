"""Types of parameters that forms show in a special way."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

__all__ = ["Textarea"]

Textarea = Annotated[str, Field(json_schema_extra={"format": "textarea"})]
