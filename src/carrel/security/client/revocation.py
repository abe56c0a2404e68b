"""Token revocation: an authorization server is told that a grant is not needed any more (RFC 7009).

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
    """Token that is deleted here, and that its authorization server still accepts, until it expires."""


async def revoke_token(
    server: AuthorizationServer,
    identity: ClientIdentity,
    token: Token,
    fetcher: Fetcher,
    clock: Clock,
    *,
    key: PrivateKey | None = None,
) -> None:
    """Revoke the refresh token of a grant, and its access token, where the server can revoke those.

    Raises:
        AuthorizationError: the server has no revocation endpoint, cannot be reached, or refuses.
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
            continue  # it runs out by itself, and cannot be renewed
        raise AuthorizationError(f"{server.issuer} does not revoke it: {explain(answer)}")
