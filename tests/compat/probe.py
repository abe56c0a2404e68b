"""Client of the official SDK 1.x that uses everything a server offers, and prints what it answers as JSON.

    python probe.py PLAN COMMAND [ARGUMENTS]     over stdio
    python probe.py PLAN URL                     over Streamable HTTP, or over HTTP+SSE if the URL ends with /sse

Each tool is called with arguments made up from its schema, and without any; each resource, template and prompt is read.
PLAN is a JSON object: ``tools`` are further calls ([name, arguments]), ``skip`` names of tools not to call, ``read``
further URIs, ``prompts`` further prompts, ``form`` the answer to forms, ``time`` how often one call is repeated to
measure the CPU time of the server.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from pathlib import Path

from made_up import arguments
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.exceptions import McpError

PLAN = json.loads(sys.argv[1])
LIMIT = timedelta(seconds=40)


class Probe:
    """What a server has answered so far."""

    def __init__(self):
        self.found = {}
        self.messages = []

    async def ask(self, key, make):
        """Note the result of a request, or its error."""
        try:
            result = await make()
            self.found[key] = result.model_dump(mode="json", exclude_none=True, by_alias=True)
            return result
        except McpError as error:
            self.found[key] = {"error": error.error.model_dump(mode="json")}
        except Exception as error:
            self.found[key] = {"raised": f"{type(error).__name__}: {error}"}
        return None

    async def log(self, params):
        self.messages.append(params.model_dump(mode="json", exclude_none=True))

    async def progress(self, progress, total, message):
        self.messages.append([progress, total, message])

    async def other(self, message):
        if isinstance(message, types.ServerNotification) and message.root.method.endswith(("changed", "updated")):
            self.messages.append(message.root.model_dump(mode="json", exclude_none=True))


async def sample(context, params):
    text = types.TextContent(type="text", text=f"an answer to {len(params.messages)}, at most {params.maxTokens}")
    return types.CreateMessageResult(role="assistant", content=text, model="none", stopReason="endTurn")


async def elicit(context, params):
    return types.ElicitResult(action="accept", content=PLAN.get("form", {}) if params.mode == "form" else None)


async def roots(context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///home", name="home")])


def cpu_of(pids):
    """Return the CPU time of processes, in seconds."""
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def children():
    """Return the ids of the child processes of this one."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


async def probe(session, seen):
    """Use everything that a server offers."""
    await seen.ask("initialize", session.initialize)
    tools = await seen.ask("tools", session.list_tools)
    resources = await seen.ask("resources", session.list_resources)
    await seen.ask("templates", session.list_resource_templates)
    prompts = await seen.ask("prompts", session.list_prompts)
    calls = list(PLAN.get("tools", []))
    for tool in () if tools is None else tools.tools:
        if tool.name not in PLAN.get("skip", []):
            calls += [[tool.name, arguments(tool.inputSchema, tool.inputSchema)], [tool.name, {}]]
    for name, given in [*calls, ["no such tool", {}]]:
        await seen.ask(
            f"call {name} {json.dumps(given)}",
            lambda name=name, given=given: session.call_tool(name, given, LIMIT, progress_callback=seen.progress),
        )
    uris = [str(each.uri) for each in (() if resources is None else resources.resources)]
    for uri in [*uris, *PLAN.get("read", []), "none://such"]:
        await seen.ask(f"read {uri}", lambda uri=uri: session.read_resource(uri))
    wanted = list(PLAN.get("prompts", []))
    for prompt in () if prompts is None else prompts.prompts:
        names = [each.name for each in prompt.arguments or ()]
        wanted += [[prompt.name, dict.fromkeys(names, "text")], [prompt.name, {}]]
        for name in names[:1]:
            reference = types.PromptReference(type="ref/prompt", name=prompt.name)
            argument = {"name": name, "value": "p"}
            await seen.ask(
                f"complete {prompt.name}", lambda ref=reference, given=argument: session.complete(ref, given)
            )
    for name, given in [*wanted, ["no such prompt", {}]]:
        await seen.ask(
            f"prompt {name} {json.dumps(given)}", lambda name=name, given=given: session.get_prompt(name, given)
        )
    with suppress(McpError):
        await session.send_ping()  # whose answer comes after the notifications that were sent over the same connection
    await asyncio.sleep(0.05)  # for those over another one
    repeat = PLAN.get("time", 0)
    if repeat and tools is not None and tools.tools:
        name = next((call[0] for call in PLAN.get("tools", [])), tools.tools[0].name)
        given = next((call[1] for call in PLAN.get("tools", [])), None)
        if given is None:
            given = arguments(tools.tools[0].inputSchema, tools.tools[0].inputSchema)
        return await timed(lambda: session.call_tool(name, given), repeat)
    return None


async def timed(call, repeat):
    """Return the time of the server for one call, in microseconds; None for a call that takes long by its nature."""
    begun = time.monotonic()
    for _ in range(20):
        await call()
        if time.monotonic() - begun > 1:
            return None
    pids = children()
    before, begun = cpu_of(pids), time.monotonic()
    for _ in range(repeat):
        await call()
    return {"cpu": (cpu_of(pids) - before) / repeat * 1e6, "wall": (time.monotonic() - begun) / repeat * 1e6}


async def main():
    target = sys.argv[2:]
    seen = Probe()
    async with AsyncExitStack() as stack:
        if target[0].startswith("http"):
            connect = sse_client if re.search("/sse$", target[0]) else streamablehttp_client
            read, write, *_ = await stack.enter_async_context(connect(target[0]))
        else:
            parameters = StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ))
            read, write = await stack.enter_async_context(stdio_client(parameters))
        session = ClientSession(
            read,
            write,
            LIMIT,
            sampling_callback=sample,
            elicitation_callback=elicit,
            list_roots_callback=roots,
            logging_callback=seen.log,
            message_handler=seen.other,
        )
        await stack.enter_async_context(session)
        times = await probe(session, seen)
    seen.found["messages"] = seen.messages
    print(json.dumps({"answers": seen.found, "times": times}))


asyncio.run(main())
