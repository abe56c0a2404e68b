"""OpenTelemetry spans and metrics, by the semantic conventions for MCP.

Loaded only when the process has set up the OpenTelemetry SDK before the server starts; otherwise it costs nothing.

https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/
https://modelcontextprotocol.io/specification/2026-07-28/basic#_meta (trace context)
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any

from opentelemetry import context as contexts
from opentelemetry import metrics, propagate, trace
from opentelemetry.trace import Span, SpanKind, StatusCode

from carrel.catalog.request import InputRequired
from carrel.protocol.server_errors import error_object
from carrel.server.failures import message_of

if TYPE_CHECKING:
    from carrel.protocol.server import Call
    from carrel.server.middleware.middleware import MiddlewareFunction, Next
    from carrel.wire.base import Result

__all__ = ["SUPPRESSED", "is_configured", "middleware"]

CONTEXT_KEYS = ("traceparent", "tracestate", "baggage")
#: Seconds, as the conventions advise.
BUCKETS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
#: Key of the context in which calls are not recorded, if its value is true.
SUPPRESSED = "carrel-telemetry-suppressed"
TOOL_ERROR = "tool_error"
#: Classes of the providers of the API, while no others are set.
UNSET_PROVIDERS = ("NoOpMeterProvider", "NoOpTracerProvider", "ProxyTracerProvider", "_ProxyMeterProvider")


def is_configured() -> bool:
    """Return whether the process has set up the OpenTelemetry SDK; that a library has loaded it does nothing."""
    if "opentelemetry.sdk" not in sys.modules:
        return False
    providers = (trace.get_tracer_provider(), metrics.get_meter_provider())
    return any(type(provider).__name__ not in UNSET_PROVIDERS for provider in providers)


def middleware(version: str) -> MiddlewareFunction:
    """Return middleware that records a span and the duration of every call."""
    tracer = trace.get_tracer("carrel", version)
    duration = metrics.get_meter("carrel", version).create_histogram(
        "mcp.server.operation.duration",
        unit="s",
        description="Duration of an MCP request, from its receipt to its answer",
        explicit_bucket_boundaries_advisory=BUCKETS,
    )

    async def observe(call: Call, next: Next) -> Result:
        if contexts.get_value(SUPPRESSED):
            return await next(call)
        name, labels, details = describe(call)
        context = propagate.extract(carrier(call))
        span = tracer.start_span(name, context, SpanKind.SERVER, {**labels, **details})
        start = time.perf_counter()
        outcome: Any = None
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                outcome = await next(call)
                return outcome  # type: ignore[no-any-return]
        except InputRequired:
            raise
        except BaseException as error:
            outcome = error
            raise
        finally:
            labels.update(judge(span, call, outcome))
            span.end()
            duration.record(time.perf_counter() - start, labels, context)

    return observe


def carrier(call: Call) -> dict[str, str]:
    """Return the trace context in the ``_meta`` of a call."""
    if b"traceparent" not in bytes(call.raw):
        return {}
    meta = call.meta
    return {key: meta[key] for key in CONTEXT_KEYS if isinstance(meta.get(key), str)}


def describe(call: Call) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the name of a call's span, its labels (few values), and its other attributes."""
    method = call.request.method
    over_http = call.raw_headers is not None or bool(call.client.session_id)
    labels: dict[str, Any] = {
        "mcp.method.name": method,
        "mcp.protocol.version": call.peer.revision.name,
        "network.transport": "tcp" if over_http else "pipe",
    }
    if over_http:
        labels["network.protocol.name"] = "http"
    details: dict[str, Any] = {"jsonrpc.request.id": str(call.id)}
    if call.client.session_id:
        details["mcp.session.id"] = call.client.session_id
    name = method
    if call.request.operation == "call_tool":
        labels |= {"gen_ai.tool.name": call.params.name, "gen_ai.operation.name": "execute_tool"}
        name = f"{method} {call.params.name}"
    elif call.request.operation == "get_prompt":
        labels["gen_ai.prompt.name"] = call.params.name
        name = f"{method} {call.params.name}"
    elif hasattr(call.params, "uri"):
        details["mcp.resource.uri"] = call.params.uri
    return name, labels, details


def judge(span: Span, call: Call, outcome: Any) -> dict[str, Any]:
    """Set the status of a span by the outcome of its call, and return the error labels."""
    if isinstance(outcome, BaseException) and not isinstance(outcome, asyncio.CancelledError | GeneratorExit):
        code = str(error_object(outcome, call.peer.revision).code)
        found = {"error.type": code, "rpc.response.status_code": code}
        span.set_status(StatusCode.ERROR, message_of(outcome))
    elif isinstance(outcome, BaseException):
        found = {"error.type": "cancelled"}
        span.set_status(StatusCode.ERROR, "cancelled")
    elif getattr(outcome, "is_error", False) is True:
        found = {"error.type": TOOL_ERROR}
        span.set_status(StatusCode.ERROR)
    else:
        return {}
    span.set_attributes(found)
    return found
