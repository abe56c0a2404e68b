"""The application of the golden conversations in which the server asks: the user, the model, or for the roots."""

from __future__ import annotations

import asyncio
from typing import Any

from carrel import Context, Server
from carrel.wire.client_features import (
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    ToolChoice,
    ToolResultContent,
)
from carrel.wire.content import AudioContent, ImageContent, TextContent
from carrel.wire.tools import Tool

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "title": "Name", "description": "On GitHub", "minLength": 5, "maxLength": 100},
        "email": {"type": "string", "format": "email", "default": "octocat@github.com"},
        "page": {"type": "string", "format": "uri"},
        "born": {"type": "string", "format": "date"},
        "last": {"type": "string", "format": "date-time"},
        "height": {"type": "number", "minimum": 0.5, "maximum": 150, "default": 1.75},
        "age": {"type": "integer", "minimum": 0, "maximum": 150, "default": 30},
        "member": {"type": "boolean", "default": False},
        "letter": {"type": "string", "enum": ["z", "a"], "default": "z"},
        "color": {
            "type": "string",
            "oneOf": [{"const": "#FF0000", "title": "Red"}, {"const": "#00FF00", "title": "Green"}],
            "default": "#00FF00",
        },
        "old": {"type": "string", "enum": ["b", "a"], "enumNames": ["Bee", "Ay"]},
    },
    "required": ["username"],
}
SEVERAL = {
    "type": "object",
    "properties": {
        "letters": {
            "type": "array",
            "title": "Letters",
            "description": "Choose",
            "minItems": 1,
            "maxItems": 2,
            "items": {"type": "string", "enum": ["z", "a"]},
            "default": ["z"],
        },
        "colors": {
            "type": "array",
            "items": {"anyOf": [{"const": "#FF0000", "title": "Red"}, {"const": "#00FF00", "title": "Green"}]},
            "default": ["#FF0000"],
        },
    },
    "required": ["letters"],
}


def build() -> Server:
    """Make the application. All its states are sealed with the same key, and none is the same as another."""
    app = Server("asking", version="1.0")

    async def name_of(context: Context) -> str:
        answer = await context.elicit("What is your name?", NAME, key="name")
        return str(answer.data["name"]) if answer.accepted else f"somebody who says {answer.action}"

    @app.tool(description="Ask for a name.", structured=False)
    async def greet(context: Context) -> str:
        return f"Hello, {await name_of(context)}."

    @app.prompt(description="Ask for a name.")
    async def greeting(context: Context) -> str:
        return f"Greet {await name_of(context)}."

    @app.resource("memo://name", mime_type="text/plain")
    async def name(context: Context) -> str:
        return await name_of(context)

    @app.tool(description="Ask with every kind of field.", structured=False)
    async def join(context: Context) -> str:
        return repr((await context.elicit("Who are you?", FORM, key="form")).data)

    @app.tool(description="Ask to choose several.", structured=False)
    async def choose(context: Context) -> str:
        return repr((await context.elicit("Which?", SEVERAL, key="several")).data)

    @app.tool(description="Send the user to a page.", structured=False)
    async def pay(context: Context) -> str:
        visit = await context.elicit_url("Please pay.", "https://example.com/pay?order=1", key="page")
        if visit.accepted:
            await context.elicitation_completed(visit.id)
        return f"Paid: {visit.action}."

    @app.tool(description="Ask the model.", structured=False)
    async def ponder(context: Context) -> str:
        found = await context.sample("What is the capital of France?", 100, key="capital")
        return f"{found.model}: {found.text} ({found.stop_reason})"

    @app.tool(description="Ask the model with everything there is.", structured=False)
    async def explain(context: Context) -> str:
        found = await context.sample(
            [
                SamplingMessage("user", TextContent("What is this?")),
                SamplingMessage("user", ImageContent(b"\x89PNG", "image/png")),
                SamplingMessage("assistant", TextContent("A picture.")),
            ],
            50,
            system_prompt="Be brief.",
            temperature=0.5,
            stop_sequences=["END"],
            metadata={"example.com/shelf": 7},
            include_context="none",
            model_preferences=ModelPreferences(
                hints=[ModelHint(name="claude-3-sonnet")],
                cost_priority=0.25,
                speed_priority=0.5,
                intelligence_priority=1.0,
            ),
        )
        return found.text

    @app.tool(description="Let the model hear something.", structured=False)
    async def listen(context: Context) -> str:
        return (await context.sample(SamplingMessage("user", AudioContent(b"RIFF", "audio/wav")), 50)).text

    @app.tool(description="Let the model use a tool.", structured=False)
    async def forecast(context: Context) -> str:
        schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        tools = [Tool(name="weather", description="The weather.", input_schema=schema)]
        messages = [SamplingMessage("user", TextContent("The weather in Oslo?"))]
        found = await context.sample(messages, 100, tools=tools, tool_choice=ToolChoice(mode="required"), key="use")
        uses = found.content if isinstance(found.content, list) else [found.content]
        results = [ToolResultContent(use.id, [TextContent(f"{use.input['city']}: rain")]) for use in uses]
        messages += [SamplingMessage("assistant", uses), SamplingMessage("user", results)]
        return (await context.sample(messages, 100, tools=tools, key="answer")).text

    @app.tool(description="Ask for the roots.", structured=False)
    async def look(context: Context) -> str:
        return ", ".join(f"{root.name} at {root.uri}" for root in await context.list_roots(key="roots"))

    @app.tool(description="Ask everybody at once.", structured=False)
    async def survey(context: Context) -> str:
        name, capital, roots = await asyncio.gather(
            name_of(context), context.sample("What is the capital of France?", 100, key="capital"), context.list_roots()
        )
        return f"{name}, {capital.text}, {len(roots)} roots"

    @app.tool(description="Ask one thing after the other.", structured=False)
    async def book(context: Context) -> str:
        number = await context.once("number", lambda: 7)
        name = await name_of(context)
        sure = await context.elicit(f"Book table {number} for {name}?", bool, key="sure")
        return f"Table {number} for {name}: {sure.data}"

    return app


if __name__ == "__main__":
    build().run()
