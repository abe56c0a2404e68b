"""Checks of use: reading resources, calling tools, wrong requests, pings and subscriptions."""

from __future__ import annotations

import statistics
from typing import Any

import jsonschema_rs

from carrel.doctor.recorder import ProbeResponse
from carrel.doctor.subject import Subject
from carrel.errors import MCPError
from carrel.protocol.methods import LIST_KINDS

__all__ = ["check_errors", "check_pings", "check_resources", "check_subscriptions", "check_tools"]

MAX_READ = 20
MAX_CALLS = 50
PINGS = 9
#: Median time of a ping that counts as slow, in seconds.
SLOW_PING = 0.25
UNKNOWN = "carrel-doctor-no-such-thing"


async def check_pings(subject: Subject) -> None:
    """Measure pings, in milliseconds."""
    method = "server/discover" if subject.stateless else "ping"
    took = []
    for _ in range(PINGS):
        response = await subject.ask(method)
        if response.result is None:
            subject.find("ping", f"{method}: {response.failure or response.error}")
            return
        took.append(response.seconds)
    subject.report.check("pings", PINGS)
    subject.report.timing["ping"] = round(statistics.median(took) * 1000, 2)
    if statistics.median(took) > SLOW_PING:
        subject.find("slow", f"{method} takes {statistics.median(took):.2f} s")


async def check_resources(subject: Subject) -> None:
    """Read the first resources of the list."""
    took = []
    for item in subject.lists.get("resources", [])[:MAX_READ]:
        uri = str(item.get("uri"))
        response = await subject.ask("resources/read", {"uri": uri}, name=uri)
        subject.report.check("reads")
        took.append(response.seconds)
        if response.failure is not None:
            subject.find("silent", f"resources/read {uri}: {response.failure}")
        elif response.error is not None:
            subject.find("unreadable", f"{uri}: {response.error.get('code')} {response.error.get('message')}")
    if took:
        subject.report.timing["read"] = round(statistics.median(took) * 1000, 2)


async def check_tools(subject: Subject) -> None:
    """Call the tools that only read, or all of them, with arguments made from their schemas."""
    left = []
    for tool in subject.lists.get("tools", [])[:MAX_CALLS]:
        name = str(tool.get("name"))
        hints = tool.get("annotations")
        reads = isinstance(hints, dict) and hints.get("readOnlyHint") is True
        if not (reads or subject.call) or "x-mcp-header" in repr(tool.get("inputSchema")):
            left.append(name)
            continue
        schema = tool.get("inputSchema")
        arguments = example_of(schema) if isinstance(schema, dict) else {}
        response = await subject.ask("tools/call", {"name": name, "arguments": arguments}, name=name)
        subject.report.check("calls")
        if response.failure is not None and response.timed_out:
            subject.report.notes.append(f"tool {name}: {response.failure}")
        elif response.failure is not None:
            subject.find("silent", f"tools/call {name}: {response.failure}")
        check_output(subject, tool, response)
    if left:
        subject.report.notes.append(
            f"{len(left)} tools were not called, as they may change things: {', '.join(left[:5])}"
            f"{' …' if len(left) > 5 else ''}"
        )


def check_output(subject: Subject, tool: dict[str, Any], response: ProbeResponse) -> None:
    schema, result = tool.get("outputSchema"), response.result
    if not isinstance(schema, dict) or not isinstance(result, dict) or result.get("isError") or "content" not in result:
        return
    if "structuredContent" not in result:
        subject.find("unstructured", str(tool.get("name")))
        return
    try:
        error = next(iter(jsonschema_rs.validator_for(schema).iter_errors(result["structuredContent"])), None)
    except Exception:  # the schema is a finding already
        return
    if error is not None:
        subject.find("mismatch", f"{tool.get('name')}: {error.message[:200]}")


def example_of(schema: dict[str, Any], depth: int = 0) -> Any:
    """Return a value that a schema is likely to accept: of objects, only the required properties."""
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list) and schema[key] and isinstance(schema[key][0], dict):
            return example_of(schema[key][0], depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties") or {}
        wanted = schema.get("required") or ()
        fields = {name: properties[name] for name in wanted if isinstance(properties.get(name), dict)}
        return {name: example_of(field, depth + 1) for name, field in fields.items()} if depth < 10 else {}
    if kind == "array":
        items = schema.get("items")
        return [example_of(items, depth + 1)] * schema.get("minItems", 0) if isinstance(items, dict) else []
    simple: dict[Any, Any] = {"integer": schema.get("minimum", 1), "number": schema.get("minimum", 1)}
    simple |= {"boolean": False, "null": None}
    return simple.get(kind, "test".ljust(schema.get("minLength", 0), "x"))


async def check_errors(subject: Subject) -> None:
    """Send wrong requests, and check the codes of the errors."""
    missing = (-32602,) if subject.stateless else (-32002, -32602)
    gone = f"{UNKNOWN}://x"
    wrong: list[tuple[str, dict[str, Any], str, tuple[int, ...]]] = [("carrel/no-such-method", {}, "", (-32601,))]
    if subject.offers("tools"):
        wrong.append(("tools/call", {"name": UNKNOWN, "arguments": {}}, UNKNOWN, (-32602,)))
        wrong.append(("tools/call", {}, "", (-32602,)))
    if subject.offers("resources"):
        wrong.append(("resources/read", {"uri": gone}, gone, missing))
        wrong.append(("resources/read", {}, "", (-32602,)))
    if subject.offers("prompts"):
        wrong.append(("prompts/get", {"name": UNKNOWN}, UNKNOWN, (-32602,)))
        for prompt in subject.lists.get("prompts", []):
            if any(isinstance(one, dict) and one.get("required") for one in prompt.get("arguments") or ()):
                name = str(prompt.get("name"))
                wrong.append(("prompts/get", {"name": name}, name, (-32602,)))
                break
    for method, params, name, codes in wrong:
        about = f"{method} {name or 'without parameters'}" if method != "carrel/no-such-method" else "an unknown method"
        response = await subject.ask(method, params, name=name or None)
        subject.report.check("errors")
        if response.failure is not None:
            # Without the parameter, the Mcp-Name header cannot be sent, so HTTP may refuse the request.
            if "HTTP" not in response.failure:
                subject.find("silent", f"{about}: {response.failure}")
        elif response.error is None:
            failed = isinstance(response.result, dict) and response.result.get("isError") is True
            subject.find("wrong-code" if failed else "no-error", f"{about}: {'isError' if failed else 'a result'}")
        elif response.error.get("code") not in (*codes, -32020):
            expected = " or ".join(str(code) for code in codes)
            subject.find("wrong-code", f"{about}: {response.error.get('code')} instead of {expected}")


async def check_subscriptions(subject: Subject) -> None:
    """Subscribe to a resource and to the lists, as far as that is declared."""
    client = subject.client
    declared = client.capabilities.resources
    uris = [str(item.get("uri")) for item in subject.lists.get("resources", [])[:1]]
    if declared is None or declared.subscribe is not True:
        uris = []
    lists = [kind for kind in LIST_KINDS if client.session.server.reports_changes(kind)]
    if not uris and not lists:
        return
    subject.report.check("subscriptions", len(uris) + len(lists))
    try:
        async with client.watch(*uris, lists=lists) as watch:
            for refused in watch.refused:
                subject.find("subscription", f"{refused}: refused")
            await subject.alive()
    except MCPError as error:
        subject.find("subscription", str(error)[:200])
