"""Parameters of tools that functions resolve, which may ask the client.

From 2026-07-28 on, the requests of a call are in an ``InputRequiredResult``, and the client repeats the call with the
answers. Before, each is sent while the call waits.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from carrel.compat.loggers import get_logger
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.server.elicitation import (
    AcceptedElicitation,
    CancelledElicitation,
    DeclinedElicitation,
    ElicitationResult,
)
from carrel.compat.mcp2.server.mcpserver.context import Context
from carrel.compat.mcp2.server.mcpserver.exceptions import InvalidSignature, ToolError
from carrel.compat.mcp2.server.mcpserver.resolver_requests import (
    Elicit,
    Entry,
    ListRoots,
    ResolverRequest,
    Sample,
    accepted,
    digest_of,
    entry_of,
    outcome_of,
    require_capability,
    result_type,
    wire_request,
)
from carrel.compat.mcp2.server.mcpserver.utilities.functions import call_function
from carrel.compat.mcp2.server.request_state import compact_json
from carrel.compat.mcp2.types.base import InputRequired
from carrel.compat.mcp2.types.version import MODERN_PROTOCOL_VERSIONS
from carrel.compat.wire import form_schema

__all__ = [
    "AcceptedElicitation",
    "CancelledElicitation",
    "DeclinedElicitation",
    "Elicit",
    "ElicitationResult",
    "ListRoots",
    "Resolve",
    "Sample",
    "build_resolver_plans",
    "find_resolved_parameters",
    "resolve_arguments",
    "returns_input_required",
]

logger = get_logger(__name__)

OUTCOMES = (AcceptedElicitation, DeclinedElicitation, CancelledElicitation)
STATE_VERSION = 1


class Resolve:
    """Annotation of a parameter whose value a function returns: ``Annotated[T, Resolve(function)]``."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn


# Signatures


@dataclass
class Source:
    """Where a parameter of a resolver comes from: the context, another resolver, or an argument of the tool."""

    kind: Literal["context", "resolve", "by_name"]
    resolve: Resolve | None = None
    whole: bool = False
    """Whether the parameter takes the outcome of a request, and not only the accepted data."""


@dataclass
class Plan:
    """Resolver with the sources of its parameters. ``key`` names its request in all rounds."""

    fn: Callable[..., Any]
    sources: dict[str, Source]
    key: str


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    target = fn if inspect.isroutine(fn) else getattr(type(fn), "__call__", fn)  # noqa: B004
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception:  # a hint that cannot be evaluated is no marker
        return {}


def _name(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__name__", None) or type(fn).__name__


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (typing.Union, UnionType)


def _marker(annotation: Any) -> tuple[Resolve | None, bool]:
    """Return the marker of a parameter, and whether the parameter takes the whole outcome."""
    if get_origin(annotation) is not Annotated:
        return None, False
    kind, *metadata = get_args(annotation)
    marker = next((each for each in metadata if isinstance(each, Resolve)), None)
    return marker, marker is not None and _is_outcome(kind)


def _is_outcome(kind: Any) -> bool:
    value = getattr(kind, "__value__", None) or getattr(get_origin(kind), "__value__", None)
    kind = kind if value is None else value
    members = get_args(kind) if get_origin(kind) is not None else (kind,)
    return any(isinstance(each, type) and issubclass(each, OUTCOMES) for each in members)


def _hides_marker(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _marker(annotation)[0] is not None
    return any(map(_hides_marker, get_args(annotation)))


def find_resolved_parameters(fn: Callable[..., Any]) -> dict[str, tuple[Resolve, bool]]:
    """Return the parameters of a function that have resolvers: the marker, and whether they take the whole outcome.

    Raises:
        InvalidSignature: a marker is within a union.
    """
    hints, found = _hints(fn), dict[str, tuple[Resolve, bool]]()
    for name in inspect.signature(fn).parameters:
        marker, whole = _marker(hints.get(name))
        if marker is not None:
            found[name] = marker, whole
        elif get_origin(hints.get(name)) is not Annotated and _hides_marker(hints.get(name)):
            raise InvalidSignature(
                f"Parameter {name!r} of {_name(fn)!r} wraps `Resolve(...)` in a "
                "union; annotate the parameter directly as `Annotated[T, Resolve(...)]`"
            )
    return found


def returns_input_required(fn: Callable[..., Any]) -> bool:
    """Return whether a function says that it may return an ``InputRequiredResult``."""
    return _may_be_input_required(_hints(fn).get("return"))


def _may_be_input_required(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _may_be_input_required(get_args(annotation)[0])
    try:
        value = getattr(annotation, "__value__", None)
    except NameError:  # an alias of names that only type checkers have
        return False
    if value is not None:
        return _may_be_input_required(value)
    if _is_union(annotation):
        return any(map(_may_be_input_required, get_args(annotation)))
    return isinstance(annotation, type) and issubclass(annotation, InputRequired)


def _key_of(fn: Callable[..., Any]) -> Hashable:
    """Return the identity of a resolver; a method is a new object each time."""
    owner = getattr(fn, "__self__", None)
    if owner is None:
        return id(fn)
    function = getattr(fn, "__func__", None)
    return (id(function) if function is not None else getattr(fn, "__name__", id(fn))), id(owner)


def build_resolver_plans(
    resolved_params: Mapping[str, tuple[Resolve, bool]], tool_arg_names: set[str]
) -> dict[Hashable, Plan]:
    """Return the plans of all resolvers that a tool needs.

    Raises:
        InvalidSignature: resolvers need each other, or a parameter has no source.
    """
    plans: dict[Hashable, Plan] = {}
    numbers: dict[str, int] = {}

    def analyze(fn: Callable[..., Any], above: tuple[Hashable, ...]) -> None:
        identity = _key_of(fn)
        if identity in above:
            raise InvalidSignature(f"Resolver {_name(fn)!r} has a cyclic dependency")
        if identity in plans:
            return
        key = ":".join(getattr(fn, each, None) or getattr(type(fn), each) for each in ("__module__", "__qualname__"))
        number = numbers[key] = numbers.get(key, -1) + 1
        sources = _sources_of(fn, tool_arg_names)
        plans[identity] = Plan(fn, sources, key if number == 0 else f"{key}#{number}")
        for source in sources.values():
            if source.resolve is not None:
                analyze(source.resolve.fn, (*above, identity))

    for marker, _ in resolved_params.values():
        analyze(marker.fn, ())
    return plans


def _sources_of(fn: Callable[..., Any], arguments: set[str]) -> dict[str, Source]:
    hints, sources = _hints(fn), dict[str, Source]()
    for name in inspect.signature(fn).parameters:
        annotation = hints.get(name)
        marker, whole = _marker(annotation)
        if annotation is not None and _is_context(annotation):
            sources[name] = Source("context")
        elif marker is not None:
            sources[name] = Source("resolve", marker, whole)
        elif name in arguments:
            sources[name] = Source("by_name")
        else:
            raise InvalidSignature(
                f"Resolver {_name(fn)!r} parameter {name!r} cannot be resolved: "
                "expected a Context, an Annotated[_, Resolve(...)], or a tool argument by name"
            )
    returned = hints.get("return")
    arms = [each for each in (get_args(returned) if _is_union(returned) else (returned,)) if _is_request_type(each)]
    if len(arms) > 1:
        raise InvalidSignature(
            f"Resolver {_name(fn)!r} return annotation has multiple Elicit/Sample/ListRoots arms; "
            "a resolver asks one question - split it into separate resolvers"
        )
    return sources


def _is_request_type(kind: Any) -> bool:
    bare = get_origin(kind) or kind
    return isinstance(bare, type) and issubclass(bare, Elicit | Sample | ListRoots)


def _is_context(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    candidates = (annotation, get_origin(annotation), *get_args(annotation))
    return any(isinstance(each, type) and issubclass(each, Context) for each in candidates)


# Rounds


class State(BaseModel):
    """State of a call over its rounds: outcomes, and the digests of the requests that were sent last."""

    model_config = ConfigDict(defer_build=True)

    v: int = STATE_VERSION
    outcomes: dict[str, Entry] = {}
    asked: dict[str, str] = {}


def _state_of(text: str | None) -> State:
    try:
        state = State.model_validate(json.loads(text)) if text else State()
    except ValueError:
        return State()
    return state if state.v == STATE_VERSION else State()


class _Pending(Exception):
    """A resolver waits for an answer."""


@dataclass
class Resolution:
    """Resolution of the parameters of one call."""

    plans: Mapping[Hashable, Plan]
    arguments: Mapping[str, Any]
    context: Context[Any, Any]
    in_rounds: bool
    state: State
    kept: dict[str, Entry] = field(default_factory=dict)
    known: dict[Hashable, Any] = field(default_factory=dict)
    pending: dict[str, Any] = field(default_factory=dict)

    async def resolve(self, fn: Callable[..., Any]) -> Any:
        """Return the outcome of a resolver.

        Raises:
            _Pending: it waits for an answer.
        """
        identity = _key_of(fn)
        if identity in self.known:
            return self.known[identity]
        plan = self.plans[identity]
        if plan.key in self.pending:
            raise _Pending
        given: dict[str, Any] = {}
        waits = False
        for name, source in plan.sources.items():
            if source.resolve is None:
                given[name] = self.context if source.kind == "context" else self.arguments[name]
                continue
            try:
                outcome = await self.resolve(source.resolve.fn)
            except _Pending:
                waits = True
            else:
                given[name] = outcome if source.whole else _accepted_data(outcome, name)
        if waits:
            raise _Pending
        result = await call_function(fn, given)
        asks = isinstance(result, Elicit | Sample | ListRoots)
        outcome = await self._ask(result, plan.key) if asks else accepted(result)
        self.known[identity] = outcome
        return outcome

    async def _ask(self, request: ResolverRequest, key: str) -> Any:
        if not self.in_rounds:
            return await self._ask_now(request, key)
        wire = wire_request(request)
        if isinstance(request, Elicit):
            wire.params.requested_schema = form_schema(wire.params.requested_schema)
        digest = digest_of(wire)
        entry = self.state.outcomes.get(key)
        if entry is not None and entry.q == digest:
            try:
                outcome = outcome_of(entry, request)
            except ValidationError:
                pass  # the request has another schema now
            else:
                self.kept[key] = entry
                return outcome
        answer = (self.context.input_responses or {}).get(key)
        if answer is not None and self.state.asked.get(key) != digest:
            logger.info("Discarding the answer for resolver %r: the question changed since it was asked", key)
            answer = None
        if answer is None:
            require_capability(self.context, request, key)
            self.pending[key] = wire
            raise _Pending
        entry = self.kept[key] = entry_of(answer, request, key, digest)
        return outcome_of(entry, request)

    async def _ask_now(self, request: ResolverRequest, key: str) -> Any:
        session = self.context.session
        if session.can_send_request:
            require_capability(self.context, request, key)
        if isinstance(request, Elicit):
            try:
                return await self.context.elicit(request.message, request.schema)
            except ValueError as error:
                invalid = isinstance(error, ValidationError)
                detail = "received an invalid elicitation response" if invalid else str(error)
                raise ToolError(f"Resolver {key!r}: {detail}") from error
        return accepted(await session.send_request(wire_request(request), result_type(request)))


async def resolve_arguments(
    resolved_params: Mapping[str, tuple[Resolve, bool]],
    plans: Mapping[Hashable, Plan],
    tool_args: Mapping[str, Any],
    context: Context[Any, Any],
) -> Any:
    """Return the values of parameters that have resolvers, or the requests that have no answers yet.

    Raises:
        ToolError: an answer is not accepted, and the parameter takes only data.
    """
    in_rounds = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    resolution = Resolution(plans, tool_args, context, in_rounds, _state_of(context.request_state))
    found: dict[str, Any] = {}
    for name, (marker, whole) in resolved_params.items():
        try:
            outcome = await resolution.resolve(marker.fn)
        except _Pending:
            continue
        found[name] = outcome if whole else _accepted_data(outcome, name)
    if not resolution.pending:
        return found
    asked = {key: digest_of(wire) for key, wire in resolution.pending.items()}
    state = State(outcomes=resolution.kept, asked=asked)
    return types.InputRequiredResult(
        input_requests=resolution.pending, request_state=compact_json(state.model_dump(mode="json"))
    )


def _accepted_data(outcome: Any, name: str) -> Any:
    if isinstance(outcome, AcceptedElicitation):
        return outcome.data
    raise ToolError(f"Resolver for parameter {name!r} could not resolve: elicitation was {outcome.action}")
