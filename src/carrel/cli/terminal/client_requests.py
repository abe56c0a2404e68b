"""Elicitation on the terminal: forms, field by field, and pages to visit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from carrel.cli.client.connection import shown
from carrel.cli.terminal.messages import ask, show
from carrel.client.handlers import Form, Handlers, URLElicitation
from carrel.protocol.json_schema import Validator
from carrel.typed import discard_typed

__all__ = ["Terminal", "on_the_terminal", "read_line", "say"]


class Terminal(NamedTuple):
    """Terminal for prompts. ``read`` prompts for a line, ``say`` prints lines.

    ``read`` raises EOFError at the end of input; the elicitation is then declined. ``hold`` holds back other output
    until the user has answered. ``open_page`` opens a page that the user has agreed to visit.
    """

    read: Callable[[str], Awaitable[str]]
    say: Callable[[str], None]
    hold: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    open_page: Callable[[str], Awaitable[None]] | None = None

    async def confirm(self, question: str, *, default: bool = True) -> bool:
        """Ask a yes-or-no question, and return the answer."""
        answer = (await self.read(f"{question} [{'Y/n' if default else 'y/N'}] ")).lower()
        return answer in ("y", "yes") or (default and not answer)


def on_the_terminal(terminal: Terminal | None = None, lock: asyncio.Lock | None = None) -> Handlers:
    """Return handlers that prompt the user at a terminal, by default the terminal of the process.

    ``lock`` is held during a prompt. All code that prompts at this terminal must use the same lock.
    """
    on = Terminal(read_line, say) if terminal is None else terminal
    lock = asyncio.Lock() if lock is None else lock  # one prompt at a time

    async def fill_in(form: Form) -> Mapping[str, Any] | None:
        async with lock:
            with on.hold(), contextlib.suppress(EOFError):
                on.say(f"\n{shown(form.server)} asks: {shown(form.message, 2000)}")
                content = await fill_in_form(form, on)
                return content if await on.confirm("Send this?") else None
            return None

    async def open_url(page: URLElicitation) -> bool:
        async with lock:
            with on.hold(), contextlib.suppress(EOFError):
                host, why = shown(page.host), shown(page.message, 2000)
                on.say(f"\n{shown(page.server)} asks you to visit a page of {host}: {why}")
                warning = "\n  (its address looks like another one)" if page.suspicious else ""
                on.say(f"  {shown(page.url, 4000)}{warning}")
                if on.open_page is None:
                    return await on.confirm("Will you?")
                agreed = await on.confirm("Open it in your browser?", default=False)
                if agreed:
                    await on.open_page(page.url)
                return agreed
            return False

    return Handlers(elicit_form=fill_in, elicit_url=open_url)


async def fill_in_form(form: Form, on: Terminal) -> dict[str, Any]:
    """Prompt for each field of a form, and return its content."""
    required = form.schema.get("required") or ()
    content: dict[str, Any] = {}
    for name, field in form.fields.items():
        value = await fill_in_field(name, field, on, required=name in required)
        if value is not None:
            content[name] = value
    return content


async def fill_in_field(name: str, field: Mapping[str, Any], on: Terminal, *, required: bool) -> Any:
    """Prompt for a field until the answer is valid for its schema. Return None if the user skips the field."""
    options = choices(field)
    notes = [shown(str(field["description"]), 500)] if field.get("description") else []
    notes += [" | ".join(shown(str(option)) for option in options)] if options else []
    notes += [] if options or field.get("type") == "string" else [shown(str(field.get("type", "")))]
    notes += [f"default: {shown(str(field['default']))}"] if "default" in field else []
    notes += [] if required else ["optional"]
    about = f" ({'; '.join(notes)})" if notes else ""
    while True:
        text = await on.read(f"  {shown(str(field.get('title') or name))}{about}: ")
        if not text and "default" in field:
            return field["default"]
        if not text and not required:
            return None
        try:
            value = converted(text, field, options)
            Validator(field, name, foreign=True).validate(value)
        except ValueError as error:
            on.say(f"  {shown(str(error), 300)}")
        else:
            return value


def choices(field: Mapping[str, Any]) -> list[Any]:
    """Return the allowed values of an enum field. For other fields, the result is empty."""
    source = field.get("items", field) if field.get("type") == "array" else field
    found = list(source.get("enum") or ())
    return found or [one.get("const") for one in (*source.get("oneOf", ()), *source.get("anyOf", ())) if "const" in one]


def converted(text: str, field: Mapping[str, Any], options: list[Any]) -> Any:
    """Convert an answer to the value of a field.

    Raises:
        ValueError: the answer is not valid for the field.
    """
    kind = field.get("type")
    if kind == "array":
        parts = [part.strip() for part in text.split(",") if part.strip()]
        wrong = [part for part in parts if options and part not in options]
        if wrong:
            raise ValueError(f"{wrong[0]} is not one of the choices")
        return parts
    if options:
        if text not in options:
            raise ValueError("please give one of the choices")
        return text
    if kind == "boolean":
        if text.lower() not in ("y", "yes", "true", "n", "no", "false"):
            raise ValueError("please answer yes or no")
        return text.lower() in ("y", "yes", "true")
    if kind in ("integer", "number"):
        try:
            return int(text) if kind == "integer" else float(text)
        except ValueError:
            raise ValueError(f"please give a number{' without a fraction' if kind == 'integer' else ''}") from None
    if not text:
        raise ValueError("this is required")
    return text


async def read_line(prompt: str) -> str:
    """Prompt on standard error, so that standard output contains only the result.

    A daemon thread reads the terminal, so that Ctrl-C does not wait for it. It does not read from ``sys.stdin``,
    because it would hold the lock of ``sys.stdin``.

    Raises:
        EOFError: end of input.
    """
    discard_typed(sys.stdin.fileno())
    ask(prompt)
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def deliver(line: str) -> None:
        if not answer.done():
            answer.set_result(line)

    def read() -> None:
        line = os.read(sys.stdin.fileno(), 65536).decode(sys.stdin.encoding or "utf-8", "replace")
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(deliver, line)

    threading.Thread(target=read, name="carrel-terminal", daemon=True).start()
    line = await answer
    if not line:
        raise EOFError
    return line.strip()


def say(text: str) -> None:
    show(*text.split("\n"))
