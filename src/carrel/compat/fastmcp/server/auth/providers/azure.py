"""Login with Microsoft Entra ID (Azure AD), whose scopes have the URI of the application before them."""

from __future__ import annotations

import hashlib
from typing import Any

from carrel.compat.fastmcp.http_library import httpx
from carrel.compat.fastmcp.server.auth.providers.jwt import JWTVerifier
from carrel.compat.fastmcp.server.auth.providers.service import ServiceProxy
from carrel.compat.fastmcp.server.dependencies import Dependency, get_access_token, get_server
from carrel.compat.fastmcp.utilities.auth import decode_jwt_payload, parse_scopes
from carrel.compat.mcp.server.auth.provider import AuthorizationParams
from carrel.compat.mcp.shared.auth import OAuthClientInformationFull

__all__ = ["AzureJWTVerifier", "AzureProvider", "EntraOBOToken"]

AUTHORITY = "login.microsoftonline.com"
#: Scopes of OpenID, which have no prefix and are not in access tokens.
OIDC_SCOPES = frozenset(("openid", "profile", "email", "offline_access"))
#: Names for several tenants. Each token has the issuer of the user's tenant.
SEVERAL_TENANTS = ("organizations", "consumers", "common")
#: Maximum number of users whose credentials for other APIs are kept.
MAX_CREDENTIALS = 128
CLAIMS = (
    "sub",
    "oid",
    "tid",
    "azp",
    "name",
    "given_name",
    "family_name",
    "preferred_username",
    "upn",
    "email",
    "roles",
    "groups",
)


def _prefixed(scopes: list[str], uri: str) -> list[str]:
    """Return scopes with the URI of the application before them."""
    return [scope if scope in OIDC_SCOPES or "/" in scope else f"{uri}/{scope}" for scope in scopes]


class AzureJWTVerifier(JWTVerifier):
    """Verifier of the tokens of a tenant for one application."""

    def __init__(
        self,
        *,
        client_id: str,
        tenant_id: str,
        required_scopes: list[str] | None = None,
        identifier_uri: str | None = None,
        base_authority: str = AUTHORITY,
    ) -> None:
        self._identifier_uri = identifier_uri or f"api://{client_id}"
        tenant = f"https://{base_authority}/{tenant_id}"
        super().__init__(
            jwks_uri=f"{tenant}/discovery/v2.0/keys",
            issuer=None if tenant_id in SEVERAL_TENANTS else f"{tenant}/v2.0",
            audience=[client_id, self._identifier_uri],
            algorithm="RS256",
            required_scopes=required_scopes,
        )

    @property
    def scopes_supported(self) -> list[str]:
        """Scopes that clients should request."""
        return _prefixed(self.required_scopes, self._identifier_uri)

    def get_challenge_scopes(self, required_scopes: list[str] | None = None) -> list[str]:
        """Return scopes with the URI of the application before them."""
        return _prefixed(super().get_challenge_scopes(required_scopes), self._identifier_uri)


class AzureProvider(ServiceProxy):
    """OAuth proxy in front of a tenant.

    Raises:
        ValueError: no scope is required that access tokens can have.
    """

    def __init__(
        self,
        *,
        client_id: str,
        client_secret: str | None = None,
        tenant_id: str,
        required_scopes: list[str],
        base_url: Any,
        identifier_uri: str | None = None,
        additional_authorize_scopes: list[str] | None = None,
        base_authority: str = AUTHORITY,
        token_issuer: str | None = None,
        http_client: httpx.AsyncClient | None = None,
        **options: Any,
    ) -> None:
        scopes = parse_scopes(required_scopes) or []
        enforced = [each for each in scopes if each not in OIDC_SCOPES]
        if not enforced:
            raise ValueError(
                "AzureProvider requires at least one non-OIDC scope in required_scopes: access tokens have no others"
            )
        self._tenant_id = tenant_id
        self._tenant_has_obo = True
        self._obo_credentials: dict[str, Any] = {}
        self._base_authority = base_authority
        self.identifier_uri = identifier_uri or f"api://{client_id}"
        more = parse_scopes(additional_authorize_scopes) or []
        self.additional_authorize_scopes = more if "offline_access" in more else [*more, "offline_access"]
        tenant = f"https://{base_authority}/{tenant_id}"
        verifier = JWTVerifier(
            jwks_uri=f"{tenant}/discovery/v2.0/keys",
            issuer=token_issuer or f"{tenant}/v2.0",
            audience=[client_id, self.identifier_uri],
            algorithm="RS256",
            required_scopes=enforced,
            http_client=http_client,
        )
        super().__init__(
            f"{tenant}/oauth2/v2.0/authorize",
            f"{tenant}/oauth2/v2.0/token",
            verifier,
            client_id=client_id,
            client_secret=client_secret,
            base_url=base_url,
            valid_scopes=scopes,
            **options,
        )

    @classmethod
    def from_b2c(
        cls,
        *,
        tenant_name: str,
        policy_name: str,
        client_id: str,
        custom_domain: str | None = None,
        identifier_uri: str | None = None,
        token_issuer: str | None = None,
        **options: Any,
    ) -> AzureProvider:
        """Return a proxy in front of a user flow of Azure AD B2C. Its issuer is checked if it is given.

        Raises:
            ValueError: the name of the tenant has a domain.
        """
        if ".onmicrosoft.com" in tenant_name:
            raise ValueError(f"tenant_name should be the short name without .onmicrosoft.com, got {tenant_name!r}")
        domain = (custom_domain or "").removeprefix("https://").removeprefix("http://").rstrip("/")
        found = cls(
            client_id=client_id,
            tenant_id=f"{tenant_name}.onmicrosoft.com/{policy_name}",
            base_authority=domain or f"{tenant_name}.b2clogin.com",
            identifier_uri=identifier_uri or f"https://{tenant_name}.onmicrosoft.com/{client_id}",
            token_issuer=token_issuer,
            **options,
        )
        found._tenant_has_obo = False
        verifier = found._token_validator
        assert isinstance(verifier, JWTVerifier)
        verifier.issuer = token_issuer
        return found

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """Begin a login. Entra ID knows no resource indicators, but scopes."""
        url = await super().authorize(client, params.model_copy(update={"resource": None}))
        return f"{url}{'&' if '?' in url else '?'}prompt=select_account"

    async def get_obo_credential(self, user_assertion: str) -> Any:
        """Return the credential of ``azure-identity`` that gets tokens for other APIs on behalf of the user.

        Raises:
            ImportError: ``azure-identity`` is not installed.
            NotImplementedError: Azure AD B2C does not have the flow.
            ValueError: the application has no secret.
        """
        if not self._tenant_has_obo:
            raise NotImplementedError("Azure AD B2C does not support the on-behalf-of (OBO) flow")
        secret = self._upstream_client_secret
        if secret is None:
            raise ValueError("the on-behalf-of flow requires a client_secret, or a subclass with get_obo_credential()")
        try:
            from azure.identity.aio import OnBehalfOfCredential  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise ImportError("the on-behalf-of flow needs a package: pip install azure-identity") from error
        key = hashlib.sha256(user_assertion.encode()).hexdigest()
        found = self._obo_credentials.pop(key, None) or OnBehalfOfCredential(
            tenant_id=self._tenant_id,
            client_id=self._upstream_client_id,
            client_secret=secret.get_secret_value(),
            user_assertion=user_assertion,
            authority=f"https://{self._base_authority}",
        )
        self._obo_credentials[key] = found
        if len(self._obo_credentials) > MAX_CREDENTIALS:
            await self._obo_credentials.pop(next(iter(self._obo_credentials))).close()
        return found

    async def close_obo_credentials(self) -> None:
        """Close the credentials of users."""
        while self._obo_credentials:
            await self._obo_credentials.popitem()[1].close()

    def _prefix_scopes_for_azure(self, scopes: list[str]) -> list[str]:
        return _prefixed(scopes, self.identifier_uri)

    def _translate_scopes_from_idp(self, scopes: list[str]) -> list[str]:
        return [each.removeprefix(f"{self.identifier_uri}/") for each in scopes]

    def _build_upstream_authorize_url(self, txn_id: str, transaction: dict[str, Any]) -> str:
        scopes = _prefixed(transaction.get("scopes") or self.required_scopes, self.identifier_uri)
        changed = {**transaction, "scopes": [*scopes, *self.additional_authorize_scopes]}
        return super()._build_upstream_authorize_url(txn_id, changed)

    def _for_tokens(self, scopes: list[str]) -> list[str]:
        more = [each for each in self.additional_authorize_scopes if each in OIDC_SCOPES]
        return list(dict.fromkeys([*_prefixed(scopes, self.identifier_uri), *more]))

    def _prepare_scopes_for_token_exchange(self, scopes: list[str]) -> list[str]:
        return self._for_tokens(scopes or self.required_scopes)

    def _prepare_scopes_for_upstream_refresh(self, scopes: list[str]) -> list[str]:
        wanted = scopes or self.required_scopes
        return self._for_tokens([each for each in wanted if each not in self.additional_authorize_scopes])

    async def _extract_upstream_claims(self, idp_tokens: dict[str, Any]) -> dict[str, Any] | None:
        try:
            claims = decode_jwt_payload(idp_tokens["access_token"])
        except (KeyError, ValueError):
            return None
        return {name: claims[name] for name in CLAIMS if name in claims} or None


class OnBehalfOfToken(Dependency):
    """Dependency on a token for another API on behalf of the user."""

    def __init__(self, scopes: list[str]) -> None:
        self._scopes = scopes

    async def __aenter__(self) -> str:
        token = get_access_token()
        if token is None:
            raise RuntimeError("No access token available. Cannot perform OBO exchange.")
        auth = get_server().auth
        provider = next(
            (each for each in (auth, getattr(auth, "server", None)) if isinstance(each, AzureProvider)), None
        )
        if provider is None:
            raise RuntimeError(f"EntraOBOToken requires an AzureProvider, not {type(auth).__name__}")
        credential = await provider.get_obo_credential(token.token)
        found: str = (await credential.get_token(*self._scopes)).token
        return found


def EntraOBOToken(scopes: list[str]) -> Any:  # noqa: N802
    """Return the default of a parameter: a token for another API on behalf of the user. Needs ``azure-identity``."""
    return OnBehalfOfToken(scopes)
