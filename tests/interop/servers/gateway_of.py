"""Serves many servers as one: gateway_of.py CONFIG [http], CONFIG being a file with ``mcpServers``. Prints its URL."""

from __future__ import annotations

import asyncio
import sys

from carrel.gateway.gateway import Gateway


async def main() -> None:
    async with Gateway(files=[sys.argv[1]], enter_timeout=120, start_timeout=120) as gateway:
        if sys.argv[2:] == ["http"]:
            await gateway.app.run_async("http", port=0, on_started=lambda url: print(url, flush=True))
        else:
            await gateway.app.run_async()


if __name__ == "__main__":
    asyncio.run(main())
