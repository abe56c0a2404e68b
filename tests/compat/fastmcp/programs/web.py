"""Server for ``fastmcp`` over HTTP: web.py TRANSPORT PORT."""

import sys

from fastmcp import Context, FastMCP
from fastmcp.server.dependencies import get_http_headers, get_http_request
from starlette.requests import Request
from starlette.responses import JSONResponse

mcp = FastMCP("web")


@mcp.tool
async def header(ctx: Context) -> str:
    await ctx.info("asked")
    return f"{get_http_request().method} {'user-agent' in get_http_headers()} {'host' in get_http_headers()}"


@mcp.tool
async def ask(ctx: Context) -> str:
    found = await ctx.elicit("When?", str)
    await ctx.report_progress(1, 1)
    return found.data


@mcp.tool
async def remember(ctx: Context) -> int:
    count = (await ctx.get_state("count") or 0) + 1
    await ctx.set_state("count", count)
    return count


@mcp.custom_route("/health", methods=["GET"])
async def health(request: Request) -> JSONResponse:
    return JSONResponse({"ok": True})


if __name__ == "__main__":
    mcp.run(transport=sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]))
