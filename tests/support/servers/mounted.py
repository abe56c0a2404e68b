"""Serves another server, mounted under a namespace, over stdio: tasks, skills, questions, changes, completion.

    mounted.py 2

mounts it twice, one server in the other.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from carrel import Context, Server
from carrel.server.tasks import formats

__all__ = ["build", "make_inner"]

SKILLS = Path(__file__).parents[2] / "golden" / "shelf"


def make_inner() -> Server:
    """Return the server that is mounted."""
    inner = Server("inner")
    inner.skills(SKILLS)
    inner.resources.add("note://1", "note")
    began, cancelled = asyncio.Event(), asyncio.Event()

    @inner.resource("book://{title}")
    async def book(title: str, context: Context) -> str:
        answer = await context.elicit(f"May {title} be read?", bool)
        return f"{title}: {answer.data}"

    @book.complete("title")
    def titles(typed: str) -> list[str]:
        return [title for title in ("lem", "leguin", "dick") if title.startswith(typed)]

    @inner.prompt
    async def greet(name: str, context: Context) -> str:
        answer = await context.elicit("How?", str)
        return f"{answer.data} {name}"

    @greet.complete("name")
    def names(typed: str) -> list[str]:
        return [name for name in ("Ada", "Alan") if name.startswith(typed)]

    @inner.tool(task="optional")
    async def slow(context: Context) -> str:
        context.report_progress(1, 2)
        return "slow"

    @inner.tool
    async def steps(context: Context) -> str:
        for step in range(3):
            context.report_progress(step + 1, 3)
        return "done"

    @inner.tool(task="optional")
    async def curious(context: Context) -> str:
        answer = await context.elicit("Name?", str)
        return f"hello {answer.data}"

    @inner.tool(task="required")
    async def endless() -> str:
        await asyncio.Event().wait()
        return "never"

    @inner.tool
    async def ask_all(context: Context) -> str:
        answer = await context.elicit("Number?", int)
        sampled = await context.sample("Tell me.", max_tokens=10)
        roots = await context.list_roots()
        return f"{answer.data} {sampled.text} {roots[0].uri}"

    @inner.tool
    async def talk(context: Context) -> str:
        context.log("warning", "from inside")
        return "said"

    @inner.tool
    async def wait(context: Context) -> str:
        began.set()
        context.report_progress(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    @inner.tool
    async def was_cancelled() -> bool:
        await began.wait()
        await cancelled.wait()
        return True

    @inner.tool
    async def touch() -> str:
        inner.resources.changed("note://1", "book://lem")
        return "touched"

    @inner.tool
    async def grow() -> str:
        inner.tool("grown")(lambda: "grown")
        inner.prompt("grown")(lambda: "grown")
        inner.resources.add("note://grown", "grown")
        return "grown"

    return inner


def build(depth: int = 1) -> Server:
    """Return the outer server, with ``depth`` namespaces over the inner one: in, then mid."""
    app = make_inner()
    for name, namespace in (("middle", "in"), ("outer", "mid"))[:depth]:
        around = Server(name)
        around.add_provider(app, namespace=namespace)
        app = around
    return app


if __name__ == "__main__":
    formats.POLL_INTERVAL = 50  # a client asks for the state of a task as often
    build(int(sys.argv[1])).run()
