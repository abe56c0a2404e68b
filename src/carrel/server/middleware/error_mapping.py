"""ErrorMapping: middleware that turns exceptions of handlers into errors that clients understand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from carrel.errors import ResourceError
from carrel.server.middleware.middleware import Middleware, Next
from carrel.wire.resources import ReadResourceParams

if TYPE_CHECKING:
    from carrel.protocol.server import Call
    from carrel.wire.base import Result

__all__ = ["ErrorMapping"]

Make: TypeAlias = Callable[[Any], BaseException]


class ErrorMapping(Middleware):
    """Middleware that converts exceptions by their type.

    ``errors`` maps a type, or a base class, to a function of the exception, or to an exception class, which gets the
    message. For reads, the URI of a ``ResourceError`` is replaced by the requested URI. ``report`` is called with the
    call and every exception, for example to send it to an error tracker. Exceptions of tools are results for the model
    already; ``report`` and the mapping do not see them.
    """

    def __init__(
        self,
        errors: Mapping[type[Exception], Make] | None = None,
        *,
        report: Callable[[Call, Exception], object] | None = None,
    ) -> None:
        self._errors = dict(errors or {})
        self._report = report

    async def on_request(self, call: Call, next: Next) -> Result:
        """Map the exception of a request."""
        try:
            return await next(call)
        except Exception as error:
            if self._report is not None:
                self._report(call, error)
            make = make_for(self._errors, type(error))
            if make is None:
                raise
            mapped = make(str(error) if isinstance(make, type) else error)
            if isinstance(mapped, ResourceError) and isinstance(call.params, ReadResourceParams):
                mapped.uri = call.params.uri  # clients know this URI, and must not learn the path of a file
            raise mapped from error


def make_for(errors: Mapping[type[Exception], Make], kind: type[BaseException]) -> Make | None:
    """Return the value for a type, or for the nearest of its base classes."""
    return next((errors[base] for base in kind.__mro__ if base in errors), None)
