"""A terminal host with elicitation: shows the forms and pages of a server to the user.

    python examples/client_asking.py
    python examples/client_asking.py reserve '{"evening": "Friday"}' python examples/asking.py

The first command joins the club below. The second calls a tool of a server with arguments. An empty line accepts the
default in brackets, Ctrl-D declines. Before you say yes, nothing is sent and no page is opened.
"""

import asyncio
import json
import sys
import threading
import webbrowser
from dataclasses import dataclass
from typing import Any, Literal

from carrel import Client, Context, MCPError, Server
from carrel.types import Form, Handlers, URLElicitation, printable

app = Server("club", version="1.0")


@dataclass
class Application:
    name: str
    age: int
    plan: Literal["reading", "writing"] = "reading"
    newsletter: bool = False


@app.tool()
async def join(context: Context) -> str:
    """Join the club."""
    form = await context.elicit("Who would like to join?", Application)
    if form.data is None:
        return "Nobody joined."
    visit = await context.elicit_url("Please pay the fee.", "https://club.example/pay?member=1")
    return f"{form.data.name} joins for {form.data.plan}. {'Thank you!' if visit.accepted else 'Not paid yet.'}"


async def ask(prompt: str) -> str:
    """Read a typed line without blocking the event loop.

    Raises:
        EOFError: end of input.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def take(line: str | None) -> None:
        if not answer.done():
            answer.set_exception(EOFError()) if line is None else answer.set_result(line)

    def wait() -> None:
        try:
            line = input(prompt)
        except EOFError:
            line = None
        loop.call_soon_threadsafe(take, line)

    threading.Thread(target=wait, daemon=True).start()  # asyncio.to_thread would hold up Ctrl-C
    return (await answer).strip()


def choices_of(field: dict[str, Any]) -> dict[str, Any]:
    """Return the choices of a field by label. Empty if the field is not a choice."""
    field = field.get("items", field)
    if "enum" in field:
        return dict(zip(field.get("enumNames", field["enum"]), field["enum"], strict=False))
    return {
        option.get("title", option["const"]): option["const"] for option in field.get("oneOf", field.get("anyOf", []))
    }


def parse(line: str, field: dict[str, Any]) -> Any:
    """Convert a line to the value of a field.

    Raises:
        ValueError: the line is not valid for the field.
    """
    choices = choices_of(field)
    if field.get("type") == "array":
        return [parse(part.strip(), field["items"]) for part in line.split(",") if part.strip()]
    if choices:
        if line not in choices and line not in choices.values():
            raise ValueError(f"please choose among {', '.join(choices)}")
        return choices.get(line, line)
    if field.get("type") == "boolean":
        if line not in ("yes", "no"):
            raise ValueError("please answer yes or no")
        return line == "yes"
    if field.get("type") in ("integer", "number"):
        try:
            return int(line) if field["type"] == "integer" else float(line)
        except ValueError:
            raise ValueError("please type a number") from None
    return line


async def fill_in(form: Form) -> dict[str, Any] | None:
    """Prompt for the fields of a form one after the other, and ask whether to send them."""
    print(f"\n{form.server} asks: {printable(form.message)}")
    content: dict[str, Any] = {}
    try:
        for name, field in form.fields.items():
            hint = f" ({printable(' / '.join(choices_of(field)))})" if choices_of(field) else ""
            hint += f" [{printable(form.defaults[name])}]" if name in form.defaults else ""
            while name not in content:
                line = await ask(f"  {printable(field.get('title', name))}{hint}: ")
                if not line and name not in form.schema.get("required", ()):
                    break
                try:
                    content[name] = parse(line, field)
                except ValueError as error:
                    print(f"  {error}")
        print(f"  {printable(form.defaults | content, 10_000)}")
        return content if await ask("  Send this? (yes/no) ") == "yes" else None
    except EOFError:
        return None


async def visit(page: URLElicitation) -> bool:
    """Show the URL of a page, and open it in the browser if the user agrees."""
    print(f"\n{page.server} wants you to visit a page of {page.host}: {printable(page.message)}\n  {page.url}")
    if page.suspicious:
        print("  Careful: this address may look like another one.")
    try:
        agreed = await ask("  Open it in your browser? (yes/no) ") == "yes"
    except EOFError:
        return False
    if agreed:
        await asyncio.to_thread(webbrowser.open, page.url)
    return agreed


async def main() -> None:
    tool, arguments, *command = sys.argv[1:] or ["join", "{}"]
    try:
        async with Client(
            command or app, handlers=Handlers(elicit_form=fill_in, elicit_url=visit), timeout=None
        ) as client:
            result = await client.call_tool(tool, json.loads(arguments))
            for block in result.content:
                print(printable(getattr(block, "text", block), 10_000))
    except MCPError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(130)
