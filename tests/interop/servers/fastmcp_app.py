"""Server written with FastMCP 3, with an app that is written with the SDK of MCP Apps: the path of the SDK is given."""

import re
import sys
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.apps import AppConfig

SDK = re.sub(r"export\{(.*?)\b(\w+) as App\b[^}]*\};?\s*$", r"globalThis.App=\2;", Path(sys.argv[1]).read_text())
HTML = Path(__file__).with_suffix(".html").read_text()

mcp = FastMCP("weather")


@mcp.tool(app=AppConfig(resource_uri="ui://weather/view.html"))
def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"Rain in {city}"


@mcp.tool(app=AppConfig(visibility=["app"]))
def refresh(city: str) -> str:
    """Return the newest weather, for the app."""
    return f"Sun in {city}"


@mcp.tool(app=AppConfig(visibility=["model"]))
def plan(city: str) -> str:
    """Plan a day, for models."""
    return f"Walk in {city}"


@mcp.resource("ui://weather/view.html")
def view() -> str:
    """Show the weather."""
    return HTML.replace("SDK", SDK, 1)


mcp.run(show_banner=False)
