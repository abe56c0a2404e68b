"""The official Python SDK 1.x with a user: prints the page to open, reads where the browser was sent, prints its calls.

user_1.py URL
"""

import asyncio
import json
import sys
from urllib.parse import parse_qs, urlsplit

import httpx
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata
from memory_storage import Storage


async def show(url: str) -> None:
    print(json.dumps(url), flush=True)


async def back() -> tuple[str, str | None]:
    answer = parse_qs(urlsplit(json.loads(await asyncio.to_thread(sys.stdin.readline))).query)
    return answer["code"][0], answer["state"][0]


async def main() -> None:
    url = sys.argv[1]
    metadata = OAuthClientMetadata(
        client_name="official",
        redirect_uris=["http://localhost:3030/callback"],
        grant_types=["authorization_code", "refresh_token"],
    )
    storage = Storage()
    auth = OAuthClientProvider(url, metadata, storage, show, back)
    async with (
        httpx.AsyncClient(auth=auth, timeout=60) as http,
        streamable_http_client(url, http_client=http) as (read, write, _),
        ClientSession(read, write) as client,
    ):
        await client.initialize()
        called = await client.call_tool("whoami")
        auth.context.token_expiry_time = 1  # the next request refreshes
        again = await client.call_tool("whoami")
    seen = [json.loads(one.content[0].text)["subject"] for one in (called, again)]
    print(json.dumps({"seen": seen, "tokens": storage.count}))


asyncio.run(main())
