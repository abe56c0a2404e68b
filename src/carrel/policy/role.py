"""Roles of a policy: which callers have them, by their access token or by the transport.

A caller has a role if all conditions of the role hold: ``Role(name="viewer", claims={"scope": ["books:read"]})``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from carrel.policy.certificate_pattern import ATTRIBUTES, CertificatePattern
from carrel.protocol.principal import CERTIFICATE

if TYPE_CHECKING:
    from carrel.protocol.principal import Principal

__all__ = ["ClaimValue", "Role", "claim_of", "texts_of"]

ClaimValue: TypeAlias = str | int | bool
"""Value that a claim is compared with."""


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """Role of callers.

    ``claims`` are values of claims of the access token: of a list, one value is enough. ``scope`` is a claim whose
    words must all be granted. ``token`` is a name in the file of tokens. ``certificate`` are patterns of the client's
    certificate, of which one has to match. ``local`` is for callers on stdio and in the same process. ``where`` is the
    file and line.
    """

    name: str
    claims: Mapping[str, Sequence[ClaimValue]] = MappingProxyType({})
    token: str | None = None
    certificate: Sequence[CertificatePattern] = ()
    local: bool = False
    where: str = ""

    def includes(self, principal: Principal) -> bool:
        """Return whether an authenticated caller has the role."""
        if self.local:
            return False
        if self.certificate:
            return principal.issuer == CERTIFICATE and any(one.matches(principal.claims) for one in self.certificate)
        if self.token is not None and (principal.issuer or principal.subject != self.token):
            return False
        if self.claims and principal.issuer == CERTIFICATE:
            return False
        return all(
            any(set(str(value).split()) <= principal.scopes for value in wanted)
            if name == "scope"
            else not _held(claim_of(principal, name)).isdisjoint(_typed(value) for value in wanted)
            for name, wanted in self.claims.items()
        )

    def may_have(self, claim: str) -> bool:
        """Return whether a caller with the role may have a claim: tokens of an issuer have any."""
        if self.certificate:
            return claim == "sub" or claim in ATTRIBUTES
        return claim == "sub" if self.token is not None else not self.local


def claim_of(principal: Principal, name: str) -> Any:
    """Return the value of a claim, or None. If no claim is named ``a.b``, it is the member ``b`` of the claim ``a``."""
    if name in principal.claims:
        return principal.claims[name]
    if name == "sub":
        return principal.subject
    found: Any = principal.claims
    for part in name.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


def texts_of(value: object) -> tuple[str, ...]:
    """Return the texts of a claim, for the braces of patterns: its text or number, or the elements of its list."""
    values = value if isinstance(value, list | tuple) else [value]
    texts = (str(one) for one in values if isinstance(one, str | int) and not isinstance(one, bool))
    return tuple(text for text in texts if text.isascii() or text.encode(errors="replace").decode() == text)


def _held(value: object) -> set[tuple[type, object]]:
    values = value if isinstance(value, list | tuple) else [value]
    return {_typed(one) for one in values if isinstance(one, str | int)}


def _typed(value: object) -> tuple[type, object]:
    """Return a value with its type: True and 1 differ."""
    return type(value), value
