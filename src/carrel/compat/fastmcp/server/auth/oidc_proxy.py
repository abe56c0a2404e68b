"""OAuth proxy whose upstream is described by an OpenID configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

from carrel.compat.fastmcp.http_library import httpx
from carrel.compat.fastmcp.server.auth.auth import TokenVerifier
from carrel.compat.fastmcp.server.auth.oauth_proxy.models import UpstreamTokenSet
from carrel.compat.fastmcp.server.auth.oauth_proxy.proxy import OAuthProxy
from carrel.compat.fastmcp.server.auth.providers.jwt import JWTVerifier

__all__ = ["OIDCConfiguration", "OIDCProxy"]

Url = AnyHttpUrl | str | None
URL: TypeAdapter[AnyHttpUrl] = TypeAdapter(AnyHttpUrl)
#: Members that a strict configuration must have.
URLS = ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")
LISTS = ("response_types_supported", "subject_types_supported", "id_token_signing_alg_values_supported")


class OIDCConfiguration(BaseModel):
    """OpenID configuration of an issuer. Members that nothing here needs are kept too."""

    model_config = ConfigDict(extra="allow")

    strict: bool = True
    issuer: Url = None
    authorization_endpoint: Url = None
    token_endpoint: Url = None
    userinfo_endpoint: Url = None
    jwks_uri: Url = None
    registration_endpoint: Url = None
    revocation_endpoint: Url = None
    introspection_endpoint: Url = None
    service_documentation: Url = None
    scopes_supported: Sequence[str] | None = None
    response_types_supported: Sequence[str] | None = None
    subject_types_supported: Sequence[str] | None = None
    id_token_signing_alg_values_supported: Sequence[str] | None = None
    token_endpoint_auth_methods_supported: Sequence[str] | None = None
    code_challenge_methods_supported: Sequence[str] | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        for name in (*URLS, *LISTS) if self.strict else ():
            value = getattr(self, name)
            if not value:
                raise ValueError(f"Missing required configuration metadata: {name}")
            if name in URLS:
                try:
                    URL.validate_python(str(value))
                except ValidationError as error:
                    raise ValueError(f"Invalid URL for configuration metadata: {name}") from error
        return self

    @classmethod
    def get_oidc_configuration(
        cls, config_url: AnyHttpUrl, *, strict: bool | None, timeout_seconds: int | None
    ) -> Self:
        """Fetch a configuration."""
        options: dict[str, Any] = {} if timeout_seconds is None else {"timeout": timeout_seconds}
        response = httpx.get(str(config_url), **options)
        response.raise_for_status()
        found = response.json()
        return cls.model_validate(found if strict is None else {**found, "strict": strict})


class OIDCProxy(OAuthProxy):
    """OAuth proxy with an OpenID provider as its upstream. Its tokens are verified with the keys of the issuer.

    With ``verify_id_token``, the ID token is verified instead, for issuers of opaque access tokens.

    Raises:
        ValueError: an argument is missing, or arguments do not fit together.
    """

    def __init__(
        self,
        *,
        config_url: AnyHttpUrl | str,
        strict: bool | None = None,
        client_id: str,
        client_secret: str | None = None,
        audience: str | None = None,
        timeout_seconds: int | None = 10,
        token_verifier: TokenVerifier | None = None,
        algorithm: str | None = None,
        required_scopes: list[str] | None = None,
        verify_id_token: bool = False,
        base_url: AnyHttpUrl | str,
        issuer_url: AnyHttpUrl | str | None = None,
        extra_authorize_params: dict[str, str] | None = None,
        extra_token_params: dict[str, str] | None = None,
        jwt_signing_key: str | bytes | None = None,
        **options: Any,
    ) -> None:
        for name, value in (("config URL", config_url), ("client id", client_id), ("base URL", base_url)):
            if not value:
                raise ValueError(f"Missing required {name}")
        if not client_secret and not jwt_signing_key:
            raise ValueError("Either client_secret or jwt_signing_key must be provided.")
        if token_verifier is not None and algorithm is not None:
            raise ValueError("Cannot specify 'algorithm' when providing a custom token_verifier.")
        if token_verifier is not None and required_scopes is not None:
            raise ValueError("Cannot specify 'required_scopes' when providing a custom token_verifier.")
        url = AnyHttpUrl(config_url) if isinstance(config_url, str) else config_url
        found = self.get_oidc_configuration(url, strict, timeout_seconds)
        self.oidc_config = found
        if not found.authorization_endpoint or not found.token_endpoint:
            raise ValueError("Missing required OIDC endpoints")
        self._verify_id_token = verify_id_token
        if token_verifier is None:
            token_verifier = self.get_token_verifier(
                algorithm=algorithm,
                audience=client_id if verify_id_token else audience,
                required_scopes=None if verify_id_token else required_scopes,
                timeout_seconds=timeout_seconds,
            )
        wanted = {"audience": audience} if audience else {}
        documentation: Any = found.service_documentation
        super().__init__(
            upstream_authorization_endpoint=str(found.authorization_endpoint),
            upstream_token_endpoint=str(found.token_endpoint),
            upstream_client_id=client_id,
            upstream_client_secret=client_secret,
            upstream_revocation_endpoint=str(found.revocation_endpoint) if found.revocation_endpoint else None,
            token_verifier=token_verifier,
            base_url=base_url,
            issuer_url=issuer_url or base_url,
            service_documentation_url=documentation,
            extra_authorize_params={**wanted, **(extra_authorize_params or {})},
            extra_token_params={**wanted, **(extra_token_params or {})},
            jwt_signing_key=jwt_signing_key,
            **options,
        )
        if verify_id_token and required_scopes:
            self.required_scopes = required_scopes
            self.update_default_scopes(required_scopes)

    def _get_verification_token(self, upstream_token_set: UpstreamTokenSet) -> str | None:
        if self._verify_id_token:
            return upstream_token_set.raw_token_data.get("id_token")
        return upstream_token_set.access_token

    def _uses_alternate_verification(self) -> bool:
        return self._verify_id_token

    def get_oidc_configuration(
        self, config_url: AnyHttpUrl, strict: bool | None, timeout_seconds: int | None
    ) -> OIDCConfiguration:
        """Fetch the configuration of the issuer."""
        return OIDCConfiguration.get_oidc_configuration(config_url, strict=strict, timeout_seconds=timeout_seconds)

    def get_token_verifier(
        self,
        *,
        algorithm: str | None = None,
        audience: str | None = None,
        required_scopes: list[str] | None = None,
        timeout_seconds: int | None = None,
    ) -> TokenVerifier:
        """Return the verifier of the issuer's tokens."""
        return JWTVerifier(
            jwks_uri=str(self.oidc_config.jwks_uri),
            issuer=str(self.oidc_config.issuer),
            algorithm=algorithm,
            audience=audience,
            required_scopes=required_scopes,
        )
