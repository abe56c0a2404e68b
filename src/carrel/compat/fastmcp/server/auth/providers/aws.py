"""Login with AWS Cognito."""

from __future__ import annotations

from typing import Any

from carrel.compat.fastmcp.server.auth.auth import AccessToken
from carrel.compat.fastmcp.server.auth.oidc_proxy import OIDCProxy
from carrel.compat.fastmcp.server.auth.providers.jwt import JWTVerifier
from carrel.compat.fastmcp.server.auth.providers.userinfo import pick
from carrel.compat.fastmcp.utilities.auth import parse_scopes

__all__ = ["AWSCognitoProvider", "AWSCognitoTokenVerifier"]


class AWSCognitoTokenVerifier(JWTVerifier):
    """Verifier of Cognito's access tokens, which name their application as ``client_id`` and have no audience."""

    def __init__(self, *, audience: str | list[str] | None = None, **options: Any) -> None:
        self._expected_client_id = audience
        super().__init__(audience=None, **options)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access token, or None if it is not valid or of another application."""
        found = await super().verify_token(token)
        if found is None:
            return None
        expected = self._expected_client_id
        known = [expected] if isinstance(expected, str) else expected
        if known and found.claims.get("client_id") not in known:
            return None
        groups = {"cognito:groups": found.claims.get("cognito:groups", [])}
        return found.model_copy(update={"claims": {**pick(found.claims, "sub", "username"), **groups}})


class AWSCognitoProvider(OIDCProxy):
    """OAuth proxy in front of a user pool."""

    def __init__(
        self,
        *,
        user_pool_id: str,
        client_id: str,
        aws_region: str = "eu-central-1",
        required_scopes: list[str] | None = None,
        **options: Any,
    ) -> None:
        self.user_pool_id = user_pool_id
        self.aws_region = aws_region
        self.client_id = client_id
        pool = f"https://cognito-idp.{aws_region}.amazonaws.com/{user_pool_id}"
        super().__init__(
            config_url=f"{pool}/.well-known/openid-configuration",
            client_id=client_id,
            algorithm="RS256",
            required_scopes=["openid"] if required_scopes is None else parse_scopes(required_scopes),
            **options,
        )

    def get_token_verifier(
        self,
        *,
        algorithm: str | None = None,
        audience: str | None = None,
        required_scopes: list[str] | None = None,
        timeout_seconds: int | None = None,
    ) -> AWSCognitoTokenVerifier:
        """Return the verifier of the pool's tokens for this application."""
        return AWSCognitoTokenVerifier(
            issuer=str(self.oidc_config.issuer),
            audience=audience or self.client_id,
            algorithm=algorithm,
            jwks_uri=str(self.oidc_config.jwks_uri),
            required_scopes=required_scopes,
        )
