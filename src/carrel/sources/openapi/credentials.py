"""Credentials for an API, kept on the server: keys, bearer tokens, basic authentication, OAuth 2.0 client credentials.

They are added to a request after its URL is known, and never to a URI, an error or a log line.

https://spec.openapis.org/oas/v3.1.1.html#security-scheme-object
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote, quote_plus

import msgspec

from carrel.errors import ConfigError, ResourceError
from carrel.sources.openapi.document import ApiDocuments
from carrel.sources.openapi.operations import ApiOperation
from carrel.sources.openapi.options import OpenAPIOptions

__all__ = ["ApiCredentials", "PostForm"]

#: Seconds before expiry when a token is no longer used, and the default lifetime of a token.
MARGIN, USUAL = 10.0, 300.0
HIDDEN = "[hidden]"


PostForm: TypeAlias = Callable[[str, Mapping[str, str], Mapping[str, str]], Awaitable[tuple[int, bytes]]]
"""Posts a form (the second argument) to a URL with headers, and returns the status and the body."""


class ApiCredentials:
    """Credentials from the options, applied according to the security requirements of an operation."""

    def __init__(self, options: OpenAPIOptions, documents: ApiDocuments) -> None:
        self._options = options
        components = documents.root.get("components")
        schemes = components.get("securitySchemes") if isinstance(components, dict) else None
        self._schemes: dict[str, dict[str, Any]] = {}
        for name, given in schemes.items() if isinstance(schemes, dict) else ():
            scheme, _ = documents.resolve(given, documents.location)
            if isinstance(scheme, dict):
                self._schemes[name] = scheme
        self._token: tuple[str, float] | None = None
        self._lock = asyncio.Lock()

    @property
    def given(self) -> bool:
        """Whether any credentials are configured."""
        options = self._options
        return any((options.token, options.api_key, options.user, options.client_id))

    def suffice(self, operation: ApiOperation) -> bool:
        """Return whether the credentials that an operation requires are configured."""
        return not operation.security or any(
            all(self._has(self._schemes.get(name, {})) for name in requirement) for requirement in operation.security
        )

    def hide(self, text: str) -> str:
        """Redact credentials in a text, because an API could repeat them in an error."""
        options = self._options
        secrets = [options.token, options.api_key, options.password, options.client_secret]
        secrets += [self._token[0]] if self._token is not None else []
        if options.user and options.password:
            secrets.append(basic(options.user, options.password))
        for secret in filter(None, secrets):
            for form in dict.fromkeys((secret, quote(secret, safe=""), quote_plus(secret))):
                text = text.replace(form, HIDDEN)
        return text

    async def apply(self, operation: ApiOperation, post_form: PostForm) -> tuple[dict[str, str], list[tuple[str, str]]]:
        """Return the headers, and the query parameters (percent-encoded), that an operation requires.

        Use the first alternative for which all credentials are configured. If no alternative qualifies, send no
        credentials. If the description has no security schemes, send the option ``token`` as a bearer token.

        Raises:
            ResourceError: the token endpoint returns no token.
        """
        for requirement in operation.security:
            schemes = [(name, self._schemes.get(name, {})) for name in requirement]
            if all(self._has(scheme) for _, scheme in schemes):
                headers: dict[str, str] = {}
                query: list[tuple[str, str]] = []
                for name, scheme in schemes:
                    await self._add(scheme, as_texts(requirement[name]), headers, query, post_form)
                return headers, query
        if not self._schemes and self._options.token:  # the description has no security schemes
            return {"Authorization": f"Bearer {self._options.token}"}, []
        return {}, []

    def _has(self, scheme: Mapping[str, Any]) -> bool:
        options, kind = self._options, scheme.get("type")
        if kind == "apiKey":
            return bool(options.api_key)
        if kind == "http":
            name = str(scheme.get("scheme", "")).lower()
            return bool(options.user) if name == "basic" else name == "bearer" and bool(options.token)
        if kind in ("oauth2", "openIdConnect"):
            return bool(options.token) or (bool(options.client_id) and self._token_url(scheme) is not None)
        return False

    def _token_url(self, scheme: Mapping[str, Any]) -> str | None:
        if self._options.token_url:
            return self._options.token_url
        flows = scheme.get("flows")
        flow = flows.get("clientCredentials") if isinstance(flows, dict) else None
        url = flow.get("tokenUrl") if isinstance(flow, dict) else None
        return url if isinstance(url, str) else None

    async def _add(
        self,
        scheme: Mapping[str, Any],
        scopes: list[str],
        headers: dict[str, str],
        query: list[tuple[str, str]],
        post_form: PostForm,
    ) -> None:
        options, kind = self._options, scheme.get("type")
        if kind == "apiKey":
            name, location, key = str(scheme.get("name", "")), scheme.get("in"), options.api_key or ""
            if location == "query":
                query.append((quote(name, safe=""), quote(key, safe="")))
            elif location == "cookie":
                before = f"{headers['Cookie']}; " if "Cookie" in headers else ""
                headers["Cookie"] = f"{before}{name}={key}"
            elif location == "header":
                headers[name] = key
        elif kind == "http" and str(scheme.get("scheme", "")).lower() == "basic":
            headers["Authorization"] = f"Basic {basic(options.user or '', options.password or '')}"
        else:
            token = options.token or await self._get_token(scheme, scopes, post_form)
            headers["Authorization"] = f"Bearer {token}"

    async def _get_token(self, scheme: Mapping[str, Any], scopes: Iterable[str], post_form: PostForm) -> str:
        """Return a token with the client credentials grant, from the cache if it is valid (RFC 6749, section 4.4).

        Raises:
            ResourceError: the token endpoint returns no token.
        """
        async with self._lock:
            if self._token is not None and time.monotonic() < self._token[1]:
                return self._token[0]
            url = self._token_url(scheme) or ""
            options = self._options
            form = {"grant_type": "client_credentials"}
            wanted = " ".join(options.scopes or scopes)
            if wanted:
                form["scope"] = wanted
            both = f"{quote_plus(options.client_id or '')}:{quote_plus(options.client_secret or '')}"
            headers = {"Authorization": "Basic " + base64.b64encode(both.encode()).decode()}
            status, body = await post_form(url, form, headers)
            try:
                found = msgspec.json.decode(body, type=dict[str, Any]) if status == 200 else {}
            except (msgspec.DecodeError, RecursionError):
                found = {}
            token = found.get("access_token")
            if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
                raise ResourceError(url, f"The token endpoint returned no token: it responded with status {status}")
            seconds = found.get("expires_in")
            life = float(seconds) if isinstance(seconds, (int, float)) else USUAL
            self._token = token, time.monotonic() + max(life - MARGIN, 0.0)
            return token


def check_options(options: OpenAPIOptions) -> None:
    """Check that the credentials can be sent.

    Raises:
        ConfigError: a credential contains a character that is not valid in a header, or a part is missing.
    """
    for name in ("token", "api_key", "user", "password", "client_id", "client_secret"):
        value = getattr(options, name)
        if value is not None and not (value and value.isprintable()):
            raise ConfigError(f"{name} is empty, or has characters that cannot be sent")
    if (options.client_id is None) != (options.client_secret is None):
        raise ConfigError("client_id and client_secret are given together")


def basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def as_texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
