"""Rounds of a request whose result asks for input (stateless revisions): the callbacks of a session answer."""

from __future__ import annotations

from typing import Any

from carrel.client.answers import ClientHandlers
from carrel.client.handlers import Origin
from carrel.client.input_required import next_round
from carrel.compat.mcp.client.callbacks import Callbacks
from carrel.protocol.client import IncomingRequest
from carrel.wire.client_features import InputRequiredResult

__all__ = ["next_params"]


class Answers(ClientHandlers):
    """Handlers that pass input requests on to the callbacks of a session."""

    def __init__(self, callbacks: Callbacks) -> None:
        super().__init__()
        self._callbacks = callbacks

    async def answer(self, operation: str, params: Any, origin: Origin) -> Any:
        """Return the response of a callback."""
        return await self._callbacks.answer(IncomingRequest(origin.key or "", operation, params))


async def next_params(params: Any, result: InputRequiredResult, callbacks: Callbacks) -> Any:
    """Return the parameters of the next round.

    Raises:
        ProtocolError: an input request cannot be answered.
    """
    return await next_round(params, result, Answers(callbacks), Origin(""))
