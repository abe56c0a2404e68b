"""Records of a client in a token store: tokens by MCP server, and dynamic registrations by issuer."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

import msgspec

from carrel.security.client.client_authentication import ClientIdentity
from carrel.security.client.storage import TokenStore
from carrel.security.client.tokens import Token

__all__ = ["Pointer", "TokenRecords"]

T = TypeVar("T")


class Pointer(msgspec.Struct):
    """Stored reference from a server to its token: the parts of the key of the token in the store."""

    issuer: str
    resource: str | None
    client_id: str


class TokenRecords:
    """Tokens and registrations of one kind of credentials and one account, in a token store."""

    def __init__(self, store: TokenStore, kind: str, account: str) -> None:
        self._store = store
        self._kind = kind
        self._account = account

    async def pointer(self, url: str | None) -> Pointer | None:
        """Return the reference to the token for a server, or None."""
        return await self._get(Pointer, "server", url, self._kind)

    async def token(self, pointer: Pointer) -> Token | None:
        """Return the token that a reference points to, or None."""
        found = await self._get(Token, "token", pointer.issuer, pointer.resource, pointer.client_id)
        return None if found is None or found.issuer != pointer.issuer else found

    async def newer(self, token: Token, now: float) -> Token | None:
        """Return the newer token that another process has put in the store, if any."""
        stored = await self.token(Pointer(token.issuer, token.resource, token.client_id))
        if stored is None or stored.access_token == token.access_token or stored.issued < token.issued:
            return None
        return None if stored.expired(now) else stored

    async def keep(self, url: str | None, token: Token) -> None:
        """Store the token for a server."""
        await self._put(token, "token", token.issuer, token.resource, token.client_id)
        await self._put(Pointer(token.issuer, token.resource, token.client_id), "server", url, self._kind)

    async def forget(self, url: str | None, token: Token) -> None:
        """Delete the token for a server."""
        await self._store.delete(self._name("token", token.issuer, token.resource, token.client_id))
        await self._store.delete(self._name("server", url, self._kind))

    async def identity(self, issuer: str) -> ClientIdentity | None:
        """Return the dynamic registration at an issuer, or None."""
        found = await self._get(ClientIdentity, "client", issuer)
        return None if found is None or found.issuer != issuer else found

    async def keep_identity(self, identity: ClientIdentity) -> None:
        """Store a dynamic registration."""
        await self._put(identity, "client", identity.issuer)

    async def forget_identity(self, issuer: str) -> None:
        """Delete the dynamic registration at an issuer."""
        await self._store.delete(self._name("client", issuer))

    def _name(self, *parts: str | None) -> str:
        return msgspec.json.encode((*parts, self._account)).decode()

    async def _get(self, type: type[T], *parts: str | None) -> T | None:
        text = await self._store.get(self._name(*parts))
        with suppress(msgspec.DecodeError):
            return None if text is None else msgspec.json.decode(text, type=type)
        return None

    async def _put(self, record: msgspec.Struct, *parts: str | None) -> None:
        await self._store.put(self._name(*parts), msgspec.json.encode(record).decode())
