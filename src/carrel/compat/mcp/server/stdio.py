"""Transport of a server over standard input and output."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from carrel.compat.streams import ServerStream
from carrel.transports.server.application import HasEndpoint
from carrel.transports.server.stdio import run_async, serve

__all__ = ["stdio_server"]


@asynccontextmanager
async def stdio_server(stdin: Any = None, stdout: Any = None) -> AsyncIterator[tuple[ServerStream, ServerStream]]:
    """Yield the streams of a server on standard input and output, or on two files that have descriptors."""

    async def run(app: HasEndpoint) -> None:
        if stdin is None and stdout is None:
            await run_async(app)
        else:
            await serve(app, stdin.fileno(), stdout.fileno())

    stream = ServerStream(run)
    yield stream, stream
