"""APIs by their descriptions: a FastAPI application in memory and over HTTP, and descriptions in files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import pytest
import uvicorn
from fastapi import Response

from carrel import Server
from carrel.catalog.provider import Change, Interest, Provider, Request
from carrel.errors import (
    ConfigError,
    InvalidParams,
    RequestTimeout,
    ResourceError,
    ResourceForbidden,
    ResourceNotFound,
    ResourceTooLarge,
    ToolError,
)
from carrel.sources.openapi import from_asgi
from carrel.sources.openapi.options import OpenAPIOptions
from carrel.sources.openapi.source import OpenAPISource
from carrel.testing import Caller, running
from carrel.transports import memory
from carrel.uri.template import UriTemplate
from carrel.wire.resources import BlobResourceContents, decoded
from carrel.wire.tools import CallToolResult
from support.documents import pdf
from support.pets_api import SECRET, pets_api

DESCRIPTIONS = Path(__file__).parent / "descriptions"


async def read(source: Provider, uri: str) -> Any:
    result = source.read_resource(uri, Request())
    assert asyncio.iscoroutine(result)
    [found] = decoded(await result).contents
    return found


async def call(source: OpenAPISource, name: str, **arguments: Any) -> CallToolResult:
    return await source.call_tool(name, msgspec.Raw(msgspec.json.encode(arguments)), Request())


@asynccontextmanager
async def pets(**options: Any) -> AsyncIterator[tuple[OpenAPISource, Any]]:
    app = pets_api()
    source = from_asgi(app, **options)
    async with running(source):
        yield source, app


@asynccontextmanager
async def running_application(app: Any) -> AsyncIterator[int]:
    """Serve an application on a free port."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", log_config=None))
    task = asyncio.create_task(server._serve())
    try:
        while not server.started:
            await asyncio.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        await task


# Resources


async def test_get_operations_are_templates_with_their_parameters():
    async with pets() as (source, _):
        templates = {one.uri_template: one for one in await Caller(source).templates()}
        assert "openapi://app/api/pets{?kind*,limit,after}" in templates
        assert "openapi://app/api/pets/{number}" in templates
        assert "openapi://app/api/headed" not in templates  # it needs a header
        assert not any("delete" in one.name for one in templates.values())
        uri = UriTemplate("openapi://app/api/pets{?kind*,limit,after}").expand({"kind": ["cat", "dog"], "limit": "1"})
        found = await read(source, uri)
        assert found.mime_type == "application/json"
        assert [pet["name"] for pet in json.loads(found.text)] == ["Ada"]


async def test_the_next_page_is_named_and_not_fetched():
    async with pets() as (source, app):
        first = await read(source, "openapi://app/api/pets")
        assert len(app.state.seen) == 1
        assert first.meta == {"carrel/next": "openapi://app/api/pets?limit=2&after=2"}
        second = await read(source, first.meta["carrel/next"])
        assert [pet["name"] for pet in json.loads(second.text)] == ["Cy"]
        assert second.meta is None


async def test_bytes_are_bytes_and_text_is_text():
    async with pets() as (source, _):
        picture = await read(source, "openapi://app/api/picture")
        assert isinstance(picture, BlobResourceContents)
        assert (picture.blob, picture.mime_type) == (b"\x89PNG\0", "image/png")
        assert (await read(source, "openapi://app/api/files/a%20b")).text == "file a b"


async def test_a_response_that_is_a_document_has_its_text_beside_it():
    app = pets_api()
    asked: list[str] = []

    @app.get("/reports/{number}")
    async def report(number: int, page: int = 0) -> Response:
        asked.append(f"report {page}")
        return Response(pdf(), media_type="application/pdf")

    @app.get("/invoices/{number}")
    async def invoice(number: int, currency: str = "EUR") -> Response:
        asked.append(f"invoice {currency}")
        return Response(pdf(), media_type="application/pdf")

    async with running(from_asgi(app)) as source:
        original = await read(source, f"{source.uri}/api/invoices/7")
        assert (original.blob, original.meta) == (pdf(), {"carrel/text": "?view=text"})
        page = await read(source, f"{source.uri}/api/invoices/7?page=2")
        assert (page.text, page.mime_type) == ("Page 2\nThe quick fox jumps over it.\n", "text/markdown")
        assert "Chapter One" in (await read(source, f"{source.uri}/api/invoices/7?view=text")).text
        assert asked == ["invoice EUR"] * 3, "one request for each read"
        other = await read(source, f"{source.uri}/api/invoices/7?currency=USD")
        assert isinstance(other, BlobResourceContents)
        # The parameter is the operation's own.
        own = await read(source, f"{source.uri}/api/reports/7?page=2")
        assert isinstance(own, BlobResourceContents)
        assert asked[-1] == "report 2"
        with pytest.raises(InvalidParams, match="is not a document"):
            await read(source, f"{source.uri}/api/pets/1?view=text")
    async with running(from_asgi(app, documents=False)) as source:
        with pytest.raises(InvalidParams):
            await read(source, f"{source.uri}/api/invoices/7?view=text")


async def test_documentation_names_parameters_bodies_and_responses():
    async with pets() as (source, _):
        text = (await read(source, "openapi://app/operations/list_pets")).text
        for part in ("`GET /pets`", "| `limit` | query | integer |", "`cat`, `dog`", "openapi://app/api/pets{?kind*"):
            assert part in text
        text = (await read(source, "openapi://app/operations/create_pet")).text
        assert "## Request body" in text
        assert "| `name` | string | yes |" in text
        schema = json.loads((await read(source, "openapi://app/schemas/Pet-Output")).text)
        assert schema["properties"]["parents"]["items"] == {"$ref": "#/$defs/Pet-Output"}
        assert "create_pet" in (await read(source, "openapi://app/overview")).text
        assert json.loads((await read(source, "openapi://app/description")).text)["info"]["title"] == "Pets"


async def test_a_subscriber_is_told_when_a_response_changes():
    uri = "openapi://app/api/pets/1"
    async with pets(poll_seconds=0.02) as (source, app), aclosing(source.watch(Interest([uri]))) as batches:
        assert await anext(batches) == ()
        app.state.pets[1].name = "Eve"
        assert list(await anext(batches)) == [Change("changed", uri)]


# Paths that lead elsewhere


@pytest.mark.parametrize(
    "path",
    [
        *("..", "%2e%2e", "%2E%2E", ".", "..%2Fprivate-admin", "x%2F..%2F..%2Fprivate-admin", "..%5Cprivate-admin"),
        *(
            "x%5C..%5Cy",
            "%2e%2e%3Bx",
            "%252e%252e",
            "%25252e%25252e%25252fx",
            "%" + "25" * 40 + "a",
            "%00",
            "a%0Ab",
            "",
        ),
    ],
)
async def test_a_path_parameter_does_not_leave_its_place(path: str):
    async with pets() as (source, app):
        with pytest.raises((InvalidParams, ResourceNotFound)):
            await read(source, f"openapi://app/api/files/{path}")
        assert app.state.seen == []


@pytest.mark.parametrize(
    "path", ["a%3Fx%3D1", "a%23b", "%252ex", "http:%2F%2Fother.example", "@other.example", "a;b=c"]
)
async def test_a_path_parameter_stays_one_segment_whatever_is_in_it(path: str):
    async with pets() as (source, app):
        try:
            await read(source, f"openapi://app/api/files/{path}")
        except ResourceNotFound:
            pass
        [(_, url, _)] = app.state.seen
        assert url.startswith("http://app/files/")
        assert "?" not in url
        assert "#" not in url


@pytest.mark.parametrize(
    "to", ["http://other.example/", "//other.example/", "https://app/pets", "file:///etc/passwd", "/%2e%2e/x"]
)
async def test_redirects_out_of_the_base_are_refused(to: str):
    async with pets() as (source, app):
        with pytest.raises(ResourceForbidden, match="to a URL that is not shared"):
            await read(source, f"openapi://app/api/moved?to={to.replace('%', '%25')}")
        assert len(app.state.seen) == 1


# Credentials


async def test_credentials_are_sent_where_the_description_says_and_shown_nowhere():
    async with pets(token=SECRET, api_key="k3y", read_tools=True) as (source, app):
        assert json.loads((await read(source, "openapi://app/api/private")).text) == {"you": "are known"}
        assert app.state.seen[-1][2]["authorization"] == f"Bearer {SECRET}"
        await read(source, "openapi://app/api/pets")
        assert "authorization" not in app.state.seen[-1][2]
        with pytest.raises(ToolError) as caught:
            await call(source, "keyed")
        assert app.state.seen[-1][2]["x-key"] == "k3y"
        assert "[hidden]" in str(caught.value)
        assert "k3y" not in str(caught.value)
        listed = await Caller(source).resources() + await Caller(source).templates()
        assert SECRET not in repr(listed)
    async with pets() as (source, _):
        with pytest.raises(ResourceForbidden, match="401"):
            await read(source, "openapi://app/api/private")


@pytest.mark.parametrize(
    ("scheme", "options", "expected"),
    [
        ({"type": "apiKey", "in": "query", "name": "key"}, {"api_key": "a&b"}, ("url", "http://app/x?key=a%26b")),
        ({"type": "apiKey", "in": "cookie", "name": "key"}, {"api_key": "k"}, ("cookie", "key=k")),
        ({"type": "http", "scheme": "basic"}, {"user": "u", "password": "p"}, ("authorization", "Basic dTpw")),
        (
            {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "http://app/token", "scopes": {}}}},
            {"client_id": "id", "client_secret": "se:cret"},
            ("authorization", "Bearer issued"),
        ),
    ],
)
async def test_each_kind_of_credentials_is_sent(
    scheme: dict[str, Any], options: dict[str, str], expected: tuple[str, str]
):
    seen: list[dict[str, str]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        query = scope["query_string"].decode()
        seen.append({**headers, "url": f"http://app{scope['path']}" + (f"?{query}" if query else "")})
        body = b'{"access_token": "issued", "expires_in": 100}' if scope["path"] == "/token" else b"{}"
        start = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}
        await send(start)
        await send({"type": "http.response.body", "body": body})

    description = {
        "openapi": "3.1.0",
        "info": {"title": "X", "version": "1"},
        "paths": {"/x": {"get": {"responses": {}, "security": [{"scheme": ["read"]}]}}},
        "components": {"securitySchemes": {"scheme": scheme}},
    }
    source = from_asgi(app, description, **options)
    async with running(source):
        for _ in range(2):
            await read(source, "openapi://app/api/x")
    assert seen[-1][expected[0]] == expected[1]
    assert [one["url"] for one in seen].count("http://app/token") == (scheme["type"] == "oauth2")


async def test_a_remote_description_does_not_decide_where_credentials_go():
    description = {"openapi": "3.0.0", "servers": [{"url": "https://evil.example/"}], "paths": {}}
    options = OpenAPIOptions(token="t")
    source = OpenAPISource("openapi+https://api.example/openapi.json", options, description=description)
    with pytest.raises(ConfigError, match="confirm with the option server"):
        async with running(source):
            pass


# Tools


async def test_writing_operations_are_tools_only_when_asked_for():
    for options, expected in (
        ({}, []),
        ({"write": True}, ["create_pet", "delete_pet"]),
        ({"operations": ("create*", "GET /pets")}, ["create_pet", "list_pets"]),
        ({"operations": ("DELETE /pets/{number}",)}, ["delete_pet"]),
    ):
        async with pets(**options) as (source, _):
            assert sorted(tool.name for tool in await Caller(source).tools()) == expected
            if not expected:
                with pytest.raises(InvalidParams, match="unknown tool"):
                    await call(source, "create_pet", body={"name": "x"})
    with pytest.raises(ConfigError, match="no operation 'nosuch'"):
        async with pets(operations=("nosuch",)):
            pass


async def test_a_tool_sends_a_checked_request_and_returns_the_response():
    async with pets(write=True, read_tools=True) as (source, app):
        result = await call(source, "create_pet", body={"name": "Di", "kind": "dog", "parents": [{"name": "Ada"}]})
        assert result.structured_content == {"number": 4}
        assert app.state.pets[4].kind == "dog"
        assert (await call(source, "delete_pet", number=4)).text.startswith("204")
        assert 4 not in app.state.pets
        assert json.loads((await call(source, "headed", **{"x-shape": "round"})).text) == {"shape": "round"}
        count = len(app.state.seen)
        for wrong in (
            {"body": {"name": ""}},
            {"body": {"name": "x", "kind": "cow"}},
            {},
            {"body": {"name": "x"}, "y": 1},
        ):
            with pytest.raises(ToolError):
                await call(source, "create_pet", **wrong)
        with pytest.raises(ToolError, match="header"):
            await call(source, "headed", **{"x-shape": "a\r\nX-Evil: 1"})
        assert len(app.state.seen) == count
        with pytest.raises(ToolError, match=r"404.*no such pet"):
            await call(source, "get_pet", number=99)


async def test_the_hints_of_a_tool_follow_its_method():
    async with pets(write=True, read_tools=True) as (source, _):
        hints = {tool.name: tool.annotations for tool in await Caller(source).tools()}
        get, post, delete = hints["get_pet"], hints["create_pet"], hints["delete_pet"]
        assert get is not None and post is not None and delete is not None  # noqa: PT018
        assert (get.read_only_hint, get.idempotent_hint) == (True, True)
        assert (post.read_only_hint, post.destructive_hint, post.idempotent_hint) == (False, False, False)
        assert (delete.destructive_hint, delete.idempotent_hint) == (True, True)


# Limits


async def test_a_response_that_is_too_large_is_refused():
    async with pets(max_response_size=20) as (source, _):
        with pytest.raises(ResourceTooLarge, match="max_response_size"):
            await read(source, "openapi://app/api/pets")


# Descriptions


async def test_a_description_in_files_has_references_across_them():
    source = OpenAPISource(f"openapi+file:{DESCRIPTIONS / 'weather.yaml'}")
    async with running(source):
        assert source.uri == "openapi://api.weather.example"
        templates = [one.uri_template for one in await Caller(source).templates()]
        live = f"{source.uri}/api"
        assert f"{live}/points/{{latitude}},{{longitude}}" in templates
        assert f"{live}/alerts/active{{?area*,severity,limit,start}}" in templates
        suggested = await Caller(source).complete(templates[-2], "area", "a")
        assert suggested.values == ["AL", "AK"]
        with pytest.raises(InvalidParams, match="latitude: 'north' is not a number"):
            await read(source, f"{live}/points/north,-97.1")
        with pytest.raises(InvalidParams, match="severity"):
            await read(source, f"{live}/alerts/active?severity=Severe,Mild")
        assert "Degrees north" in (await read(source, f"{source.uri}/operations/point")).text


async def test_references_lead_neither_out_of_the_folder_nor_round_forever(tmp_path: Path):
    (tmp_path / "secret.yaml").write_text("Secret: {type: string, description: SECRET}")
    folder = tmp_path / "api"
    folder.mkdir()
    (folder / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    loop = {"$ref": "#/components/schemas/Loop"}
    places = ("../secret.yaml", "link.yaml", "/etc/passwd", "http://127.0.0.1:1/x", "file:///etc/passwd", "nosuch.yaml")
    schemas: dict[str, Any] = {f"S{number}": {"$ref": f"{location}#/Secret"} for number, location in enumerate(places)}
    description = {"openapi": "3.0.0", "servers": [{"url": "https://a.example"}], "paths": {}}
    description["components"] = {"schemas": {**schemas, "Loop": loop}}
    (folder / "api.json").write_text(json.dumps(description))
    source = OpenAPISource(f"openapi:{folder / 'api.json'}")
    async with running(source):
        for name in (*schemas, "Loop"):
            assert "SECRET" not in (await read(source, f"{source.uri}/schemas/{name}")).text


async def test_a_path_that_is_no_template_is_left_out(tmp_path: Path):
    get = {"get": {"responses": {}}}
    paths = {"/a/{}": get, "/[/{}b": get, "/../c": get, "/good/{id}": get}
    description = {"openapi": "3.1.0", "servers": [{"url": "https://a.example"}], "paths": paths}
    (tmp_path / "api.json").write_text(json.dumps(description))
    source = OpenAPISource(f"openapi:{tmp_path / 'api.json'}")
    async with running(source):
        templates = [template.uri_template for template in await Caller(source).templates()]
    assert [template for template in templates if "/api/" in template] == [f"{source.uri}/api/good/{{id}}"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"swagger": "2.0", "paths": {}}', "Swagger 2.0"),
        ("{}", "no openapi"),
        ("[1]", "not an object"),
        ('{"openapi": ', "not valid JSON"),
        ("a: [", "neither JSON nor YAML"),
        ("[" * 20_000, "neither JSON nor YAML"),
        ("a: &a [*a]", "neither JSON nor YAML"),
        ("\n".join(["a0: &a0 [1, 1]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))]), "expand"),
        ('{"openapi": "3.1.0", "paths": []}', "paths are not an object"),
        ('{"openapi": "3.1.0"}', "option server"),
        ('{"openapi": "3.1.0", "servers": [{"url": "https://u:secret@a.example"}]}', "no user"),
        (None, "cannot be read"),
    ],
)
async def test_what_is_no_description_is_refused_in_one_line(tmp_path: Path, text: str | None, complaint: str):
    path = tmp_path / "api.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=complaint) as caught:
        async with running(OpenAPISource(f"openapi+file:{path}")):
            pass
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


# Over HTTP


@pytest.mark.slow
@pytest.mark.parametrize(
    "target",
    [
        *("openapi://ann:s3cr3t@host/x", "openapi+file://host/x", "openapi+file:///a/../x", "openapi+file:///x?y"),
        *(
            "openapi+https://[::1",
            "openapi+https://[:1]:80/",
            "openapi+https://ann:s3cr3t@host/",
            "openapi+file:///%zz",
        ),
    ],
)
def test_a_target_that_names_no_description_is_refused_without_its_password(target: str):
    with pytest.raises(ConfigError) as caught:
        OpenAPISource(target)
    assert "s3cr3t" not in str(caught.value)


async def test_an_api_is_used_over_http():
    app = pets_api()
    async with running_application(app) as port:
        target = f"openapi+http://127.0.0.1:{port}/openapi.json"
        source = OpenAPISource(target, OpenAPIOptions(write=True, token=SECRET, max_response_size=100))
        async with running(source):
            assert source.uri == f"openapi://127.0.0.1:{port}"
            assert "Ada" in (await read(source, f"{source.uri}/api/pets/1")).text
            assert "known" in (await read(source, f"{source.uri}/api/private")).text
            assert (await call(source, "create_pet", body={"name": "Di"})).structured_content == {"number": 4}
            with pytest.raises(ResourceTooLarge):
                await read(source, f"{source.uri}/api/pets?limit=50")
            with pytest.raises(ResourceNotFound):
                await read(source, f"{source.uri}/api/pets/99")
        # A description elsewhere that names this server, which is not on the public Internet.
        description = {**app.openapi(), "servers": [{"url": f"http://127.0.0.1:{port}"}]}
        source = OpenAPISource("openapi+https://api.example/openapi.json", description=description)
        async with running(source):
            with pytest.raises(ResourceForbidden, match="public Internet"):
                await read(source, f"{source.uri}/api/pets/1")


async def test_a_watch_that_ends_leaves_no_task():
    async with running(from_asgi(pets_api())) as source:
        before = asyncio.all_tasks()
        batches = aiter(source.watch(Interest()))
        await anext(batches)
        watch = asyncio.ensure_future(anext(batches))
        while len(asyncio.all_tasks() - before) < 3:  # the watch, what it polls with, and what it waits for
            await asyncio.sleep(0)
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        assert asyncio.all_tasks() == before


async def test_why_an_api_cannot_be_reached_is_logged_and_not_told(caplog: pytest.LogCaptureFixture):
    description = {**pets_api().openapi(), "openapi": "3.1.0"}
    source = OpenAPISource(
        "openapi+https://api.example/openapi.json",
        OpenAPIOptions(server="http://127.0.0.1:1/inside"),
        description=description,
    )
    async with running(source):
        with pytest.raises(ResourceError) as caught:
            await read(source, f"{source.uri}/api/pets/1")
        assert (caught.value.uri, caught.value.message) == (f"{source.uri}/api/pets/1", "The API cannot be reached")
    assert "Connect call failed ('127.0.0.1', 1)" in caplog.text


async def test_an_api_that_fails_is_an_internal_error_and_one_that_does_not_accept_a_value_is_not():
    api = pets_api()

    @api.get("/answers/{status}")
    async def answers(status: int) -> Response:
        return Response(status_code=status)

    app = Server("s")
    app.add_provider(from_asgi(api))
    wanted = {
        500: (-32603, "The API responds with status 500"),
        503: (-32603, "The API responds with status 503"),
        404: (-32602, "Resource not found"),
    }
    async with memory.connect(app) as peer:
        for status, told in wanted.items():
            reply = await peer.request("resources/read", {"uri": f"openapi://app/api/answers/{status}"}, timeout=60)
            assert (reply["error"]["code"], reply["error"]["message"]) == told
        reply = await peer.request("resources/read", {"uri": "openapi://app/api/answers/x"}, timeout=60)
        assert reply["error"]["code"] == -32602


@pytest.mark.parametrize("in_memory", [True, False])
async def test_a_timeout_names_the_operation_and_no_url(in_memory: bool, caplog: pytest.LogCaptureFixture):
    """The API responds with status when it is too late."""
    app = pets_api()
    asked = []
    over = asyncio.Event()

    async def silent(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and "/pets" in scope["path"]:
            asked.append(scope["query_string"])
            await over.wait()
        await app(scope, receive, send)

    options = OpenAPIOptions(request_timeout=0.2, read_tools=True, api_key=SECRET)
    description = app.openapi()
    description["components"] = {
        **description.get("components", {}),
        "securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "key"}},
    }
    description["security"] = [{"key": []}]
    for path in description["paths"].values():
        for operation in path.values():
            operation.pop("security", None)

    async def ask(source: OpenAPISource) -> None:
        with pytest.raises(RequestTimeout) as late:
            await read(source, f"{source.uri}/api/pets?limit=7")
        with pytest.raises(ToolError) as refused:
            await call(source, "list_pets", limit=7)
        for text in (str(late.value), str(refused.value)):
            assert text == "list_pets: the API did not answer in time (request_timeout)"
        over.set()

    if in_memory:
        async with running(from_asgi(silent, description=description, **msgspec.structs.asdict(options))) as source:
            await ask(source)
    else:
        async with running_application(silent) as port:
            options = msgspec.structs.replace(options, server=f"http://127.0.0.1:{port}")
            target = f"openapi+http://127.0.0.1:{port}/openapi.json"
            async with running(OpenAPISource(target, options, description=description)) as source:
                await ask(source)
    assert all(SECRET in unquote(one.decode()) for one in asked)
    assert len(asked) == 2 or not in_memory  # over HTTP, the time may be over before the request arrives
    assert "/pets did not answer within 0.2 seconds" in caplog.text
    assert SECRET not in caplog.text
    assert quote(SECRET, safe="") not in caplog.text
    assert "limit=7" not in caplog.text


async def test_errors_of_a_tool_name_no_url(caplog: pytest.LogCaptureFixture):
    source = OpenAPISource(
        "openapi+https://api.example/openapi.json",
        OpenAPIOptions(server="http://127.0.0.1:1/inside", read_tools=True),
        description={**pets_api().openapi(), "openapi": "3.1.0"},
    )
    async with running(source):
        with pytest.raises(ToolError) as caught:
            await call(source, "list_pets", limit=7)
    assert str(caught.value) == "The API cannot be reached: list_pets"
    assert "limit=7" not in caplog.text


async def test_a_description_that_cannot_be_fetched_is_a_clear_error():
    with pytest.raises(ConfigError, match="cannot be fetched"):
        async with running(OpenAPISource("openapi+http://127.0.0.1:1/openapi.json")):
            pass
