"""Requests that take several rounds: the questions of a result are answered, and the request is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from carrel.compat.mcp2 import types
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.types.jsonrpc import ErrorData

__all__ = ["DEFAULT_INPUT_REQUIRED_MAX_ROUNDS", "InputRequiredRoundsExceededError", "run_input_required_driver"]

DEFAULT_INPUT_REQUIRED_MAX_ROUNDS = 10
#: Seconds before a request is repeated to which there was no question; the pause doubles up to the second.
PAUSES = (0.05, 0.25)


class InputRequiredRoundsExceededError(RuntimeError):
    """The server has questions in each of too many rounds."""

    def __init__(self, max_rounds: int) -> None:
        super().__init__(
            f"Server returned InputRequiredResult for more than {max_rounds} rounds; "
            "raise input_required_max_rounds on the Client, or use "
            "client.session.<method>(..., allow_input_required=True) to drive the loop manually."
        )
        self.max_rounds = max_rounds


async def run_input_required_driver(
    first: Any,
    *,
    dispatch: Callable[[str, Any], Awaitable[Any]],
    retry: Callable[[Any, str | None], Awaitable[Any]],
    max_rounds: int = DEFAULT_INPUT_REQUIRED_MAX_ROUNDS,
) -> Any:
    """Answer questions with ``dispatch`` and repeat the request with ``retry``, until there are no questions.

    Raises:
        InputRequiredRoundsExceededError: there were questions in ``max_rounds`` rounds.
        MCPError: a question was answered with an error.
    """
    current, rounds, pause = first, 0, PAUSES[0]
    while isinstance(current, types.InputRequiredResult):
        rounds += 1
        if rounds > max_rounds:
            raise InputRequiredRoundsExceededError(max_rounds)
        answers: dict[str, Any] | None = None
        if current.input_requests:
            pause = PAUSES[0]
            answers = await _answers(current.input_requests, dispatch)
        else:
            await anyio.sleep(pause)
            pause = min(2 * pause, PAUSES[1])
        current = await retry(answers, current.request_state)
    return current


async def _answers(requests: Mapping[str, Any], dispatch: Callable[[str, Any], Awaitable[Any]]) -> dict[str, Any]:
    found = await asyncio.gather(*(dispatch(key, request) for key, request in requests.items()))
    refused = next((each for each in found if isinstance(each, ErrorData)), None)
    if refused is not None:
        raise MCPError.from_error_data(refused)
    return dict(zip(requests, found, strict=True))
