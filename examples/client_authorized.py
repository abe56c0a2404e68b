"""Authenticates to a server: with a token, or as a user who logs in with their browser.

    python examples/client_authorized.py
    python examples/client_authorized.py https://mcp.example.org/mcp

The first command starts a server with a file of tokens, and connects with and without a token. The second opens a
browser if the server requires a login, and stores the token for the next time. Requires pip install
'carrel[http,auth]'.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import uvicorn

from carrel import Client, Context, MCPError, Server
from carrel.errors import AuthorizationError
from carrel.security import Bearer, OAuth, StaticTokens, make_token
from carrel.types import HTTPOptions

app = Server("vault", version="1.0")


@app.tool(annotations={"readOnlyHint": True})
async def whoami(context: Context) -> str:
    """Say who calls."""
    return "nobody" if context.principal is None else context.principal.subject


@asynccontextmanager
async def serve(tokens: Path) -> AsyncIterator[str]:
    """Serve the vault over HTTP to clients with a token from a file."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        asgi = app.asgi(authorization=StaticTokens(tokens))
        server = uvicorn.Server(uvicorn.Config(asgi, log_level="error", lifespan="on", ws="none"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            await serving


async def show_token(tokens: Path, token: str) -> None:
    """Connect to our own server without and with a token."""
    async with serve(tokens) as url:
        try:
            async with Client(url):
                print("without a token: welcome")
        except AuthorizationError as error:
            print("without a token:", error)
        async with Client(url, http=HTTPOptions(auth=Bearer(token))) as client:
            print("with a token:", (await client.call_tool("whoami")).text)


async def log_in(url: str) -> None:
    """Send requests as a user, who is prompted to log in if necessary."""
    async with Client(url, http=HTTPOptions(auth=OAuth(client_name="Carrel's example"))) as client:
        print("connected to", client.server.name if client.server else url)
        print("tools:", ", ".join([tool.name async for tool in client.list_tools()]))


def main() -> None:
    if sys.argv[1:]:
        asyncio.run(log_in(sys.argv[1]))
        return
    token, line = make_token("alice")
    with TemporaryDirectory() as directory:
        tokens = Path(directory, "tokens.txt")
        tokens.write_text(line, encoding="utf-8")
        asyncio.run(show_token(tokens, token))


if __name__ == "__main__":
    try:
        main()
    except MCPError as error:
        sys.exit(str(error))
