"""Protocol extension: methods and notifications in addition to a revision, as data.

``carrel.protocol.extensions`` has the extensions that Carrel implements, loaded only when they are used.

https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from carrel.errors import ConfigError
from carrel.protocol.methods import NotificationType, RequestType

__all__ = ["Extension"]


class Extension(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Methods and notifications that an extension adds to the revisions.

    ``name`` is its identifier, such as "com.example/search". For peers whose revision has a method of the same
    name, the revision's own method applies; both take the same parameters.

    Raises:
        ConfigError: the name is not an identifier with a prefix.
    """

    name: str
    requests: Mapping[str, RequestType] = {}
    """Requests that clients may send, by wire name."""
    events: Mapping[str, NotificationType] = {}
    """Notifications that a server may send, by operation name."""
    mutual: bool = False
    """Only clients that declare the extension too may call its methods; other calls are rejected (-32021)."""
    handshake: bool = False
    """The methods are also available in revisions with a handshake."""

    def __post_init__(self) -> None:
        prefix, slash, name = self.name.partition("/")
        if not (slash and name and all(_is_label(label) for label in prefix.split(".")) and _is_name(name)):
            raise ConfigError(f"{self.name!r} is not the identifier of an extension, such as com.example/search")


def _is_label(text: str) -> bool:
    """Return whether the text is a label of a prefix: letters, digits, hyphens; a letter first and no hyphen last."""
    plain = text.replace("-", "")
    return plain.isalnum() and plain.isascii() and text[0].isalpha() and text[-1] != "-"


def _is_name(text: str) -> bool:
    """Return whether the text is a valid name after a prefix; it may contain dots and underscores too."""
    plain = text.replace("-", "").replace("_", "").replace(".", "")
    return plain.isalnum() and plain.isascii() and text[0].isalnum() and text[-1].isalnum()
