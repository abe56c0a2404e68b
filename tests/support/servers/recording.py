"""Serves a resource, a tool and a prompt over stdio, and a log of what middleware, gate and handlers have seen."""

from __future__ import annotations

from typing import Any

from carrel import Context, Server
from carrel.catalog.access import View
from carrel.protocol.methods import Verb
from carrel.protocol.principal import Principal

__all__ = ["build"]


def name_of(principal: Principal | None) -> str | None:
    return None if principal is None else principal.subject


class Everything(View):
    """View that records what it is asked for, and allows it unless it is closed."""

    key = "everything"

    def __init__(self, log: list[Any]) -> None:
        self._log = log

    def allows(self, verb: Verb, target: str) -> bool:
        self._log.append(["view", verb, target])
        return "closed" not in target


class Gate:
    """Gate that records whose calls it sees."""

    def __init__(self, log: list[Any]) -> None:
        self._log = log

    def view(self, principal: Principal | None) -> View:
        self._log.append(["gate", name_of(principal)])
        return Everything(self._log)


def build() -> Server:
    """Return the server. The tool ``log`` returns what has been recorded so far, and begins again."""
    log: list[Any] = []
    app = Server("recording", gate=Gate(log))

    @app.middleware
    async def record(call: Any, next: Any) -> Any:
        log.append(["middleware", call.method, name_of(call.principal)])
        return await next(call)

    @app.resource("note://open")
    async def note(context: Context) -> str:
        log.append(["handler", name_of(context.principal)])
        return "open"

    app.resources.add("note://closed", "closed")

    @app.tool
    async def add(a: int, b: int, context: Context) -> int:
        log.append(["handler", name_of(context.principal)])
        return a + b

    @app.prompt
    async def greet(context: Context) -> str:
        log.append(["handler", name_of(context.principal)])
        return "Hello"

    @app.tool(name="log")
    async def take_log() -> dict[str, list[Any]]:
        taken = list(log)
        log.clear()
        return {"log": taken}

    return app


if __name__ == "__main__":
    build().run()
