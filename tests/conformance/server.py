"""The server that the conformance suite runs against. Names and texts are the suite's, to the letter.

    python tests/conformance/server.py --port 8000

It has everything the suite asks for, except what needs the client's user, model or roots, tasks and skills.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
from typing import Annotated, Any

from carrel import Context, Server
from carrel.errors import MissingCapability
from carrel.wire.content import AudioContent, EmbeddedResource, ImageContent, TextContent
from carrel.wire.prompts import PromptMessage
from carrel.wire.resources import TextResourceContents

#: A picture of one red pixel.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
#: A sound without samples.
WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")

app = Server("carrel-conformance", version="1.0", instructions="This server exists to be tested.")


# Resources


@app.resource("test://static-text", mime_type="text/plain")
async def static_text() -> str:
    """A text that never changes."""
    return "This is the content of the static text resource."


@app.resource("test://static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """A picture that never changes."""
    return PNG


@app.resource("test://template/{id}/data", mime_type="application/json")
async def template_data(id: str) -> dict[str, Any]:
    """Data that depends on the URI."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@app.resource("test://watched-resource", mime_type="text/plain")
async def watched_resource() -> str:
    """A resource to subscribe to."""
    return "Watched resource content"


# Tools


@app.tool(structured=False)
async def test_simple_text() -> str:
    """Returns text."""
    return "This is a simple text response for testing."


@app.tool(structured=False)
async def test_image_content() -> ImageContent:
    """Returns a picture."""
    return ImageContent(PNG, "image/png")


@app.tool(structured=False)
async def test_audio_content() -> AudioContent:
    """Returns sound."""
    return AudioContent(WAV, "audio/wav")


@app.tool(structured=False)
async def test_embedded_resource() -> EmbeddedResource:
    """Returns the contents of a resource."""
    return embedded("test://embedded-resource", "This is an embedded resource content.")


@app.tool(structured=False)
async def test_multiple_content_types() -> list[Any]:
    """Returns text, a picture and a resource."""
    contents = embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return [TextContent("Multiple content types test:"), ImageContent(PNG, "image/png"), contents]


@app.tool(structured=False)
async def test_error_handling() -> str:
    """Always fails."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@app.tool(structured=False)
async def test_tool_with_logging(ctx: Context) -> str:
    """Writes three log messages, 50 ms apart."""
    await ctx.info("Tool execution started")
    await asyncio.sleep(0.05)
    await ctx.info("Tool processing data")
    await asyncio.sleep(0.05)
    await ctx.info("Tool execution completed")
    return "Tool with logging executed successfully"


@app.tool(structured=False)
async def test_tool_with_progress(ctx: Context) -> str:
    """Reports progress three times, 50 ms apart."""
    await ctx.progress(0, 100, "Completed step 0 of 100")
    await asyncio.sleep(0.05)
    await ctx.progress(50, 100, "Completed step 50 of 100")
    await asyncio.sleep(0.05)
    await ctx.progress(100, 100, "Completed step 100 of 100")
    return "Tool with progress executed successfully"


@app.tool(structured=False)
async def test_logging_tool(ctx: Context) -> str:
    """Writes a log message of each level, for whoever asked for them."""
    await ctx.debug("A debug message")
    await ctx.info("An info message")
    await ctx.warning("A warning message")
    await ctx.error("An error message")
    return "Logging tool executed successfully"


@app.tool(structured=False)
async def test_streaming_elicitation(ctx: Context) -> str:
    """Streams its answer. It asks the user nothing."""
    await ctx.progress(1, 1, "Streaming")
    return "Streamed without asking"


@app.tool(structured=False)
async def test_reconnection(ctx: Context) -> str:
    """Sends the client away and answers when it may be back."""
    ctx.pause_stream(retry=0.1)
    await asyncio.sleep(0.2)
    return "Reconnection test completed successfully"


@app.tool(structured=False)
async def test_missing_capability() -> str:
    """Needs a client that can sample."""
    raise MissingCapability({"sampling": {}})


@app.tool(structured=False)
async def test_trigger_tool_change() -> str:
    """Changes the list of tools."""
    app.tools.add(passing_by)
    app.tools.remove("passing_by")
    return "The list of tools has changed"


@app.tool(structured=False)
async def test_trigger_prompt_change() -> str:
    """Changes the list of prompts."""
    app.prompts.add(passing_by)
    app.prompts.remove("passing_by")
    return "The list of prompts has changed"


def passing_by() -> str:
    """Comes and goes."""
    return "Gone"


@app.tool(
    "test_custom_header",
    structured=False,
    input_schema={
        "type": "object",
        "properties": {"region": {"type": "string", "description": "A region", "x-mcp-header": "Region"}},
    },
)
async def custom_header(region: str = "nowhere") -> str:
    """Takes an argument that HTTP clients repeat in a header."""
    return f"Region: {region}"


@app.tool(
    description="Tool with JSON Schema 2020-12 features",
    structured=False,
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
async def json_schema_2020_12_tool(**arguments: Any) -> str:
    return f"JSON Schema 2020-12 tool called with {arguments}"


# Prompts


@app.prompt()
async def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@app.prompt()
async def test_prompt_with_arguments(
    arg1: Annotated[str, "First test argument"], arg2: Annotated[str, "Second test argument"]
) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@test_prompt_with_arguments.complete("arg1")
async def first_arguments(prefix: str) -> list[str]:
    return [word for word in ("test", "testing", "tested") if word.startswith(prefix)]


@app.prompt()
async def test_prompt_with_embedded_resource(
    resourceUri: Annotated[str, "URI of the resource to embed"],  # noqa: N803 - the suite's name
) -> list[PromptMessage]:
    """A prompt with the contents of a resource."""
    return [
        PromptMessage("user", embedded(resourceUri, "Embedded resource content for testing.")),
        PromptMessage("user", TextContent("Please process the embedded resource above.")),
    ]


@app.prompt()
async def test_prompt_with_image() -> list[PromptMessage]:
    """A prompt with a picture."""
    return [
        PromptMessage("user", ImageContent(PNG, "image/png")),
        PromptMessage("user", TextContent("Please analyze the image above.")),
    ]


def embedded(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(TextResourceContents(uri, text, mime_type=mime_type))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Start the conformance suite's fixture server.")
    parser.add_argument("--port", type=int, default=8000, help="port on 127.0.0.1 (default: 8000)")
    port = parser.parse_args().port
    app.run(transport="http", port=port, on_started=lambda url: print(f"Listening on {url}", flush=True))
