"""Server with its own authorization server, or a token verifier, written for ``mcp`` 1.x: KIND TRANSPORT PORT."""

import secrets
import sys
import time

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    TokenVerifier,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.fastmcp import FastMCP
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Authorization server in memory, which logs everybody in."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        assert client.client_id
        code = secrets.token_urlsafe(32)
        self.codes[code] = AuthorizationCode(
            code=code,
            client_id=client.client_id,
            scopes=params.scopes or ["read"],
            expires_at=time.time() + 300,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self.issue(authorization_code.client_id, authorization_code.scopes, authorization_code.resource)

    def issue(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self.access[access] = AccessToken(token=access, client_id=client_id, scopes=scopes, resource=resource)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes, resource=resource)
        return OAuthToken(access_token=access, expires_in=3600, scope=" ".join(scopes), refresh_token=refresh)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        return self.issue(refresh_token.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)


class Verifier(TokenVerifier):
    """Verifier of tokens that say who they are: ``SUBJECT.SCOPE.RESOURCE``."""

    async def verify_token(self, token: str) -> AccessToken | None:
        subject, _, rest = token.partition(".")
        scope, _, resource = rest.partition(".")
        if not resource:
            return None
        return AccessToken(
            token=token,
            client_id="app",
            scopes=[scope],
            subject=subject,
            resource=f"{origin}/{resource}",
            expires_at=1 if subject == "late" else None,
        )


kind, transport, port = sys.argv[1:]
origin = f"http://127.0.0.1:{port}"
settings = AuthSettings(
    issuer_url=origin,
    resource_server_url=f"{origin}/{'sse' if transport == 'sse' else 'mcp'}",
    required_scopes=["read"],
    client_registration_options=ClientRegistrationOptions(
        enabled=True, valid_scopes=["read", "write"], default_scopes=["read"]
    ),
    revocation_options=RevocationOptions(enabled=True),
    validate_token_resource=kind == "verifier",
)
parties = {"provider": {"auth_server_provider": Provider()}, "verifier": {"token_verifier": Verifier()}}
mcp = FastMCP("guarded", port=int(port), auth=settings, **parties[kind])


@mcp.tool()
def whoami() -> str:
    """Tell whose token was sent."""
    token = get_access_token()
    return "nobody" if token is None else f"{token.client_id and 'a client'} {token.subject} {token.scopes}"


mcp.run(transport)
