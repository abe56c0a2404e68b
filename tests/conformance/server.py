"""The server that the conformance suite runs against. Names and texts are the suite's, to the letter.

    python tests/conformance/server.py --port 8000 [--state redis://127.0.0.1]

It has everything the suite asks for, except tasks.
"""

import argparse
import asyncio
import base64
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from carrel import Context, Server
from carrel.errors import InvalidParams, MissingCapability
from carrel.server.elicitation.client_requests import Elicited
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
app.skills(Path(__file__).parents[2] / "examples" / "skills")


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
    await ctx.report_progress(0, 100, "Completed step 0 of 100")
    await asyncio.sleep(0.05)
    await ctx.report_progress(50, 100, "Completed step 50 of 100")
    await asyncio.sleep(0.05)
    await ctx.report_progress(100, 100, "Completed step 100 of 100")
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
    await ctx.report_progress(1, 1, "Streaming")
    return "Streamed without asking"


@app.tool(structured=False)
async def test_reconnection(ctx: Context) -> str:
    """Sends the client away and answers when it may be back."""
    ctx.pause_stream(retry=0.1)
    await asyncio.sleep(0.2)
    return "Reconnection test completed successfully"


@app.tool(structured=False)
async def test_missing_capability(ctx: Context) -> str:
    """Needs a client that can sample."""
    return (await ctx.sample("Say something.", 10)).text


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


# Tools that ask, in the words of sessions


@dataclass
class User:
    username: Annotated[str, "User's response"]
    email: Annotated[str, "User's email address"]


@dataclass
class Defaults:
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


#: Every way to write a choice, the one of old included.
CHOICES = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {
            "type": "string",
            "oneOf": [
                {"const": "value1", "title": "First Option"},
                {"const": "value2", "title": "Second Option"},
                {"const": "value3", "title": "Third Option"},
            ],
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [
                    {"const": "value1", "title": "First Choice"},
                    {"const": "value2", "title": "Second Choice"},
                    {"const": "value3", "title": "Third Choice"},
                ]
            },
        },
    },
    "required": [],
}


@app.tool(structured=False)
async def test_sampling(ctx: Context, prompt: Annotated[str, "The prompt to send to the LLM"]) -> str:
    """Asks the client's model."""
    return f"LLM response: {(await ctx.sample(prompt, 100)).text}"


@app.tool(structured=False)
async def test_elicitation(ctx: Context, message: Annotated[str, "The message to show the user"]) -> str:
    """Asks the user."""
    answer = await ctx.elicit(message, User)
    return f"User response: action={answer.action}, content={answer.data}"


@app.tool(structured=False)
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks the user with a form that is filled in already."""
    return completed(await ctx.elicit("Please review and update the form fields", Defaults))


@app.tool(structured=False)
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks the user to choose, in every way there is."""
    return completed(await ctx.elicit("Please select options", CHOICES))


def completed(answer: Elicited[Any]) -> str:
    return f"Elicitation completed: action={answer.action}, content={answer.data}"


# Tools that ask, in rounds


def asks_for(name: str, kind: str = "string") -> dict[str, Any]:
    """Return the form with one required field."""
    return {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}


async def name_of(ctx: Context, message: str = "What is your name?", key: str = "user_name") -> str:
    answer: Elicited[dict[str, str]] = await ctx.elicit(message, asks_for("name"), key=key)
    return "stranger" if answer.data is None else answer.data["name"]


async def capital_of(ctx: Context) -> str:
    return (await ctx.sample("What is the capital of France?", 100, key="capital_question")).text


async def roots_of(ctx: Context) -> str:
    return f"Roots: {', '.join(root.uri for root in await ctx.list_roots(key='client_roots'))}"


@app.tool(structured=False)
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Asks for a name."""
    return f"Hello, {await name_of(ctx)}!"


@app.tool(structured=False)
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Asks the model."""
    return await capital_of(ctx)


@app.tool(structured=False)
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Asks for the roots."""
    return await roots_of(ctx)


@app.tool(structured=False)
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Asks for a confirmation, and knows what it knew when it asked."""
    token = await ctx.once("token", lambda: "state-ok")
    await ctx.elicit("Please confirm", asks_for("ok", "boolean"), key="confirm")
    return f"Confirmed: {token}"


@app.tool(structured=False)
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Asks for a confirmation, and takes no other state than its own."""
    await ctx.elicit("Please confirm", asks_for("ok", "boolean"), key="confirm")
    return "Confirmed"


@app.tool(structured=False)
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Asks the user, the model and for the roots, all at once."""
    name, greeting, roots = await asyncio.gather(
        name_of(ctx), ctx.sample("Generate a greeting", 50, key="greeting"), roots_of(ctx)
    )
    return f"{greeting.text} {name}! {roots}"


@app.tool(structured=False)
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Asks one thing after the other."""
    name = await name_of(ctx, "Step 1: What is your name?", "step1")
    color = await ctx.elicit("Step 2: What is your favorite color?", asks_for("color"), key="step2")
    return f"{name} likes {json.dumps(color.data)}."


@app.tool(structured=False)
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Asks whoever there is to be asked."""
    told = []
    for ask in (name_of, capital_of, roots_of):
        try:
            told.append(await ask(ctx))
        except MissingCapability as missing:
            told.append(str(missing))
    return "; ".join(told)


# Tasks


@app.tool(structured=False)
async def greet(name: str) -> str:
    """A tool that answers at once, and is never a task."""
    return f"Hello, {name}!"


@app.tool(task="optional", structured=False)
async def slow_compute(ctx: Context, seconds: float, label: str = "") -> str:
    """A tool that takes its time."""
    await ctx.report_progress(0, seconds, f"Computing {label}")
    await asyncio.sleep(seconds)
    return f"Computed {label} in {seconds:g} seconds"


@app.tool(task="required", structured=False)
async def failing_job() -> str:
    """A tool that fails after a while."""
    await asyncio.sleep(1)
    raise ValueError("This job fails on purpose")


@app.tool(task="optional", structured=False)
async def protocol_error_job() -> str:
    """A tool that ends with an error of the protocol."""
    await asyncio.sleep(0)
    raise InvalidParams("This job ends with a protocol error")


@app.tool(task="optional", structured=False)
async def confirm_delete(ctx: Context, filename: str) -> str:
    """A tool that asks before it does something."""
    answer = await ctx.elicit(f"Delete {filename}?", asks_for("confirm", "boolean"))
    done = answer.accepted and answer.data["confirm"]
    return f"Deleted {filename}" if done else f"Kept {filename}"


@app.tool(task="optional", structured=False)
async def multi_input(ctx: Context) -> str:
    """A tool that asks two questions at once."""
    name, sure = await asyncio.gather(
        ctx.elicit("What is your name?", asks_for("name")), ctx.elicit("Sure?", asks_for("confirm", "boolean"))
    )
    return f"{name.data} {sure.data}"


@app.tool(task="required", detaches=True, structured=False)
async def test_tool_with_task(ctx: Context) -> str:
    """A tool that asks first, and becomes a task then."""
    name = await name_of(ctx)
    await ctx.detach()
    return f"Hello, {name}!"


# Prompts


@app.prompt()
async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks what it is to be about."""
    answer = await ctx.elicit("What context should the prompt use?", asks_for("context"), key="user_context")
    return f"Use this context: {answer.data}"


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


def main() -> int:
    parser = argparse.ArgumentParser(description="Start the conformance suite's fixture server.")
    parser.add_argument("--port", type=int, default=8000, help="port on 127.0.0.1 (default: 8000)")
    parser.add_argument("--stdio", action="store_true", help="speak over standard input and output instead")
    parser.add_argument("--state", metavar="URL", help="share the state in Redis or Valkey with other processes")
    arguments = parser.parse_args()
    if arguments.state:
        app.share_state(arguments.state, [bytes(32)])
    if arguments.stdio:
        app.run()
    else:
        app.run(transport="http", port=arguments.port, on_started=lambda url: print(f"Listening on {url}", flush=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
