"""Small descriptions after five large public APIs: what they offer, and the requests that URIs and arguments become."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from carrel.catalog.provider import Request
from carrel.errors import InvalidParams, ToolError
from carrel.sources.openapi import from_asgi
from carrel.sources.openapi.source import OpenAPISource
from carrel.testing import Caller, running
from carrel.wire.tools import CallToolResult, Tool

DESCRIPTIONS = Path(__file__).parent / "descriptions"


class Server:
    """ASGI application that records requests, and answers with ``answer``."""

    def __init__(self) -> None:
        self.answer: Any = {}
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        query = scope["query_string"].decode()
        url = scope["raw_path"].decode() + (f"?{query}" if query else "")
        headers = {key.decode().lower(): value.decode() for key, value in scope["headers"]}
        self.seen.append((scope["method"], url, headers, body))
        kind = b"text/html" if isinstance(self.answer, str) else b"application/json"
        data = self.answer.encode() if isinstance(self.answer, str) else msgspec.json.encode(self.answer)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": data})


@asynccontextmanager
async def api(name: str) -> AsyncIterator[tuple[OpenAPISource, Server]]:
    server = Server()
    description = yaml.safe_load((DESCRIPTIONS / f"{name}.yaml").read_text())
    source = from_asgi(server, description, api_name=name, write=True, read_tools=True)
    async with running(source):
        yield source, server


async def call(source: OpenAPISource, name: str, **arguments: Any) -> CallToolResult:
    return await source.call_tool(name, msgspec.Raw(msgspec.json.encode(arguments)), Request())


async def tools_of(source: OpenAPISource) -> dict[str, Tool]:
    return {tool.name: tool for tool in await Caller(source).tools()}


READS = [
    ("github", "repos/o/r/issues?state=closed&labels=a%2Cb", "/repos/o/r/issues?state=closed&labels=a%2Cb"),
    ("github", "repos/o/r/git/ref/heads%2Fmain", "/repos/o/r/git/ref/heads%2Fmain"),
    ("github", "repos/o/r/issues/7", "/repos/o/r/issues/7"),
    ("stripe", "v1/charges?created=gte,5,lt,9&limit=2", "/v1/charges?created[gte]=5&created[lt]=9&limit=2"),
    ("stripe", "v1/charges?created=5&expand=a,b", "/v1/charges?created=5&expand[]=a&expand[]=b"),
    ("openai", "files?order=asc", "/v1/files?order=asc"),
    ("openai", "files/file-1/content", "/v1/files/file-1/content"),
    ("wikimedia", "page/summary/AC%2FDC?redirect=false", "/api/rest_v1/page/summary/AC%2FDC?redirect=false"),
    ("wikimedia", "page/html/Dog/12", "/api/rest_v1/page/html/Dog/12"),
    ("wikimedia", "feed/featured/2026/06/01", "/api/rest_v1/feed/featured/2026/06/01"),
    ("weather", "alerts/active?area=CA&area=TX&severity=Severe", "/v1/alerts/active?area=CA&area=TX&severity=Severe"),
]


@pytest.mark.parametrize(("name", "uri", "url"), READS)
async def test_a_uri_becomes_the_request_of_the_description(name: str, uri: str, url: str):
    async with api(name) as (source, server):
        await Caller(source).read_resource(f"openapi://{name}/api/{uri}")
        [(method, asked, _, _)] = server.seen
        assert (method, asked) == ("GET", url)


@pytest.mark.parametrize(
    ("name", "uri", "reason"),
    [
        ("github", "repos/o/r/issues?state=done", "not one of open, closed, all"),
        ("github", "repos/o/r/issues/seven", "not a whole number"),
        ("github", "repos/../r/issues", "|"),
        ("openai", "files?order=up", "not one of asc, desc"),
        ("wikimedia", "page/html/Dog/new", "not a whole number"),
        ("stripe", "v1/charges?limit=many", "not a whole number"),
        ("weather", "alerts/active?severity=Mild", "not one of Extreme, Severe, Moderate"),
    ],
)
async def test_a_value_that_is_not_as_described_is_not_sent(name: str, uri: str, reason: str):
    async with api(name) as (source, server):
        with pytest.raises(Exception, match=reason) as raised:
            await Caller(source).read_resource(f"openapi://{name}/api/{uri}")
        assert isinstance(raised.value, InvalidParams) or reason == "|"
        assert server.seen == []


@pytest.mark.parametrize(
    ("name", "count"), [("github", 5), ("stripe", 2), ("openai", 4), ("wikimedia", 3), ("weather", 3)]
)
async def test_every_operation_is_a_tool_whose_schemas_are_valid(name: str, count: int):
    from jsonschema import Draft202012Validator

    async with api(name) as (source, _):
        tools = await tools_of(source)
        assert len(tools) == count
        for tool in tools.values():
            Draft202012Validator.check_schema(tool.input_schema)
            if tool.output_schema is not None:
                Draft202012Validator.check_schema(tool.output_schema)
                assert tool.output_schema["type"] == "object"
        for entry in await Caller(source).directory(f"openapi://{name}/operations"):
            [part] = await Caller(source).read_resource(entry.uri)
            assert "## Responses" in part.text


# Results


async def test_objects_in_responses_have_output_schemas_and_structured_content():
    async with api("github") as (source, server):
        tools = await tools_of(source)
        assert {name for name, tool in tools.items() if tool.output_schema} == {"issues_get"}
        schema = tools["issues_get"].output_schema
        assert schema is not None
        # Nothing is required, and everything may be null: descriptions are seldom exact.
        issue = schema["$defs"]["issue"]
        assert "required" not in issue
        assert issue["properties"]["state_reason"] == {"type": ["string", "null"]}
        arguments = {"owner": "o", "repo": "r", "issue_number": 1}
        server.answer = {"number": 1, "state_reason": "duplicate", "user": None, "new": True, "labels": ["a", {}]}
        assert (await call(source, "issues_get", **arguments)).structured_content == server.answer
        server.answer = {"number": "one"}
        result = await call(source, "issues_get", **arguments)
        assert result.is_error
        assert "number" in result.content[0].text
        assert result.content[1].text == '{"number":"one"}'
        for answer in ([], "<p>no</p>"):
            server.answer = answer
            assert (await call(source, "issues_get", **arguments)).is_error


async def test_an_output_schema_that_goes_round_is_closed_by_references():
    async with api("stripe") as (source, server):
        schema = (await tools_of(source))["GetCharges"].output_schema
        assert schema is not None
        assert schema["$defs"]["customer"]["properties"]["default_source"] == {"$ref": "#/$defs/charge"}
        server.answer = {"data": [{"id": "ch_1", "customer": {"id": "c", "default_source": None}}], "url": "/v2"}
        assert (await call(source, "GetCharges")).structured_content == server.answer
        assert (await tools_of(source))["PostCharges"].output_schema is None


# Bodies


async def test_a_form_is_sent_in_the_style_of_its_description():
    async with api("stripe") as (source, server):
        await call(source, "PostCharges", body={"amount": 5, "currency": "eur", "metadata": {"a b": "c&d"}})
        [(_, _, headers, body)] = server.seen
        assert headers["content-type"] == "application/x-www-form-urlencoded"
        assert body == b"amount=5&currency=eur&metadata[a%20b]=c%26d"


def parts_of(headers: dict[str, str], body: bytes) -> list[tuple[str, str | None, str, bytes]]:
    """Return name, file name, media type and data of the parts of a body, as another parser reads them."""
    message = message_from_bytes(f"Content-Type: {headers['content-type']}\r\n\r\n".encode() + body)
    found = []
    for part in message.get_payload():
        assert not isinstance(part, str)
        name = part.get_param("name", header="content-disposition")
        kind = part.get_content_type() if "content-type" in part else ""
        found.append((name, part.get_filename(), kind, part.get_payload(decode=True)))
    return found


async def test_files_are_parts_of_a_multipart_body():
    async with api("openai") as (source, server):
        file = {"base64": "AAECDQoA/w==", "filename": 'a"b\r\nX: 1.jsonl'}
        await call(source, "createFile", body={"file": file, "purpose": "batch", "expires_after": {"seconds": 5}})
        text = {"text": "zwei €", "type": "image/png"}
        await call(source, "createImageEdit", body={"image": ["eins", text], "prompt": "p", "n": 2})
        _, _, headers, body = server.seen[0]
        assert parts_of(headers, body) == [
            ("file", "a%22b%0D%0AX: 1.jsonl", "application/jsonl", b"\0\1\2\r\n\0\xff"),
            ("purpose", None, "", b"batch"),
            ("expires_after", None, "application/json", b'{"seconds":5}'),
        ]
        _, _, headers, body = server.seen[1]
        assert parts_of(headers, body) == [
            ("image", "file", "application/octet-stream", b"eins"),
            ("image", "file", "image/png", "zwei €".encode()),
            ("prompt", None, "", b"p"),
            ("n", None, "", b"2"),
        ]


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ({"base64": "not base64"}, "not base64"),
        ({"text": "a", "type": "text/plain\r\nX: 1"}, "not a media type"),
        ({"text": "a", "base64": "YQ=="}, "body"),
        ({"filename": "a"}, "body"),
        (5, "body"),
    ],
)
async def test_a_file_that_cannot_be_sent_is_refused(file: Any, reason: str):
    async with api("openai") as (source, server):
        with pytest.raises(ToolError, match=reason):
            await call(source, "createFile", body={"file": file, "purpose": "batch"})
        assert server.seen == []
