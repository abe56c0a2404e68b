"""Tokens and registrations in a token store."""

from __future__ import annotations

import msgspec

from carrel.security.client import MemoryStore
from carrel.security.client.client_authentication import ClientIdentity
from carrel.security.client.token_records import Pointer, TokenRecords
from carrel.security.client.tokens import Token

URL = "https://mcp.example/mcp"
TOKEN = Token(access_token="one", issued=10.0, expires=100.0, issuer="https://auth.example", client_id="me")
POINTER = Pointer(TOKEN.issuer, None, "me")


async def test_a_token_is_found_by_its_server_until_it_is_forgotten() -> None:
    records = TokenRecords(MemoryStore(), "user", "")
    assert await records.pointer(URL) is None
    await records.keep(URL, TOKEN)
    assert await records.pointer(URL) == POINTER
    assert await records.token(POINTER) == TOKEN
    await records.forget(URL, TOKEN)
    assert await records.pointer(URL) is None
    assert await records.token(POINTER) is None


async def test_accounts_and_kinds_of_credentials_do_not_share_tokens() -> None:
    store = MemoryStore()
    await TokenRecords(store, "user", "ann").keep(URL, TOKEN)
    assert await TokenRecords(store, "user", "bob").pointer(URL) is None
    assert await TokenRecords(store, "client", "ann").pointer(URL) is None
    assert await TokenRecords(store, "user", "bob").token(POINTER) is None


async def test_only_a_newer_valid_token_of_another_process_is_taken() -> None:
    records = TokenRecords(MemoryStore(), "user", "")
    await records.keep(URL, TOKEN)
    assert await records.newer(TOKEN, 20.0) is None
    newer = msgspec.structs.replace(TOKEN, access_token="two", issued=15.0)
    await records.keep(URL, newer)
    assert await records.newer(TOKEN, 20.0) == newer
    assert await records.newer(TOKEN, 200.0) is None
    assert await records.newer(msgspec.structs.replace(TOKEN, issued=16.0), 20.0) is None


async def test_unreadable_records_are_missing_ones() -> None:
    store = MemoryStore()
    records = TokenRecords(store, "user", "")
    await records.keep(URL, TOKEN)
    await records.keep_identity(ClientIdentity(issuer=TOKEN.issuer, id="me", dynamic=True))
    for name in list(store._texts):
        await store.put(name, "{")
    assert await records.pointer(URL) is None
    assert await records.token(POINTER) is None
    assert await records.identity(TOKEN.issuer) is None


async def test_a_registration_is_kept_for_its_issuer() -> None:
    records = TokenRecords(MemoryStore(), "user", "")
    identity = ClientIdentity(issuer=TOKEN.issuer, id="me", dynamic=True)
    await records.keep_identity(identity)
    assert await records.identity(TOKEN.issuer) == identity
    assert await records.identity("https://other.example") is None
    await records.forget_identity(TOKEN.issuer)
    assert await records.identity(TOKEN.issuer) is None
