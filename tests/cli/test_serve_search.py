"""``carrel serve --search``: a real process, asked by the official client over stdio and HTTP."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from carrel.cli import main
from cli.server.test_serve import serving
from support.carrel_process import command
from support.embeddings_endpoint import EmbeddingsEndpoint
from support.sdk_session import sdk_session

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shared = tmp_path / "notes"
    shared.mkdir()
    (shared / "tea.md").write_text("# Tea\n\nGreen tea is brewed at 80 degrees.\n")
    (shared / "协议.md").write_text("# 模型\n\n上下文协议连接数据。\n")
    return shared


def found(session, query):
    """Return the hits of a query, asked until the index is complete."""
    while True:
        page, data = session.call("read_resource", f"search://{query}")["contents"]
        results = json.loads(data["text"])
        if results["complete"]:
            return page["text"], results["hits"]


def test_over_stdio_the_template_and_the_tool_find_text(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    config = tmp_path / "carrel.toml"
    config.write_text(f'[search]\nenabled = true\nfolder = "{cache.as_posix()}"\n[[sources]]\npath = "notes"\n')
    with sdk_session(*command("serve", "--config", str(config))) as session:
        page, (hit,) = found(session, "%E5%8D%8F%E8%AE%AE")
        assert hit["line"] == 3
        assert "> 上下文协议连接数据。" in page
        assert session.tools() == ["list_resources", "read_resource", "context", "search"]
        assert "[tea.md]" in session.tool("search", query="brewing")
        assert "Green tea is brewed at 80 degrees." in session.tool("context", question="brewing tea")
        context, question = session.call("get_prompt", "context", {"question": "brewing tea"})["messages"]
        assert "Green tea is brewed at 80 degrees." in context["content"]["text"]
        assert question["content"]["text"] == "brewing tea"
    assert len(list(cache.iterdir())) == 1


def test_over_http_too(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARREL_SEARCH_FOLDER", str(tmp_path / "cache"))
    with serving(str(folder), "--search", "--http", "0") as (_, greeting):
        url = re.search(r"http://[\d.]+:\d+/mcp", greeting)
        assert url is not None, greeting
        with sdk_session(url.group()) as session:
            assert found(session, "degrees")[1][0]["resource"]["name"] == "tea.md"


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_embeddings_of_an_endpoint_named_in_the_environment(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    (folder / "garage.md").write_text("# Garage\n\nThe car is repaired there.\n")

    def ask(session: Any) -> list[str]:
        """Return what is found by its meaning, as soon as the passages have been embedded."""
        while not (hits := found(session, "automobile")[1]):
            pass
        return [hit["resource"]["name"] for hit in hits]

    def serve() -> list[str]:
        if transport == "stdio":
            with sdk_session(*command("serve", str(folder), "--search")) as session:
                return ask(session)
        with serving(str(folder), "--search", "--http", "0") as (_, greeting):
            url = re.search(r"http://[\d.]+:\d+/mcp", greeting)
            assert url is not None, greeting
            with sdk_session(url.group()) as session:
                return ask(session)

    async with EmbeddingsEndpoint().serve() as endpoint:
        monkeypatch.setenv("CARREL_SEARCH_FOLDER", str(tmp_path / "cache"))
        monkeypatch.setenv("CARREL_SEARCH_EMBEDDINGS", endpoint.url)
        monkeypatch.setenv("CARREL_SEARCH_EMBEDDINGS_MODEL", "words")
        monkeypatch.setenv("CARREL_SEARCH_EMBEDDINGS_KEY", endpoint.key)
        assert await asyncio.to_thread(serve) == ["garage.md"]
        assert len(endpoint.texts) >= 3


def test_without_the_engine_the_error_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tantivy", None)
    assert main(["serve", str(folder), "--search"]) == 2
    assert capsys.readouterr().err == "carrel: search needs the package tantivy: pip install 'carrel[search]'\n"
