"""Spans and metrics, against the OpenTelemetry SDK itself; run by test_telemetry.py in a process of its own."""

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from carrel import Context, Server
from carrel.compat.fastmcp.telemetry import suppress_fastmcp_telemetry
from carrel.errors import ResourceNotFound
from carrel.protocol.revisions import REVISIONS
from carrel.transports import memory

EXPORTER = InMemorySpanExporter()
READER = InMemoryMetricReader()
TRACE = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"


@pytest.fixture(scope="module", autouse=True)
def providers() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([READER]))


@pytest.fixture(autouse=True)
def forget() -> None:
    EXPORTER.clear()


def server() -> Server:
    app = Server("observed", "1.2")
    app.resources.add("memo://1", "text")

    @app.resource("gone://{id}")
    async def gone(id: str) -> str:
        raise ResourceNotFound(f"gone://{id}")

    @app.tool()
    async def nest(context: Context) -> str:
        with trace.get_tracer("test").start_as_current_span("inner"):
            return context.revision

    @app.tool()
    def fail() -> str:
        raise ValueError("no")

    return app


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_call_is_a_span_with_what_the_conventions_ask_for(revision: str) -> None:
    async with memory.connect(server(), revision) as peer:
        EXPORTER.clear()
        await peer.request("resources/read", {"uri": "memo://1"})
    (span,) = [span for span in EXPORTER.get_finished_spans() if span.name == "resources/read"]
    assert dict(span.attributes or {}) | {"jsonrpc.request.id": ""} == {
        "mcp.method.name": "resources/read",
        "mcp.protocol.version": revision,
        "mcp.resource.uri": "memo://1",
        "network.transport": "pipe",
        "jsonrpc.request.id": "",
    }
    assert span.kind is trace.SpanKind.SERVER
    assert span.status.status_code is StatusCode.UNSET


async def test_the_trace_goes_on_from_the_client_and_into_the_tool() -> None:
    async with memory.connect(server()) as peer:
        await peer.request("tools/call", {"name": "nest", "_meta": {"traceparent": TRACE}})
    spans = {span.name: span for span in EXPORTER.get_finished_spans()}
    outer, inner = spans["tools/call nest"], spans["inner"]
    assert f"{outer.context.trace_id:032x}" == TRACE.split("-")[1]
    assert outer.parent is not None
    assert f"{outer.parent.span_id:016x}" == TRACE.split("-")[2]
    assert inner.parent is not None
    assert inner.parent.span_id == outer.context.span_id
    assert (outer.attributes or {})["gen_ai.tool.name"] == "nest"


@pytest.mark.parametrize(
    ("method", "params", "kind"),
    [
        ("resources/read", {"uri": "gone://1"}, "-32602"),
        ("tools/call", {"name": "fail"}, "tool_error"),
        ("tools/call", {"name": "nothing"}, "-32602"),
    ],
)
async def test_failed_requests_are_marked_in_spans(method: str, params: dict[str, str], kind: str) -> None:
    async with memory.connect(server()) as peer:
        await peer.request(method, params)
    (span,) = EXPORTER.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == kind


async def test_the_duration_of_every_operation_is_measured() -> None:
    async with memory.connect(server()) as peer:
        await peer.request("resources/list")
    data = READER.get_metrics_data()
    assert data is not None
    found = [
        (metric.name, metric.unit, dict(point.attributes or {})["mcp.method.name"])
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ]
    assert ("mcp.server.operation.duration", "s", "resources/list") in found


async def test_calls_of_a_server_are_not_recorded_where_telemetry_is_suppressed() -> None:
    with suppress_fastmcp_telemetry():
        async with memory.connect(server(), next(iter(REVISIONS))) as peer:
            await peer.request("tools/call", {"name": "nest", "arguments": {}})
    assert [span.name for span in EXPORTER.get_finished_spans()] == ["inner"]
