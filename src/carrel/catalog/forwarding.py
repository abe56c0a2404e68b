"""ForwardingProvider: base class of providers that pass each request on, through one method.

class Logged(ForwardingProvider):
    def forward(self, row, request, *arguments):
        log.info("%s %s", row.method, arguments)
        return super().forward(row, request, *arguments)
"""

from __future__ import annotations

from typing import Any

from carrel.awaitables import MaybeAwaitable
from carrel.catalog.provider import Provider, Request, forwarding
from carrel.protocol.extensions.skills import GET_SKILL, LIST_SKILLS, READ_DIRECTORY
from carrel.protocol.methods import PROVIDER_REQUESTS, RequestType

__all__ = ["FORWARDED", "ForwardingProvider"]

#: Requests that providers handle, by the method of ``Provider``.
FORWARDED = {row.provider_method: row for row in (*PROVIDER_REQUESTS, READ_DIRECTORY, LIST_SKILLS, GET_SKILL)}


@forwarding(*FORWARDED.values())
class ForwardingProvider(Provider):
    """Provider that passes each request on to another provider.

    Every method that handles a request of the protocol calls ``forward``: override it to change all requests or
    results at once. A subclass that passes requests on elsewhere overrides it without calling the inherited method.
    """

    provider: Provider
    """Provider that handles the requests."""

    def forward(self, row: RequestType, request: Request, *arguments: Any) -> MaybeAwaitable[Any]:
        """Pass a request on, and return its result.

        ``row`` is the row of the request in the method table; ``arguments`` are the arguments of the method of
        ``Provider`` that it names, except ``request``: the URI or the name first, if there is one.
        """
        result: MaybeAwaitable[Any] = getattr(self.provider, row.provider_method)(*arguments, request)
        return result
