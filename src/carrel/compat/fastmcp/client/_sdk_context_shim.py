"""Type of contexts of handlers, where the installed package's handlers of sampling requests import it."""

from typing import Any, Generic, TypeVar

__all__ = ["LifespanContextT", "RequestContext"]

SessionT = TypeVar("SessionT")
LifespanContextT = TypeVar("LifespanContextT")


class RequestContext(Generic[SessionT, LifespanContextT]):
    """Context of a request of the server, for annotations."""

    session: SessionT
    lifespan_context: LifespanContextT
    request_id: Any
