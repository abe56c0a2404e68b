"""Fuzz the parsers: ``python tests/fuzz/run.py SECONDS [TARGET…]``.

Each target gets that many seconds, one after the other. A finding is written to ``.cache/fuzz/TARGET/`` and printed,
and the exit code is 1; ``python tests/fuzz/run.py --replay TARGET FILE`` runs it again. With the package atheris,
inputs are led by what they reach, which is kept there too, so that the next campaign goes on where this one stopped;
without it they are random. ``test_targets.py`` gives each target a few inputs, the same in every run of the tests.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any
from zlib import crc32

HERE = Path(__file__).resolve()
if str(HERE.parents[1]) not in sys.path:
    sys.path.insert(0, str(HERE.parents[1]))  # as a command

from fuzz import parser_targets, policy_targets, statement_targets, uri_targets  # noqa: E402
from fuzz.mutation import inputs  # noqa: E402

CORPUS = HERE.parents[2] / ".cache" / "fuzz"
Target = Callable[[bytes], None]


def receive() -> Target:
    """``ServerProtocol.receive``: documented events only, and replies that are JSON-RPC."""
    from carrel.errors import ResourceNotFound
    from carrel.protocol.connection import Ignored
    from carrel.protocol.description import Description
    from carrel.protocol.revisions import REVISIONS
    from carrel.protocol.server import Call, ClientBatch, ClientNotification, ErrorResponse, ServerProtocol
    from carrel.wire.base import Implementation
    from carrel.wire.lifecycle import ServerCapabilities

    description = Description(Implementation("server", "1"), ServerCapabilities)
    names = [*REVISIONS, None]

    def connected(name: str | None) -> ServerProtocol:
        connection = ServerProtocol(description)
        if name is not None and not REVISIONS[name].stateless:
            client = {"name": "c", "version": "1"}
            params = {"protocolVersion": name, "capabilities": {}, "clientInfo": client}
            message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
            call = connection.receive(json.dumps(message).encode())
            assert isinstance(call, Call)
            connection.initialize(call)
        return connection

    def check_reply(data: bytes) -> None:
        reply = json.loads(data)
        assert reply["jsonrpc"] == "2.0"
        assert ("result" in reply) != ("error" in reply)

    def check(connection: ServerProtocol, event: Any) -> None:
        if isinstance(event, ErrorResponse):
            check_reply(event.reply)
            assert event.status in (200, 400, 404)
        elif isinstance(event, ClientBatch):
            for part in event.events:
                check(connection, part)
        elif isinstance(event, Call):
            assert isinstance(event.meta, dict)
            assert event.progress_token is None or type(event.progress_token) in (int, str)
            check_reply(connection.reply(event, b"{}"))
            check_reply(connection.reject(event, ValueError()).reply)
            check_reply(connection.reject(event, ResourceNotFound("a:b")).reply)
        else:
            assert isinstance(event, ClientNotification | Ignored)

    def run(data: bytes) -> None:
        connection = connected(names[data[0] % len(names)] if data else None)
        for message in data[1:].split(b"\n"):
            check(connection, connection.receive(message))

    return run


def client() -> Target:
    """``ClientProtocol.receive``: documented events only, requests end once, and refusals are JSON-RPC."""
    from msgspec import Raw

    from carrel.errors import PeerError, ProtocolError
    from carrel.protocol.client import (
        ClientProtocol,
        FailedRequest,
        Ignored,
        IncomingRequest,
        Response,
        ServerBatch,
        ServerNotification,
    )
    from carrel.protocol.extensions.tasks import TASKS
    from carrel.protocol.methods import (
        CALL_TOOL,
        DISCOVER,
        GET_PROMPT,
        LIST_PROMPTS,
        LIST_RESOURCE_TEMPLATES,
        LIST_RESOURCES,
        LIST_TOOLS,
        PING,
        READ_RESOURCE,
    )
    from carrel.protocol.revisions import REVISIONS
    from carrel.wire.base import ClientCapabilities, Implementation, PageParams, Params
    from carrel.wire.lifecycle import InitializeParams
    from carrel.wire.prompts import GetPromptParams
    from carrel.wire.resources import ReadResourceParams
    from carrel.wire.tools import CallToolParams

    names = [*REVISIONS, None]
    asked: dict[Any, Params] = {
        CALL_TOOL: CallToolParams(name="t", arguments=Raw(b"{}")),
        READ_RESOURCE: ReadResourceParams(uri="a:b"),
        GET_PROMPT: GetPromptParams(name="p"),
        **dict.fromkeys((LIST_TOOLS, LIST_RESOURCES, LIST_RESOURCE_TEMPLATES, LIST_PROMPTS), PageParams()),
        **dict.fromkeys((DISCOVER, PING), Params()),
    }

    def asking(name: str | None) -> ClientProtocol:
        connection = ClientProtocol(Implementation("client", "1"), ClientCapabilities())
        connection.extend(TASKS)
        if name is None:
            connection.initialize(REVISIONS["2025-11-25"], InitializeParams)
            return connection
        connection.speak(REVISIONS[name])
        for row, params in asked.items():
            if connection.knows(row):
                connection.request(row, params)
        return connection

    def check(connection: ClientProtocol, event: Any, *, outside: bool = True) -> None:
        if isinstance(event, ServerBatch):
            assert outside
            for part in event.events:
                check(connection, part, outside=False)
        elif isinstance(event, IncomingRequest):
            assert json.loads(connection.answer(event, {}).data)["id"] == event.id
            assert "error" in json.loads(connection.reject(event, ValueError()).data)
        elif isinstance(event, Ignored):
            assert event.reason
            assert event.reply is None or "error" in json.loads(event.reply)
        elif isinstance(event, ServerNotification):
            assert event.subscription is None or type(event.subscription) in (int, str)
        else:
            assert isinstance(event, Response | FailedRequest)
            assert event.id not in connection.waiting
            assert isinstance(event, Response) or isinstance(event.error, PeerError | ProtocolError)

    def run(data: bytes) -> None:
        connection = asking(names[data[0] % len(names)] if data else None)
        for message in data[1:].split(b"\n"):
            check(connection, connection.receive(message))

    return run


def template() -> Target:
    """``UriTemplate``: what parses matches any URI without surprise, and what is expanded is matched."""
    from carrel.uri.template import UriTemplate, UriTemplateError

    def run(data: bytes) -> None:
        text, _, uri = data.decode("utf-8", "surrogateescape").partition("\n")
        try:
            pattern = UriTemplate(text)
        except UriTemplateError:
            return
        found = pattern.match(uri)
        if found is not None:
            assert set(found) <= set(pattern.names)
            try:
                again = pattern.expand(found)
            except UriTemplateError:
                return
            assert pattern.match(again) is not None, (text, uri, found, again)

    return run


def uri() -> Target:
    """``uri``: a URI or a ``UriError``; the normal form is stable, and file names survive."""
    from carrel.uri.parse import UriError, file_path, normalize, parse, percent_decode

    def run(data: bytes) -> None:
        text = data.decode("utf-8", "surrogateescape")
        try:
            parsed = parse(text)
        except UriError:
            return
        assert str(parse(str(parsed))) == str(parsed)
        normal = normalize(text)
        assert normalize(normal) == normal
        for function in (percent_decode, file_path):
            try:
                function(normal)
            except ValueError:
                pass

    return run


def lines() -> Target:
    """The line splitter of stdio: cut anywhere, the lines are the same, and too long ones are None."""
    from carrel.transports.server.stdio import Lines

    limit = 16

    def run(data: bytes) -> None:
        step, stream = data[0] % 40 + 1 if data else 1, data[1:]
        splitter, found = Lines(limit), list[bytes | None]()
        for begin in range(0, len(stream), step):
            found += splitter.feed(stream[begin : begin + step])
        found += splitter.finish()
        expected = stream.split(b"\n")
        if not expected[-1]:
            expected.pop()
        assert len(found) == len(expected)
        for line, whole in zip(found, expected, strict=True):
            assert line == whole if len(whole) <= limit else line is None or line == whole

    return run


def documents() -> Target:
    """``documents``: a text or a documented failure, whatever the bytes are; the first one says which format."""
    from carrel.sources.documents.kinds import KINDS
    from carrel.sources.documents.messages import WorkerRequest
    from carrel.sources.documents.worker import WorkerState, answer

    kinds = list(KINDS.values())

    def run(data: bytes) -> None:
        kind = kinds[data[0] % len(kinds)] if data else kinds[0]
        request = WorkerRequest("key", kind.module, kind.format, kind.unit, data[1:], 0, 100_000, True)
        found = answer(request, WorkerState())
        assert (found.failure is None) == bool(found.text)
        assert found.pages > 0 or found.failure is not None
        found.text.encode()

    return run


TARGETS: dict[str, Callable[[], Target]] = {
    "receive": receive,
    "client": client,
    "template": template,
    "uri": uri,
    "lines": lines,
    **parser_targets.TARGETS,
    **policy_targets.TARGETS,
    **statement_targets.TARGETS,
    **uri_targets.TARGETS,
    "documents": documents,
}

SEEDS: dict[str, list[bytes]] = {
    "receive": [
        b'\x00{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":1},"_meta":'
        b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}',
        b'\x03[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"}]',
        b'\x02{"jsonrpc":"2.0","id":"x","method":"resources/read","params":{"uri":"a:b","_meta":{"progressToken":1}}}',
        b'\x05{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":'
        b'{},"clientInfo":{"name":"c","version":"1"}}}\n{"jsonrpc":"2.0","id":1,"result":{}}',
    ],
    "client": [
        b'\x00{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},'
        b'"requestState":"s"}}\n{"jsonrpc":"2.0","id":2,"result":{"contents":[{"uri":"a:b","blob":"eA=="}]}}',
        b'\x03[{"jsonrpc":"2.0","id":4,"result":{"tools":[{"name":"t","inputSchema":{}}]}},{"jsonrpc":"2.0","id":"q",'
        b'"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"?"}}],'
        b'"maxTokens":1}}]',
        b'\x01{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}\n{"jsonrpc":"2.0","method":'
        b'"notifications/progress","params":{"progressToken":1,"progress":0.5}}\n{"jsonrpc":"2.0","id":1,"method":"ping"}',
        b'\x05{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s",'
        b'"version":"1"}}}',
    ],
    "template": [
        b"x://{a}/{+b}{?c,d*}\nx://1/2/3?c=4&e=5",
        b"{/p*}{.q:3}{;r}{#s}\n/a/b.c;r=1#x",
        b"file:///{+path}{?lines,bytes}\nfile:///a%20b?lines=1-2",
    ],
    "uri": [b"file:///a%20b/%E7%B3%96?x=1#y", b"http://user@[::1]:80/..//a", b"x:y", "memo://caf\xe9".encode()],
    "lines": [b"\x03one\ntwo\n\nthree", b"\x01" + b"x" * 40 + b"\ny"],
    **parser_targets.SEEDS,
    **policy_targets.SEEDS,
    **statement_targets.SEEDS,
    **uri_targets.SEEDS,
    "documents": [
        b"\x0c<h1>a</h1><ul><li>b<table><tr><td>c",
        b'\x0e{"cells":[{"cell_type":"code","source":["x"],"outputs":[{"text":"y"}]}]}',
        b"\x0fFrom: a@b\nSubject: =?utf-8?q?x?=\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nx\n--b--\n",
        b"\x00%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj",
    ],
}


def shake(name: str, seconds: int) -> None:
    """Give a target random inputs, and write the one that it fails with."""
    target, random, end, runs = TARGETS[name](), Random(), monotonic() + seconds, 0
    while monotonic() < end:
        for data in inputs(SEEDS[name], len(SEEDS[name]) + 1000, random):
            try:
                target(data)
            except BaseException:
                (CORPUS / name).mkdir(parents=True, exist_ok=True)
                path = CORPUS / name / f"crash-{crc32(data):08x}"
                path.write_bytes(data)
                print(f"replay with: --replay {name} {path}", file=sys.stderr)
                raise
            runs += 1
    print(f"stat::number_of_executed_units: {runs}", file=sys.stderr)


def fuzz(name: str, seconds: int) -> None:
    """Fuzz one target in this process, led by coverage. Does not return."""
    import atheris  # not a dependency: only who fuzzes has it

    with atheris.instrument_imports(include=["carrel"]):
        target = TARGETS[name]()
    folder = CORPUS / name
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[name]):
        (folder / "corpus" / f"seed-{number}").write_bytes(seed)
    options = [f"-max_total_time={seconds}", "-max_len=4096", "-timeout=10", "-print_final_stats=1", "-verbosity=0"]
    atheris.Setup([sys.argv[0], str(folder / "corpus"), f"-artifact_prefix={folder}/", *options], target)
    atheris.Fuzz()


def campaign(seconds: int, names: list[str]) -> int:
    """Fuzz several targets, each in a process of its own; return the exit code."""
    failed = []
    for name in names:
        command = [sys.executable, str(HERE), "--fuzz", name, str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        runs = [line.split()[-1] for line in done.stderr.splitlines() if "number_of_executed_units" in line]
        verdict = "a FINDING" if done.returncode else "no finding"
        print(f"{name}: {runs[0] if runs else 'no'} inputs in {seconds} s, {verdict}", flush=True)
        if done.returncode:
            failed.append(name)
            print(done.stderr[-4000:])
    return 1 if failed else 0


def main(arguments: list[str]) -> int:
    if len(arguments) == 3 and arguments[0] == "--fuzz":
        (fuzz if find_spec("atheris") else shake)(arguments[1], int(arguments[2]))
        return 0
    if len(arguments) == 3 and arguments[0] == "--replay" and arguments[1] in TARGETS:
        TARGETS[arguments[1]]()(Path(arguments[2]).read_bytes())
        return 0
    if not arguments or not arguments[0].isdecimal() or not set(arguments[1:]) <= set(TARGETS):
        print(__doc__, f"Targets: {', '.join(TARGETS)}", sep="\n", file=sys.stderr)
        return 2
    return campaign(int(arguments[0]), arguments[1:] or list(TARGETS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
