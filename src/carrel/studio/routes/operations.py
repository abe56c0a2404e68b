"""Routes of operations: tool calls, prompts and reads, with progress and cancellation, and completion of arguments."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from carrel.client.options import CallOptions
from carrel.studio.api import Completions
from carrel.studio.bodies import CompleteRequest, OperationRequest
from carrel.studio.operations import Progress
from carrel.studio.problems import Refused
from carrel.studio.routes.responses import as_json, read_body, reply, route
from carrel.studio.studio import Studio
from carrel.wire.completion import PromptReference, ResourceTemplateReference

__all__ = ["routes"]


def routes(studio: Studio) -> list[Route]:
    """Return the routes."""

    async def start(request: Request) -> Any:
        wanted = await read_body(request, OperationRequest)
        studio.servers.find(wanted.server)
        if not (wanted.uri if wanted.kind == "read" else wanted.name):
            raise Refused(400, "An operation needs the name of a tool or prompt, or the URI of a resource")
        view = await studio.operations.run(wanted.kind, lambda progress: work(studio, wanted, progress))
        return as_json(view, 202 if view.state == "running" else 201)

    async def get(request: Request) -> Any:
        return studio.operations.get(request.path_params["id"])

    async def cancel(request: Request) -> None:
        studio.operations.cancel(request.path_params["id"])

    async def complete(request: Request) -> Any:
        wanted = await read_body(request, CompleteRequest)
        studio.servers.find(wanted.server)
        if (wanted.template is None) == (wanted.prompt is None):
            raise Refused(400, "Name a template or a prompt")
        return await reply(studio.operations, "complete", lambda: completions(studio, wanted))

    return [
        route("POST", "/operations", start),
        route("GET", "/operations/{id}", get),
        route("DELETE", "/operations/{id}", cancel),
        route("POST", "/complete", complete),
    ]


async def work(studio: Studio, wanted: OperationRequest, progress: Progress) -> dict[str, Any]:
    """Send the request of an operation, and return the result as on the wire.

    Raises:
        MCPError: the server returns an error, or is not available.
    """
    host, server, name = studio.host, wanted.server, wanted.name or ""
    options: CallOptions = {"progress": progress, "handlers": studio.questions.handlers(server)}
    result: Any
    if wanted.kind == "read":
        result = await host.read_resource(server, wanted.uri or "", **options)
    elif wanted.kind == "call":
        result = await host.call_tool(server, name, wanted.arguments, **options)
    else:
        texts = msgspec.convert(wanted.arguments, dict[str, str])
        result = await host.get_prompt(server, name, texts, **options)
    values: dict[str, Any] = msgspec.to_builtins(result)
    return values


async def completions(studio: Studio, wanted: CompleteRequest) -> Completions:
    """Return a server's completions of a value.

    Raises:
        MCPError: the server returns an error, or is not available.
    """
    reference = (
        PromptReference(name=wanted.prompt)
        if wanted.prompt is not None
        else ResourceTemplateReference(uri=wanted.template or "")
    )
    found = await studio.host.complete(wanted.server, reference, wanted.argument, wanted.value, wanted.context)
    return Completions(values=tuple(found.values), total=found.total, has_more=bool(found.has_more))
