"""JSON responses with models as their bodies."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

__all__ = ["PydanticJSONResponse"]


class PydanticJSONResponse(JSONResponse):
    """JSON response whose content is a model. Members that are None are left out."""

    def render(self, content: Any) -> bytes:
        """Return the model as JSON."""
        data: str = content.model_dump_json(exclude_none=True)
        return data.encode()
