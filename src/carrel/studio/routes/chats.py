"""Routes of conversations with a model: the list, messages, approvals of calls, and the models."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from carrel.studio.chat_api import CallDecision, ChatChange, ChatMessage, ChatSummaries
from carrel.studio.routes.responses import as_json, number, read_body, reply, route
from carrel.studio.studio import Studio

__all__ = ["routes"]


def routes(studio: Studio) -> list[Route]:
    """Return the routes."""
    chats = studio.chats

    async def list_all(request: Request) -> Any:
        return ChatSummaries(chats=await chats.list(request.query_params.get("q", "")))

    async def new(request: Request) -> Any:
        return as_json(chats.new().view(), 201)

    async def get(request: Request) -> Any:
        first, revision = number(request, "first", 0, 2**31), number(request, "revision", 0, 2**31)
        return chats.find(request.path_params["id"]).view(first, revision)

    async def change(request: Request) -> Any:
        wanted = await read_body(request, ChatChange)
        return await reply(studio.operations, "chat", lambda: chats.change(request.path_params["id"], wanted))

    async def delete(request: Request) -> None:
        await chats.delete(request.path_params["id"])

    async def send(request: Request) -> Any:
        message = await read_body(request, ChatMessage)
        return await reply(studio.operations, "chat", lambda: chats.send(request.path_params["id"], message))

    async def retry(request: Request) -> Any:
        return await chats.retry(request.path_params["id"])

    async def stop(request: Request) -> None:
        await chats.find(request.path_params["id"]).stop()

    async def decide(request: Request) -> None:
        decision = await read_body(request, CallDecision)
        chats.find(request.path_params["id"]).decide(request.path_params["call"], decision)

    async def result(request: Request) -> Any:
        wanted = request.path_params
        return chats.find(wanted["id"]).outcome(wanted["message"], wanted["call"])

    async def models(request: Request) -> Any:
        return await reply(studio.operations, "models", chats.models.list)

    return [
        route("GET", "/chats", list_all),
        route("POST", "/chats", new),
        route("GET", "/chats/{id}", get),
        route("PATCH", "/chats/{id}", change),
        route("DELETE", "/chats/{id}", delete),
        route("POST", "/chats/{id}/messages", send),
        route("POST", "/chats/{id}/retry", retry),
        route("POST", "/chats/{id}/stop", stop),
        route("POST", "/chats/{id}/calls/{call}", decide),
        route("GET", "/chats/{id}/messages/{message:int}/results/{call}", result),
        route("GET", "/models", models),
    ]
