"""Context of a request from its transport."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["TransportContext"]


@dataclass(kw_only=True, frozen=True)
class TransportContext:
    """Kind of a transport, whether requests can be sent to the client, and the headers of an HTTP request."""

    kind: str
    can_send_request: bool
    headers: Mapping[str, str] | None = None
