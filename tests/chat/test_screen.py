"""What a chat looks like: Markdown, tool calls, questions; and that nothing of others controls the terminal."""

from __future__ import annotations

import asyncio
import io
import re

import pytest
from rich.console import Console

from carrel.chat import events
from carrel.chat.events import ToolEnd
from carrel.chat.model import Usage
from carrel.chat.terminal.markdown import MarkdownStream
from carrel.chat.terminal.plain import AnswerOnly, JsonLines, PlainScreen
from carrel.chat.terminal.screen import Screen, Steady, tool_panel
from carrel.chat.terminal.text import clean, first_lines

EVIL = "\x1b]0;title\x07\x1b[31mred\x9b2J\r\u202eevil\x00\x7f\u200b"
MARKDOWN = """# Lamps

1. **Red**
2. Blue

```python
print("x")

print("y")
```

| a | b |
| - | - |
| 1 | 2 |

[label](https://example.org/where)
"""


def end(**changes: object) -> ToolEnd:
    given = {"id": "1", "server": "shop", "tool": "find", "arguments": {"q": "lamp"}, "outcome": "done"}
    given |= {"text": "one\ntwo", "size": 7, "seconds": 0.5}
    return ToolEnd(**{**given, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_blocks_of_markdown_are_returned_once_they_are_complete_and_nothing_is_lost(step: int) -> None:
    stream = MarkdownStream()
    blocks = [stream.add(MARKDOWN[at : at + step]) for at in range(0, len(MARKDOWN), step)]
    blocks = [block for block in [*blocks, stream.end()] if block]
    assert "".join("\n".join(blocks).split()) == "".join(MARKDOWN.split())
    if step == 1:
        assert any(block.strip().startswith("```python") and block.strip().endswith("```") for block in blocks)


async def shown(*given: events.ChatEvent, width: int = 60, held: bool = False) -> str:
    """Return what a screen shows in a terminal, without what only places the cursor."""
    out = io.StringIO()
    screen = Screen(Console(file=out, force_terminal=True, width=width, height=20, color_system=None, _environ={}))
    screen.begin()
    for event in given:
        screen.show(event)
        await asyncio.sleep(0)
    screen.end()
    return out.getvalue()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


async def test_an_answer_is_shown_as_markdown_with_links_written_out() -> None:
    pieces = [events.Text(text=MARKDOWN[at : at + 5]) for at in range(0, len(MARKDOWN), 5)]
    text = plain(await shown(*pieces))
    assert " 1 Red" in text
    assert 'print("y")' in text
    assert "label (https://example.org/where)" in text
    assert "```" not in text.replace("```python", "")[-500:]


async def test_a_tool_call_is_a_compact_panel_with_arguments_and_the_beginning_of_its_result() -> None:
    text = tool_panel(end(text="\n".join(f"line {number}" for number in range(20))), 60).plain
    assert text.splitlines() == [
        '● shop:find  q="lamp"',
        "  │ line 0",
        "  │ line 1",
        "  │ line 2",
        "  │ line 3",
        "  │ line 4",
        "  │ … 15 more lines",
        "  ╰ done · 7 characters · 0.5 s",
    ]


@pytest.mark.parametrize("screen", [PlainScreen, AnswerOnly, Screen])
async def test_no_control_character_of_servers_and_models_reaches_the_terminal(screen: type) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=False, width=80, color_system=None)
    made = screen(console) if screen is Screen else screen(out)
    made.begin()
    for event in (
        events.Text(text=EVIL),
        events.Notice(text=EVIL),
        events.ToolUseEvent(id="1", server=EVIL, tool=EVIL, arguments={EVIL: EVIL}),
        events.ToolProgress(id="1", progress=1, message=EVIL),
        end(server=EVIL, tool=EVIL, arguments={EVIL: [EVIL]}, text=EVIL, outcome="error"),
        events.Media(mime_type=EVIL, size=1, file=EVIL),
    ):
        made.show(event)
    made.show_markdown(EVIL)
    made.end()
    assert out.getvalue()
    assert [letter for letter in out.getvalue() if not letter.isprintable() and letter != "\n"] == []


async def test_while_a_question_is_asked_nothing_is_printed_in_between() -> None:
    out = io.StringIO()
    for screen in (Screen(Console(file=out, width=60)), PlainScreen(out)):
        screen.begin()
        with screen.hold():
            with screen.hold():
                screen.show(end())
                screen.say("later")
            assert out.getvalue().strip() == ""
        assert out.getvalue().index("shop:find") < out.getvalue().index("later")
        out.seek(0)
        out.truncate()


async def test_json_lines_are_the_events() -> None:
    out = io.StringIO()
    screen = JsonLines(out)
    screen.show(events.Text(text="Hi"))
    screen.show(events.TurnEnd(text="Hi", stop_reason="endTurn", model="m", usage=Usage(input_tokens=1), cost=0.5))
    first, second = out.getvalue().splitlines()
    assert first == '{"type":"text","text":"Hi"}'
    assert '"type":"turn_end"' in second
    assert '"stopReason":"endTurn"' in second


def test_updates_reach_the_terminal_as_a_whole() -> None:
    out = io.StringIO()
    steady = Steady(out)
    steady.write("plain")
    steady.write("\x1b[1mbold")
    assert out.getvalue() == "plain\x1b[?2026h\x1b[1mbold\x1b[?2026l"
    assert steady.getvalue() == out.getvalue()


def test_text_keeps_its_lines_and_loses_what_cannot_be_seen() -> None:
    assert clean("a\r\nb\tc\u00a0d \u200bx 👩\u200d💻") == "a\nb    c d x 👩💻"
    assert clean("\x1b[2J\u202e") == "\\x1b[2J\\u202e"
    assert first_lines("a\n\n" + "b" * 20 + "\nc", 2, 10) == ["a", "bbbbbbbbb…", "… 1 more line"]
