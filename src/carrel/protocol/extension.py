"""What an extension of the protocol is: data, as a revision is. A server adds those that it has.

The tables of the extensions that Carrel knows are in ``carrel.protocol.extensions``; nothing loads them before a server
uses them.

https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from carrel.errors import ConfigError
from carrel.protocol.revision import Request

__all__ = ["Extension"]


class Extension(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What an extension adds to the revisions, for servers that have it.

    ``name`` is its identifier, such as "com.example/search". A method that a revision has under the same name is, for
    peers of that revision, the revision's own; both take the same parameters.

    Raises:
        ConfigError: the name is not an identifier with a prefix.
    """

    name: str
    requests: Mapping[str, Request] = {}
    """What clients may send, by wire name."""
    events: Mapping[str, str] = {}
    """What a server may announce: wire names by our names."""
    mutual: bool = False
    """Its methods are for clients only that declare the extension too; others are refused (-32021)."""
    handshake: bool = False
    """Peers of revisions with a handshake have its methods too."""

    def __post_init__(self) -> None:
        prefix, slash, name = self.name.partition("/")
        if not (slash and name and all(_is_label(label) for label in prefix.split(".")) and _is_name(name)):
            raise ConfigError(f"{self.name!r} is not the identifier of an extension, such as com.example/search")


def _is_label(text: str) -> bool:
    """Say whether this is a label of a prefix: letters, digits and hyphens, a letter first and no hyphen last."""
    plain = text.replace("-", "")
    return plain.isalnum() and plain.isascii() and text[0].isalpha() and text[-1] != "-"


def _is_name(text: str) -> bool:
    """Say whether this is the name after a prefix, which may have dots and underscores inside too."""
    plain = text.replace("-", "").replace("_", "").replace(".", "")
    return plain.isalnum() and plain.isascii() and text[0].isalnum() and text[-1].isalnum()
