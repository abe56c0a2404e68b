"""Small descriptions in the style of large public APIs, and the requests that URIs and arguments become."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.catalog.provider import Request
from carrel.errors import InvalidParams, MCPError
from carrel.sources.openapi import from_asgi
from carrel.sources.openapi.document import ApiDocuments
from carrel.sources.openapi.operations import read_operations
from carrel.sources.openapi.parameters import ApiParameter, encode_path_value, query_pairs, read_value
from carrel.sources.openapi.routes import PathRoutes, build_url, read_query
from carrel.testing import running


def query(name: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, **more}


def path(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, **more}


TEXT, MANY = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
RANGE = {"type": "object", "properties": {"gte": {"type": "integer"}, "lt": {"type": "integer"}}}
RESPONSES = {"responses": {"200": {"description": "OK"}}}

PAYMENTS = {  # as payment providers do: expand[] and ranges in the query, forms as bodies
    "/v1/charges": {
        "get": {
            "operationId": "GetCharges",
            "parameters": [
                query("created", {"anyOf": [RANGE, {"type": "integer"}]}, style="deepObject", explode=True),
                query("range", RANGE, style="deepObject", explode=True),
                query("expand", MANY, style="deepObject", explode=True),
                query("limit", {"type": "integer"}),
            ],
            **RESPONSES,
        },
        "post": {
            "operationId": "PostCharges",
            "requestBody": {
                "content": {
                    "application/x-www-form-urlencoded": {
                        "schema": {"type": "object", "properties": {"amount": {"type": "integer"}, "metadata": {}}}
                    }
                }
            },
            **RESPONSES,
        },
    }
}
CODE = {  # as code hosts do: names with slashes, dashes, alternatives of types, two paths that look alike
    "/repos/{owner}/{repo}/contents/{path}": {
        "parameters": [path("owner"), path("repo"), path("path")],
        "get": {"operationId": "repos/get-content", "parameters": [query("per-page", TEXT)], **RESPONSES},
    },
    "/repos/{owner}/{repo}/contents/readme": {"get": {"operationId": "repos/get-readme", **RESPONSES}},
    "/repos/{owner}/{repo}/compare/{base}...{head}": {"get": {"operationId": "repos/compare", **RESPONSES}},
    "/projects/{project}": {
        "get": {
            "operationId": "projects/get",
            "parameters": [path("project", schema={"oneOf": [{"type": "integer"}, {"type": "string"}]})],
            **RESPONSES,
        }
    },
}
CLUSTER = {  # as cluster managers do: parameters of paths, many of them references
    "/apis/apps/v1/namespaces/{namespace}/deployments/{name}": {
        "parameters": [path("namespace"), path("name"), {"$ref": "#/components/parameters/pretty"}],
        "get": {"operationId": "readDeployment", **RESPONSES},
        "patch": {
            "operationId": "patchDeployment",
            "requestBody": {"content": {"application/merge-patch+json": {"schema": {"type": "object"}}}},
            **RESPONSES,
        },
    }
}
SEARCH = {  # lists separated by pipes and spaces, values as JSON, matrix and label paths
    "/search/{colors}/{size}": {
        "get": {
            "operationId": "search",
            "parameters": [
                path("colors", schema=MANY, style="matrix", explode=True),
                path("size", style="label"),
                query("tags", MANY, style="pipeDelimited", explode=False),
                query("words", MANY, style="spaceDelimited", explode=False),
                query("filter", {}, content={"application/json": {"schema": {"type": "object"}}}),
                query("strict", {"type": "boolean"}),
            ],
            **RESPONSES,
        }
    }
}


def describe(paths: dict[str, Any]) -> dict[str, Any]:
    parameters = {"pretty": query("pretty", {"type": "boolean"})}
    return {"openapi": "3.0.3", "paths": paths, "components": {"parameters": parameters}}


class Echo:
    """ASGI application that keeps the requests."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        target = scope["raw_path"].decode().partition("?")[0]
        if scope["query_string"]:
            target += "?" + scope["query_string"].decode()
        kind = dict(scope["headers"]).get(b"content-type", b"").decode()
        self.seen.append((scope["method"], target, kind, body))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


@pytest.mark.parametrize(
    ("paths", "uri", "sent"),
    [
        (PAYMENTS, "/v1/charges?range=gte,5,lt,9&limit=3", "/v1/charges?range[gte]=5&range[lt]=9&limit=3"),
        (PAYMENTS, "/v1/charges?range=%7B%22gte%22%3A5%7D", "/v1/charges?range[gte]=5"),
        (PAYMENTS, "/v1/charges?expand=a,b", "/v1/charges?expand[]=a&expand[]=b"),
        (CODE, "/repos/a/b/contents/src%2Fx%20y.py", "/repos/a/b/contents/src%2Fx%20y.py"),
        (CODE, "/repos/a/b/contents/readme", "/repos/a/b/contents/readme"),
        (CODE, "/repos/a/b/contents/x?per-page=1", "/repos/a/b/contents/x?per-page=1"),
        (CODE, "/repos/a/b/compare/v1.0...main", "/repos/a/b/compare/v1.0...main"),
        (CODE, "/projects/seven", "/projects/seven"),
        (CLUSTER, "/apis/apps/v1/namespaces/x/deployments/y?pretty=true", None),
        (SEARCH, "/search/red,blue/L?tags=a,b&words=c,d", "/search/;colors=red;colors=blue/.L?tags=a|b&words=c%20d"),
        (SEARCH, "/search/red/L?filter=%7B%22a%22%3A1%7D&strict=true", None),
    ],
)
async def test_a_uri_becomes_the_request_that_the_description_wants(paths: Any, uri: str, sent: str | None):
    echo = Echo()
    source = from_asgi(echo, describe(paths))
    async with running(source):
        await source.read_resource(f"openapi://app/api{uri}", Request())
    expected = sent or uri.replace("/search/red/L", "/search/;colors=red/.L")
    assert echo.seen[0][1].replace("%7C", "|").replace("%5B", "[").replace("%5D", "]") == expected


@pytest.mark.parametrize(
    ("paths", "tool", "arguments", "sent"),
    [
        (
            PAYMENTS,
            "PostCharges",
            {"body": {"amount": 5, "metadata": {"order": "a b&c"}}},
            ("POST", "/v1/charges", "application/x-www-form-urlencoded", b"amount=5&metadata[order]=a%20b%26c"),
        ),
        (
            CLUSTER,
            "patchDeployment",
            {"namespace": "n", "name": "d", "body": {"spec": {"replicas": 2}}},
            (
                "PATCH",
                "/apis/apps/v1/namespaces/n/deployments/d",
                "application/merge-patch+json",
                b'{"spec":{"replicas":2}}',
            ),
        ),
    ],
)
async def test_arguments_become_the_request_that_the_description_wants(
    paths: Any, tool: str, arguments: dict[str, Any], sent: tuple[str, str, str, bytes]
):
    echo = Echo()
    source = from_asgi(echo, describe(paths), write=True)
    async with running(source):
        await source.call_tool(tool, msgspec.Raw(msgspec.json.encode(arguments)), Request())
    assert echo.seen == [sent]


async def test_the_names_of_tools_are_what_clients_allow_and_each_is_there_once():
    paths = {f"/{number}": {"get": {"operationId": "a/b c", **RESPONSES}} for number in range(3)}
    paths["/x"] = {"get": {"operationId": "a_b_c", **RESPONSES}}
    names = [operation.tool for operation in read_operations(ApiDocuments(describe(paths), "http://a.example/x"))]
    assert len(set(names)) == 4
    assert all(name.replace("_", "").isalnum() for name in names)


@given(st.text(max_size=20), st.sampled_from(["simple", "label", "matrix"]), st.booleans())
def test_no_path_parameter_makes_another_segment(value: str, style: str, explode: bool):
    parameter = ApiParameter("id", "path", True, {}, style=style, explode=explode)
    try:
        text = encode_path_value(parameter, value)
    except InvalidParams:
        return
    assert "/" not in text
    assert text.strip(".") != "" or style == "label"
    assert text.isascii()
    assert not set(text) & set("?#\\ \n")


@given(st.text("abc,%={}[]\"'1-. \u00e9&+", max_size=30), st.sampled_from(["string", "integer", "array", "object"]))
def test_values_of_a_query_are_read_or_refused(text: str, kind: str):
    parameter = ApiParameter("q", "query", False, {}, kind=kind)
    try:
        value = read_value(parameter, [text])
    except InvalidParams:
        return
    for name, one in query_pairs(parameter, value):
        assert not set(name + one) & set("&# ?\n")


OPERATION = read_operations(ApiDocuments(describe(SEARCH), "http://a.example/x"))[0]


@given(st.text(max_size=60) | st.text("./%2eE5cfF\\?#@:;ax,=", max_size=60))
def test_every_request_stays_below_the_base(text: str):
    routes = PathRoutes()
    routes.add(OPERATION)
    where, _, asked = f"/search/{text}".partition("?")
    found = routes.find(where)
    if found is None:
        return
    try:
        values = {("path", one.name): read_value(one, [found[1][one.name]]) for one in OPERATION.located("path")}
        url = build_url("https://a.example/base", OPERATION, {**values, **read_query(OPERATION, asked)})
    except MCPError:
        return
    parts = urlsplit(url)
    assert parts.netloc == "a.example"
    assert parts.path.startswith("/base/search/")
    assert parts.path.count("/") == 4
