"""OAuth token introspection: verifies opaque access tokens at the authorization server.

https://www.rfc-editor.org/rfc/rfc7662
"""

from __future__ import annotations

from typing import Literal, Unpack

from carrel.errors import ConfigError
from carrel.protocol.principal import Principal
from carrel.security.discovery import find_endpoint
from carrel.security.fetch import Fetcher, basic_authorization, check_url
from carrel.security.server.bearer import InvalidToken, Unverifiable
from carrel.security.server.resource_server import ResourceServer, ResourceServerOptions

__all__ = ["Introspection"]

#: Seconds for which an introspection response is cached; a revoked token may stay valid for this time.
REMEMBER = 10.0


class Introspection(ResourceServer):
    """Authorization by token introspection: accepts active tokens that were issued for this server.

    Args:
        url: the introspection endpoint; by default from the issuer's metadata.
        issuer: the URL of the authorization server, where clients can get tokens.
        client_id, client_secret: this server's client credentials there.
        method: how they are sent: "basic" in a header, "post" in the form.

    Raises:
        ConfigError: an argument is invalid, or a required package is not installed.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        issuer: str,
        client_id: str,
        client_secret: str,
        method: Literal["basic", "post"] = "basic",
        **options: Unpack[ResourceServerOptions],
    ) -> None:
        options.setdefault("remember", REMEMBER)
        super().__init__([issuer], **options)
        if not client_id or not client_secret:
            raise ConfigError("Introspection needs a client_id and a client_secret: authorization servers require them")
        if method not in ("basic", "post"):
            raise ConfigError(f"method must be 'basic' or 'post', not {method!r}")
        self._url = None if url is None else check_url(url, "url")
        self._form: dict[str, str] = {"token_type_hint": "access_token"}
        self._headers: dict[str, str] = {}
        if method == "post":
            self._form |= {"client_id": client_id, "client_secret": client_secret}
        else:
            self._headers["authorization"] = basic_authorization(client_id, client_secret)
        self._fetcher = Fetcher()

    async def stop(self) -> None:
        """Close the connections to the authorization server."""
        await self._fetcher.close()

    async def verify(self, token: str) -> Principal:
        """Return the principal of a token.

        Raises:
            InvalidToken: the token is not active, has expired, or is not valid yet.
            Unverifiable: the authorization server does not return a valid response.
        """
        known = self.remembered.get(token, self.clock())
        if known is not None:
            return known
        if self._url is None:
            self._url = await find_endpoint(self.issuers[0], "introspection_endpoint", self._fetcher)
        answer = await self._fetcher.post(self._url, {**self._form, "token": token}, self._headers)
        active = answer.get("active")
        if active is not True:
            if active is not False:
                raise Unverifiable(f"{self._url} did not say whether a token is active")
            raise InvalidToken("The access token is not active (any more)")
        if answer.get("iss", self.issuers[0]) != self.issuers[0]:
            raise InvalidToken("The access token is of an issuer that is not accepted here")
        claims = {name: value for name, value in answer.items() if value != token}
        principal = self.principal({"iss": self.issuers[0], **claims})
        self.remembered.put(token, principal)
        return principal
