"""The application of the conversations about MCP Apps: a page, and tools that point at it."""

from __future__ import annotations

from carrel import Context, Server

URI = "ui://clock/face.html"


def build() -> Server:
    """Make the application."""
    app = Server("golden", version="1.0", scope="public")
    app.ui(
        URI,
        "<!doctype html><title>Clock</title>",
        title="Clock",
        csp={"connect_domains": ["https://time.example"]},
        permissions=["geolocation"],
        prefers_border=True,
    )

    @app.tool(description="Tell the time.", input_schema={"type": "object"}, ui=URI)
    async def time(context: Context) -> dict[str, str]:
        return {"time": "noon", "told": "on the page" if context.shows_pages else "in words"}

    @app.tool(description="Wind the clock.", input_schema={"type": "object"}, ui=URI, visibility=["app"])
    async def wind() -> str:
        return "Wound."

    return app


if __name__ == "__main__":
    build().run()
