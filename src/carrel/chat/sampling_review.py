"""Review of sampling requests of servers: the user approves each before the model of the chat sees it, and its answer.

https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Protocol

from carrel.chat.model import Model, ModelAnswer, ModelEvent, ModelRequest, Usage
from carrel.chat.sampling import answer_sampling
from carrel.chat.sampling_reasoning import Reasoning
from carrel.client.handlers import SampleHandler, Sampling
from carrel.errors import INTERNAL_ERROR, ConfigError, PeerError, TransportError
from carrel.wire.client_features import CreateMessageResult

__all__ = ["Reviewer", "reviewed_sampling"]

#: Error code and message for requests that the user does not approve, as in the specification.
REJECTED = (-1, "User rejected sampling request")


class Reviewer(Protocol):
    """Shows sampling to the user."""

    async def review_request(self, sampling: Sampling) -> Sampling | None:
        """Return the request as it shall be answered, perhaps edited; None if it is refused."""

    async def review_answer(self, sampling: Sampling, answer: CreateMessageResult) -> CreateMessageResult | None:
        """Return the answer as it shall be sent, perhaps edited; None if it is not sent."""


def reviewed_sampling(
    model: Callable[[], Model], reviewer: Reviewer, count: Callable[[str, Usage], None] = lambda name, usage: None
) -> SampleHandler:
    """Return a handler of sampling for ``Handlers(sample=…, sample_tools=True)``.

    The chat's model answers: the server's preferences are shown, but not followed. ``count`` gets the usage.
    """

    reasoning = Reasoning()

    async def sample(sampling: Sampling) -> CreateMessageResult:
        wanted = await reviewer.review_request(sampling)
        if wanted is None:
            raise PeerError(*REJECTED)
        answer = answer_sampling(CountedModel(model(), count), reasoning=reasoning).sample
        assert answer is not None
        try:
            given = await answer(wanted)
        except (ConfigError, TransportError) as error:
            raise PeerError(INTERNAL_ERROR, "The request to the model failed") from error
        assert isinstance(given, CreateMessageResult)
        reviewed = await reviewer.review_answer(wanted, given)
        if reviewed is None:
            raise PeerError(*REJECTED)
        return reviewed

    return sample


class CountedModel:
    """Model whose usage is counted."""

    def __init__(self, model: Model, count: Callable[[str, Usage], None]) -> None:
        self._model = model
        self._count = count

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the next message; see ``Model``."""
        async with aclosing(self._model.stream(request)) as events:  # type: ignore[type-var]
            async for event in events:
                if isinstance(event, ModelAnswer):
                    self._count(event.model, event.usage)
                yield event

    async def close(self) -> None:
        """Leave the model open: it belongs to the chat."""
