"""Routes of a catalog: find the provider of a URI.

A URI belongs to the provider with exactly this URI, else to the provider with the longest matching prefix, else to the
provider with a matching template, the template with the most literal characters first; else the catch-all providers are
tried.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import msgspec

from carrel.catalog.access import may_reach
from carrel.catalog.provider import Provider, Request
from carrel.errors import InvalidParams
from carrel.log import Log
from carrel.protocol.principal import View
from carrel.uri.parse import UriError, normalize
from carrel.uri.template import MAX_URI, UriTemplate, UriTemplateError, shared_template

__all__ = ["ProviderRoutes", "check_length", "valid_uri"]

log = Log("carrel")


class _Route(msgspec.Struct, frozen=True, eq=False):
    """Template by which URIs of a provider are found."""

    template: str
    pattern: UriTemplate
    provider: Provider


class ProviderRoutes(Container[str]):
    """Exact URIs, prefixes and templates of providers, and the providers that take any URI; a container of all URIs."""

    def __init__(self) -> None:
        self.exact: tuple[Provider, ...] = ()
        """Providers with URIs outside their prefixes and templates."""
        self.catch_all: tuple[Provider, ...] = ()
        """Catch-all providers, tried for URIs of no other provider."""
        self.prefixes: dict[str, Provider] = {}
        """Providers by the prefixes of their URIs."""
        self.schemes: frozenset[str] = frozenset()
        """Schemes of the prefixes, in lower case."""
        self._lengths: tuple[int, ...] = ()
        self._routes: list[_Route] = []
        self._templates: dict[str, Provider] = {}

    def index(self, providers: Sequence[Provider]) -> None:
        """Replace the providers, of which the first has precedence."""
        self.exact = tuple(provider for provider in providers if not isinstance(provider.exact, tuple))
        self.prefixes = {}
        for provider in providers:
            for prefix in provider.prefixes:
                first = self.prefixes.setdefault(prefix, provider)
                if first is not provider:
                    log.warning("%s is in %s and in %s; the first one answers", prefix, first.name, provider.name)
        self.schemes = frozenset(prefix.partition(":")[0].lower() for prefix in self.prefixes)
        self._lengths = tuple(sorted({len(prefix) for prefix in self.prefixes}, reverse=True))
        self.catch_all = tuple(provider for provider in providers if provider.catch_all)

    def route(self, provider: Provider, templates: Iterable[str]) -> None:
        """Replace the templates by which URIs of a provider are found."""
        routes = [route for route in self._routes if route.provider is not provider]
        owners = {template: owner for template, owner in self._templates.items() if owner is not provider}
        for template in templates:
            if owners.setdefault(template, provider) is not provider or template.startswith(tuple(provider.prefixes)):
                continue
            try:
                routes.append(_Route(template, shared_template(template), provider))
            except UriTemplateError as error:
                log.warning("%s: %s is not a URI template: %s", provider.name, template, error)
        self._templates = owners
        # A new list: the old one may be in use on another thread.
        self._routes = sorted(routes, key=lambda route: (-route.pattern.literal_length, route.provider.name))

    def find(self, uri: str, request: Request | None = None) -> Provider | None:
        """Return the provider of a URI in normal form; None if no provider can have it.

        Where a template finds it, the template and its variables are set in ``request``.
        """
        for provider in self.exact:
            if uri in provider.exact:
                return provider
        return self.find_by_prefix(uri) or self.find_by_template(uri, request) or next(iter(self.catch_all), None)

    def find_absent(self, uri: str, view: View) -> Provider | None:
        """Return the provider of a hidden URI in normal form as if it were absent, by the routes that a view shows."""
        prefix = self._prefix_of(uri)
        if prefix is not None and view.reaches("list", prefix, prefix):
            return self.prefixes[prefix]
        for route in self._routes:
            if route.pattern.match(uri) is not None and may_reach(view, "list", route.pattern):
                return route.provider
        return next(iter(self.catch_all), None)

    def find_by_prefix(self, uri: str) -> Provider | None:
        """Return the provider with the longest prefix of a URI in normal form."""
        prefix = self._prefix_of(uri)
        return None if prefix is None else self.prefixes[prefix]

    def _prefix_of(self, uri: str) -> str | None:
        for length in self._lengths:
            start = uri[:length]
            if start in self.prefixes and (uri[length : length + 1] in ("", "/", "?", "#") or start[-1] in "/:"):
                return start
        return None

    def find_by_template(self, uri: str, request: Request | None) -> Provider | None:
        """Return the provider of the template that matches a URI, and set both in ``request``."""
        for route in self._routes:
            values = route.pattern.match(uri)
            if values is not None:
                if request is not None:
                    request.template, request.values = route.template, values
                return route.provider
        return None

    def __contains__(self, uri: object) -> bool:
        """Return whether a client's URI belongs to a provider."""
        if not isinstance(uri, str) or len(uri) > MAX_URI:
            return False
        try:
            normal = normalize(uri)
        except UriError:
            return False
        for provider in self.exact:  # as in ``find``, without function calls for what is not there
            if normal in provider.exact:
                return True
        if self.catch_all or (self._lengths and self.find_by_prefix(normal) is not None):
            return True
        if not self._routes:
            return False
        return self.find_by_template(normal, None) is not None or (
            normal != uri and self.find_by_template(uri, None) is not None
        )

    def owns(self, provider: Provider, uri: str) -> bool:
        """Return whether a URI in normal form belongs to a provider other than a catch-all provider."""
        for each in self.exact:
            if uri in each.exact:
                return each is provider
        return (self.find_by_prefix(uri) or self.find_by_template(uri, None)) is provider

    def may_own(self, provider: Provider, uri: str) -> bool:
        """Return whether the resource of a URI in normal form may be one of a provider."""
        found = self.find(uri)
        return found is provider or (
            provider in self.catch_all and found in self.catch_all and (found is None or not self.owns(found, uri))
        )

    def owner_of_template(self, uri: str, request: Request) -> Provider | None:
        """Return the provider of a resource template; None for the URI of a resource, which has no variables.

        Raises:
            InvalidParams: there is no such template, or it is hidden from the caller.
        """
        provider = self._templates.get(uri)
        view = request.view
        if provider is not None and (view is None or may_reach(view, "complete", UriTemplate(uri))):
            return provider
        if any(uri in other.exact for other in self.exact):
            return None
        raise InvalidParams(f"Invalid params: unknown resource template: {uri[:1000]}", parameter="ref")


def check_length(uri: str) -> None:
    """Check the length of a client's URI.

    Raises:
        InvalidParams: it is too long.
    """
    if len(uri) > MAX_URI:
        message = f"Invalid params: uri has more than {MAX_URI} characters"
        raise InvalidParams(message, {"uri": uri[:1000], "reason": "invalid"}, parameter="uri")


def valid_uri(uri: str) -> str:
    """Return the normal form of a client's URI.

    Raises:
        InvalidParams: it is too long, or not a URI at all.
    """
    check_length(uri)
    try:
        return normalize(uri)
    except UriError as error:
        raise InvalidParams(
            f"Invalid params: uri: {error}", {"uri": uri[:1000], "reason": "invalid"}, parameter="uri"
        ) from None
