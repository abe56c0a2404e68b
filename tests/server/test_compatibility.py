"""Servers as people write them for other libraries work with nothing but another import."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from carrel import Server as FastMCP
from carrel.transports import memory
from support.memory_client import NOVEMBER, call, error, listed, read, result


class UserRequest(BaseModel):
    username: str
    email: str
    age: int | None = None


async def test_a_weather_server() -> None:
    mcp = FastMCP("Weather")

    @mcp.tool()
    async def get_alerts(state: str) -> str:
        """
        获取某州的天气警告

        Args:
            state: 州代码(如 NY, CA)

        Returns:
            警告列表
        """
        return json.dumps({"state": state, "alerts": ["大风"]}, ensure_ascii=False)

    @mcp.tool()
    async def get_forecast(latitude: float, longitude: float) -> str:
        """天气预报"""
        return f"{latitude},{longitude}"

    @mcp.resource("weather://metadata")
    def get_metadata() -> str:
        """服务器元数据"""
        return json.dumps({"server": "Weather"})

    @mcp.prompt()
    def weather_analysis_prompt(location: str) -> str:
        """天气分析提示"""
        return f"请分析 {location} 的天气"

    async with memory.connect(mcp, NOVEMBER) as peer:
        alerts, _ = await listed(peer, "tools")
        assert alerts["description"].startswith("获取某州的天气警告")
        assert "Args" not in alerts["description"]
        assert alerts["inputSchema"]["properties"]["state"]["description"] == "州代码(如 NY, CA)"
        assert "大风" in (await call(peer, "get_alerts", state="NY"))["content"][0]["text"]
        assert (await call(peer, "get_forecast", latitude=40, longitude=-74.5))["content"][0]["text"] == "40.0,-74.5"
        assert json.loads((await read(peer, "weather://metadata"))[0]["text"]) == {"server": "Weather"}
        messages = await result(peer, "prompts/get", name="weather_analysis_prompt", arguments={"location": "北京"})
        assert messages["messages"][0]["content"]["text"] == "请分析 北京 的天气"


async def test_tools_with_models_lists_and_dicts() -> None:
    mcp = FastMCP("ToolsExample")

    @mcp.tool()
    def simple_tool(name: str, age: int = 0) -> str:
        """简单工具示例"""
        return f"Hello, {name}! Age: {age}"

    @mcp.tool()
    def create_user(user: UserRequest) -> dict:  # type: ignore[type-arg]
        """使用 Pydantic 验证的工具"""
        return {"status": "success", "user": user.model_dump()}

    @mcp.tool()
    def process_items(items: list[str], options: dict[str, bool] | None = None) -> str:
        """处理列表和字典"""
        return f"Processed {len(items)} items"

    async with memory.connect(mcp, NOVEMBER) as peer:
        assert (await call(peer, "simple_tool", name="Ada"))["content"][0]["text"] == "Hello, Ada! Age: 0"
        user: dict[str, Any] = {"username": "ada", "email": "a@b.c"}
        assert (await call(peer, "create_user", user=user))["structuredContent"]["user"]["age"] is None
        assert (await call(peer, "create_user", user={"username": "ada"}))["isError"] is True
        found = await call(peer, "process_items", items=["a", "b"], options={"x": True})
        assert found["content"][0]["text"] == "Processed 2 items"


async def test_static_and_templated_resources(tmp_path: Path) -> None:
    mcp = FastMCP("ResourcesExample")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "心脏病.txt").write_text("休息", "utf-8")

    @mcp.resource("greeting://hello")
    def hello_resource() -> str:
        """静态问候资源"""
        return "Hello from MCP!"

    @mcp.resource("greeting://{name}")
    def personalized_greeting(name: str) -> str:
        """个性化问候"""
        return f"Hello, {name}!"

    @mcp.resource("book:///{author}/{title}")
    def get_book_info(author: str, title: str) -> str:
        """获取书籍信息"""
        return f"Book: {title} by {author}"

    @mcp.resource("file:///{+path}")
    def read_file(path: str) -> str:
        """读取文件(+ 允许路径中包含斜杠)"""
        return (tmp_path / path).read_text("utf-8")

    async with memory.connect(mcp, NOVEMBER) as peer:
        for uri, text in {
            "greeting://hello": "Hello from MCP!",
            "greeting://Ada": "Hello, Ada!",
            "book:///lem/solaris%20%231": "Book: solaris #1 by lem",
            "file:///a/心脏病.txt": "休息",
            "file:///a/%E5%BF%83%E8%84%8F%E7%97%85.txt": "休息",
        }.items():
            assert (await read(peer, uri))[0]["text"] == text
        assert (await error(peer, "resources/read", uri="book:///lem"))["code"] == -32002
        assert [item["uri"] for item in await listed(peer)] == ["greeting://hello"]
        assert len(await listed(peer, "resourceTemplates")) == 3


async def test_simple_prompts_and_prompts_with_arguments() -> None:
    mcp = FastMCP("PromptsExample")

    @mcp.prompt()
    def greeting() -> str:
        """问候提示"""
        return "请向用户提供友好的问候。"

    @mcp.prompt()
    def code_review(code: str, language: str = "python") -> str:
        """代码审查提示"""
        return f"请审查以下 {language} 代码: {code}"

    async with memory.connect(mcp, NOVEMBER) as peer:
        found = await result(peer, "prompts/get", name="greeting")
        assert found["messages"][0]["content"]["text"] == "请向用户提供友好的问候。"
        found = await result(peer, "prompts/get", name="code_review", arguments={"code": "x"})
        assert found["messages"][0]["content"]["text"] == "请审查以下 python 代码: x"
