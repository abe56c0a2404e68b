"""Exceptions of the face of ``mcp``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from carrel.compat import mcp

if TYPE_CHECKING:
    from carrel.compat.mcp.types import ElicitRequestURLParams, ErrorData

__all__ = ["McpError", "UrlElicitationRequiredError"]

URL_ELICITATION_REQUIRED = -32042


class McpError(Exception):
    """Error response of the peer, or the one that a handler wants to be sent. ``error`` is its content."""

    error: ErrorData

    def __init__(self, error: ErrorData | None = None, *, code: int = 0, message: str = "", data: Any = None) -> None:
        self.error = error if error is not None else mcp.types.ErrorData(code=code, message=message, data=data)
        super().__init__(self.error.message)


class UrlElicitationRequiredError(McpError):
    """Error response that pages have to be visited first."""

    def __init__(self, elicitations: list[ElicitRequestURLParams], message: str | None = None) -> None:
        self._elicitations = elicitations
        plural = "s" if len(elicitations) > 1 else ""
        data: dict[str, Any] = {
            "elicitations": [each.model_dump(by_alias=True, exclude_none=True) for each in elicitations]
        }
        super().__init__(
            mcp.types.ErrorData(
                code=URL_ELICITATION_REQUIRED, message=message or f"URL elicitation{plural} required", data=data
            )
        )

    @property
    def elicitations(self) -> list[ElicitRequestURLParams]:
        """The pages to visit."""
        return self._elicitations

    @classmethod
    def from_error(cls, error: ErrorData) -> UrlElicitationRequiredError:
        """Return the exception for an error response.

        Raises:
            ValueError: it has another code.
        """
        if error.code != URL_ELICITATION_REQUIRED:
            raise ValueError(f"Expected error code {URL_ELICITATION_REQUIRED}, got {error.code}")
        found = (error.data or {}).get("elicitations", [])
        return cls([mcp.types.ElicitRequestURLParams.model_validate(each) for each in found], error.message)
