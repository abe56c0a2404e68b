"""The official Python SDK 1.x finds its way in by itself; prints what it saw as JSON.

python_sdk_1.py URL ISSUER CLIENT_ID CLIENT_SECRET
"""

import asyncio
import json
import sys

import httpx
from mcp import ClientSession
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
    url, _, client_id, client_secret = sys.argv[1:5]
    storage = Storage()
    auth = ClientCredentialsOAuthProvider(url, storage, client_id, client_secret)
    async with (
        httpx.AsyncClient(auth=auth, timeout=60) as http,
        streamable_http_client(url, http_client=http) as (read, write, _),
        ClientSession(read, write) as client,
    ):
        hello = await client.initialize()
        first = storage.tokens.scope
        contents = (await client.read_resource("memo://open")).contents
        called = await client.call_tool("whoami")
        seen = {
            "revision": hello.protocolVersion,
            "first": first,
            "read": contents[0].text,
            "then": storage.tokens.scope,
            "called": json.loads(called.content[0].text)["scopes"],
        }
    print(json.dumps(seen))


asyncio.run(main())
