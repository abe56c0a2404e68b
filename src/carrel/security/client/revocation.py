"""Token revocation: asks an authorization server to invalidate the tokens of a grant (RFC 7009).

https://www.rfc-editor.org/rfc/rfc7009
"""

from __future__ import annotations

from carrel.errors import AuthorizationError
from carrel.security.client.client_authentication import RegisteredClient
from carrel.security.client.tokens import Token, error_of, explain
from carrel.security.server.bearer import Unverifiable

__all__ = ["NotRevoked", "revoke_token"]


class NotRevoked(AuthorizationError):
    """The token was deleted from the store, but its authorization server still accepts it until it expires."""


async def revoke_token(client: RegisteredClient, token: Token) -> None:
    """Revoke the refresh token of a grant, and its access token if the server supports this.

    Raises:
        AuthorizationError: the server has no revocation endpoint, cannot be reached, or returns an error.
    """
    server = client.server
    url = server.endpoint("revocation_endpoint")
    for hint, text in (("refresh_token", token.refresh_token), ("access_token", token.access_token)):
        if text is None:
            continue
        headers: dict[str, str] = {}
        form = {"token": text, "token_type_hint": hint}
        client.authenticate(form, headers)
        try:
            answer = await client.fetcher.ask("POST", url, form=form, headers=headers)
        except Unverifiable as error:
            raise AuthorizationError(f"{server.issuer} cannot be told to revoke it: {error}") from None
        if answer.status == 200:
            continue
        if hint == "access_token" and token.refresh_token and error_of(answer) == "unsupported_token_type":
            continue  # the access token expires, and cannot be renewed
        raise AuthorizationError(f"{server.issuer} does not revoke it: {explain(answer)}")
