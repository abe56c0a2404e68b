"""Gate of a policy engine in another program. It asks the engine before each request, and caches the decisions.

Targets without a decision are denied. A request asks about its own targets first. If it needs further decisions, as
lists and directories do, it is answered again with them. A tool is called once: it may read the resources that its
arguments name.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from carrel.catalog.access import NAME_VERBS, GateView
from carrel.errors import MCPError, ServerUnavailable
from carrel.log import Log
from carrel.protocol.methods import CALL_TOOL
from carrel.protocol.principal import View
from carrel.uri.parse import canonical

if TYPE_CHECKING:
    from carrel.protocol.methods import Verb
    from carrel.protocol.principal import Principal
    from carrel.protocol.server import Call
    from carrel.wire.base import Result

__all__ = ["EngineAnswer", "EngineGate", "EngineView", "PolicyEngine", "Question"]

log = Log("carrel.policy")

Question: TypeAlias = "tuple[Verb, str]"
"""Verb, and the URI of a resource or the name of a tool or prompt."""
Decisions: TypeAlias = "dict[tuple[str, Question], tuple[bool, float]]"
"""Decisions about callers and questions, and the times at which they expire."""

#: Decisions that are cached, and characters of a target up to which they are.
MAX_CACHED, MAX_TARGET = 20_000, 1024
#: Decisions of one request.
MAX_QUESTIONS = 20_000
#: Answers of a list in which entries count as allowed until they are decided about: each finds one page of entries.
PAGES = 4
#: URIs in the arguments of a tool whose decisions are requested.
MAX_ARGUMENTS = 20
#: Seconds for which a decision holds that was requested for the notification of a change.
NOTIFIED = 5.0

_URI = re.compile(rb'"([A-Za-z][A-Za-z0-9+.-]*:[^"\\\s]{1,2000})"')


class EngineAnswer(NamedTuple):
    """Decisions about questions, in their order, and the seconds for which they may be cached."""

    allowed: Sequence[bool]
    seconds: float = 0.0


class PolicyEngine(Protocol):
    """Policy engine. One task of each request calls it."""

    async def decide(
        self, principal: Principal | None, roles: frozenset[str], questions: Sequence[Question]
    ) -> EngineAnswer:
        """Return whether a caller may use each target.

        Raises:
            ServerUnavailable: the engine does not answer. The request fails.
        """

    async def close(self) -> None:
        """Close the connections. The next question opens new ones."""


class EngineView(View):
    """View of a caller in one request: the decisions that are known. Unknown ones are denied, and remembered."""

    __slots__ = ("_find", "_listing", "key", "unknown")

    def __init__(self, key: str, find: Callable[[Question], bool | None], *, listing: bool = False) -> None:
        self.key = key
        self._find = find
        self._listing = listing
        self.unknown: dict[Question, None] = {}
        """Questions without a decision, in order. If there are any, the answer of a list is not the right one."""

    def allows(self, verb: Verb, target: str) -> bool:
        """Return whether a verb is allowed on a resource, tool or prompt."""
        found = self._find((verb, target))
        if found is None:
            self.unknown.update(dict.fromkeys(related(verb, target)))
            return self._listing
        return found


def related(verb: Verb, target: str) -> Iterator[Question]:
    """Yield the questions that decide about a verb on a target: each verb on a resource requires the verb read."""
    yield verb, target
    if verb not in NAME_VERBS:
        other = canonical(target)
        for spelling in dict.fromkeys((target, other)):
            yield verb, spelling
            yield "read", spelling


class EngineGate:
    """Gate by a policy engine, and the middleware that asks the engine.

    Args:
        engine: the engine.
        roles_of: returns the roles of a caller, which the engine is told.
        changed: is called after the engine has allowed something that clients have not been notified of, with the
            resources that they subscribe to.
        clock: returns a time in seconds.
    """

    def __init__(
        self,
        engine: PolicyEngine,
        roles_of: Callable[[Principal | None], frozenset[str]] = lambda _: frozenset(),
        changed: Callable[[Sequence[str]], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._roles_of = roles_of
        self._changed = changed
        self._clock = clock
        self._callers: WeakKeyDictionary[Principal, str] = WeakKeyDictionary()
        self._cached: Decisions = {}
        self._notified: Decisions = {}
        """Decisions for notifications: requests do not use them, as the engine may have said not to cache them."""
        self._views = 0
        self._background: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Close the engine."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._engine.close()

    # Views

    def view(self, principal: Principal | None) -> View:
        """Return a view of a caller by the decisions that are cached: for changes, of which clients are notified."""
        caller = self._caller(principal)

        def find(question: Question) -> bool | None:
            found = self._find(caller, question)
            return self._find(caller, question, self._notified) if found is None else found

        return _AskingView(self._key(), find, self, principal)

    def _key(self) -> str:
        """Return the key of a new view: decisions change, so that pages of lists must not be kept by caller."""
        self._views += 1
        return f"engine {self._views}"

    def _caller(self, principal: Principal | None) -> str:
        """Return a text that is equal for callers that the engine is told the same about."""
        if principal is None:
            return " ".join(sorted(self._roles_of(None)))
        found = self._callers.get(principal)
        if found is None:
            row = (
                principal.issuer, principal.subject, principal.client, sorted(principal.scopes),
                sorted(self._roles_of(principal)), principal.claims,
            )  # fmt: skip
            found = self._callers[principal] = msgspec.json.encode(row, enc_hook=dict).decode()
        return found

    def _find(self, caller: str, question: Question, cached: Decisions | None = None) -> bool | None:
        found = (self._cached if cached is None else cached).get((caller, question))
        return None if found is None or found[1] <= self._clock() else found[0]

    # Requests

    async def __call__(self, call: Call, next: Callable[[Call], Any]) -> Result:
        """Answer a request with the decisions that it needs.

        Raises:
            ServerUnavailable: the engine does not answer, or the request needs too many answers.
        """
        row, principal = call.request, call.principal
        caller = self._caller(principal)
        known: dict[Question, bool] = {}

        def find(question: Question) -> bool | None:
            found = known.get(question)
            return self._find(caller, question) if found is None else found

        unknown = [question for question in first_questions(call) if find(question) is None]
        attempt = 0
        while True:
            if unknown:
                if len(known) + len(unknown) > MAX_QUESTIONS:
                    raise ServerUnavailable("The policy engine would be asked about too much: ask for less")
                known |= await self._ask(principal, unknown)
            attempt += 1
            view = EngineView(self._key(), find, listing=row.item_verb is not None and attempt <= PAGES)
            call.view = GateView(view, None if principal is None else principal.view)
            try:
                result: Result = await next(call)
            except MCPError:
                if not view.unknown or row is CALL_TOOL or row.endless:
                    raise
            else:
                if not view.unknown or row is CALL_TOOL or row.endless:
                    return result
            unknown = [question for question in view.unknown if question not in known]
            if not unknown:
                raise ServerUnavailable("The decisions of the policy engine have changed meanwhile: try again")

    async def _ask(self, principal: Principal | None, questions: Sequence[Question]) -> Mapping[Question, bool]:
        """Ask the engine, and cache its decisions if it allows that.

        Raises:
            ServerUnavailable: the engine does not answer.
        """
        try:
            answer = await self._engine.decide(principal, self._roles_of(principal), questions)
        except MCPError as error:
            log.error("the policy engine has failed, so a request is refused: %s", error)
            raise
        if len(answer.allowed) != len(questions) or any(type(one) is not bool for one in answer.allowed):
            log.error("the policy engine has not answered each question, so a request is refused")
            raise ServerUnavailable("The policy engine does not answer")
        found = dict(zip(questions, answer.allowed, strict=True))
        self._keep(self._cached, self._caller(principal), found, answer.seconds)
        return found

    def _keep(self, cached: Decisions, caller: str, found: Mapping[Question, bool], seconds: float) -> None:
        if seconds <= 0:
            return
        until = self._clock() + seconds
        for question, allowed in found.items():
            if len(question[1]) <= MAX_TARGET:
                cached.pop((caller, question), None)
                cached[caller, question] = allowed, until
        while len(cached) > MAX_CACHED:
            del cached[next(iter(cached))]

    # Changes

    def ask_later(self, principal: Principal | None, view: EngineView) -> None:
        """Ask the engine about a change, and notify clients again if it allows something."""

        async def ask() -> None:
            questions = list(view.unknown)
            view.unknown.clear()
            try:
                found = await self._ask(principal, questions)
            except MCPError:
                return  # it is logged, and the client is not notified
            self._keep(self._notified, self._caller(principal), found, NOTIFIED)
            if any(found.values()):
                self._changed([target for (verb, target), allowed in found.items() if allowed and verb == "subscribe"])

        task = asyncio.get_running_loop().create_task(ask())
        self._background.add(task)
        task.add_done_callback(self._background.discard)


class _AskingView(EngineView):
    """View that asks the engine after the questions that it had no decision about."""

    __slots__ = ("_gate", "_principal")

    def __init__(
        self, key: str, find: Callable[[Question], bool | None], gate: EngineGate, principal: Principal | None
    ) -> None:
        super().__init__(key, find)
        self._gate = gate
        self._principal = principal

    def allows(self, verb: Verb, target: str) -> bool:
        """Return whether a verb is allowed on a resource, tool or prompt."""
        first = not self.unknown
        found = super().allows(verb, target)
        if first and self.unknown:
            self._gate.ask_later(self._principal, self)
        return found


def first_questions(call: Call) -> Iterable[Question]:
    """Return the questions about the targets of a request, and about the URIs in the arguments of a tool."""
    row, found = call.request, dict[Question, None]()
    if row.verb is not None:
        for target in row.find_targets(call.params):
            found.update(dict.fromkeys(related(row.verb, target)))
    if row is CALL_TOOL:
        for match in list(_URI.finditer(bytes(call.raw)))[:MAX_ARGUMENTS]:
            found.update(dict.fromkeys(related("list", match[1].decode(errors="replace"))))
    return found
