"""State of requests that take several rounds: sealed for the client, and checked when it comes back."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, Protocol, TypeAlias, cast

from carrel.compat.loggers import get_logger
from carrel.compat.mcp2.server.context import CallNext, HandlerResult, ServerRequestContext
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.types.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from carrel.compat.mcp2.types.kinds import INPUT_REQUIRED_METHODS, is_input_required

__all__ = [
    "AESGCMRequestStateCodec",
    "InvalidRequestState",
    "RequestStateBoundary",
    "RequestStateCodec",
    "RequestStateSecurity",
    "authenticated_principal",
    "compact_json",
]

logger = get_logger(__name__)

Principal: TypeAlias = Callable[[ServerRequestContext[Any, Any]], str | None]
Binding: TypeAlias = tuple[str, str, str | None]
"""Binding of a state: the target of the request, a digest of its arguments, and the caller."""

PREFIX = "v1."
NONCE_BYTES = 12
KEY_ID_BYTES = 4
TAG_BYTES = 16
KEY_BYTES = 32
#: Seconds that clocks of replicas may differ.
SKEW = 60.0
VERSION = 1


class InvalidRequestState(Exception):
    """A state is malformed, or was not made with a known key."""


class RequestStateCodec(Protocol):
    """Seals states, and opens the states that it sealed."""

    def seal(self, payload: bytes) -> str:
        """Return a text that only ``unseal`` reads."""

    def unseal(self, token: str) -> bytes:
        """Return the sealed content.

        Raises:
            InvalidRequestState: this codec did not seal it.
        """


def compact_json(value: Any, *, sort_keys: bool = False) -> str:
    """Return JSON without spaces."""
    return json.dumps(value, sort_keys=sort_keys, separators=(",", ":"))


def encode(data: bytes) -> str:
    """Return data as base64url without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode(text: str) -> bytes:
    """Return the data of base64url without padding.

    Raises:
        ValueError: the text is not what ``encode`` returns.
    """
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if encode(data) != text:
        raise ValueError("non-canonical base64url")
    return data


class AESGCMRequestStateCodec:
    """Codec with AES-256-GCM. The first key seals, all keys open.

    Raises:
        TypeError: a key is neither text nor bytes.
        ValueError: there is no key, a key is short, or is given twice.
    """

    def __init__(self, keys: Sequence[bytes | bytearray | str]) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        for number, key in enumerate(keys):
            if not isinstance(key, bytes | bytearray | str):
                raise TypeError(
                    f"request-state keys must be bytes, bytearray, or str; keys[{number}] is {type(key).__name__}"
                )
        secrets = [key.encode() if isinstance(key, str) else bytes(key) for key in keys]
        if not secrets:
            raise ValueError("AESGCMRequestStateCodec requires at least one key")
        self._ciphers: dict[bytes, Any] = {}
        for number, secret in enumerate(secrets):
            if len(secret) < KEY_BYTES:
                raise ValueError(
                    f"request-state keys must be at least {KEY_BYTES} bytes of secret randomness; "
                    f"keys[{number}] is {len(secret)} bytes. "
                    'Generate one with: python -c "import secrets; print(secrets.token_hex(32))"'
                )
            key = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=b"carrel request state").derive(secret)
            id = hashlib.sha256(b"id" + key).digest()[:KEY_ID_BYTES]
            if id in self._ciphers:
                raise ValueError(f"keys[{number}] duplicates an earlier ring key")
            self._ciphers[id] = AESGCM(key)

    def seal(self, payload: bytes) -> str:
        """Return the encrypted payload."""
        id, cipher = next(iter(self._ciphers.items()))
        nonce = os.urandom(NONCE_BYTES)
        return PREFIX + encode(id + nonce + cipher.encrypt(nonce, payload, PREFIX.encode() + id))

    def unseal(self, token: str) -> bytes:
        """Return the decrypted payload.

        Raises:
            InvalidRequestState: no known key encrypted it.
        """
        from cryptography.exceptions import InvalidTag

        if not token.startswith(PREFIX):
            raise InvalidRequestState("malformed")
        try:
            data = decode(token.removeprefix(PREFIX))
        except ValueError as error:
            raise InvalidRequestState("malformed") from error
        if len(data) < KEY_ID_BYTES + NONCE_BYTES + TAG_BYTES:
            raise InvalidRequestState("malformed")
        id, rest = data[:KEY_ID_BYTES], data[KEY_ID_BYTES:]
        if id not in self._ciphers:
            raise InvalidRequestState("unknown key")
        try:
            opened: bytes = self._ciphers[id].decrypt(rest[:NONCE_BYTES], rest[NONCE_BYTES:], PREFIX.encode() + id)
        except InvalidTag:
            raise InvalidRequestState("seal") from None
        return opened


def authenticated_principal(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Return the identity of the caller; None without authorization."""
    principal = ctx.session.principal
    return None if principal is None else compact_json(principal)


class RequestStateSecurity:
    """How states are protected: by keys or a codec, for ``ttl`` seconds, for a caller and an audience.

    Raises:
        ValueError: there are both keys and a codec, or neither; or ``ttl`` is not positive.
    """

    def __init__(
        self,
        *,
        keys: Sequence[bytes | bytearray | str] | None = None,
        codec: RequestStateCodec | None = None,
        ttl: float = 600.0,
        bind_principal: Principal | None = authenticated_principal,
        audience: str | None = None,
    ) -> None:
        if (keys is None) == (codec is None):
            raise ValueError("RequestStateSecurity takes exactly one of keys= or codec=")
        if not (math.isfinite(ttl) and ttl > 0):
            raise ValueError(f"request-state ttl must be a positive finite number, got {ttl!r}")
        self.codec: RequestStateCodec = codec if codec is not None else AESGCMRequestStateCodec(keys or ())
        self.ttl = ttl
        self.bind_principal = bind_principal
        self.audience = audience

    @classmethod
    def ephemeral(cls, *, ttl: float = 600.0, audience: str | None = None) -> RequestStateSecurity:
        """Return a protection with a key that only this process has."""
        return cls(codec=_Ephemeral(), ttl=ttl, audience=audience)


class _Ephemeral:
    """Codec with a key that is made when the first state is sealed, since few servers have states."""

    def __init__(self) -> None:
        self._codec: AESGCMRequestStateCodec | None = None

    def _made(self) -> AESGCMRequestStateCodec:
        if self._codec is None:
            self._codec = AESGCMRequestStateCodec([os.urandom(KEY_BYTES)])
        return self._codec

    def seal(self, payload: bytes) -> str:
        return self._made().seal(payload)

    def unseal(self, token: str) -> bytes:
        return self._made().unseal(token)


class RequestStateBoundary:
    """Middleware that seals the states of results, and opens and checks the states of requests."""

    def __init__(self, security: RequestStateSecurity, *, default_audience: str | None) -> None:
        self._security = security
        self._audience = default_audience if security.audience is None else security.audience

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Handle a request inside the boundary.

        Raises:
            MCPError: its state is not valid, or does not belong to it.
        """
        if ctx.method not in INPUT_REQUIRED_METHODS:
            return await call_next(ctx)
        binding: Binding | None = None
        if ctx.params is not None and ctx.params.get("requestState") is not None:
            state, binding = self._open(ctx, ctx.params["requestState"])
            ctx = replace(ctx, params={**ctx.params, "requestState": state})
        result: Any = await call_next(ctx)
        if not is_input_required(result):
            return cast("HandlerResult", result)
        given = result.get("requestState") if isinstance(result, Mapping) else result.request_state
        sealed: HandlerResult = result
        if isinstance(given, str) and isinstance(result, Mapping):
            sealed = {**result, "requestState": self._seal(ctx, given, binding)}
        elif isinstance(given, str):
            sealed = result.model_copy(update={"request_state": self._seal(ctx, given, binding)})
        return sealed

    def _open(self, ctx: ServerRequestContext[Any, Any], token: Any) -> tuple[str, Binding]:
        method = ctx.method
        try:
            if not isinstance(token, str):
                raise InvalidRequestState("non-string requestState")
            claims = json.loads(self._security.codec.unseal(token))
            state = claims["s"]
            if claims["v"] != VERSION or not isinstance(state, str):
                raise InvalidRequestState("malformed")
            now = time.time()
            if not (claims["iat"] <= now + SKEW and now < claims["exp"]):
                raise InvalidRequestState("expired")
        except InvalidRequestState as error:
            _reject(method, str(error))
        except Exception:
            logger.exception("requestState of %s cannot be read", method)
            _reject(method, "malformed")
        target, digest = _identity(method, ctx.params)
        if (claims.get("m"), claims.get("t"), claims.get("a")) != (method, target, digest):
            _reject(method, "request binding")
        if claims.get("aud") != self._audience:
            _reject(method, "audience")
        principal = self._principal(ctx, lambda reason: _reject(method, reason))
        claim = claims.get("p")
        if (claim is None) != (principal is None):
            _reject(method, "principal drift")
        if principal is not None and not (isinstance(claim, str) and _is_claim_of(claim, principal)):
            _reject(method, "principal")
        return state, (target, digest, principal)

    def _seal(self, ctx: ServerRequestContext[Any, Any], state: str, binding: Binding | None) -> str:
        def refuse(reason: str) -> NoReturn:
            logger.error("refusing to seal requestState on %s: %s", ctx.method, reason)
            raise MCPError(INTERNAL_ERROR, "Internal error")

        if binding is None:
            binding = (*_identity(ctx.method, ctx.params), self._principal(ctx, refuse))
        target, digest, principal = binding
        now = time.time()
        claims: dict[str, Any] = {
            "v": VERSION,
            "iat": now,
            "exp": now + self._security.ttl,
            "m": ctx.method,
            "t": target,
            "a": digest,
            "s": state,
        }
        if self._audience is not None:
            claims["aud"] = self._audience
        if principal is not None:
            claims["p"] = _claim_of(principal, os.urandom(8))
        try:
            return self._security.codec.seal(compact_json(claims).encode())
        except Exception:
            logger.exception("requestState codec raised during seal on %s", ctx.method)
            raise MCPError(INTERNAL_ERROR, "Internal error") from None

    def _principal(self, ctx: ServerRequestContext[Any, Any], fail: Callable[[str], NoReturn]) -> str | None:
        bind = self._security.bind_principal
        try:
            found: Any = None if bind is None else bind(ctx)
        except Exception:
            logger.exception("bind_principal raised while processing requestState on %s", ctx.method)
            fail("principal binding error")
        if found is not None and not isinstance(found, str):
            fail(f"bind_principal returned {type(found).__name__}, expected str or None")
        return found


def _reject(method: str, reason: str) -> NoReturn:
    logger.warning("requestState rejected on %s: %s", method, reason)
    raise MCPError(INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"})


def _identity(method: str, params: Mapping[str, Any] | None) -> tuple[str, str]:
    """Return the target of a request, and the digest of its arguments."""
    given = params or {}
    is_read = "uri" in given and "name" not in given
    arguments = {} if is_read else given.get("arguments") or {}
    digest = hashlib.sha256(compact_json(arguments, sort_keys=True).encode()).digest()[:16]
    return str(given.get("uri" if is_read else "name", "")), encode(digest)


def _claim_of(principal: str, salt: bytes) -> str:
    data = b"principal:" + salt + principal.encode("utf-8", "surrogatepass")
    return encode(salt + hashlib.sha256(data).digest()[:16])


def _is_claim_of(claim: str, principal: str) -> bool:
    try:
        salt = decode(claim)[:8]
    except ValueError:
        return False
    return hmac.compare_digest(claim, _claim_of(principal, salt))
