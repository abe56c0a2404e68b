"""Predefined upstreams, with endpoints, scopes and user claims: GitHub, Google, Microsoft Entra ID, Auth0, Keycloak."""

from __future__ import annotations

import re
from collections.abc import Iterable

from carrel.errors import ConfigError
from carrel.security.fetch import check_url
from carrel.security.server.proxy.upstream import TENANT, Tenants, Upstream

__all__ = ["auth0", "entra", "github", "google", "keycloak"]

GITHUB = "https://github.com"
GITHUB_API = "https://api.github.com"
GITHUB_SCOPES = ("read:user",)
GOOGLE = "https://accounts.google.com"
GOOGLE_SCOPES = ("openid", "email", "profile")
ENTRA = "https://login.microsoftonline.com"
ENTRA_SCOPES = AUTH0_SCOPES = ("openid", "profile", "email", "offline_access")
KEYCLOAK_SCOPES = ("openid", "profile", "email")

#: Names in place of an Entra tenant that mean many tenants.
MANY_TENANTS = ("common", "organizations", "consumers")
GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def github(
    client_id: str,
    client_secret: str,
    *,
    scopes: Iterable[str] = GITHUB_SCOPES,
    url: str = GITHUB,
    api: str = GITHUB_API,
) -> Upstream:
    """GitHub, or with ``url`` and ``api`` a GitHub Enterprise Server (its API is at /api/v3).

    Tokens are opaque and there is no ID token, so the user comes from the API. A login name can move to another user,
    the number ``id`` cannot.

    https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps
    https://docs.github.com/en/rest/users/users#get-the-authenticated-user
    """
    url, api = url.rstrip("/"), api.rstrip("/")
    return Upstream(
        name="GitHub",
        client_id=client_id,
        client_secret=client_secret,
        scopes=tuple(scopes),
        authorization_endpoint=f"{url}/login/oauth/authorize",
        token_endpoint=f"{url}/login/oauth/access_token",
        user_endpoint=f"{api}/user",
        subject=("id",),
        everybody=True,
    )


def google(
    client_id: str,
    client_secret: str,
    *,
    scopes: Iterable[str] = GOOGLE_SCOPES,
    issuer: str = GOOGLE,
) -> Upstream:
    """Google. Refresh tokens require ``access_type=offline``, and are sent again only with ``prompt=consent``.

    The issuer in ID tokens may lack https://. ``hd`` is the domain of an organization, ``email`` may change.

    https://developers.google.com/identity/openid-connect/openid-connect
    https://developers.google.com/identity/protocols/oauth2/web-server#offline
    """
    return Upstream(
        name="Google",
        client_id=client_id,
        client_secret=client_secret,
        scopes=tuple(scopes),
        issuer=issuer,
        issuer_alias=issuer.partition("://")[2],
        parameters={"access_type": "offline", "prompt": "consent"},
        everybody=True,
    )


def entra(
    client_id: str,
    client_secret: str,
    *,
    tenant: str,
    scopes: Iterable[str] = ENTRA_SCOPES,
    authority: str = ENTRA,
) -> Upstream:
    """Microsoft Entra ID: one tenant by its id (a GUID), or "organizations", "consumers" or "common" for many tenants.

    ``oid`` identifies a user in a tenant, for all applications of the tenant; ``tid`` is the tenant. In metadata for
    many tenants, the issuer contains ``{tenantid}``. ``authority`` selects a national cloud.

    https://learn.microsoft.com/en-us/entra/identity-platform/v2-protocols-oidc
    https://learn.microsoft.com/en-us/entra/identity-platform/id-token-claims-reference

    Raises:
        ConfigError: the tenant is not valid.
    """
    authority = authority.rstrip("/")
    many = tenant in MANY_TENANTS
    if not many and GUID.fullmatch(tenant) is None:
        raise ConfigError(
            f"tenant: {tenant!r} is neither a tenant id (a GUID, on the overview page of the Entra admin center) "
            f"nor one of {', '.join(MANY_TENANTS)}"
        )
    base = f"{authority}/{tenant}/v2.0"
    return Upstream(
        name="Microsoft",
        client_id=client_id,
        client_secret=client_secret,
        scopes=tuple(scopes),
        issuer=Tenants(f"{base}/.well-known/openid-configuration", f"{authority}/{TENANT}/v2.0") if many else base,
        subject=("tid", "oid"),
        everybody=many,
    )


def auth0(
    client_id: str,
    client_secret: str,
    *,
    domain: str,
    scopes: Iterable[str] = AUTH0_SCOPES,
    audience: str | None = None,
) -> Upstream:
    """Auth0. The issuer is the domain with a slash at its end; ``audience`` is the API that access tokens are for.

    https://auth0.com/docs/get-started/applications/configure-applications-with-oidc-discovery
    https://auth0.com/docs/get-started/authentication-and-authorization-flow/authorization-code-flow
    """
    url = domain if "://" in domain else f"https://{domain}"
    return Upstream(
        name="Auth0",
        client_id=client_id,
        client_secret=client_secret,
        scopes=tuple(scopes),
        issuer=check_url(url.rstrip("/") + "/", "domain"),
        parameters={} if audience is None else {"audience": audience},
    )


def keycloak(
    client_id: str,
    client_secret: str,
    *,
    realm_url: str,
    scopes: Iterable[str] = KEYCLOAK_SCOPES,
) -> Upstream:
    """Keycloak. The issuer is the URL of the realm, such as https://keycloak.example.org/realms/main.

    https://www.keycloak.org/securing-apps/oidc-layers
    """
    return Upstream(
        name="Keycloak",
        client_id=client_id,
        client_secret=client_secret,
        scopes=tuple(scopes),
        issuer=check_url(realm_url.rstrip("/"), "realm_url"),
    )
