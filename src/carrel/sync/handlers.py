"""Handlers of server requests that may be plain functions: elicitation, sampling, roots."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from inspect import iscoroutinefunction
from typing import Any, TypeAlias

import msgspec

from carrel.client.handlers import Form, LogHandler, Roots, RootsRequest, Sampling, URLElicitation
from carrel.client.handlers import Handlers as AsyncHandlers
from carrel.sync.loop import awaited, call_in_thread
from carrel.wire.client_features import CreateMessageResult, ElicitResult

__all__ = ["AnyHandlers", "Handlers", "async_handlers"]

FormAnswer: TypeAlias = Mapping[str, Any] | ElicitResult | None
PageAnswer: TypeAlias = bool | ElicitResult
SampleAnswer: TypeAlias = CreateMessageResult | str


class Handlers(msgspec.Struct, frozen=True, kw_only=True):
    """Handlers of server requests, as of ``carrel.client.handlers.Handlers``, which may be plain functions.

    Each call of a plain function runs in a new thread, so it may block and use clients. ``log`` runs in the event loop,
    and must do neither.
    """

    elicit_form: Callable[[Form], FormAnswer | Awaitable[FormAnswer]] | None = None
    elicit_url: Callable[[URLElicitation], PageAnswer | Awaitable[PageAnswer]] | None = None
    sample: Callable[[Sampling], SampleAnswer | Awaitable[SampleAnswer]] | None = None
    sample_tools: bool = False
    roots: Roots | Callable[[RootsRequest], Roots | Awaitable[Roots]] | None = None
    log: LogHandler | None = None
    together: bool = False
    untouched: bool = False


AnyHandlers: TypeAlias = Handlers | AsyncHandlers


def async_handlers(handlers: AnyHandlers | None) -> AsyncHandlers | None:
    """Return handlers for a client whose plain functions run in threads."""
    if handlers is None:
        return None
    roots = handlers.roots
    return AsyncHandlers(
        elicit_form=_in_thread(handlers.elicit_form),
        elicit_url=_in_thread(handlers.elicit_url),
        sample=_in_thread(handlers.sample),
        sample_tools=handlers.sample_tools,
        roots=_in_thread(roots) if callable(roots) else roots,
        log=handlers.log,
        together=handlers.together,
        untouched=handlers.untouched,
    )


def _in_thread(function: Callable[..., Any] | None) -> Any:
    if function is None or iscoroutinefunction(function):
        return function

    async def call(asked: Any) -> Any:
        return await awaited(await call_in_thread(function, asked))

    return call
