"""Patterns of client certificates in roles, such as "CN=*.office.example.org, O=Example"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from carrel.errors import ConfigError
from carrel.near_names import near

__all__ = ["ATTRIBUTES", "CertificatePattern"]

#: Attributes of a subject, and alternative names.
ATTRIBUTES = ("CN", "O", "OU", "DC", "UID", "C", "ST", "L", "STREET", "DNS", "URI", "EMAIL")
#: An attribute with its value, in which a backslash escapes a comma. The next attribute follows after a comma.
ASSIGNMENT = re.compile(r"\s*(\w+)\s*=\s*((?:[^,\\]|\\.)+?)\s*(?:,(?!\s*$)|$)")
#: A part of a value: an escaped character, an asterisk or another character.
PART = re.compile(r"\\(.)|(\*)|(.)", re.DOTALL)


class CertificatePattern:
    """Pattern of a client certificate: each attribute has to have a value that matches.

    An asterisk is any text. Upper and lower case are the same.

    Raises:
        ConfigError: it is not a pattern.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._attributes: list[tuple[str, re.Pattern[str]]] = []
        position = 0
        while position < len(text) or not text:
            found = ASSIGNMENT.match(text, position)
            if found is None:
                raise ConfigError(f'{text!r}: expected attributes, such as "CN=*.example.org" or "OU=blue, O=Example"')
            name = found[1].upper()
            if name not in ATTRIBUTES:
                raise ConfigError(f"{text!r}: there is no attribute {found[1]!r}{near(name, ATTRIBUTES)}")
            parts = (".*" if star else re.escape(escaped or other) for escaped, star, other in PART.findall(found[2]))
            self._attributes.append((name, re.compile("".join(parts), re.DOTALL | re.IGNORECASE)))
            position = found.end()

    def __repr__(self) -> str:
        return f"CertificatePattern({self.text!r})"

    def matches(self, claims: Mapping[str, Any]) -> bool:
        """Return whether a certificate matches, by its attributes: lists of values by name."""
        return all(any(map(pattern.fullmatch, claims.get(name, ()))) for name, pattern in self._attributes)
