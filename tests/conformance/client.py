"""The client for the conformance suite: it does what a scenario needs, against the URL that is its last argument.

    MCP_CONFORMANCE_SCENARIO=tools_call python tests/conformance/client.py http://127.0.0.1:3000/mcp

It ends with 0 if all went as it should, and with 1 and the error otherwise.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from carrel import Client, MCPError
from carrel.client.handlers import Form, Handlers
from carrel.transports.client.options import HTTPOptions
from carrel.wire.client_features import CreateMessageParams

Context = Mapping[str, Any]
Scenario = Callable[[Client, Context], Awaitable[None]]


async def call_every_tool(client: Client, context: Context) -> None:
    """List the tools, and call each that can be called without anything further."""
    for tool in await client.list_tools():
        required = tool.input_schema.get("required", [])
        properties = tool.input_schema.get("properties", {})
        await client.call_tool(tool.name, {name: EXAMPLES[properties[name].get("type", "string")] for name in required})


#: A value of each type.
EXAMPLES: Mapping[str, Any] = {
    "string": "test",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "object": {},
    "array": [],
}


async def list_tools(client: Client, context: Context) -> None:
    """Connect, and list the tools."""
    _ = await client.list_tools()


async def add_numbers(client: Client, context: Context) -> None:
    """Add two numbers."""
    await list_tools(client, context)
    await client.call_tool("add_numbers", {"a": 5, "b": 3})


async def call_without_arguments(client: Client, context: Context) -> None:
    """Call the first tool, as somebody who was let in may."""
    tools = [tool.name async for tool in client.list_tools()]
    await client.call_tool(tools[0], {})


async def replay(client: Client, context: Context) -> None:
    """Make the calls that the scenario gives."""
    await list_tools(client, context)
    for call in context["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def use_everything(client: Client, context: Context) -> None:
    """Send a request of every kind that has a header of its own."""
    await call_every_tool(client, context)
    for resource in await client.list_resources():
        await client.read_resource(resource.uri)
    for prompt in await client.list_prompts():
        await client.get_prompt(prompt.name, {})


async def echo_schema(client: Client, context: Context) -> None:
    """Send the schema of a tool back as it came."""
    tools = {tool.name: tool async for tool in client.list_tools()}
    await client.call_tool("json_schema_echo", {"schema": tools["json_schema_2020_12_tool"].input_schema})


async def list_skills(client: Client, context: Context) -> None:
    """List the skills, and load none."""
    _ = await client.skills.list_skills()


async def load_skill(client: Client, context: Context) -> None:
    """Load a skill that was listed, and the files of it, if they are what was listed."""
    skills = {skill.uri: skill async for skill in client.skills.list_skills()}
    skill = skills["skill://pdf-processing/SKILL.md"]
    await skill.instructions()
    for file in skill.files or ():
        await skill.read(file.uri)


SCENARIOS: Mapping[str, Scenario] = {
    "initialize": list_tools,
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": call_every_tool,
    "sse-retry": call_every_tool,
    "request-metadata": list_tools,
    "sep-2322-client-request-state": call_every_tool,
    "http-standard-headers": use_everything,
    "http-custom-headers": replay,
    "http-invalid-tool-headers": call_every_tool,
    "json-schema-ref-no-deref": list_tools,
    "json-schema-2020-12-preservation": echo_schema,
    "sep-2640-client-no-prefetch": list_skills,
    "sep-2640-client-verify-digest": load_skill,
    "sep-2640-client-verify-size": load_skill,
    "sep-2640-client-verify-frontmatter": load_skill,
}


async def accept(form: Form) -> dict[str, Any]:
    """Accept a form with what the server suggests."""
    return {}


async def answer(params: CreateMessageParams) -> str:
    """Stand in for a model."""
    return "This is a test."


async def run(scenario: str, url: str, context: Context) -> None:
    """Do what ``scenario`` needs."""
    act = SCENARIOS.get(scenario, call_without_arguments)
    options: dict[str, Any] = {}
    if scenario.startswith("auth/"):
        from conformance.authorization import credentials

        options["http"] = HTTPOptions(auth=credentials(scenario, context))
    async with Client(
        url, handlers=Handlers(elicit_form=accept, sample=answer, roots=["."]), timeout=60, **options
    ) as client:
        await act(client, context)


def main() -> int:
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    try:
        asyncio.run(run(scenario, sys.argv[-1], context))
    except MCPError:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
