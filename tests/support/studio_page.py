"""A studio on its real listeners, and a client of its API that does what the page does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from carrel import Server, sources
from carrel.host.config import ServerConfig
from carrel.studio import Studio, serve

PATIENCE = 60.0


def folder_server(path: Path, name: str) -> ServerConfig:
    """Return a server in this process for a folder, as the command makes it."""
    app = Server(name)
    app.add_provider(sources.open(str(path), None))
    return app_server(app)


def app_server(app: Server[Any]) -> ServerConfig:
    """Return the configuration of a server in this process."""
    return ServerConfig(name=app.name, app=app, transport="memory")


class Page:
    """Client of the API. ``events`` has the events of the stream so far, once ``listen`` was called."""

    def __init__(self, studio: Studio, link: str, session: aiohttp.ClientSession) -> None:
        self.studio = studio
        self.link = link
        self.origin, _, self.token = link.partition("/#token=")
        self.session = session
        self.events: list[dict[str, Any]] = []
        self._news = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self._stream: aiohttp.ClientResponse | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Headers of requests of the page."""
        return {"Authorization": f"Bearer {self.token}"}

    async def ask(self, method: str, path: str, body: Any = None, **params: Any) -> tuple[int, Any]:
        """Return the status and the JSON of a response; the result of the operation for status 202."""
        query = [
            (name, each) for name, value in params.items() for each in (value if isinstance(value, list) else [value])
        ]
        async with self.session.request(
            method, f"{self.origin}/api{path}", headers=self.headers, json=body, params=[(k, str(v)) for k, v in query]
        ) as response:
            text = await response.text()
            status, value = response.status, json.loads(text) if text else None
        if status == 202 and set(value) == {"operation"}:
            return await self.outcome(value["operation"])
        return status, value

    async def outcome(self, id: str) -> tuple[int, Any]:
        """Return the result of an operation, once it has ended."""
        async with asyncio.timeout(PATIENCE):
            while True:
                _, view = await self.ask("GET", f"/operations/{id}")
                if view["state"] != "running":
                    error = view["error"]
                    return (200, view["result"]) if error is None else (error["status"], error)
                await asyncio.sleep(0.05)

    async def get(self, path: str, **params: Any) -> Any:
        """Return the JSON of a successful response."""
        status, value = await self.ask("GET", path, **params)
        assert status == 200, (status, value)
        return value

    async def post(self, path: str, body: Any) -> Any:
        """Return the JSON of a successful response."""
        status, value = await self.ask("POST", path, body)
        assert status in (200, 201, 202, 204), (status, value)
        return value

    async def post_and_wait(self, path: str, body: Any) -> Any:
        """Return the result of a request that may take time."""
        status, value = await self.ask("POST", path, body)
        assert status == 200, (status, value)
        return value

    async def ready(self, *names: str) -> dict[str, Any]:
        """Return the servers by name, once some of them are ready."""
        async with asyncio.timeout(PATIENCE):
            while True:
                servers = {server["name"]: server for server in (await self.get("/state"))["servers"]}
                if all(servers[name]["state"] == "ready" for name in names):
                    return servers
                await asyncio.sleep(0.02)

    async def listen(self, since: int | None = None) -> None:
        """Follow the stream of events."""
        params: Mapping[str, str] = {} if since is None else {"since": str(since)}
        response = await self.session.get(f"{self.origin}/api/events", headers=self.headers, params=params)
        self._stream = response
        assert response.status == 200
        assert await response.content.readline() == b": ready\n"

        async def follow() -> None:
            async for line in response.content:
                if line.startswith(b"data: "):
                    self.events.append(json.loads(line[6:]))
                    self._news.set()

        self._listening = asyncio.ensure_future(follow())

    async def event(self, matches: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first event that matches, once it has arrived."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for event in self.events:
                    if matches(event):
                        return event
                self._news.clear()
                await self._news.wait()

    async def close(self) -> None:
        """End the stream of events."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        if self._stream is not None:
            self._stream.close()


@asynccontextmanager
async def opened(*configs: ServerConfig, **options: Any) -> AsyncIterator[Page]:
    """Serve a studio, and give a client of it."""
    link: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with Studio(configs, **options) as studio:
        serving = asyncio.ensure_future(serve(studio, 0, link.set_result))
        await asyncio.wait([serving, link], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        async with aiohttp.ClientSession() as session:
            page = Page(studio, link.result(), session)
            try:
                yield page
            finally:
                await page.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
