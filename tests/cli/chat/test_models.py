"""``carrel chat --models``: the models of a vendor, through its SDK, with context windows and prices."""

from __future__ import annotations

import json

import pytest

from carrel.chat.prices import published
from carrel.cli import main
from chat.endpoints import anthropic_endpoint, openai_endpoint

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def keyless(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("CARREL_MODEL", raising=False)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")


def test_models_have_their_window_and_prices(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with anthropic_endpoint([]) as vendor:
        for name, value in vendor.environment.items():
            monkeypatch.setenv(name, value)
        assert main(["chat", "--models"]) == 0  # of the vendor whose key is set
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert lines[0] == ["Models"]
        assert lines[1] == ["MODEL", "WINDOW", "INPUT", "CACHED", "OUTPUT"]
        assert ["anthropic:claude-haiku-4-5", "200,000", "1", "0.1", "5"] in lines
        assert main(["chat", "--models", "anthropic", "--json"]) == 0
        found = {each.pop("model"): each for each in json.loads(capsys.readouterr().out)}
        price = published("anthropic:claude-sonnet-5-5")
        assert price is not None
        expected = {"window": price.window, "input": price.input, "cached": price.cached, "output": price.output}
        assert found["anthropic:claude-sonnet-5-5"] == expected


def test_models_without_a_known_price_are_names_and_errors_are_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with openai_endpoint([]) as vendor:
        monkeypatch.setenv("CARREL_MODEL", f"{vendor.url}#qwen3:8b")
        assert main(["chat", "--models"]) == 0
        out = capsys.readouterr().out
        assert f"{vendor.url}#qwen3:8b" in out
        assert "WINDOW" not in out
        assert "US dollars" not in out
    assert main(["chat", "--models", "antropic"]) == 2
    assert "did you mean 'anthropic'" in capsys.readouterr().err
    assert main(["chat", "--models", "openai"]) == 2
    assert "OpenAI needs a key: set the variable OPENAI_API_KEY" in capsys.readouterr().err
