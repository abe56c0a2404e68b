"""Questions of servers to the user: forms, pages to visit, and messages for a model (sampling)."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial
from typing import Any

from carrel.chat.sampling_review import reviewed_sampling
from carrel.client.answers import check
from carrel.client.handlers import Form, Handlers, SampleHandler, Sampling, ServerRequest, URLElicitation
from carrel.errors import ConfigError
from carrel.printable import printable
from carrel.studio.api import QuestionView
from carrel.studio.bodies import QuestionAnswer
from carrel.studio.events import PageEvents
from carrel.studio.models import Models
from carrel.studio.problems import NotFound, Refused
from carrel.studio.sampling import edited_answer, edited_request, view_of
from carrel.wire.client_features import CreateMessageResult, ElicitResult

__all__ = ["Questions"]

#: Number of questions that may wait for the user. Further ones are cancelled.
MAX_WAITING = 50
CANCELLED = QuestionAnswer(action="cancel")


class Questions:
    """Questions that wait for the user. The current model answers sampling requests that the user has accepted."""

    def __init__(self, events: PageEvents, models: Models) -> None:
        self._events = events
        self._models = models
        self._samplers: dict[str | None, SampleHandler] = {}
        self._waiting: dict[str, tuple[QuestionView, asyncio.Future[QuestionAnswer]]] = {}

    @property
    def model(self) -> str | None:
        """Name of the model that answers sampling requests."""
        return self._models.current

    @property
    def waiting(self) -> tuple[QuestionView, ...]:
        """The questions, in the order in which they were asked."""
        return tuple(question for question, _ in self._waiting.values())

    def handlers(self, server: str | None = None) -> Handlers:
        """Return handlers that ask the user, for the requests of a server; None for any server."""
        if server not in self._samplers:
            reviewer = PageReviewer(self, server)
            self._samplers[server] = reviewed_sampling(lambda: self._models.get(self._models.current or ""), reviewer)
        return Handlers(
            elicit_form=partial(self._form, server),
            elicit_url=partial(self._url, server),
            sample=self._samplers[server],
            sample_tools=True,
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
        if answer.action == "accept" and question.kind == "sampling" and self._models.current is None:
            raise Refused(409, "No model is chosen: choose one in the chat, or start carrel studio with --model")
        if answer.sampling is not None and question.sampling is not None:
            wanted = len(question.sampling.messages) if question.sampling.answer is None else 0
            if len(answer.sampling.texts) != wanted:
                raise Refused(422, f"The request has {wanted} messages")
        if answer.action == "accept" and question.schema is not None:
            try:
                check(answer.content or {}, question.schema)
            except ConfigError as error:
                raise Refused(422, str(error)) from None
        waits.set_result(answer)

    async def ask(self, server: str | None, request: ServerRequest, **question: Any) -> QuestionAnswer:
        """Ask the user on behalf of a server, and return the answer."""
        if len(self._waiting) >= MAX_WAITING:
            return CANCELLED
        asked = QuestionView(id=secrets.token_urlsafe(12), server=server or printable(request.server), **question)
        waits: asyncio.Future[QuestionAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[asked.id] = asked, waits
        self._events.put(type="question", question=asked)
        try:
            return await waits
        finally:
            del self._waiting[asked.id]
            self._events.put(type="questionClosed", id=asked.id)

    async def _form(self, server: str | None, form: Form) -> ElicitResult:
        answer = await self.ask(server, form, kind="form", message=form.message, schema=form.schema)
        return ElicitResult(action=answer.action, content=answer.content if answer.action == "accept" else None)

    async def _url(self, server: str | None, page: URLElicitation) -> ElicitResult:
        answer = await self.ask(server, page, kind="url", message=page.message, url=page.url, host=page.host)
        return ElicitResult(action=answer.action)


class PageReviewer:
    """Shows sampling requests of a server, and the answers of the model, which the user may edit."""

    def __init__(self, questions: Questions, server: str | None) -> None:
        self._questions = questions
        self._server = server

    async def review_request(self, sampling: Sampling) -> Sampling | None:
        """Return the request as it shall be answered; None if it is refused."""
        answer = await self._ask(sampling, None)
        return None if answer is None else edited_request(sampling, answer.sampling)

    async def review_answer(self, sampling: Sampling, answer: CreateMessageResult) -> CreateMessageResult | None:
        """Return the answer as it shall be sent; None if it is not sent."""
        decision = await self._ask(sampling, answer)
        return None if decision is None else edited_answer(answer, decision.sampling)

    async def _ask(self, sampling: Sampling, answer: CreateMessageResult | None) -> QuestionAnswer | None:
        """Return the answer of the user if it accepts."""
        view = view_of(sampling, self._questions.model, answer)
        given = await self._questions.ask(self._server, sampling, kind="sampling", message="", sampling=view)
        return given if given.action == "accept" else None
