"""The private parts of uvicorn that Carrel uses. No other module imports them.

Carrel subclasses uvicorn's httptools protocol for limits (``http_protocol``) and writes small responses past ASGI
(``direct``). ``PROTOCOL_ATTRIBUTES`` and ``CYCLE_ATTRIBUTES`` list the attributes that they use; a test checks that
they exist in the installed version. ``pyproject.toml`` has the upper bound of the version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["CYCLE_ATTRIBUTES", "HIGH_WATER_LIMIT", "PROTOCOL_ATTRIBUTES", "HttpToolsProtocol", "cycle_of"]

#: The module of the protocol, which ``cycle_of`` compares without importing it.
PROTOCOL = "uvicorn.protocols.http.httptools_impl"

#: Attributes of ``HttpToolsProtocol`` that Carrel uses, besides the callbacks of asyncio and httptools.
PROTOCOL_ATTRIBUTES = frozenset({
    *("client", "cycle", "flow", "headers", "loop", "on_response_complete", "parser", "pipeline"),
    *("scope", "server_state", "shutdown", "transport", "url"),
})  # fmt: skip

#: Attributes of ``RequestResponseCycle``, the request and response of one exchange, that Carrel uses.
CYCLE_ATTRIBUTES = frozenset({
    *("access_log", "body", "chunked_encoding", "default_headers", "disconnected", "flow", "keep_alive"),
    *("message_event", "more_body", "on_response", "response_complete", "response_started", "scope", "transport"),
    "waiting_for_100_continue",
})  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import the protocol on first use: ``direct`` is also used with other ASGI servers, without uvicorn."""
    if name == "HIGH_WATER_LIMIT":
        from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

        return HIGH_WATER_LIMIT
    if name == "HttpToolsProtocol":
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

        return HttpToolsProtocol
    raise AttributeError(name)


def cycle_of(function: Any) -> Any:
    """Return the ``RequestResponseCycle`` whose method ``function`` is, an ASGI ``send`` or ``receive``, or None.

    If there is middleware around it, or the ASGI server is another one, the result is None.
    """
    cycle = getattr(function, "__self__", None)
    return cycle if type(cycle).__module__ == PROTOCOL else None
