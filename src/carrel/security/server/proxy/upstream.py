"""Client for the upstream authorization server: authorization request, token requests, and the user's identity.

https://www.rfc-editor.org/rfc/rfc6749#section-4.1, https://openid.net/specs/openid-connect-core-1_0.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from carrel.errors import ConfigError
from carrel.security.discovery import discover
from carrel.security.fetch import Fetcher, check_status, check_url
from carrel.security.id_token import check_audience
from carrel.security.server.bearer import Clock, InvalidToken, Unverifiable
from carrel.security.server.jwt import Authorization
from carrel.security.server.keys import IssuerKeys

__all__ = ["Tenants", "Upstream", "UpstreamClient", "UpstreamRejected", "UpstreamTokens", "UpstreamUser"]

#: Seconds for which the upstream's metadata is cached.
METADATA_TTL = 3600.0

#: Placeholder for the user's tenant in the issuer of an upstream with many tenants.
TENANT = "{tenantid}"
TENANT_ID = "[0-9a-fA-F-]{36}"

#: Claims about the ID token, not about the user.
TOKEN_CLAIMS = frozenset(
    (
        "iss",
        "aud",
        "exp",
        "nbf",
        "iat",
        "jti",
        "azp",
        "nonce",
        "at_hash",
        "c_hash",
        "scope",
        "scp",
        "client_id",
        "auth_time",
    )
)


class Tenants(msgspec.Struct, frozen=True):
    """Metadata of an upstream with a different issuer per tenant: its URL, and the issuer with ``{tenantid}``."""

    metadata: str
    issuer: str


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """Upstream authorization server, and this server's registration there.

    With ``issuer``, it is an OpenID provider: endpoints and keys come from its metadata, and the user from the ID
    token. Otherwise, all three endpoints are required, and the user is read from ``user_endpoint`` with the access
    token.
    """

    name: str
    """Name to show to users."""
    client_id: str
    client_secret: str
    scopes: tuple[str, ...] = ()
    issuer: str | Tenants | None = None
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    user_endpoint: str | None = None
    subject: tuple[str, ...] = ("sub",)
    """Claims that together identify a user."""
    parameters: Mapping[str, str] = {}
    """Additional parameters of the authorization request."""
    issuer_alias: str | None = None
    """Alternative spelling of the issuer in ID tokens."""
    everybody: bool = False
    """Whether anyone can have an account there, so that ``admit`` is required."""

    def __repr__(self) -> str:
        return f"Upstream({self.name!r}, client_id={self.client_id!r})"


class UpstreamTokens(msgspec.Struct):
    """Tokens of a user at the upstream; ``expires`` is in seconds since the epoch."""

    access: str
    refresh: str | None = None
    expires: float | None = None
    scope: str | None = None


class UpstreamUser(msgspec.Struct):
    """User, as described by the upstream."""

    subject: str
    claims: dict[str, Any]


class UpstreamRejected(Exception):
    """Error response of the upstream: the user, the code or the token is not accepted, or no longer accepted."""


class UpstreamClient:
    """Client of one upstream.

    Raises:
        ConfigError: an option of the upstream is missing or invalid.
    """

    def __init__(self, upstream: Upstream, redirect_uri: str, clock: Clock) -> None:
        if not upstream.client_id or not upstream.client_secret:
            raise ConfigError(f"{upstream.name}: client_id and client_secret are needed, as registered there")
        endpoints = (upstream.authorization_endpoint, upstream.token_endpoint, upstream.user_endpoint)
        if upstream.issuer is None and not all(endpoints):
            raise ConfigError(f"{upstream.name}: without an issuer, all three endpoints are needed")
        for url in endpoints:
            if url is not None:
                check_url(url, upstream.name)
        self.upstream = upstream
        self._redirect_uri = redirect_uri
        self._clock = clock
        self._fetcher = Fetcher()
        self._metadata: dict[str, Any] | None = None
        self._found = 0.0
        self._id_tokens: IDTokens | None = None

    async def close(self) -> None:
        """Close connections."""
        await self._fetcher.close()

    async def authorization_url(self, state: str, challenge: str, nonce: str) -> str:
        """Return the URL of the authorization request, for redirecting the browser.

        Raises:
            Unverifiable: the upstream's metadata cannot be fetched.
        """
        endpoint = await self._endpoint("authorization_endpoint")
        query = {
            "response_type": "code",
            "client_id": self.upstream.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(self.upstream.scopes),
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **({} if self.upstream.issuer is None else {"nonce": nonce}),
            **self.upstream.parameters,
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def check_issuer(self, given: str | None) -> None:
        """Check the ``iss`` parameter of an authorization response (RFC 9207).

        Raises:
            UpstreamRejected: the response is from another authorization server.
            Unverifiable: the upstream's metadata cannot be fetched.
        """
        if not isinstance(self.upstream.issuer, str):
            return
        metadata = await self._discover()
        if given is None and metadata.get("authorization_response_iss_parameter_supported") is not True:
            return
        if given != self.upstream.issuer:
            raise UpstreamRejected("the response is of another authorization server")

    async def redeem(self, code: str, verifier: str, nonce: str) -> tuple[UpstreamTokens, UpstreamUser]:
        """Exchange an authorization code for tokens, and return the tokens and the user.

        Raises:
            UpstreamRejected: the code or the ID token is not accepted.
            Unverifiable: the upstream does not return a valid response.
        """
        answer = await self._ask(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self._redirect_uri,
                "code_verifier": verifier,
            }
        )
        tokens = self._read_tokens(answer)
        if self.upstream.issuer is None:
            return tokens, await self.user(tokens)
        id_token = answer.get("id_token")
        if not isinstance(id_token, str):
            raise Unverifiable(f"{self.upstream.name} has sent no ID token: is openid among the scopes?")
        try:
            claims = await (await self._verifier()).read(id_token, nonce)
        except InvalidToken as error:
            raise UpstreamRejected(f"its ID token is not valid: {error}") from None
        return tokens, self._read_user(claims)

    async def user(self, tokens: UpstreamTokens) -> UpstreamUser:
        """Return the user of an access token, from the user endpoint.

        Raises:
            UpstreamRejected: the token is not accepted, or no longer accepted.
            Unverifiable: the upstream does not return a valid response.
        """
        headers = {"authorization": f"Bearer {tokens.access}"}
        answer = await self._fetcher.ask("GET", self.upstream.user_endpoint or "", headers=headers)
        if answer.status in (401, 403):
            raise UpstreamRejected(f"{self.upstream.name} does not accept the token of the user (any more)")
        return self._read_user(check_status(answer).read())

    async def refresh(self, tokens: UpstreamTokens) -> UpstreamTokens:
        """Exchange the refresh token for new tokens. Keep the old refresh token if the response has none.

        Raises:
            UpstreamRejected: the refresh token is missing, not accepted, or no longer accepted.
            Unverifiable: the upstream does not return a valid response.
        """
        if tokens.refresh is None:
            raise UpstreamRejected("there is no refresh token")
        found = self._read_tokens(await self._ask({"grant_type": "refresh_token", "refresh_token": tokens.refresh}))
        found.refresh = found.refresh or tokens.refresh
        return found

    async def _ask(self, form: dict[str, str]) -> dict[str, Any]:
        secret = {"client_id": self.upstream.client_id, "client_secret": self.upstream.client_secret}
        answer = await self._fetcher.ask("POST", await self._endpoint("token_endpoint"), form={**form, **secret})
        if answer.status >= 500:
            raise Unverifiable(f"{answer.url} answered {answer.status}")
        document = answer.read()
        error = document.get("error")  # GitHub returns errors with status 200
        if error is not None or answer.status != 200:
            if error in ("invalid_client", "unauthorized_client", "incorrect_client_credentials"):
                raise Unverifiable(f"{self.upstream.name} does not accept this server's client_id and client_secret")
            raise UpstreamRejected(f"{self.upstream.name} answered {str(error)[:100]}")
        return document

    def _read_tokens(self, document: Mapping[str, Any]) -> UpstreamTokens:
        access, refresh = document.get("access_token"), document.get("refresh_token")
        seconds, scope = document.get("expires_in"), document.get("scope")
        if not isinstance(access, str) or not access or str(document.get("token_type", "")).lower() != "bearer":
            raise Unverifiable(f"{self.upstream.name} has sent no bearer token")
        return UpstreamTokens(
            access,
            refresh if isinstance(refresh, str) and refresh else None,
            self._clock() + seconds if isinstance(seconds, int | float) and 0 < seconds < 1e10 else None,
            scope if isinstance(scope, str) else None,
        )

    def _read_user(self, claims: Mapping[str, Any]) -> UpstreamUser:
        parts = [claims.get(name) for name in self.upstream.subject]
        if not all(isinstance(part, str | int) and part != "" for part in parts):
            raise Unverifiable(f"{self.upstream.name} does not say who the user is: {', '.join(self.upstream.subject)}")
        about = {name: value for name, value in claims.items() if name not in TOKEN_CLAIMS}
        return UpstreamUser("/".join(map(str, parts)), about)

    # Metadata

    async def _endpoint(self, name: str) -> str:
        given = getattr(self.upstream, name, None)
        url = given if given is not None else (await self._discover()).get(name)
        issuer = self.upstream.issuer
        home = issuer.metadata if isinstance(issuer, Tenants) else issuer
        try:
            return check_url(url if isinstance(url, str) else "", name, found_at=None if given is not None else home)
        except ConfigError as error:
            raise Unverifiable(f"the metadata of {self.upstream.name} cannot be used: {error}") from None

    async def _discover(self) -> dict[str, Any]:
        now = self._clock()
        if self._metadata is None or now > self._found + METADATA_TTL:
            issuer = self.upstream.issuer
            if isinstance(issuer, Tenants):
                found = await self._fetcher.get(issuer.metadata)
                if found.get("issuer") != issuer.issuer:
                    raise Unverifiable(f"{issuer.metadata} is about the issuer {str(found.get('issuer'))[:200]!r}")
            else:
                found = await discover(issuer or "", self._fetcher)
            self._metadata, self._found = found, now
        return self._metadata

    async def _verifier(self) -> IDTokens:
        if self._id_tokens is None:
            self._id_tokens = IDTokens(self.upstream, await self._endpoint("jwks_uri"))
            self._id_tokens.clock = self._clock
        return self._id_tokens


class IDTokens(Authorization):
    """Verification of the ID tokens of an upstream.

    https://openid.net/specs/openid-connect-core-1_0.html#IDTokenValidation
    """

    def __init__(self, upstream: Upstream, jwks_uri: str) -> None:
        issuer = upstream.issuer
        self._pattern = None
        if isinstance(issuer, Tenants):
            self._pattern = re.compile(re.escape(issuer.issuer).replace(re.escape(TENANT), f"({TENANT_ID})"))
            issuer = issuer.issuer.replace(TENANT, "tenant")
        self._alias = upstream.issuer_alias
        self._client_id = upstream.client_id
        super().__init__(issuer or "", jwks_uri=jwks_uri, audience=upstream.client_id, remember=0)

    def keys_of(self, issuer: object) -> IssuerKeys | None:
        """Return the keys for the tokens of an issuer: all tenants have the same keys."""
        accepted = issuer in (*self.issuers, self._alias)
        if self._pattern is not None:
            accepted = isinstance(issuer, str) and self._pattern.fullmatch(issuer) is not None
        return super().keys_of(self.issuers[0]) if accepted and issuer is not None else None

    async def read(self, id_token: str, nonce: str) -> Mapping[str, Any]:
        """Return the claims of an ID token that was issued for this client and this login.

        Raises:
            InvalidToken: the token is for another client or login, or its signature, issuer or lifetime is not valid.
            Unverifiable: the keys cannot be fetched.
        """
        claims = (await self.verify(id_token)).claims
        check_audience(claims, self._client_id)
        if claims.get("nonce") != nonce:
            raise InvalidToken("it is of another login")
        if self._pattern is not None:
            found = self._pattern.fullmatch(str(claims["iss"]))
            if found is None or claims.get("tid") != found[1]:
                raise InvalidToken("its issuer and its tenant differ")
        return claims
