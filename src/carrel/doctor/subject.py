"""Server under examination: a connected client whose messages are recorded, raw requests, and the report."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.client.client import Client
from carrel.doctor.recorder import ProbeResponse, RecordedMessages, RecordingTransport
from carrel.doctor.report import Report
from carrel.errors import MCPError
from carrel.protocol.client import OutgoingMessage
from carrel.protocol.encoding import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from carrel.client.endpoints import ClientEndpoint

__all__ = ["Subject", "record_messages"]

SLOW = 5.0
PREFIX = "io.modelcontextprotocol/"


def record_messages(client: Client, recording: RecordedMessages) -> None:
    """Have a client that is not connected yet record its messages."""
    endpoint: ClientEndpoint = client.session.endpoint

    def around(open: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: RecordingTransport(open(), recording)

    older = endpoint.open_older
    client.session.endpoint = msgspec.structs.replace(
        endpoint, open=around(endpoint.open), open_older=None if older is None else around(older), remembered=False
    )


class Subject:
    """Server under examination. ``call``: tools may be called that do not only read."""

    def __init__(
        self, client: Client, recording: RecordedMessages, report: Report, *, call: bool, timeout: float
    ) -> None:
        self.client = client
        self.recording = recording
        self.report = report
        self.call = call
        self.timeout = timeout
        self.revision = client.revision
        self.stateless = client.session.stateless
        self.lists: dict[str, list[dict[str, Any]]] = {}
        """Items of each list, by its key in the result."""
        self._numbers = count(1)

    def find(self, rule: str, location: str) -> None:
        """Add a finding."""
        self.report.find(rule, location)

    def offers(self, capability: str) -> bool:
        """Return whether the server has declared a capability."""
        return getattr(self.client.capabilities, capability) is not None

    async def ask(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        name: str | None = None,
        id: str | int | None = None,
        data: bytes | None = None,
        timeout: float | None = None,
    ) -> ProbeResponse:
        """Send a request, or ``data`` as it is, and return the response. A lost connection is opened again before."""
        number = f"doctor-{next(self._numbers)}" if id is None else id
        try:
            connection = await self.client.session.connect()
        except MCPError as error:
            return ProbeResponse(failure=str(error).partition("\n")[0])
        if data is None:
            data = encode({"jsonrpc": "2.0", "id": number, "method": method, "params": self.with_meta(params)})
        recorder: Any = connection.transport
        message = OutgoingMessage(data, method, number, name, self.client.session.revision)
        limit = self.timeout if timeout is None else timeout
        response: ProbeResponse = await recorder.ask(message, number, limit)
        if response.seconds > SLOW and response.failure is None:
            self.find("slow", f"{method} took {response.seconds:.1f} s")
        return response

    def with_meta(self, params: dict[str, Any] | None) -> dict[str, Any]:
        """Return parameters with the ``_meta`` that requests of a stateless revision carry."""
        if not self.stateless:
            return params or {}
        meta = {
            f"{PREFIX}protocolVersion": self.revision,
            f"{PREFIX}clientInfo": {"name": "carrel-doctor", "version": "1"},
            f"{PREFIX}clientCapabilities": {},
        }
        return {**(params or {}), "_meta": meta}

    async def alive(self) -> bool:
        """Return whether the server answers a ping."""
        try:
            async with asyncio.timeout(self.timeout):
                await self.client.ping()
        except (MCPError, TimeoutError):
            return False
        return True
