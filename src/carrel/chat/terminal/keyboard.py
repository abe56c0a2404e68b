"""Keyboard: reads messages and answers from a terminal: with prompt_toolkit, or line by line in a dumb terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import Completer
from prompt_toolkit.filters import completion_is_selected, has_completions
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.styles import Style

from carrel.typed import discard_typed

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

__all__ = ["Keyboard", "LineKeyboard", "PromptKeyboard", "quiet", "typed_ahead"]

PROMPT = "> "
STYLE = Style.from_dict({"bottom-toolbar": "noreverse", "bottom-toolbar.text": "fg:ansibrightblack"})


class Keyboard(Protocol):
    """Reads the user's input. Both methods raise KeyboardInterrupt at Ctrl-C, EOFError at the end of the input."""

    async def read_message(self) -> str:
        """Return a message, which may have several lines."""

    async def ask(self, prompt: str, *, default: str = "", password: bool = False) -> str:
        """Ask a question, and return the answer. Discard input from before the question."""

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the pending read, if Ctrl-C arrived as a signal."""


class PromptKeyboard:
    """Keyboard of a terminal that can place its cursor: history, completion, several lines, a line of state."""

    def __init__(
        self,
        *,
        completer: Completer | None = None,
        toolbar: Callable[[], StyleAndTextTuples] | None = None,
        history: Path | None = None,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._session: PromptSession[str] = PromptSession(
            message=[("bold", PROMPT)],
            multiline=True,
            prompt_continuation=[("", "  ")],
            history=_history(history),
            auto_suggest=AutoSuggestFromHistory(),
            completer=completer,
            complete_while_typing=True,
            key_bindings=key_bindings(),
            bottom_toolbar=toolbar,
            refresh_interval=1.0,
            style=STYLE,
            input=input,
            output=output,
        )
        self._input, self._output = input, output

    async def read_message(self) -> str:
        """Return a message; Enter ends it, Alt-Enter or a backslash before Enter begins another line."""
        return await self._session.prompt_async(handle_sigint=False)

    async def ask(self, prompt: str, *, default: str = "", password: bool = False) -> str:
        """Ask a question, and return the answer."""
        session: PromptSession[str] = PromptSession(
            history=InMemoryHistory(), input=self._input, output=self._output, style=STYLE
        )
        clear_typeahead(session.input)  # keys that arrived together with the message, after its Enter
        _forget_typed()
        text = await session.prompt_async(
            prompt, default=default, is_password=password, handle_sigint=False, multiline=False
        )
        return text.strip()

    def interrupt(self) -> None:
        """Ctrl-C is a key here; a signal from elsewhere is treated like it."""
        app = self._session.app
        if app.is_running:
            app.exit(exception=KeyboardInterrupt)


def key_bindings() -> KeyBindings:
    """Return the key bindings beside the Emacs bindings: Enter sends, Alt-Enter and Ctrl-J begin a line."""
    keys = KeyBindings()

    @keys.add("enter", filter=has_completions & completion_is_selected)
    def take(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    @keys.add("enter", filter=~(has_completions & completion_is_selected))
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        elif buffer.text.strip():
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-c")
    def clear(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt)

    return keys


def _history(file: Path | None) -> History:
    """Return the history of a file that only its user can read."""
    if file is None:
        return InMemoryHistory()
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        return FileHistory(str(file))
    return InMemoryHistory()


class LineKeyboard:
    """Keyboard of a dumb terminal: a line is a message; one that ends with a backslash continues in the next line.

    The terminal is read by one thread for the whole program, which Python does not wait for at its end.
    """

    def __init__(self, out: IO[str], descriptor: int | None = None) -> None:
        self._out = out
        self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._reader: threading.Thread | None = None
        self._waiting: asyncio.Future[str] | None = None

    async def read_message(self) -> str:
        """Return a message."""
        text = await self._line(PROMPT)
        while text.endswith("\\"):
            text = f"{text[:-1]}\n{await self._line('  ')}"
        return text

    async def ask(self, prompt: str, *, default: str = "", password: bool = False) -> str:
        """Ask a question, and return the answer."""
        discard_typed(self._descriptor)
        await asyncio.sleep(0)  # lines that the thread has read already arrive
        while not self._lines.empty():
            self._lines.get_nowait()
        with _no_echo(self._descriptor) if password else contextlib.nullcontext():
            return (await self._line(prompt)).strip() or default

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the pending read."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(KeyboardInterrupt())

    async def _line(self, prompt: str) -> str:
        self._out.write(prompt)
        self._out.flush()
        loop = asyncio.get_running_loop()
        if self._reader is None:
            self._reader = threading.Thread(target=self._read, args=(loop,), name="carrel-terminal", daemon=True)
            self._reader.start()
        self._waiting = loop.create_future()
        getting = asyncio.ensure_future(self._lines.get())
        try:
            await asyncio.wait([getting, self._waiting], return_when=asyncio.FIRST_COMPLETED)
            if self._waiting.done():
                raise KeyboardInterrupt
            line = getting.result()
        finally:
            getting.cancel()
            self._waiting.cancel()
            if self._waiting.done() and not self._waiting.cancelled():
                self._waiting.exception()
        if not line:
            self._lines.put_nowait("")  # it stays ended
            raise EOFError
        return line.rstrip("\r\n")

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        remaining = b""
        while True:
            try:
                data = os.read(self._descriptor, 65536)
            except OSError:
                data = b""
            *lines, remaining = (remaining + data).split(b"\n")
            texts = [f"{line.decode('utf-8', 'replace')}\n" for line in lines]
            texts += [] if data else [remaining.decode("utf-8", "replace"), ""] if remaining else [""]
            with contextlib.suppress(RuntimeError):  # the loop is closed
                for text in texts:
                    loop.call_soon_threadsafe(self._lines.put_nowait, text)
            if not data:
                return


@contextmanager
def quiet() -> Iterator[None]:
    """Do not echo input while an answer arrives, and do not read it as an answer."""
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):
        yield
        return
    with _no_echo(descriptor):
        yield
    _forget_typed()


@contextmanager
def typed_ahead() -> Iterator[None]:
    """Keep input from before the first prompt for that prompt, without echo; Enter still sends."""
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):
        yield
        return
    with _no_echo(descriptor, enter=True):
        yield


@contextmanager
def _no_echo(descriptor: int, *, enter: bool = False) -> Iterator[None]:
    """Do not echo input; with ``enter``, the terminal does not make a line feed of Enter either."""
    try:
        import termios
    except ImportError:  # Windows
        yield
        return
    try:
        before: list[Any] = termios.tcgetattr(descriptor)
    except termios.error:
        yield
        return
    changed = list(before)
    changed[3] &= ~termios.ECHO
    changed[0] &= ~termios.ICRNL if enter else -1
    termios.tcsetattr(descriptor, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _forget_typed() -> None:
    """Discard typed text that was not read yet: it cannot be an answer to the question that follows."""
    with contextlib.suppress(OSError, ValueError):
        discard_typed(sys.stdin.fileno())
