"""A server that shares a folder with a part that takes a scope, and every way to ask it for something."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from carrel import Context, Server
from carrel.protocol.channel import ConnectedClient
from carrel.protocol.principal import AuthenticatedCaller, HTTPErrorResponse, Principal
from carrel.protocol.server import Call, ErrorResponse
from carrel.security.server.bearer import BearerAuthorization
from carrel.sources.files.source import FilesSource

__all__ = ["PROTECTED", "TREASURE", "VERBS", "Guarded", "build", "fill", "guarded", "guarded_app", "rules"]

TREASURE = "TREASURE"
#: Files below the folder that takes a scope, and other names by which links lead to it.
PROTECTED = (
    "priv/secret.txt",
    "priv/deep/secret-inner.txt",
    "priv/secret-\u00e9t\u00e9 a#b.txt",
    "door/secret.txt",
    "open/hop/deep/secret-inner.txt",
    "note.txt",
    "priv/deep",
    "door",
    "open/hop",
    "priv",
)
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def fill(root: Path) -> None:
    """Make the folder: ``priv`` is what takes a scope, links lead there, and the rest is open."""
    (root / "priv" / "deep").mkdir(parents=True)
    (root / "open").mkdir()
    (root / "open" / "readme.txt").write_text("welcome")
    (root / "private.txt").write_text("not below priv")
    for name in PROTECTED[:3]:
        (root / name).write_text(TREASURE)
    (root / "door").symlink_to("priv")
    (root / "note.txt").symlink_to(root / "priv" / "secret.txt")
    (root / "open" / "hop").symlink_to("../door")


def rules(root: Path) -> dict[str, str]:
    """Return the rules: one for the folder, one that has nothing to do with it."""
    return {f"{root.as_uri()}/priv/*": "vault", "other://*": "other"}


def build(root: Path, page_size: int = 100) -> Server:
    """Return a server that shares the folder as resources and tools, and reads it in a handler too."""
    app = Server("guarded", page_size=page_size)
    app.add_provider(FilesSource(root))
    app.skills()
    app.resources.add(f"{root.as_uri()}/priv/secret-fixed", TREASURE)
    app.add_resource_tools()

    @app.tool()
    async def open_it(uri: str, context: Context) -> str:
        return str((await context.read_resource(uri)).contents)

    return app


class Recorder:
    """A channel that keeps what is sent on it."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, message: bytes, key: Any = None) -> None:
        self.sent.append(json.loads(message))

    async def drain(self) -> None:
        pass

    def pause(self, retry: int | None) -> None:
        pass


class Guarded:
    """A server that runs, with the gate in front of it that transports have."""

    def __init__(self, app: Server, guard: BearerAuthorization, root: Path, runner: asyncio.Runner) -> None:
        self.app = app
        self.guard = guard
        self.root = root
        self.runner = runner

    def principal(self, *scopes: str) -> Principal:
        """Return a caller with these scopes."""
        held = frozenset(scopes)
        return Principal(subject="test", scopes=held, view=self.guard.scopes.view(held))

    def ask(self, who: Principal, method: str, **params: Any) -> Any:
        """Return what a request leads to: an HTTPErrorResponse, or the message of the reply."""
        return self.runner.run(self._ask(who, method, params))

    def start(self, who: Principal, method: str, **params: Any) -> tuple[Any, Recorder]:
        """Return what a stateless request that may come in waits for, and the channel that it has."""
        channel = Recorder()
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
        call = self.app.endpoint.connect().receive(msgspec.json.encode(body))
        assert isinstance(call, Call)
        assert self.guard.permit(AuthenticatedCaller(who), call) is None
        call.principal, call.client = who, ConnectedClient()
        return self.app.endpoint.answer(call, channel), channel

    async def _ask(self, who: Principal, method: str, params: dict[str, Any]) -> Any:
        connection, client, channel = self.app.endpoint.connect(), ConnectedClient(), Recorder()
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        if method in ("resources/subscribe", "resources/unsubscribe"):
            opening = connection.receive(msgspec.json.encode({**body, "method": "initialize", "params": HELLO}))
            assert isinstance(opening, Call)
            opening.client, client.channel = client, channel
            self.app.endpoint.answer(opening, channel)
        else:
            body["params"] = {**params, "_meta": META}
        call = connection.receive(msgspec.json.encode(body))
        if isinstance(call, ErrorResponse):
            return json.loads(call.reply)
        assert isinstance(call, Call)
        lack = self.guard.permit(AuthenticatedCaller(who), call)
        if lack is not None:
            return lack
        call.principal, call.client = who, client
        answer = self.app.endpoint.answer(call, channel)
        if method == "subscriptions/listen" and not isinstance(answer, ErrorResponse):
            return await first_message(answer, channel)
        if hasattr(answer, "__await__"):
            answer = await answer
        self.app.endpoint.disconnect(connection, client)
        return json.loads(answer.reply if isinstance(answer, ErrorResponse) else answer)

    def listens_as_if_absent(self, who: Principal, verb: str, uri: str) -> bool:
        """Return whether the answer to a subscription is the answer for an absent name."""
        replies = []
        for name in (uri, f"{self.root.as_uri()}/none.txt"):
            if verb == "listen":
                reply = self.ask(who, "subscriptions/listen", notifications={"resourceSubscriptions": [name]})
            else:
                reply = self.ask(who, verb, uri=name)
            replies.append(json.dumps(reply).replace(json.dumps(name), "NAME"))
        return replies[0] == replies[1]

    def denies(self, who: Principal, verb: str, uri: str, path: str) -> bool:
        """Say whether a verb gives a caller nothing of a resource, which its URI names, or a path in the folder."""
        if verb == "complete":
            reference = {"type": "ref/resource", "uri": f"{self.root.as_uri()}/{{+path}}"}
            reply = self.ask(who, "completion/complete", ref=reference, argument={"name": "path", "value": path})
        elif verb == "listen":
            reply = self.ask(who, "subscriptions/listen", notifications={"resourceSubscriptions": [uri]})
        elif verb in TOOLS:
            reply = self.ask(who, "tools/call", name=verb, arguments={TOOLS[verb]: uri})
        else:
            reply = self.ask(who, verb, uri=uri)
        if isinstance(reply, HTTPErrorResponse) or "error" in reply or reply.get("result", {}).get("isError"):
            return True
        if verb == "listen":
            return reply["params"]["notifications"]["resourceSubscriptions"] == []
        if verb == "complete":
            return not any("secret" in value for value in reply["result"]["completion"]["values"])
        text = json.dumps(reply)
        return TREASURE not in text and "secret" not in text.replace(json.dumps(uri), "") and "subscribe" not in verb


TOOLS = {"list_resources": "directory", "read_resource": "uri", "open_it": "uri"}
VERBS = (
    *("resources/read", "resources/subscribe", "resources/unsubscribe", "listen", "resources/directory/read"),
    *("complete", *TOOLS),
)


async def first_message(answer: Any, channel: Recorder) -> Any:
    """Return the acknowledgement of a listener, or the error instead of it, and end the listener."""
    work = asyncio.ensure_future(answer)
    while not channel.sent and not work.done():
        await asyncio.sleep(0)
    if not channel.sent:
        return json.loads((await work).reply)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    return channel.sent[0]


@contextmanager
def guarded_app(app: Server, given: Mapping[str, str], root: Path = Path()) -> Iterator[Guarded]:
    """Run a server under some rules; ``root`` is the folder that it shares, if it shares one."""
    with asyncio.Runner() as runner:
        runner.run(app.endpoint.start())
        try:
            yield Guarded(app, BearerAuthorization(scopes=given), root, runner)
        finally:
            runner.run(app.endpoint.stop())


@contextmanager
def guarded(root: Path) -> Iterator[Guarded]:
    """Run the server that shares ``root`` under its rules."""
    with guarded_app(build(root), rules(root), root) as running:
        yield running
