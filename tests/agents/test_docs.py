"""The code of docs/agents.md and docs/sync.md, with the real SDKs and an endpoint that speaks their formats."""

from __future__ import annotations

import ast
import asyncio
import gc
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from carrel.host import Host
from carrel.host.config import ServerConfig
from support.servers import SERVERS
from support.snippets import snippets
from support.vendor_endpoint import VendorEndpoint

pytestmark = pytest.mark.slow
#: A server as the page has it.
SHOP = (SERVERS / "agent_tools.py").read_text().replace("make(sys.argv[1])", 'make("shop")')


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the server of the pages."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def scripted_models() -> dict[str, Any]:
    """Return a model of each framework that adds two numbers by a tool and says the result."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
    from llama_index.core.llms.mock import MockFunctionCallingLLM
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    numbers = {"a": 19, "b": 23}
    call: Any = {"id": "c1", "name": "add", "args": numbers, "type": "tool_call"}

    class LangChainModel(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            assert [tool.name for tool in tools][:2] == ["add", "grow"]
            return self

    def llama(messages: Any, **options: Any) -> ChatMessage:
        results = [message.content for message in messages if message.role == MessageRole.TOOL]
        if results:
            return ChatMessage(role="assistant", content=results[0])
        use = ToolCallBlock(tool_call_id="c1", tool_name="add", tool_kwargs=numbers)
        return ChatMessage(role="assistant", blocks=[use])

    def pydantic(messages: Any, info: Any) -> ModelResponse:
        returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        return ModelResponse(parts=[TextPart(returned[0].content) if returned else ToolCallPart("add", numbers)])

    return {
        "model": LangChainModel(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("42")])),
        "llm": MockFunctionCallingLLM(response_generator=llama),
        "pydantic_model": FunctionModel(pydantic),
    }


async def run_snippets(page: str, names: dict[str, Any], first: int) -> None:
    """Run the snippets of a page after the first ones, in the same namespace."""
    for snippet in snippets(page, "python")[first:]:
        code = "\n" * (snippet.line - 1) + snippet.code
        running = eval(compile(code, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.isawaitable(running):
            await running


def test_the_first_program_shows_the_tools(folder: Path) -> None:
    first = snippets("docs/agents.md", "python")[0].code
    done = subprocess.run([sys.executable, "-c", first], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "add" in done.stdout.splitlines()


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")  # of LlamaIndex itself
@pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")  # of Google's SDK itself
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the samples leave the connections of the SDKs open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_the_model_of_each_vendor_and_framework_uses_a_tool(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = ServerConfig(name="shop", command=sys.executable, args=("shop.py",), cwd=str(folder))
    async with VendorEndpoint().serve() as endpoint, Host([config]) as host:
        for vendor, path in (("ANTHROPIC", ""), ("OPENAI", "/v1"), ("GOOGLE_GEMINI", "")):
            monkeypatch.setenv(f"{vendor}_BASE_URL", endpoint.url + path)
        for vendor in ("ANTHROPIC", "OPENAI", "GEMINI"):
            monkeypatch.setenv(f"{vendor}_API_KEY", "key")
        monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
        names = {"host": host, "client": host.server("shop").client, "asyncio": asyncio, **scripted_models()}
        await run_snippets("docs/agents.md", names, 1)
        assert capsys.readouterr().out.split() == ["42"] * 7
        assert {kind: len(bodies) for kind, bodies in endpoint.requests.items()} == {
            "messages": 2,
            "responses": 2,
            "completions": 2,
            "generateContent": 2,
        }
        assert names["messages"][-1]["content"][1]["type"] == "document"
        await names["claude"].close()
        await names["openai"].close()
        await names["gemini"].aio.aclose()
        names["gemini"].close()
        names.clear()
        gc.collect()  # what the SDKs leave open is not found in another test


def test_the_code_of_the_synchronous_page_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(run_snippets("docs/sync.md", {"__name__": "snippets"}, 0))
    assert capsys.readouterr().out.split("\n") == ["note://lamp", "Buy a lamp", "42", "42", ""]
