"""ForwardingProvider: base class of providers that pass each request on, through one method.

class Logged(ForwardingProvider):
    def forward(self, row, request, *arguments):
        log.info("%s %s", row.method, arguments)
        return super().forward(row, request, *arguments)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from carrel.awaitables import MaybeAwaitable
from carrel.catalog.provider import Provider, Request
from carrel.protocol.extensions.skills import GET_SKILL, LIST_SKILLS, READ_DIRECTORY
from carrel.protocol.methods import PROVIDER_REQUESTS, OutgoingRequest

__all__ = ["FORWARDED", "ForwardingProvider"]

P = TypeVar("P", bound=type[Provider])

#: Requests that providers handle, by the method of ``Provider``.
FORWARDED = {row.provider_method: row for row in (*PROVIDER_REQUESTS, READ_DIRECTORY, LIST_SKILLS, GET_SKILL)}


def forwarding(cls: P) -> P:
    """Add the methods of ``FORWARDED`` to a class, each with a call of ``forward``."""
    for row in FORWARDED.values():
        setattr(cls, row.provider_method, _method(row))
    return cls


def _method(row: OutgoingRequest[Any, Any]) -> Callable[..., Any]:
    def method(self: ForwardingProvider, *arguments: Any) -> Any:
        return self.forward(row, arguments[-1], *arguments[:-1])

    method.__name__ = row.provider_method
    method.__qualname__ = f"ForwardingProvider.{row.provider_method}"
    method.__doc__ = getattr(Provider, row.provider_method).__doc__
    return method


@forwarding
class ForwardingProvider(Provider):
    """Provider that passes each request on to another provider.

    Every method that handles a request of the protocol calls ``forward``: override it to change all requests or
    results at once. A subclass that passes requests on elsewhere overrides it without calling the inherited method.
    """

    provider: Provider
    """Provider that handles the requests."""

    def forward(self, row: OutgoingRequest[Any, Any], request: Request, *arguments: Any) -> MaybeAwaitable[Any]:
        """Pass a request on, and return its result.

        ``row`` is the row of the request in the method table; ``arguments`` are the arguments of the method of
        ``Provider`` that it names, except ``request``: the URI or the name first, if there is one.
        """
        result: MaybeAwaitable[Any] = getattr(self.provider, row.provider_method)(*arguments, request)
        return result
