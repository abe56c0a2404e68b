"""Plays golden conversations with a client: what the server says is given, what the client sends is compared.

A conversation is a file of JSON lines, ``client/REVISION/name.jsonl``. It is played on stdio and over HTTP.

    # the first line says what the conversation pins; more comments may follow anywhere
    {"only": "stdio"}                       this conversation is for one transport ("http" or "stdio")
    {"options": {…}}                        options of the client; see ``handlers`` for those that answer questions
    {"capabilities": {…}}                   what the client declares (no more than the extensions it always has)
    {"do": "call_tool", "with": ["t", {}]}  the application does something; what comes of it is awaited further on
    {"do": "watch", "with": ["a:b"]}        … such as listening ("unwatch" ends it), or giving up on it ("cancel")
    {"client": {…}}                         the client sends this message, and it is exactly this one
    {"client": {…}, "bare": true}           … without the `_meta` that requests of 2026-07-28 have
    {"client": {…}, "headers": {…}}         … over HTTP with these headers, among others; null: without this one
    {"server": {…}}                         the server sends this message
    {"server": {…}, "status": 400}          … over HTTP as JSON with this status; otherwise, answers are streams
    {"raw": "{"}                            the server sends this text (stdio only)
    {"status": 405}                         over HTTP the answer has this status, and is empty
    {"hangup": 2}                           the client gives up on request 2: on stdio, and in sessions, with a
                                            notification; over HTTP in 2026-07-28 by closing the stream
    {"gone": true}                          the server's program ends (stdio only)
    {"result": …}                           what the application did comes to this, as it would stand on the wire
    {"raises": "PeerError", "words": "…"}   … or fails like this, with these words in it
    {"change": ["resource", "a:b"]}         the application is told of a change
    {"told": […]}                           it was told of this: progress, log messages, pages

Unless the conversation begins with a request to find out what the server speaks, the client insists on the revision,
and what opens the conversation is not written down: that is request 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

import carrel.errors
from carrel.client.client import Client
from carrel.client.handlers import Handlers
from carrel.client.watch import Watch
from carrel.protocol.encoding import encode
from carrel.wire.client_features import CreateMessageResult, ElicitResult
from carrel.wire.resources import ReadResourceResult
from golden.conversation import STATELESS, compare
from golden.players import Mismatch
from support.scripted_server import ON, Exchange, Partner, Reply, as_events, as_json, pack

__all__ = ["Script", "play", "scripts"]

HERE = Path(__file__).parent / "client"
#: How long to wait for anything, in seconds. Nothing takes that long unless it is broken.
PATIENCE = 60.0
KINDS = ("do", "client", "server", "raw", "hangup", "gone", "result", "raises", "change", "told", "status")
OPENING = ("server/discover", "initialize")
TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
SERVER = {"name": "golden-server", "version": "1.0"}
OFFERED = {
    "completions": {},
    "logging": {},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "tools": {"listChanged": True},
}


@dataclass
class Line:
    number: int
    kind: str
    entry: dict[str, Any]

    @property
    def value(self) -> Any:
        return self.entry[self.kind]


@dataclass
class Script:
    path: Path
    revision: str
    about: str
    lines: list[Line]
    only: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    capabilities: dict[str, Any] = field(default_factory=dict)

    @property
    def negotiates(self) -> bool:
        """Whether it begins with finding out what the server speaks."""
        first = next((line.value for line in self.lines if line.kind == "client"), {})
        return first.get("method") in OPENING


def scripts() -> list[Script]:
    """Read every conversation there is."""
    return [read(path) for path in sorted(HERE.glob("*/*.jsonl"))]


def read(path: Path) -> Script:
    script = Script(path, path.parent.name, "", [])
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if text.startswith("#"):
            script.about = script.about or text.lstrip("# ")
        elif text.strip():
            entry = json.loads(text)
            kind = next((kind for kind in KINDS if kind in entry), None)
            if kind is not None:
                script.lines.append(Line(number, kind, entry))
                continue
            for name, value in entry.items():
                if name not in ("only", "options", "capabilities"):
                    raise ValueError(f"{path}:{number}: there is no {name}")
                setattr(script, name, value)
    if not script.about:
        raise ValueError(f"{path}: the first line has to say what the conversation pins")
    return script


async def play(script: Script, transport: str) -> None:
    """Play a conversation on "stdio" or "http".

    Raises:
        Mismatch: the client sent something else, or something else came of it.
    """
    player = Player(script, transport)
    async with ON[transport](player.partner) as target:
        client = Client(target, **player.options())
        opening = asyncio.create_task(client.__aenter__())
        try:
            if not script.negotiates:
                await player.open()
                await opening
            for line in script.lines:
                await player.take(line, client, opening)
        finally:
            await player.end(client, opening)
    player.finish()


class Sent:
    """A message of the client, and what waits for the answer to it."""

    def __init__(self, message: Any, exchange: Exchange | None) -> None:
        self.message = message
        self.exchange = exchange
        self.answers: asyncio.Queue[tuple[bytes | None, int | None]] = asyncio.Queue()


class Player:
    def __init__(self, script: Script, transport: str) -> None:
        self.script = script
        self.transport = transport
        self.stateless = script.revision == STATELESS
        self.partner = Partner(script.revision)
        self.sent: asyncio.Queue[Sent] = asyncio.Queue()
        self.by_id: dict[Any, Sent] = {}
        self.last: Any = None
        self.told: list[Any] = []
        self.news = asyncio.Event()
        self.bound: dict[str, Any] = {}
        self.doing: list[asyncio.Task[Any]] = []
        self.watch: Watch | None = None
        self.partner.take = self.hear  # type: ignore[method-assign]
        self.partner.respond = self.respond

    # The client's side

    def options(self) -> dict[str, Any]:
        """Return the options of the client: those of the conversation, with what answers questions as functions."""
        options = {"name": "golden", "version": "1", "timeout": PATIENCE, "patience": PATIENCE, **self.script.options}
        if not self.script.negotiates:
            options["revision"] = self.script.revision
        if "log" in options:
            options["log"] = self.receive_log
        kinds = ("elicit_form", "elicit_url", "sample", "sample_tools", "roots")
        given = {name: options.pop(name) for name in kinds if name in options}
        handlers = self.handlers()
        given = {name: handlers[name](value) if name in handlers else value for name, value in given.items()}
        return {**options, "handlers": Handlers(**given)}

    def handlers(self) -> dict[str, Any]:
        """How answers are written: a form's content or action, whether a page is visited, what a model says."""

        def fill_in(answer: Any) -> Any:
            async def handle(form: Any) -> Any:
                self.tell("form", form.message, form.defaults)
                return ElicitResult(action=answer) if isinstance(answer, str) else answer

            return handle

        def visit(answer: Any) -> Any:
            async def handle(page: Any) -> Any:
                self.tell("page", page.message, page.url)
                return answer

            return handle

        def sample(answer: Any) -> Any:
            async def handle(params: Any) -> Any:
                return answer if isinstance(answer, str) else msgspec.convert(answer, CreateMessageResult)

            return handle

        return {"elicit_form": fill_in, "elicit_url": visit, "sample": sample}

    def receive_log(self, params: Any) -> None:
        self.tell("log", params.level, params.data)

    async def do(self, line: Line, client: Client) -> None:
        what, arguments = line.value, line.entry.get("with", [])
        if what == "cancel":
            self.doing[-1].cancel()
        elif what == "watch":
            self.watch = client.watch(*arguments, lists=line.entry.get("lists", ()))
            self.doing.append(asyncio.create_task(self.watch.start()))
        elif what == "unwatch":
            assert self.watch is not None
            await self.watch.close()
        elif what == "close":
            self.doing.append(asyncio.create_task(client.close()))
        elif what.startswith("list_"):
            self.doing.append(asyncio.create_task(collect(getattr(client, what)())))
        else:
            options = {"progress": self.hear_progress} if line.entry.get("progress") else {}
            self.doing.append(asyncio.create_task(getattr(client, what)(*arguments, **options)))

    def hear_progress(self, progress: float, total: float | None, words: str | None) -> None:
        self.tell("progress", progress, total, words)

    def tell(self, *what: Any) -> None:
        self.told.append(list(what))
        self.news.set()

    async def hear_of(self, count: int) -> None:
        """Wait until the application was told of so many things, or of nothing more for long enough."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while len(self.told) < count:
                    self.news.clear()
                    await self.news.wait()

    # The server's side

    async def hear(self, message: Any, exchange: Exchange | None = None) -> list[Any]:
        sent = Sent(message, exchange)
        if "id" in message and "method" in message:
            self.by_id[message["id"]] = sent
            self.last = message["id"]
        self.sent.put_nowait(sent)
        return []

    async def respond(self, exchange: Exchange) -> Reply | None:
        if exchange.method != "POST":
            return Reply(405 if exchange.method == "GET" else 200)
        message = exchange.message
        await self.hear(message, exchange)
        if "id" not in message or "method" not in message:
            return Reply(202)
        sent = self.by_id[message["id"]]
        if not self.answered_with_status(message["id"]):
            return as_events(stream_of(sent))
        data, status = await sent.answers.get()
        assert status is not None
        return Reply(status) if data is None else as_json(json.loads(data), status)

    def answered_with_status(self, id: Any) -> bool:
        """Whether the answer to a request is one of HTTP with a status of its own."""
        for line in self.script.lines:
            if line.kind == "status" and line.entry.get("id") == id:
                return True
            if line.kind == "server" and line.value.get("id") == id and "method" not in line.value:
                return "status" in line.entry
        return False

    async def open(self) -> None:
        """What opens a conversation that is about something else."""
        await self.expect(Line(0, "client", {"client": self.opening()}))
        result: dict[str, Any] = {"capabilities": OFFERED}
        if self.stateless:
            result |= {"supportedVersions": [STATELESS], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        else:
            result |= {"protocolVersion": self.script.revision, "serverInfo": SERVER}
        self.say({"jsonrpc": "2.0", "id": 1, "result": result})
        if not self.stateless:
            initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await self.expect(Line(0, "client", {"client": initialized}))

    def opening(self) -> dict[str, Any]:
        if self.stateless:
            return {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}}
        params = {
            "protocolVersion": self.script.revision,
            "capabilities": self.script.capabilities,
            "clientInfo": {"name": "golden", "version": "1"},
        }
        return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}

    def say(self, message: Any, status: int | None = None) -> None:
        if self.transport == "stdio":
            self.partner.say(message)
            return
        id = message.get("id")
        answers = "method" not in message
        meta = message.get("params", {}).get("_meta", {}) if not answers else {}
        via = id if answers else meta.get("io.modelcontextprotocol/subscriptionId", self.last)
        queue = self.by_id[via].answers
        queue.put_nowait((pack(message), status))
        if answers and status is None:
            queue.put_nowait((None, None))

    # Line by line

    async def take(self, line: Line, client: Client, opening: asyncio.Task[Any]) -> None:
        match line.kind:
            case "do":
                if self.script.negotiates and not opening.done():
                    async with asyncio.timeout(PATIENCE):
                        await opening
                await self.do(line, client)
            case "client":
                await self.expect(line)
            case "server":
                self.say(line.value, line.entry.get("status"))
            case "raw":
                self.partner.say(line.value.encode())
            case "status":
                self.by_id[line.entry["id"]].answers.put_nowait((None, line.value))
            case "hangup":
                await self.expect_hangup(line)
            case "gone":
                self.partner.hang_up()  # type: ignore[attr-defined]
            case "result" | "raises":
                await self.settle(line, opening)
            case "change":
                assert self.watch is not None
                async with asyncio.timeout(PATIENCE):
                    change = await anext(self.watch)
                self.check(line, [change.kind] if change.uri is None else [change.kind, change.uri])
            case "told":
                await self.hear_of(len(line.value))
                told, self.told = self.told, []
                self.check(line, told)

    async def expect(self, line: Line) -> None:
        expected = line.value
        try:
            async with asyncio.timeout(PATIENCE):
                sent = await self.sent.get()
        except TimeoutError:
            raise self.mismatch(line, f"expected {json.dumps(expected)}", "     got nothing") from None
        if self.stateless and not line.entry.get("bare") and "id" in expected:
            expected = self.opened(expected)
        self.check(line, sent.message, expected)
        if sent.exchange is not None:
            for name, value in line.entry.get("headers", {}).items():
                given = sent.exchange.headers.get(name.lower())
                if given != value:
                    raise self.mismatch(line, f"the header {name} is {given!r}, not {value!r}")

    def opened(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return a request with the metadata that every one of a stateless revision has."""
        params = message.get("params", {})
        # Tasks report no progress: a tool call with progress does not declare them.
        tasks = {} if "progressToken" in params.get("_meta", {}) else TASKS
        meta = {
            "io.modelcontextprotocol/protocolVersion": self.script.revision,
            "io.modelcontextprotocol/clientInfo": {"name": "golden", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {**tasks, **self.script.capabilities},
        }
        return {**message, "params": {**params, "_meta": {**meta, **params.get("_meta", {})}}}

    async def expect_hangup(self, line: Line) -> None:
        if self.transport == "http" and self.stateless:
            exchange = self.by_id[line.value].exchange
            assert exchange is not None
            async with asyncio.timeout(PATIENCE):
                await exchange.closed.wait()
            return
        params = {"requestId": line.value, "reason": "<any text>"}
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        await self.expect(Line(line.number, "client", {"client": message}))

    async def settle(self, line: Line, opening: asyncio.Task[Any]) -> None:
        task = self.doing.pop(0) if self.doing else opening
        try:
            async with asyncio.timeout(PATIENCE):
                result = await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            result = "cancelled"
        except (carrel.errors.MCPError, TimeoutError) as error:
            wanted = line.entry.get("raises")
            words = line.entry.get("words", "")
            if type(error).__name__ != wanted or words not in str(error):
                raise self.mismatch(line, f"it failed with {type(error).__name__}: {error}") from error
            return
        if isinstance(result, ReadResourceResult):
            result = result.contents
        if line.kind == "raises":
            raise self.mismatch(line, f"it did not fail, but gave {encode(result).decode()}")
        self.check(line, None if isinstance(result, Client) else json.loads(encode(result)))

    def check(self, line: Line, actual: Any, expected: Any = None) -> None:
        expected = line.value if expected is None else expected
        differences = compare(expected, actual, self.bound)
        if differences:
            raise self.mismatch(
                line,
                *differences,
                f"expected {json.dumps(expected, ensure_ascii=False)}",
                f"     got {json.dumps(actual, ensure_ascii=False)}",
            )

    def mismatch(self, line: Line | None, *explanation: str) -> Mismatch:
        where = f"{self.script.path}:{line.number if line else 'end'}"
        return Mismatch("\n  ".join([f"{where} ({self.script.about})", *explanation]))

    # The end

    async def end(self, client: Client, opening: asyncio.Task[Any]) -> None:
        if not opening.done():
            opening.cancel()
        for task in (opening, *self.doing):
            if task is not opening:
                task.cancel()
            await asyncio.wait((task,))
            if not task.cancelled():
                task.exception()
        await client.close()

    def finish(self) -> None:
        """See that there is nothing more, but for the end of what was still listened to."""
        left = [self.sent.get_nowait().message for _ in range(self.sent.qsize())]
        if left:
            raise self.mismatch(None, *(f"the client also sent {json.dumps(message)}" for message in left))
        if self.told:
            raise self.mismatch(None, f"the application was also told {self.told}")


async def stream_of(sent: Sent) -> AsyncIterator[bytes]:
    while True:
        data, _ = await sent.answers.get()
        if data is None:
            return
        yield b"data: " + data + b"\n\n"


async def collect(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]
