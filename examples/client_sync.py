"""A synchronous client for scripts and notebooks, with the tool calls of a model that adds numbers.

    python examples/client_sync.py

starts the server below in memory. The model is simulated; with an Anthropic model, pass ``tools`` in the request.
"""

from typing import Any

from carrel import Server
from carrel.agents import ToolUse
from carrel.sync import Client, tools_of

shop = Server("shop", version="1.0")
shop.resources.add("note://lamp", "Buy a lamp", name="lamp", mime_type="text/plain")


@shop.tool(annotations={"readOnlyHint": True})
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@shop.tool()
def buy(thing: str) -> str:
    """Buy a thing."""
    return f"bought: {thing}"


def approve(use: ToolUse) -> bool | str:
    """Approve read-only tools. An interactive program can ask the user here: this function may block."""
    reads = use.tool.annotations is not None and use.tool.annotations.read_only_hint is True
    return reads or f"The user does not want to {use.name} a {use.arguments.get('thing')}."


def think(messages: list[Any]) -> dict[str, Any]:
    """Respond like an Anthropic model: call two tools, and then report their results."""
    if len(messages) > 1:
        texts = [block["content"][0]["text"] for block in messages[-1]["content"]]
        return {"content": [{"type": "text", "text": " ".join(texts)}]}
    return {
        "content": [
            {"type": "tool_use", "id": "1", "name": "add", "input": {"a": 19, "b": 23}},
            {"type": "tool_use", "id": "2", "name": "buy", "input": {"thing": "lamp"}},
        ]
    }


def main() -> None:
    with Client(shop) as client:
        for resource in client.list_resources():
            print(f"{resource.uri}: {client.read_resource(resource.uri).contents[0].text}")
        tools = tools_of(client, "anthropic", approve=approve)
        print("tools:", ", ".join(tool["name"] for tool in tools))
        messages: list[Any] = [{"role": "user", "content": "How much is 19 and 23? Then buy a lamp."}]
        message = think(messages)
        while results := tools.run(message):
            messages += [{"role": "assistant", "content": message["content"]}, *results]
            message = think(messages)
        print("model:", message["content"][0]["text"])


if __name__ == "__main__":
    main()
