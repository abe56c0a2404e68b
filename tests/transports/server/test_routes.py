"""HTTP routes beside the MCP endpoint: functions and ASGI applications, their limits, and paths they cannot have."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route as StarletteRoute

from carrel import Server
from carrel.errors import ConfigError
from carrel.security import StaticTokens
from carrel.security.server.static_tokens import make_token
from carrel.transports.server.route import HTTPRequest, HTTPResponse
from support.http_requests import ask
from support.http_server import over_http

Reply = tuple[int, dict[str, str], bytes | str]


async def echo(request: HTTPRequest) -> Reply:
    return 201, {"content-type": "text/plain", "x-method": request.method}, f"{request.query} {request.body.decode()}"


async def hello(request: HTTPRequest) -> HTTPResponse:
    return HTTPResponse(200, [("content-type", "text/plain")], "hello")


@pytest.fixture
def app() -> Server:
    app = Server("routed")

    @app.resource("memo://open")
    async def memo() -> str:
        return "open"

    return app


def test_a_function_gets_the_request_and_returns_status_headers_and_body(app: Server) -> None:
    app.route("/echo", methods=["POST", "PUT"])(echo)
    with over_http(app) as origin:
        answer = httpx2.post(f"{origin}/echo?a=%20b", content=b"body")
        assert (answer.status_code, answer.text) == (201, "a=%20b body")
        assert (answer.headers["content-type"], answer.headers["x-method"]) == ("text/plain", "POST")
        assert ask(f"{origin}/mcp", "resources/read", uri="memo://open").status == 200


def test_head_is_answered_where_get_is_and_other_methods_are_refused_with_those_that_are_allowed(app: Server) -> None:
    app.route("/hello")(hello)
    with over_http(app) as origin:
        head = httpx2.head(f"{origin}/hello")
        assert (head.status_code, head.headers["content-length"], head.content) == (200, "5", b"")
        refused = httpx2.post(f"{origin}/hello")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
        assert httpx2.get(f"{origin}/hello/there").status_code == 404


def test_host_and_origin_are_checked_as_for_the_endpoint(app: Server) -> None:
    app.route("/hello")(hello)
    with over_http(app, allowed_origins="https://page.example") as origin:
        assert httpx2.get(f"{origin}/hello", headers={"host": "evil.example"}).status_code == 403
        assert httpx2.get(f"{origin}/hello", headers={"origin": "https://evil.example"}).status_code == 403
        seen = httpx2.get(f"{origin}/hello", headers={"origin": "https://page.example"})
        assert seen.headers["access-control-allow-origin"] == "https://page.example"
        preflight = httpx2.options(f"{origin}/hello", headers={"origin": "https://page.example"})
        assert preflight.status_code == 204


def test_a_body_above_the_limit_of_the_route_is_refused(app: Server) -> None:
    app.route("/echo", methods="POST", max_body=10)(echo)
    with over_http(app) as origin:
        assert httpx2.post(f"{origin}/echo", content=b"x" * 10).status_code == 201
        refused = httpx2.post(f"{origin}/echo", content=b"x" * 11)
        assert refused.status_code == 413
        assert "at most 10 bytes (max_body)" in refused.text


def test_an_exception_of_a_handler_is_logged_and_not_told(app: Server, caplog: pytest.LogCaptureFixture) -> None:
    @app.route("/broken")
    async def broken(request: HTTPRequest) -> Reply:
        raise ValueError("secret detail")

    @app.route("/split")
    async def split(request: HTTPRequest) -> Reply:
        return 200, {"location": "/a\r\nset-cookie: b=c"}, b""

    with over_http(app) as origin:
        for path in ("/broken", "/split"):
            answer = httpx2.get(f"{origin}{path}")
            assert (answer.status_code, answer.text) == (500, "Internal server error")
            assert "set-cookie" not in answer.headers
        assert httpx2.get(f"{origin}/healthz").status_code == 200
    assert "the route /broken failed" in caplog.text
    assert "secret detail" in caplog.text


def test_routes_need_no_token_unless_they_are_authorized(app: Server, tmp_path: Any) -> None:
    token, line = make_token("alice")
    (tmp_path / "tokens").write_text(line)
    app.route("/hello")(hello)

    @app.route("/me", authorized=True)
    async def me(request: HTTPRequest) -> Reply:
        assert request.principal is not None
        return 200, {}, f"{request.principal.subject} {'authorization' in request.headers}"

    with over_http(app, authorization=StaticTokens(tmp_path / "tokens")) as origin:
        assert httpx2.get(f"{origin}/hello").status_code == 200
        assert httpx2.get(f"{origin}/me").status_code == 401
        seen = httpx2.get(f"{origin}/me", headers={"authorization": f"Bearer {token}"})
        assert (seen.status_code, seen.text) == (200, "alice False")


def test_an_asgi_application_answers_for_all_paths_below_its_own(app: Server, tmp_path: Any) -> None:
    token, line = make_token("alice")
    (tmp_path / "tokens").write_text(line)

    async def page(request: Request) -> PlainTextResponse:
        caller = request.scope["carrel.principal"]
        return PlainTextResponse(
            f"{request.path_params['name']} {caller and caller.subject} {'authorization' in request.headers}"
        )

    site = Starlette(routes=[StarletteRoute("/{name}", page)])
    app.route("/site/*")(site)
    app.route("/private/*", authorized=True)(site)
    with over_http(app, authorization=StaticTokens(tmp_path / "tokens")) as origin:
        assert httpx2.get(f"{origin}/site/one").text == "one None False"
        assert httpx2.get(f"{origin}/private/one").status_code == 401
        seen = httpx2.get(f"{origin}/private/one", headers={"authorization": f"Bearer {token}"})
        assert seen.text == "one alice False"
        assert httpx2.get(f"{origin}/elsewhere").status_code == 404


def test_a_route_for_everything_leaves_the_endpoint_and_the_health_check_alone(app: Server) -> None:
    app.route("/*", methods=["GET", "POST"])(hello)
    with over_http(app, sse_path="/sse") as origin:
        assert httpx2.get(f"{origin}/anything/at/all").text == "hello"
        assert httpx2.get(f"{origin}/healthz").json() == {"status": "ok"}
        assert ask(f"{origin}/mcp", "resources/read", uri="memo://open").status == 200
        assert ask(f"{origin}/mcp/", "resources/read", uri="memo://open").status == 200
        assert httpx2.post(f"{origin}/sse/messages").status_code != 200


@pytest.mark.parametrize(
    "path", ["/mcp", "/mcp/", "/healthz", "/sse", "/sse/messages", "/.well-known/oauth-protected-resource/mcp"]
)
def test_a_route_cannot_have_a_path_of_the_server_itself(app: Server, path: str) -> None:
    app.route(path)(hello)
    with pytest.raises(ConfigError, match="a path of the server itself"):
        app.asgi(sse_path="/sse")


def test_two_routes_with_one_path_need_different_methods(app: Server) -> None:
    app.route("/one")(hello)
    app.route("/one", methods="POST")(echo)
    app.asgi()
    app.route("/one", methods=["POST", "DELETE"])(echo)
    with pytest.raises(ConfigError, match="two routes have the path /one and a method in common"):
        app.asgi()


def test_an_authorized_route_needs_authorization(app: Server) -> None:
    app.route("/me", authorized=True)(hello)
    with pytest.raises(ConfigError, match="authorized=True, but there is no authorization"):
        app.asgi()


@pytest.mark.parametrize(
    ("path", "options", "problem"),
    [
        ("stats", {}, "is not a path"),
        ("/a/*/b", {}, "is not a path"),
        ("/a*", {}, "only as the end"),
        ("/a?b=c", {}, "is not a path"),
        ("/a", {"methods": ()}, "methods are names"),
        ("/a", {"methods": "OPTIONS"}, "methods are names"),
        ("/a", {"max_body": 0}, "max_body must be more than 0"),
    ],
)
def test_a_route_that_makes_no_sense_is_an_error_at_once(
    app: Server, path: str, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        app.route(path, **options)(hello)


def test_a_handler_is_an_asynchronous_function_of_one_request(app: Server) -> None:
    for handler in (lambda request: (200, {}, b""), lambda: None, 5):
        with pytest.raises(ConfigError, match="asynchronous function of one request"):
            app.route("/a")(handler)  # type: ignore[type-var]
