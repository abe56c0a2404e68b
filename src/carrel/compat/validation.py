"""Validation of the arguments and results of tools against JSON Schema, with the messages of ``jsonschema``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Validators"]


class Validators:
    """Compiled schemas. ``error_of`` returns the message for a value that does not fit."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[dict[str, Any], Callable[[Any], bool] | None]] = {}

    def error_of(self, value: Any, schema: dict[str, Any]) -> str | None:
        """Return why ``value`` does not fit ``schema``; None if it fits."""
        known = self._known.get(id(schema))
        if known is None or known[0] is not schema:
            if len(self._known) > 1000:
                self._known.clear()
            known = self._known[id(schema)] = schema, _compiled(schema)
        fits = known[1]
        if fits is not None and fits(value):
            return None
        return _error_message(value, schema)


def _compiled(schema: dict[str, Any]) -> Callable[[Any], bool] | None:
    import jsonschema_rs  # loaded by the first call of a tool, not by the start of a server

    try:
        return jsonschema_rs.validator_for(schema).is_valid
    except (ValueError, jsonschema_rs.ReferencingError):
        return None


def _error_message(value: Any, schema: dict[str, Any]) -> str | None:
    """Return the message of ``jsonschema`` where it is installed, as programs and models have come to know it."""
    try:
        import jsonschema  # type: ignore[import-untyped]
    except ImportError:
        import jsonschema_rs

        try:
            jsonschema_rs.validate(schema, value)
        except ValueError as error:
            return str(getattr(error, "message", error))
        return None
    try:
        jsonschema.validate(instance=value, schema=schema)
    except jsonschema.ValidationError as error:
        return str(error.message)
    return None
