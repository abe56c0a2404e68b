"""Running a server over HTTP with uvicorn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from carrel.errors import ConfigError
from carrel.transports.application import Application
from carrel.transports.http import StreamableHTTP

__all__ = ["serve"]

#: Seconds that open connections get to finish when the process is told to stop.
GRACE = 5


def serve(
    app: Application,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    path: str = "/mcp",
    allowed_hosts: tuple[str, ...] | list[str] = (),
    on_started: Callable[[str], None] | None = None,
    **options: Any,
) -> None:
    """Serve ``app`` on ``host`` and ``port`` until the process is told to stop.

    ``on_started`` is called with the URL of the endpoint once it can be reached; port 0 takes a free one. All other
    options are those of ``StreamableHTTP``.

    Raises:
        ConfigError: uvicorn is not installed, or the port is taken.
    """
    try:
        import uvicorn
    except ImportError:
        raise ConfigError("HTTP needs uvicorn: pip install 'carrel[http]'") from None

    hosts = [*allowed_hosts, *([] if host in ("0.0.0.0", "::", "") else [f"[{host}]" if ":" in host else host])]  # noqa: S104
    endpoint = StreamableHTTP(app, path=path, allowed_hosts=hosts, **options)

    class Server(uvicorn.Server):
        """uvicorn waits for open streams before it stops; so they have to end first."""

        async def shutdown(self, sockets: list[Any] | None = None) -> None:
            endpoint.end_streams()
            await super().shutdown(sockets)

        async def startup(self, sockets: list[Any] | None = None) -> None:
            await super().startup(sockets)
            if self.started and on_started is not None:
                bound = self.servers[0].sockets[0].getsockname()[1]
                shown = f"[{host}]" if ":" in host else host
                on_started(f"http://{shown}:{bound}{'/' + path.strip('/')}")

    config = uvicorn.Config(
        endpoint,
        host=host,
        port=port,
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=GRACE,
        ws="none",
    )
    server = Server(config)
    try:
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(server.serve())
    except KeyboardInterrupt:
        pass
    except SystemExit:
        raise ConfigError(f"cannot serve on {host} port {port}: see above; is the port taken?") from None
