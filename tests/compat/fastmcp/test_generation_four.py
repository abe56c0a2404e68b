"""What FastMCP 4 has in addition: modes of clients, templates with lists, helpers, checks of tokens."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from carrel.compat import generation
from carrel.compat.fastmcp import Client, Context, FastMCP, utilities
from carrel.compat.fastmcp.borrowed import installed_folders
from carrel.compat.fastmcp.client.auth import ClientCredentialsOAuthProvider
from carrel.compat.fastmcp.client.transports import StreamableHttpTransport
from carrel.compat.fastmcp.exceptions import (
    DisabledError,
    InsufficientScopeError,
    McpError,
    NotFoundError,
    ResourceSecurityError,
    ToolError,
    to_mcp_error,
)
from carrel.compat.fastmcp.prompts import prompt
from carrel.compat.fastmcp.resources.template import expand_uri_template, match_uri_template
from carrel.compat.fastmcp.server.auth import AccessToken, AuthContext, require_roles
from carrel.compat.fastmcp.server.auth.providers.introspection import IntrospectionTokenVerifier
from carrel.compat.fastmcp.server.auth.redirect_validation import (
    build_client_redirect,
    is_redirect_uri_allowed_for_application_type,
)
from carrel.compat.fastmcp.server.completions import normalize_completion
from carrel.compat.fastmcp.server.context import reset_transport, set_transport
from carrel.compat.fastmcp.server.dependencies import get_http_headers, get_http_request
from carrel.compat.fastmcp.server.event_store import EventStore, SessionScopedEventStore
from carrel.compat.fastmcp.server.middleware.error_handling import ErrorHandlingMiddleware
from carrel.compat.fastmcp.server.middleware.middleware import Middleware
from carrel.compat.fastmcp.server.providers.remote import ProxyClient
from carrel.compat.fastmcp.server.proxy import create_proxy
from carrel.compat.fastmcp.tools import tool
from carrel.compat.fastmcp.utilities import types
from carrel.compat.fastmcp.utilities.pagination import paginate_sequence
from carrel.compat.fastmcp.utilities.tests import run_server_async
from carrel.compat.fastmcp.utilities.types import Audio, File, Image, find_kwarg_by_type, replace_type
from carrel.compat.mcp2 import types as mcp_types
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.types.jsonrpc import JSONRPCRequest
from carrel.protocol.revisions import LATEST, LATEST_HANDSHAKE


@pytest.fixture(autouse=True)
def _version_four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "_running", 2)


def _shop() -> FastMCP:
    mcp = FastMCP("shop", instructions="Buy.", version="7")

    @mcp.resource("shop://{user-id}/café{?tags*,sizes,page}")
    def items(user_id: str, tags: list[str] | None = None, sizes: list[int] | None = None, page: int = 1) -> str:
        return f"{user_id} {tags} {sizes} {page}"

    @mcp.tool
    async def ask(ctx: Context) -> str:
        answer: Any = await ctx.elicit("Which?", response_type=str)
        return f"{answer.action} {answer.data}"

    return mcp


@pytest.mark.parametrize(
    ("mode", "revision"),
    [
        ("auto", LATEST.name),
        (LATEST.name, LATEST.name),
        ("legacy", LATEST_HANDSHAKE.name),
        (None, LATEST_HANDSHAKE.name),
    ],
)
async def test_a_client_opens_its_session_in_the_revision_of_its_mode_and_answers_forms(
    mode: str | None, revision: str
) -> None:
    async def choose(message: str, response_type: Any, params: Any, context: Any) -> Any:
        return {"value": message}

    async with Client(_shop(), mode=mode, elicitation_handler=choose) as client:
        assert client.protocol_version == revision
        assert client.instructions == "Buy."
        assert client.server_info is not None
        assert client.server_info.version == "7"
        assert client.server_capabilities is not None
        assert (await client.call_tool("ask")).data == "accept Which?"


def test_a_mode_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match="mode must be 'legacy', 'auto', or one of"):
        Client(_shop(), mode="newest")
    with pytest.raises(ValueError, match="use mode='legacy'"):
        Client(_shop(), mode=LATEST_HANDSHAKE.name)
    with pytest.raises(ValueError, match="only supported for HTTP"):
        Client(_shop(), verify=False)


async def test_variables_of_templates_may_be_lists_and_have_hyphens_and_their_text_may_be_encoded() -> None:
    async with Client(_shop()) as client:
        for uri, text in (
            ("shop://a%20b/caf%C3%A9?tags=x&tags=y%2Cz&sizes=1,2&page=3", "a b ['x', 'y,z'] [1, 2] 3"),
            ("shop://a/caf%c3%a9", "a None None 1"),
        ):
            assert (await client.read_resource(uri))[0].text == text
    values = {"user_id": "a/b", "tags": ["x y", "z"], "sizes": [1, 2]}
    uri = expand_uri_template("shop://{user-id}/é{?tags*,sizes,page}", values)
    assert uri == "shop://a%2Fb/%C3%A9?tags=x%20y&tags=z&sizes=1,2"
    found = match_uri_template(uri, "shop://{user-id}/é{?tags*,sizes,page}", list_params={"sizes"})
    assert found == {"user_id": "a/b", "tags": ["x y", "z"], "sizes": ["1", "2"]}
    assert match_uri_template("shop://a?page=#top", "shop://{id}{?page}") == {"id": "a", "page": ""}
    assert match_uri_template("shop://a", "shop://{1}") is None


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("x://{a-b}/{a_b}", "both normalize to 'a_b'"),
        ("x://{a_b}{?page*}", "must accept a list"),
        ("x://{other}", "must be a subset of the URI path parameters"),
    ],
)
def test_templates_that_do_not_fit_their_function_are_refused(template: str, message: str) -> None:
    def read(a_b: str, page: int = 1) -> str:
        return f"{a_b}{page}"

    with pytest.raises(ValueError, match=message):
        FastMCP("wrong").resource(template)(read)


def test_media_have_the_usual_mime_types() -> None:
    assert Image(data=b"x", format="jpg").to_image_content().mimeType == "image/jpeg"
    assert Audio(data=b"x", format="mp3").to_audio_content().mimeType == "audio/mpeg"
    resource = File(data=b"# x", format="md", name="read me").to_resource_content().resource
    assert (str(resource.uri), resource.mimeType) == ("file:///read%20me.md", "text/markdown")


def test_annotations_are_found_and_replaced() -> None:
    def function(a: int, ctx: Context | None = None) -> None: ...

    assert find_kwarg_by_type(function, Context) == "ctx"
    assert replace_type(dict[str, list[int]], {int: str}) == dict[str, list[str]]


async def test_roles_are_read_from_the_claims_of_a_token() -> None:
    check = require_roles("admin", extract=lambda claims: claims["realm"]["roles"])
    for claims, allowed in (
        ({"realm": {"roles": ["admin"]}}, True),
        ({"realm": {"roles": "admin"}}, True),
        ({}, False),
    ):
        token = AccessToken(token="x", client_id="c", scopes=[], claims=claims)
        assert check(AuthContext(token, None)) is allowed
    with pytest.raises(ValueError, match="at least one role"):
        require_roles(extract=lambda claims: [])


@pytest.mark.parametrize(
    ("given", "accepted"), [("us", True), (["them", "us"], True), ("them", False), (None, False), (["us", 1], False)]
)
async def test_an_introspected_token_must_be_for_the_audience(given: Any, accepted: bool) -> None:
    async def introspect(request: httpx.Request) -> httpx.Response:
        assert request.headers["Authorization"] == f"Basic {base64.b64encode(b'me:secret').decode()}"
        return httpx.Response(200, json={"active": True, "client_id": "c", "scope": "read", "aud": given})

    async with httpx.AsyncClient(transport=httpx.MockTransport(introspect)) as http:
        verifier = IntrospectionTokenVerifier(
            introspection_url="https://issuer.test/introspect",
            client_id="me",
            client_secret="secret",
            audience="us",
            http_client=http,
        )
        assert (await verifier.verify_token("token") is not None) is accepted


def test_redirects_have_one_issuer_and_fit_the_kind_of_application() -> None:
    url = build_client_redirect("https://a.test/x?flag&iss=old", {"code": "1 2"}, iss="https://me.test")
    assert url == "https://a.test/x?flag&iss=https%3A%2F%2Fme.test&code=1+2"
    for uri, kind, allowed in (
        ("https://a.test/x", "web", True),
        ("https://localhost/x", "web", False),
        ("http://127.0.0.1:1/x", "native", True),
        ("http://a.test/x", None, False),
        ("vscode://x", "native", True),
        ("javascript:alert(1)", "native", False),
    ):
        assert is_redirect_uri_allowed_for_application_type(uri, kind) is allowed


def test_exceptions_have_the_codes_of_error_responses() -> None:
    for error in (NotFoundError("x"), DisabledError("x"), ResourceSecurityError("x")):
        assert to_mcp_error(error).error.code == -32602
    assert to_mcp_error(ToolError("x")).error.code == -32603
    given = McpError(to_mcp_error(ToolError("x")).error)
    assert to_mcp_error(given) is given
    assert InsufficientScopeError(["a", "b"]).args == ("Insufficient scope. Required: a, b",)


async def test_errors_and_models_of_clients_are_those_of_mcp_2_too() -> None:
    class Refusing(Middleware):
        async def on_get_prompt(self, context: Any, call_next: Any) -> Any:
            raise MCPError(-32050, f"no {context.message.arguments['what']}")

    seen: list[Exception] = []
    handling = ErrorHandlingMiddleware(error_callback=lambda error, _: seen.append(error))
    mcp = FastMCP("shop", middleware=[handling, Refusing()])

    @mcp.prompt
    def buy(what: str) -> str:
        return what

    async with Client(mcp) as client:
        with pytest.raises(MCPError, match="no tea") as found:
            await client.get_prompt("buy", {"what": "tea"})
        with pytest.raises(McpError, match="no milk"):
            await client.get_prompt("buy", {"what": "milk"})
        [prompt] = await client.list_prompts()
    assert (found.value.code, [type(each) for each in seen]) == (-32050, [MCPError] * 2)
    assert isinstance(prompt, mcp_types.Prompt)
    assert not isinstance(prompt, mcp_types.Tool)
    arguments = [mcp_types.PromptArgument(name="what", required=True)]
    assert prompt.arguments == arguments == prompt.arguments
    assert prompt.arguments != [mcp_types.PromptArgument(name="what", required=False)]
    whole = mcp_types.ListPromptsResult(prompts=[prompt])
    assert (type(whole.prompts[0]), whole.prompts[0].arguments) == (mcp_types.Prompt, arguments)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_function_completes_the_arguments_of_prompts_inside_of_the_middleware(mode: str) -> None:
    seen: list[str | None] = []

    class Seeing(Middleware):
        async def on_request(self, context: Any, call_next: Any) -> Any:
            seen.append(context.method)
            return await call_next(context)

    mcp = FastMCP("shop", middleware=[Seeing()])

    @mcp.completion
    def complete(reference: Any, argument: Any, context: Any) -> list[str] | None:
        if isinstance(reference, mcp_types.PromptReference):
            return [f"{argument.value}{number}" for number in range(150)]
        return None

    async with Client(mcp, mode=mode) as client:
        seen.clear()
        found = await client.complete(mcp_types.PromptReference(name="buy"), {"name": "what", "value": "t"})
        none = await client.complete(mcp_types.ResourceTemplateReference(uri="a://{b}"), {"name": "b", "value": ""})
    assert (len(found.values), found.total, found.hasMore, none.values) == (100, 150, True, [])
    assert seen == ["completion/complete"] * 2


def test_a_completion_is_a_list_of_strings() -> None:
    with pytest.raises(TypeError, match="not str"):
        normalize_completion("tea")
    assert normalize_completion(["tea"]).values == ["tea"]


async def test_results_have_the_freshness_hint_of_the_server() -> None:
    mcp = FastMCP("shop", tools=[len], cache_ttl=60, cache_scope="public")
    async with Client(mcp, mode="auto") as client:
        found = await client.session.list_tools()
    assert (found.ttl_ms, found.cache_scope) == (60_000, "public")
    with pytest.raises(ValueError, match="requires cache_ttl"):
        FastMCP(cache_scope="public")
    with pytest.raises(ValueError, match="positive"):
        FastMCP(cache_ttl=0)


async def test_a_handler_of_notifications_gets_their_parameters() -> None:
    mcp = FastMCP("shop")
    seen: asyncio.Queue[Any] = asyncio.Queue()

    async def handle(context: Any, params: Any) -> None:
        await seen.put(params)

    mcp._mcp_server.add_notification_handler("notifications/progress", mcp_types.ProgressNotificationParams, handle)
    with pytest.raises(ValueError, match="no client sends"):
        mcp._mcp_server.add_notification_handler("a/b", mcp_types.NotificationParams, handle)
    async with Client(mcp) as client:
        await client.session.send_progress_notification("t", 1.0, 2.0)
        found = await seen.get()
    assert (found.progress_token, found.progress, found.total) == ("t", 1.0, 2.0)


async def test_an_event_store_replays_the_later_events_of_a_stream_and_keeps_the_last_ones() -> None:
    store = EventStore(max_events_per_stream=3)
    requests = [JSONRPCRequest(jsonrpc="2.0", id=number, method="tools/list") for number in range(3)]
    first = await store.store_event("a", requests[0])
    other = await store.store_event("b", requests[0])
    position = await store.store_event("a", None)
    last = await store.store_event("a", requests[1])
    found: list[Any] = []

    async def send(event: Any) -> None:
        found.append(event)

    assert await store.replay_events_after(first, send) == "a"
    assert [(event.event_id, event.message) for event in found] == [(last, requests[1])]
    found.clear()
    await store.store_event("a", requests[2])
    assert [await store.replay_events_after(each, send) for each in (first, "unknown", other)] == [None, None, "b"]
    assert found == []
    assert await store.replay_events_after(position, send) == "a"
    assert [event.message.id for event in found] == [1, 2]


async def test_a_session_replays_no_events_of_another_session() -> None:
    store = EventStore()
    sessions = [SessionScopedEventStore(store, name) for name in "ab"]
    events = [await session.store_event("1", None) for session in sessions]
    request = JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")
    for session in sessions:
        await session.store_event("1", request)
    found: list[Any] = []

    async def send(event: Any) -> None:
        found.append(event)

    assert await sessions[0].replay_events_after(events[1], send) is None
    assert await sessions[0].replay_events_after(events[0], send) == "1"
    assert [event.message for event in found] == [request]


@pytest.mark.parametrize("offset", ["1", 1.5, -1, True, None, [0]])
def test_a_cursor_with_a_malformed_offset_is_an_error(offset: object) -> None:
    cursor = base64.urlsafe_b64encode(json.dumps({"o": offset}).encode()).decode()
    with pytest.raises(ValueError, match="Invalid cursor"):
        paginate_sequence([1, 2], cursor, 1)


@pytest.mark.parametrize("forward", [True, False])
async def test_a_proxy_passes_on_the_headers_of_its_client_if_it_should(forward: bool) -> None:
    backend = FastMCP("backend")

    @backend.tool
    def caller() -> str | None:
        return get_http_headers().get("x-caller")

    @backend.tool
    def key() -> str:
        return ",".join(get_http_request().headers.getlist("x-key"))

    async with run_server_async(backend) as url:
        target = StreamableHttpTransport(url, headers={"X-Key": "proxy"})
        proxy = create_proxy(ProxyClient[Any](target, forward_incoming_headers=forward))
        async with (
            run_server_async(proxy) as front,
            Client(StreamableHttpTransport(front, headers={"x-caller": "me", "x-key": "me"})) as client,
        ):
            found = [(await client.call_tool(name, {})).data for name in ("caller", "key")]
    assert found == ["me" if forward else None, "proxy"]


@pytest.mark.parametrize("mark", [tool, prompt])
def test_a_decorator_refuses_class_methods_and_two_names(mark: Any) -> None:
    with pytest.raises(TypeError, match="classmethod"):
        mark(classmethod(len))
    with pytest.raises(TypeError, match="Cannot specify a name both"):
        mark("a", name="b")


def test_a_program_can_set_the_transport_that_contexts_name() -> None:
    context = Context(fastmcp=FastMCP("shop"))
    token = set_transport("sse")
    assert context.transport == "sse"
    reset_transport(token)
    assert context.transport is None


async def test_client_credentials_get_their_url_from_the_client_and_a_token_from_the_issuer() -> None:
    issuer, forms = "https://issuer.test", list[str]()

    async def answer(request: httpx.Request) -> httpx.Response:
        found: dict[str, Any] = {
            "/.well-known/oauth-protected-resource/mcp": {
                "resource": "https://shop.test/mcp",
                "authorization_servers": [issuer],
            },
            "/.well-known/oauth-authorization-server": {
                "issuer": issuer,
                "authorization_endpoint": f"{issuer}/authorize",
                "token_endpoint": f"{issuer}/token",
                "response_types_supported": ["code"],
            },
            "/token": {"access_token": "secret-token", "token_type": "Bearer", "expires_in": 60},
        }
        if request.url.path == "/token":
            forms.append(request.content.decode())
        if request.url.path != "/mcp":
            known = request.url.path in found
            return httpx.Response(200 if known else 404, json=found.get(request.url.path, {}))
        return httpx.Response(200 if request.headers.get("Authorization") == "Bearer secret-token" else 401)

    provider = ClientCredentialsOAuthProvider(client_id="me", client_secret="x", scopes=["a", "b"], issuer=issuer)
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), auth=provider) as http:
        with pytest.raises(RuntimeError, match="has no server URL"):
            await http.post("https://shop.test/mcp")
        Client("https://shop.test/mcp", auth=provider)
        assert (await http.post("https://shop.test/mcp")).status_code == 200
    assert "grant_type=client_credentials" in forms[0]
    assert "scope=a+b" in forms[0]


def test_helpers_come_from_the_installed_package_which_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "fastmcp" / "utilities"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise RuntimeError")
    (folder / "made_up_helper.py").write_text("ANSWER = 42")
    (folder / "types.py").write_text("raise RuntimeError")
    monkeypatch.syspath_prepend(tmp_path)
    assert installed_folders("utilities") == [str(folder)]
    assert installed_folders("made_up") == []
    monkeypatch.setattr(utilities, "__path__", [*utilities.__path__, str(folder)])
    assert import_module(f"{utilities.__name__}.made_up_helper").ANSWER == 42
    monkeypatch.delitem(sys.modules, f"{utilities.__name__}.made_up_helper")
    assert find_spec(f"{utilities.__name__}.types").origin == types.__file__  # type: ignore[union-attr]
