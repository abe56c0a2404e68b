"""Shared parts of the routes: bodies and parameters of requests, JSON and error responses, and operations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from carrel.studio.api import OperationKind, Problem
from carrel.studio.gate import Receive, Scope, Send, respond
from carrel.studio.operations import PageOperations
from carrel.studio.problems import Refused, problem_of

__all__ = ["Handler", "as_json", "number", "read_body", "read_bytes", "reply", "required", "route", "while_connected"]

T = TypeVar("T")
Handler: TypeAlias = Callable[[Request], Awaitable[Any]]
#: Bytes of the body of a request.
MAX_BODY = 4 * 1024 * 1024


def route(method: str, path: str, handler: Handler) -> Route:
    """Return a route. The handler returns a response, or a value that is sent as JSON; None is an empty response."""

    async def endpoint(request: Request) -> Response:
        try:
            result = await handler(request)
        except Exception as error:
            return problem_response(problem_of(error))
        return result if isinstance(result, Response) else as_json(result)

    return Route(f"/api{path}", endpoint, methods=[method])


def as_json(value: Any, status: int = 200) -> Response:
    """Return a JSON response, or an empty one for None."""
    headers = {"cache-control": "no-store"}
    if value is None:
        return Response(status_code=204, headers=headers)
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def problem_response(problem: Problem) -> Response:
    """Return an error response."""
    headers = {"cache-control": "no-store"}
    return Response(msgspec.json.encode(problem), problem.status, headers, "application/problem+json")


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request for a path that is no route."""
    await respond(send, 404, "There is no such path in the API")


async def read_body(request: Request, type: type[T]) -> T:
    """Return the body of a request.

    Raises:
        Refused: it is too long, or is not JSON.
        msgspec.DecodeError: it is not valid.
    """
    return msgspec.json.decode(await read_bytes(request, "application/json", MAX_BODY), type=type)


async def read_bytes(request: Request, media_type: str, most: int) -> bytes:
    """Return the body of a request, as bytes.

    Raises:
        Refused: it is too long, or has another media type.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != media_type:
        raise Refused(415, f"The body must be {media_type}")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise Refused(413, f"The body has more than {most:,} bytes")
    return bytes(body)


def required(request: Request, name: str) -> str:
    """Return a parameter of the query.

    Raises:
        ValueError: it is missing.
    """
    value = request.query_params.get(name)
    if not value:
        raise ValueError(f"The parameter {name} is missing")
    return value


def number(request: Request, name: str, default: int, most: int) -> int:
    """Return a number in the query: from 0 to ``most``.

    Raises:
        ValueError: it is not a number.
    """
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 15:
        raise ValueError(f"The parameter {name} is not a number")
    return min(int(text), most)


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work. Cancel it if the client closes the connection, as a page does at the next key press.

    Raises:
        Refused: the client closed the connection.
    """
    task = asyncio.ensure_future(work)
    left = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait((task, left), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Refused(400, "The client has closed the connection")
        return task.result()
    finally:
        for each in (task, left):
            each.cancel()


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def reply(operations: PageOperations, kind: OperationKind, work: Callable[[], Awaitable[Any]]) -> Response:
    """Return the result of a request that may take time, or status 202 with the id of the operation."""
    view = await operations.run(kind, lambda _: work())
    if view.state == "running":
        return as_json({"operation": view.id}, 202)
    if view.error is not None:
        return problem_response(view.error)
    return as_json(view.result)
