"""The official Python SDK 2.x finds its way in by itself; prints what it saw as JSON.

python_sdk_2.py URL ISSUER CLIENT_ID CLIENT_SECRET MODE, MODE being "legacy" or "auto"
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client


class Storage:
    tokens = client_info = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client_info

    async def set_client_info(self, client_info):
        self.client_info = client_info


async def main() -> None:
    url, issuer, client_id, client_secret, mode = sys.argv[1:]
    storage = Storage()
    auth = ClientCredentialsOAuthProvider(url, storage, client_id, client_secret, issuer=issuer)
    async with (
        httpx2.AsyncClient(auth=auth, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        first = storage.tokens.scope
        read = await client.read_resource("memo://open")
        called = await client.call_tool("whoami")
        seen = {
            "revision": client.protocol_version,
            "first": first,
            "read": read.contents[0].text,
            "then": storage.tokens.scope,
            "called": json.loads(called.content[0].text)["scopes"],
        }
    print(json.dumps(seen))


asyncio.run(main())
