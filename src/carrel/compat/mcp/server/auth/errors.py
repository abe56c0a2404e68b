"""Text of validation errors."""

from __future__ import annotations

from pydantic import ValidationError

__all__ = ["stringify_pydantic_error"]


def stringify_pydantic_error(validation_error: ValidationError) -> str:
    """Return one line per error: the field and the reason."""
    return "\n".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in validation_error.errors())
