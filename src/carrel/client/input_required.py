"""Multi round-trip requests (MRTR): handles input requests, and sends the request again with the input responses.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw

from carrel.client.answers import ClientHandlers
from carrel.client.handlers import Origin
from carrel.errors import InvalidMessage, InvalidParams, MethodNotFound, PeerError, ProtocolError
from carrel.printable import printable
from carrel.protocol import unknown
from carrel.protocol.encoding import encode
from carrel.protocol.revisions import SERVER_REQUESTS
from carrel.wire.base import Params, prepared
from carrel.wire.client_features import ElicitParams, InputRequest, InputRequiredResult

__all__ = ["MAX_ROUNDS", "answer_all", "next_round", "open_pages"]

P = TypeVar("P", bound=Params)
T = TypeVar("T")

#: Maximum number of ``input_required`` results for one request.
MAX_ROUNDS = 20
#: Seconds to wait before the next round if a result has no input requests.
PAUSE = 0.1
#: Seconds to wait for the completion of a URL elicitation, after the user agreed to visit the page.
PAGE_TIME = 600.0


async def next_round(params: P, result: InputRequiredResult, handlers: ClientHandlers, origin: Origin) -> P:
    """Return the parameters of the next round: the previous ones, with the input responses and the request state.

    Raises:
        ProtocolError: an input request cannot be answered, or there is neither an input request nor a state.
    """
    if result.input_requests is None and result.request_state is None:
        raise InvalidMessage("The server returned input_required without input requests and without a request state")
    responses: Any = UNSET
    if result.input_requests is not None:
        responses = Raw(encode(await answer_all(result.input_requests, handlers, origin)))
    else:
        await asyncio.sleep(PAUSE)
    return msgspec.structs.replace(params, input_responses=responses, request_state=result.request_state)


async def answer_all(requests: Mapping[str, InputRequest], handlers: ClientHandlers, origin: Origin) -> dict[str, Any]:
    """Handle the input requests of a server, and return the responses by key.

    The handlers are called sequentially, as there is one user, unless ``together`` is set.

    Raises:
        ProtocolError: a request is invalid, or there is no handler for it.
    """
    asked = [answer_one(key, request, handlers, origin) for key, request in requests.items()]
    if handlers.together_for(origin.call):
        return dict(zip(requests, await all_of(asked), strict=True))
    try:
        return {key: await each for key, each in zip(requests, asked, strict=True)}
    finally:
        for each in asked:
            each.close()


async def all_of(asked: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of coroutines that run at the same time. If one fails, the others are cancelled."""
    tasks = [asyncio.ensure_future(each) for each in asked]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def answer_one(key: str, request: InputRequest, handlers: ClientHandlers, origin: Origin) -> Any:
    """Answer an input request of a server, and return the response.

    Raises:
        ProtocolError: the input request is invalid, or there is no handler for it.
    """
    row = SERVER_REQUESTS.get(request.method)
    if row is None:
        raise ProtocolError(f"The server sent an unknown input request: {printable(request.method, 100)}")
    try:
        given = {} if request.params is None else request.params
        params = msgspec.convert(given, prepared(row.params))
        if handlers.untouched_for(origin.call):
            params = unknown.kept(params, given)
        return await handlers.answer(row.operation, params, msgspec.structs.replace(origin, key=key))
    except msgspec.ValidationError as error:
        raise InvalidMessage(f"The server's input request {printable(request.method)} is invalid: {error}") from None
    except (MethodNotFound, InvalidParams) as error:
        raise ProtocolError(
            f"The server requested {request.method}, which this client did not declare: {error}"
        ) from None


async def open_pages(error: PeerError, handlers: ClientHandlers, origin: Origin) -> bool:
    """Handle a URL elicitation required error: have the user visit its pages; return whether to retry the request."""
    try:
        pages = msgspec.convert(error.data["elicitations"], prepared(list[ElicitParams]))
    except (msgspec.ValidationError, TypeError, KeyError):
        return False
    if not pages or any(page.mode != "url" for page in pages):
        return False
    for page in pages:
        try:
            answer = await handlers.answer("elicit", page, origin)
        except (MethodNotFound, InvalidParams):
            return False
        if answer.action != "accept":
            return False
        completed = None if page.elicitation_id is None else handlers.page(page.elicitation_id)
        if completed is not None:
            try:
                async with asyncio.timeout(PAGE_TIME):
                    await completed.wait()
            except TimeoutError:
                return False
    return True
