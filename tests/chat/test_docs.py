"""The page about language models: its code runs against an endpoint."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from carrel import Context, Server
from chat.endpoints import Answer, Say, anthropic_endpoint
from support.snippets import snippets

PAGE = "docs/chat-models.md"


@pytest.mark.slow
async def test_the_code_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ask, sample, prices = snippets(PAGE, "python")
    asked: list[str] = []
    app = Server("summaries")

    @app.tool()
    async def summarize(text: str, context: Context) -> str:
        asked.append((await context.sample(text, max_tokens=200)).text)
        return asked[-1]

    with anthropic_endpoint([Answer(Say("A desk in a library.")), Answer(Say("Short."))]) as endpoint:
        for name, value in endpoint.environment.items():
            monkeypatch.setenv(name, value)
        names: dict[str, Any] = {"app": app}
        for snippet in (ask, sample, prices):
            code = snippet.code.replace('"https://example.com/mcp"', "app")
            running = eval(compile(code, PAGE, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
            if running is not None:
                await running
    said = capsys.readouterr().out
    assert "A desk in a library.endTurn" in said
    assert "anthropic:claude-opus-5-5" in said
    assert asked == ["Short."]
    assert names["prices"].window("ollama:llama3.3") == 128_000
