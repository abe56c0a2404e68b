"""Questions of servers at a terminal: each field of a form is checked, and a page is opened only after consent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from carrel.cli.terminal.client_requests import Terminal, on_the_terminal
from carrel.client.handlers import Form, Origin, URLElicitation

SCHEMA = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "size": {"type": "string", "enum": ["s", "m"]},
        "mail": {"type": "string", "format": "email", "default": "ada@example.org"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "gift": {"type": "boolean"},
        "note": {"type": "string", "maxLength": 3},
    },
    "required": ["count", "size"],
}


class Typing:
    """Terminal at which the answers are typed one after the other; it keeps what was printed and opened."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.said: list[str] = []
        self.opened: list[str] = []

    async def read(self, prompt: str) -> str:
        self.said.append(prompt)
        if not self.answers:
            raise EOFError
        return self.answers.pop(0)

    async def open_page(self, url: str) -> None:
        self.opened.append(url)

    @property
    def terminal(self) -> Terminal:
        return Terminal(self.read, self.said.append, open_page=self.open_page)


def form() -> Form:
    return Form(Origin("shop \x1b[2J"), "How many?\x07", SCHEMA)


async def fill_in(typing: Typing) -> Any:
    handler = on_the_terminal(typing.terminal).elicit_form
    assert handler is not None
    return await handler(form())


async def test_a_value_that_does_not_fit_is_asked_for_again_and_the_reason_is_said() -> None:
    typing = Typing("many", "10", "3", "xl", "s", "", "a, c", "a, b", "perhaps", "no", "four", "ok", "y")
    assert await fill_in(typing) == {
        "count": 3,
        "size": "s",
        "mail": "ada@example.org",
        "tags": ["a", "b"],
        "gift": False,
        "note": "ok",
    }
    assert typing.answers == []
    assert any("9" in line and "maximum" in line for line in typing.said)
    assert not any(letter for line in typing.said for letter in line if not letter.isprintable() and letter != "\n")


@pytest.mark.parametrize("answers", [[], ["3"], ["3", "s", "", "", "", ""], ["3", "s", "", "", "", "", "n"]])
async def test_nothing_is_sent_without_consent(answers: list[str]) -> None:
    assert await fill_in(Typing(*answers)) is None


@pytest.mark.parametrize(("answer", "opened"), [("y", True), ("", False), ("n", False)])
async def test_a_page_is_shown_whole_with_its_host_and_opened_only_after_a_yes(answer: str, opened: bool) -> None:
    typing = Typing(answer)
    handler = on_the_terminal(typing.terminal).elicit_url
    assert handler is not None
    url = "https://pay.example.org/" + "x" * 300
    assert await handler(URLElicitation(Origin("shop"), "Pay", url, asyncio.Event())) is opened
    assert typing.opened == ([url] if opened else [])
    assert any(url in line for line in typing.said)
    assert any("a page of pay.example.org" in line for line in typing.said)
