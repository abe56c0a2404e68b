"""Requests that are answered with questions, and made again with the answers.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from carrel.client.handlers import ClientHandlers
from carrel.errors import InvalidMessage, InvalidParams, MethodNotFound, PeerError, ProtocolError
from carrel.printable import printable
from carrel.protocol.client import QUESTIONS
from carrel.protocol.encoding import encode
from carrel.wire.base import Params
from carrel.wire.client_features import ElicitParams, InputRequest, InputRequiredResult

__all__ = ["MAX_ROUNDS", "answer_all", "next_round", "visit_pages"]

#: How often one request may be answered with questions.
MAX_ROUNDS = 20
#: Seconds between rounds in which nothing is asked.
PAUSE = 0.1
#: Seconds that a user has for the pages that a request needs, after they agreed to visit them.
PAGE_TIME = 600.0


async def next_round(params: Params, result: InputRequiredResult, answers: ClientHandlers, server: str) -> Params:
    """Return the parameters of the next round: those of before, with the answers and the server's state.

    Raises:
        ProtocolError: the server asks what it was told that nobody answers, or asks nothing at all.
    """
    if result.input_requests is UNSET and result.request_state is UNSET:
        raise InvalidMessage("The server wants input, and says neither which nor what to come back with")
    responses: Any = UNSET
    if result.input_requests is not UNSET:
        responses = Raw(encode(await answer_all(result.input_requests, answers, server)))
    else:
        await asyncio.sleep(PAUSE)
    return msgspec.structs.replace(params, input_responses=responses, request_state=result.request_state)


async def answer_all(requests: Mapping[str, InputRequest], answers: ClientHandlers, server: str) -> dict[str, Any]:
    """Answer the questions of a server, one after the other, as there is one user.

    Raises:
        ProtocolError: one cannot be answered.
    """
    responses: dict[str, Any] = {}
    for key, request in requests.items():
        operation, kind = QUESTIONS.get(request.method, ("", None))
        if kind is None:
            raise ProtocolError(f"The server asks {printable(request.method, 100)}, which is not known here")
        try:
            params = msgspec.convert({} if request.params is UNSET else request.params, kind)
            responses[key] = await answers.answer(operation, params, server)
        except msgspec.ValidationError as error:
            raise InvalidMessage(f"The server's question {printable(request.method)} is wrong: {error}") from None
        except (MethodNotFound, InvalidParams) as error:
            raise ProtocolError(f"The server asks {request.method}, which this client did not offer: {error}") from None
    return responses


async def visit_pages(error: PeerError, answers: ClientHandlers, server: str) -> bool:
    """Have the user visit the pages that a request needs; say whether it is worth making again."""
    try:
        pages = msgspec.convert(error.data["elicitations"], list[ElicitParams])
    except (msgspec.ValidationError, TypeError, KeyError):
        return False
    if not pages or any(page.mode != "url" for page in pages):
        return False
    for page in pages:
        try:
            answer = await answers.answer("elicit", page, server)
        except (MethodNotFound, InvalidParams):
            return False
        if answer.action != "accept":
            return False
        completed = None if page.elicitation_id is UNSET else answers.page(page.elicitation_id)
        if completed is not None:
            try:
                async with asyncio.timeout(PAGE_TIME):
                    await completed.wait()
            except TimeoutError:
                return False
    return True
