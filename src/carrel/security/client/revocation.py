"""Token revocation: asks an authorization server to invalidate the tokens of a grant (RFC 7009).

https://www.rfc-editor.org/rfc/rfc7009
"""

from __future__ import annotations

from carrel.errors import AuthorizationError
from carrel.security.client.authorization_server import AuthorizationServer
from carrel.security.client.client_authentication import ClientIdentity, PrivateKey, authenticate
from carrel.security.client.tokens import Token, error_of, explain
from carrel.security.fetch import Fetcher
from carrel.security.server.bearer import Clock, Unverifiable

__all__ = ["NotRevoked", "revoke_token"]


class NotRevoked(AuthorizationError):
    """The token was deleted from the store, but its authorization server still accepts it until it expires."""


async def revoke_token(
    server: AuthorizationServer,
    identity: ClientIdentity,
    token: Token,
    fetcher: Fetcher,
    clock: Clock,
    *,
    key: PrivateKey | None = None,
) -> None:
    """Revoke the refresh token of a grant, and its access token if the server supports this.

    Raises:
        AuthorizationError: the server has no revocation endpoint, cannot be reached, or returns an error.
    """
    url = server.endpoint("revocation_endpoint")
    for hint, text in (("refresh_token", token.refresh_token), ("access_token", token.access_token)):
        if text is None:
            continue
        headers: dict[str, str] = {}
        form = {"token": text, "token_type_hint": hint}
        authenticate(server, identity, key, clock(), form, headers)
        try:
            answer = await fetcher.ask("POST", url, form=form, headers=headers)
        except Unverifiable as error:
            raise AuthorizationError(f"{server.issuer} cannot be told to revoke it: {error}") from None
        if answer.status == 200:
            continue
        if hint == "access_token" and token.refresh_token and error_of(answer) == "unsupported_token_type":
            continue  # the access token expires, and cannot be renewed
        raise AuthorizationError(f"{server.issuer} does not revoke it: {explain(answer)}")
