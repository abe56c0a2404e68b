"""Client ID Metadata Documents: clients whose id is the URL of a document about them."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import urlsplit

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, ValidationError, field_validator

from carrel.compat.fastmcp.server.auth.redirect_validation import matches_allowed_pattern
from carrel.compat.fastmcp.server.auth.ssrf import SSRFError, SSRFFetchError, ssrf_safe_fetch
from carrel.log import Log

__all__ = ["CIMDDocument", "CIMDFetchError", "CIMDFetcher", "CIMDValidationError"]

log = Log("carrel.compat")

MAX_SIZE = 5120
#: Seconds for which a document is kept, and the maximum number of documents.
LIFETIME = 300.0
MAX_DOCUMENTS = 1000


class CIMDValidationError(Exception):
    """The document is not valid."""


class CIMDFetchError(Exception):
    """The document cannot be fetched."""


class CIMDDocument(BaseModel):
    """Document about a client. It has no secret."""

    model_config = ConfigDict(extra="allow")

    client_id: AnyHttpUrl
    client_name: str | None = None
    client_uri: AnyHttpUrl | None = None
    logo_uri: AnyHttpUrl | None = None
    redirect_uris: list[str] = Field(...)
    token_endpoint_auth_method: str = "none"
    grant_types: list[str] = Field(default_factory=lambda: ["authorization_code"])
    response_types: list[str] = Field(default_factory=lambda: ["code"])
    scope: str | None = None
    jwks_uri: AnyHttpUrl | None = None
    jwks: dict[str, Any] | None = None

    @field_validator("token_endpoint_auth_method")
    @classmethod
    def _has_no_secret(cls, value: str) -> str:
        if value not in ("none", "private_key_jwt"):
            raise ValueError(f"token_endpoint_auth_method '{value}' needs a shared secret, which documents lack")
        return value

    @field_validator("redirect_uris")
    @classmethod
    def _are_uris(cls, value: list[str]) -> list[str]:
        if not value:
            raise ValueError("CIMD documents must have at least one redirect_uri")
        for uri in value:
            parts = urlsplit(uri)
            if not parts.scheme or not (parts.netloc or parts.path):
                raise ValueError(f"redirect_uri must have a scheme and a host: {uri!r}")
        return value


class CIMDFetcher:
    """Fetches documents from public addresses, and keeps them for some minutes."""

    def __init__(self, timeout: float = 10.0) -> None:
        self.timeout = timeout
        self._known: dict[str, tuple[float, CIMDDocument]] = {}

    def is_cimd_client_id(self, client_id: str) -> bool:
        """Return whether a client id is the URL of a document: https, with a path."""
        try:
            parts = urlsplit(client_id)
        except ValueError:
            return False
        return parts.scheme == "https" and bool(parts.netloc) and parts.path not in ("", "/")

    async def fetch(self, client_id_url: str) -> CIMDDocument:
        """Return the document of a client.

        Raises:
            CIMDFetchError: it cannot be fetched.
            CIMDValidationError: it is not valid, or is about another client.
        """
        until, known = self._known.get(client_id_url, (0.0, None))
        if known is not None and until > time.monotonic():
            return known
        try:
            content = await ssrf_safe_fetch(client_id_url, max_size=MAX_SIZE, timeout=self.timeout)
        except (SSRFError, SSRFFetchError) as error:
            raise CIMDFetchError(str(error)) from error
        try:
            document = CIMDDocument.model_validate(json.loads(content))
        except (ValidationError, ValueError) as error:
            raise CIMDValidationError(f"Invalid CIMD document: {error}") from error
        if str(document.client_id).rstrip("/") != client_id_url.rstrip("/"):
            raise CIMDValidationError(f"CIMD client_id mismatch: {document.client_id} is not {client_id_url}")
        if len(self._known) >= MAX_DOCUMENTS:
            self._known.pop(next(iter(self._known)))
        self._known[client_id_url] = time.monotonic() + LIFETIME, document
        return document

    def validate_redirect_uri(self, doc: CIMDDocument, redirect_uri: str) -> bool:
        """Return whether a redirect URI is in a document."""
        return any(matches_allowed_pattern(redirect_uri, each) for each in doc.redirect_uris)
