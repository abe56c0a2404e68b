"""Questions of servers to the user: forms, pages to visit, and messages for a model (sampling)."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

from carrel.client.answers import check
from carrel.client.handlers import Form, Handlers, Sampling, ServerRequest, URLElicitation
from carrel.errors import INTERNAL_ERROR, ConfigError, PeerError
from carrel.printable import printable
from carrel.studio.api import Question, QuestionAnswer, SampledMessage, SamplingView
from carrel.studio.events import Events
from carrel.studio.problems import NotFound, Refused
from carrel.wire.client_features import CreateMessageResult, ElicitResult, blocks_of
from carrel.wire.content import TextContent

if TYPE_CHECKING:
    from carrel.chat.model import Model

__all__ = ["Questions"]

#: Number of questions that may wait for the user. Further ones are cancelled.
MAX_WAITING = 50
CANCELLED = QuestionAnswer(action="cancel")
#: Code and message for a sampling request that the user refuses, as in the specification.
REJECTED = (-1, "User rejected sampling request")


class Questions:
    """Questions that wait for the user. ``model`` answers sampling requests that the user has accepted."""

    def __init__(self, events: Events, model: Model | None = None) -> None:
        self._events = events
        self._model = model
        self._waiting: dict[str, tuple[Question, asyncio.Future[QuestionAnswer]]] = {}

    @property
    def can_sample(self) -> bool:
        """Whether a model can answer sampling requests."""
        return self._model is not None

    @property
    def waiting(self) -> tuple[Question, ...]:
        """The questions, in the order in which they were asked."""
        return tuple(question for question, _ in self._waiting.values())

    def handlers(self, server: str | None = None) -> Handlers:
        """Return handlers that ask the user, for the requests of a server; None for any server."""
        return Handlers(
            elicit_form=partial(self._form, server),
            elicit_url=partial(self._url, server),
            sample=partial(self._sample, server),
            together=True,
        )

    def answer(self, id: str, answer: QuestionAnswer) -> None:
        """Answer a question.

        Raises:
            NotFound: the question is answered, or no longer asked.
            Refused: the contents do not match the form, or no model can answer.
        """
        found = self._waiting.get(id)
        if found is None or found[1].done():
            raise NotFound("There is no such question")
        question, waits = found
        if answer.action == "accept" and question.kind == "sampling" and self._model is None:
            raise Refused(409, "No model is configured: start carrel studio with --model")
        if answer.action == "accept" and question.schema is not None:
            try:
                check(answer.content or {}, question.schema)
            except ConfigError as error:
                raise Refused(422, str(error)) from None
        waits.set_result(answer)

    async def _ask(self, server: str | None, request: ServerRequest, **question: Any) -> QuestionAnswer:
        if len(self._waiting) >= MAX_WAITING:
            return CANCELLED
        asked = Question(id=secrets.token_urlsafe(12), server=server or printable(request.server), **question)
        waits: asyncio.Future[QuestionAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[asked.id] = asked, waits
        self._events.put(type="question", question=asked)
        try:
            return await waits
        finally:
            del self._waiting[asked.id]
            self._events.put(type="questionClosed", id=asked.id)

    async def _form(self, server: str | None, form: Form) -> ElicitResult:
        answer = await self._ask(server, form, kind="form", message=form.message, schema=form.schema)
        return ElicitResult(action=answer.action, content=answer.content if answer.action == "accept" else None)

    async def _url(self, server: str | None, page: URLElicitation) -> ElicitResult:
        answer = await self._ask(server, page, kind="url", message=page.message, url=page.url, host=page.host)
        return ElicitResult(action=answer.action)

    async def _sample(self, server: str | None, sampling: Sampling) -> CreateMessageResult:
        view = SamplingView(
            messages=tuple(
                SampledMessage(role=message.role, text="\n".join(map(_text_of, blocks_of(message))))
                for message in sampling.messages
            ),
            system_prompt=sampling.system_prompt,
            max_tokens=sampling.max_tokens,
        )
        answer = await self._ask(server, sampling, kind="sampling", message="", sampling=view)
        if answer.action != "accept" or self._model is None:
            raise PeerError(*REJECTED)
        from carrel.chat.sampling import answer_sampling

        sample = answer_sampling(self._model).sample
        assert sample is not None
        try:
            given = await sample(sampling)
        except Exception as error:
            raise PeerError(INTERNAL_ERROR, "The request to the model failed") from error
        assert isinstance(given, CreateMessageResult)
        return given


def _text_of(block: object) -> str:
    return block.text if isinstance(block, TextContent) else f"[{type(block).__name__}]"
