"""Transform that prefixes a provider's names and URIs with a namespace."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from carrel.catalog.access import NAME_VERBS
from carrel.catalog.provider import Provider
from carrel.catalog.transforms.transform import Kind, OuterNames, Transform
from carrel.errors import ConfigError

if TYPE_CHECKING:
    from carrel.protocol.methods import Verb
    from carrel.uri.intervals import Intervals

__all__ = ["Namespace"]

#: Schemes whose meaning belongs to the protocol: a namespace is their first segment, not part of the scheme.
KEPT_SCHEMES = ("ui", "skill")


class Namespace(Transform):
    """Transform that prefixes a provider's names and URIs with a namespace.

    Tools and prompts are called ``namespace_name``. A URI ``book://lem`` becomes ``namespace+book://lem``; one whose
    scheme means something to hosts, ``ui://page`` or ``skill://name``, becomes ``ui://namespace/page``.

    Raises:
        ConfigError: the namespace is not lower-case letters, digits and hyphens after a letter.
    """

    def __init__(self, provider: Provider, namespace: str) -> None:
        super().__init__(provider)
        letters = namespace.replace("-", "")
        if not (letters.isascii() and letters.isalnum() and namespace[0].isalpha() and namespace == namespace.lower()):
            raise ConfigError(
                f"A namespace has lower-case letters, digits and hyphens after a letter, not {namespace!r}"
            )
        self.namespace = namespace
        self.name = f"{namespace}:{provider.name}" if provider.name else namespace
        self._scheme = f"{namespace}+"

    @property
    def prefixes(self) -> Sequence[str]:  # type: ignore[override]
        """None: all of its URIs can be told by the namespace."""
        return ()

    @property
    def exact(self) -> Container[str]:  # type: ignore[override]
        """All URIs with the namespace."""
        return OuterNames(_Everything(), self.uri_in)

    @property
    def catch_all(self) -> bool:  # type: ignore[override]
        """False: it has no URIs without the namespace."""
        return False

    def uri_out(self, uri: str) -> str:
        """Return a URI with the namespace."""
        scheme, mark, rest = uri.partition("://")
        if mark and scheme in KEPT_SCHEMES:
            return f"{scheme}://{self.namespace}/{rest}"
        return self._scheme + uri

    def uri_in(self, uri: str) -> str | None:
        """Return a URI without the namespace."""
        if uri.startswith(self._scheme):
            return uri[len(self._scheme) :]
        scheme, mark, rest = uri.partition("://")
        if mark and scheme in KEPT_SCHEMES and rest.startswith(f"{self.namespace}/"):
            return f"{scheme}://{rest[len(self.namespace) + 1 :]}"
        return None

    def intervals_in(self, verb: Verb, intervals: Intervals) -> Intervals:
        """Convert intervals of client names or URIs to the provider's names or URIs."""
        if verb in NAME_VERBS:
            return intervals.inside(f"{self.namespace}_")
        found = intervals.inside(self._scheme)
        for scheme in KEPT_SCHEMES:
            found |= intervals.inside(f"{scheme}://{self.namespace}/").shifted(f"{scheme}://")
        return found

    def name_out(self, kind: Kind, name: str) -> str:
        """Return a name with the namespace."""
        return f"{self.namespace}_{name}"

    def name_in(self, kind: Kind, name: str) -> str | None:
        """Return a name without the namespace."""
        start = f"{self.namespace}_"
        return name[len(start) :] if name.startswith(start) else None


class _Everything(Container[str]):
    def __contains__(self, _: object) -> bool:
        return True
