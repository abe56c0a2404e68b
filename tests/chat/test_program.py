"""The chat in the terminal: commands, completion, questions and Ctrl-C, with keys through prompt_toolkit's pipe."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from carrel.chat.approvals import ApprovalRequest, Approvals, ApprovalStore
from carrel.chat.session import ChatSession
from carrel.chat.store import ChatStore
from carrel.chat.terminal.completer import ChatCompleter
from carrel.chat.terminal.dialogs import Dialogs
from carrel.chat.terminal.keyboard import PromptKeyboard
from carrel.chat.terminal.plain import PlainScreen
from carrel.chat.terminal.program import Interrupts, Program, state_line
from carrel.cli.terminal.client_requests import Terminal, on_the_terminal
from carrel.client.handlers import Form, Origin
from carrel.wire.tools import Tool
from chat.memory_host import MemoryHost
from chat.scripted_model import ScriptedModel, use
from chat.shop import other, shop

PATIENCE = 60.0
LINE = "\r"
CTRL_C, CTRL_D, CTRL_J, ALT_ENTER = "\x03", "\x04", "\n", "\x1b\r"


class Output(io.StringIO):
    """What is shown; ``wait_for`` waits until a text is there, after the last one that was waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._seen = 0
        self._news = asyncio.Event()

    def write(self, text: str) -> int:
        self._news.set()
        return super().write(text)

    async def wait_for(self, text: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while (at := self.getvalue().find(text, self._seen)) < 0:
                self._news.clear()
                await self._news.wait()
        self._seen = at + len(text)


class Running:
    """A program that runs: its output, keys, model and session."""

    def __init__(self, out: Output, keys: Callable[[str], None], model: ScriptedModel, session: ChatSession) -> None:
        self.out, self.keys, self.model, self.session = out, keys, model, session


@asynccontextmanager
async def running(*script: Any, store: ChatStore | None = None, keys: str = "") -> AsyncIterator[Running]:
    """Run a program with a scripted model; it ends at the end of the block, by Ctrl-D."""
    out, model, interrupts = Output(), ScriptedModel(*script), Interrupts()
    with create_pipe_input() as pipe:
        screen = PlainScreen(out)
        keyboard = PromptKeyboard(input=pipe, output=DummyOutput())
        dialogs = Dialogs(screen, keyboard, lambda text: print(text, file=out), interrupts)
        ask, prompts = keyboard.ask, out

        async def shown_ask(prompt: str, **options: Any) -> str:
            prompts.write(prompt)
            return await ask(prompt, **options)

        keyboard.ask = shown_ask  # type: ignore[method-assign]  # the output of prompt_toolkit is not kept
        approvals = Approvals(ApprovalStore(None), ask=dialogs.approve)
        async with MemoryHost({"shop": shop(), "other": other()}) as host:

            async def open_model(name: str) -> ScriptedModel:
                return ScriptedModel("I am another one.", name=name)

            session = ChatSession(host, model, open_model, approvals, screen.show, store=store)
            program = Program(session, screen, keyboard, interrupts, models=["test:a", "test:b"])
            task = asyncio.create_task(program.run())
            pipe.send_text(keys)
            yield Running(out, pipe.send_text, model, session)
            pipe.send_text(CTRL_D)
            async with asyncio.timeout(PATIENCE):
                await task


async def test_a_message_may_have_several_lines_and_is_answered() -> None:
    async with running("Fine.", keys=f"One\\{LINE}two{CTRL_J}three{ALT_ENTER}four{LINE}") as it:
        await it.out.wait_for("Fine.\n")
        assert it.model.requests[0].messages[0].content[0].text == "One\ntwo\nthree\nfour"  # type: ignore[index, union-attr]


async def test_a_tool_call_is_shown_and_asked_about_and_more_is_shown_on_request() -> None:
    script = [[use("shop__find", query="a lamp")], "Done."]
    async with running(*script, keys=f"Go{LINE}") as it:
        await it.out.wait_for("The model wants to call shop:find\n  query: a lamp\n")
        await it.out.wait_for("Allow? [y]es, [a]lways for this tool, [n]o, [m]ore: ")
        it.keys(f"m{LINE}")
        await it.out.wait_for("  Find lamps.\n")
        it.keys(f"what{LINE}")
        await it.out.wait_for("Please answer with y or a or n.")
        it.keys(f"y{LINE}")
        await it.out.wait_for("found a lamp")
        await it.out.wait_for("shop:find: done, 12 characters")
        await it.out.wait_for("Done.")


async def test_ctrl_c_at_a_question_stops_the_answer_and_the_chat_goes_on() -> None:
    script = [[use("shop__find", query="x")], "Yes."]
    async with running(*script, keys=f"Go{LINE}") as it:
        await it.out.wait_for("[m]ore: ")
        it.keys(CTRL_C)
        await it.out.wait_for("Stopped.")
        it.keys(f"Still there?{LINE}")
        await it.out.wait_for("Yes.")
        assert [message.role for message in it.model.requests[1].messages] == ["user", "assistant", "user", "user"]


async def test_ctrl_c_clears_the_line_and_twice_on_an_empty_one_it_leaves() -> None:
    async with running(keys=f"never sent{CTRL_C}{CTRL_C}") as it:
        await it.out.wait_for("Press Ctrl-C again to leave.")
        assert it.model.requests == []
        it.keys(CTRL_C)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/help", "/model [VENDOR:MODEL]"),
        ("/hepl", "there is no command /hepl; did you mean 'help'?"),
        ("/clear now", "/clear takes no arguments"),
        ("/model", "The model is test:model."),
        ("/servers", "shop   ready"),
        ("/tools", "shop:find       Find lamps."),
        ("/tools off shop:fnd", "there is no server or server:tool 'shop:fnd'; did you mean 'shop:find'?"),
        ("/tools off shop:find", "shop:find       (off) Find lamps."),
        ("/resources", "@shop:book://{author}/{title}"),
        ("/resources lamp", "@shop:note://lamp  Lamp"),
        ("/prompts", "/shop:review code= [tone=]  Review some code."),
        ("/tokens", "context window  128,000 tokens"),
        ("/approvals", "No tool is always allowed"),
        ("/approvals forget shop", "Forgot 0 tools"),
        ("/attach @shop:note://lamp", "shop:note://lamp goes with your next message"),
        ("/attach @shop:book://{author}/{title} author=lem title=x", "shop:book://lem/x goes with"),
        ("/attach /none", "/none cannot be read: No such file or directory"),
        ("/save", "/save needs the name of a file"),
        ("/rename", "/rename needs a title"),
        ("/resume", "conversations are not saved"),
        ("/retry", "nothing to retry"),
        ("@shop:note://none", "note://none"),
        ("/shop:review cde=x", "review has no argument 'cde'; did you mean 'code'?"),
    ],
)
async def test_commands(command: str, expected: str) -> None:
    async with running(keys=f"{command}{LINE}") as it:
        await it.out.wait_for(expected)
        assert it.model.requests == []


async def test_a_prompt_asks_for_the_arguments_that_are_missing() -> None:
    async with running("Good.", keys=f"/review tone=harsh{LINE}") as it:
        await it.out.wait_for("  code: ")
        it.keys(f"x = 1{LINE}")
        await it.out.wait_for("Good.")
        assert it.model.requests[0].messages[0].content[0].text == "Review x = 1, be harsh"  # type: ignore[index, union-attr]


async def test_another_model_a_new_conversation_an_old_one_and_a_file(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats")
    async with running("One.", store=store, keys=f"First{LINE}") as it:
        await it.out.wait_for("One.")
        it.keys(f"/model test:b{LINE}")
        await it.out.wait_for("The model is test:b now.")
        it.keys(f"And?{LINE}")
        await it.out.wait_for("I am another one.")
        id = it.session.file.id
        it.keys(f"/save {tmp_path / 'chat.md'}{LINE}/save {tmp_path / 'chat.md'}{LINE}")
        await it.out.wait_for("Written to")
        await it.out.wait_for("exists already")
        it.keys(f"/clear{LINE}")
        await it.out.wait_for("A new conversation.")
        assert it.session.chat.conversation.messages == []
        it.keys(f"/resume{LINE}")
        await it.out.wait_for(id)
        it.keys(f"/resume {id}{LINE}")
        await it.out.wait_for(f"Continuing {id}: First (4 messages)")
        it.keys(f"/rename My chat{LINE}")
        await it.out.wait_for("Renamed: My chat")
    assert "I am another one." in (tmp_path / "chat.md").read_text()
    assert (store.find(id).model, store.find(id).title) == ("test:b", "My chat")


async def test_the_line_of_state_has_model_tokens_and_servers() -> None:
    async with running("One.", keys=f"First{LINE}") as it:
        await it.out.wait_for("One.")
        line = "".join(part[1] for part in state_line(it.session))
        assert line == "test:model · 110 tokens  ● shop  ● other"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("see @sh", ["shop:"]),
        ("see @shop:note://l", ["note://lamp", "note://long"]),
        ("@lamp", ["shop:note://lamp"]),
        ("@note://same", ["other:note://same", "shop:note://same"]),
        ("@shop:bo", ["book://"]),
        ("@shop:book://le", ["book://lem/", "book://le-guin/"]),
        ("@shop:book://lem/", ["book://lem/solaris", "book://lem/fiasco"]),
        ("@shop:book://lem/so", ["book://lem/solaris"]),
        ("/mo", ["model"]),
        ("/shop:", ["shop:review"]),
        ("/revi", ["shop:review"]),
        ("/shop:review ", ["code=", "tone="]),
        ("/shop:review code=x t", ["tone="]),
        ("/model test:", ["test:a", "test:b"]),
        ("/tools off sh", ["shop"]),
        ("no completion", []),
        ("mail ada@shop", []),
    ],
)
async def test_what_is_typed_is_completed(typed: str, expected: list[str]) -> None:
    async with running() as it:
        commands = Program(
            it.session, PlainScreen(io.StringIO()), None, Interrupts(), models=["test:a", "test:b"]
        ).commands  # type: ignore[arg-type]
        completer = ChatCompleter(it.session.host, commands.names, commands.values)
        found = completer.get_completions_async(Document(typed), CompleteEvent())
        assert sorted([one.text async for one in found]) == sorted(expected)


async def test_a_form_of_a_server_waits_until_the_question_before_it_is_answered() -> None:
    out, answers = Output(), asyncio.Queue[str]()

    class Keys:
        async def ask(self, prompt: str, *, default: str = "", password: bool = False) -> str:
            out.write(prompt)
            return await answers.get()

    dialogs = Dialogs(PlainScreen(out), Keys(), out.write, lambda: None)  # type: ignore[arg-type, unused-ignore]
    handlers = on_the_terminal(Terminal(dialogs.read, out.write, dialogs.screen.hold), dialogs.lock)
    schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    assert handlers.elicit_form is not None
    approving = asyncio.create_task(dialogs.approve(ApprovalRequest("shop", use_of("find"), {})))
    await out.wait_for("Allow?")
    filling = asyncio.ensure_future(handlers.elicit_form(Form(Origin("other"), "Which book?", schema)))  # type: ignore[arg-type, unused-ignore]
    for _ in range(20):
        await asyncio.sleep(0)
    assert "Which book?" not in out.getvalue()
    for answer in ("y", "Solaris", "y"):
        answers.put_nowait(answer)
    assert await approving == "yes"
    assert await filling == {"title": "Solaris"}


def use_of(name: str) -> Tool:
    return Tool(name=name, input_schema={"type": "object"})
