"""Kinds of contents, which decide how the page shows them, and languages of source code, by MIME type."""

from __future__ import annotations

from carrel.media_types import DIRECTORY, is_textual
from carrel.sources.documents.kinds import IMAGE
from carrel.sources.documents.kinds import kind_of as document_kind
from carrel.studio.api import TextKind

__all__ = ["kind_of", "language_of", "type_of"]

KINDS: dict[str, TextKind] = {
    "application/pdf": "pdf",
    "application/xhtml+xml": "html",
    "image/svg+xml": "svg",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "markdown",
    "text/plain": "text",
    "text/tab-separated-values": "csv",
    DIRECTORY: "folder",
}
MEDIA: dict[str, TextKind] = {"image": "image", "audio": "audio", "video": "video"}
#: Names of languages that are not the end of their MIME type.
LANGUAGES = {
    "application/sql": "sql",
    "application/toml": "toml",
    "application/x-sh": "bash",
    "application/xml": "xml",
    "application/yaml": "yaml",
    "text/jsx": "javascript",
    "text/tsx": "typescript",
    "text/x-c++": "cpp",
    "text/x-diff": "diff",
}


def type_of(mime_type: str, uri: str) -> str:
    """Return the MIME type by which contents are shown: the given type, or the type of logs for ``*.log``."""
    plain = mime_type.partition(";")[0].strip().lower()
    return "text/x-log" if plain == "text/plain" and uri.partition("?")[0].lower().endswith(".log") else mime_type


def kind_of(mime_type: str, *, has_text: bool) -> TextKind:
    """Return the kind of contents; ``has_text`` tells text contents from binary contents."""
    plain = mime_type.partition(";")[0].strip().lower()
    if not has_text and plain not in KINDS and document_kind(plain) not in (None, IMAGE):
        return "document"
    found = KINDS.get(plain) or MEDIA.get(plain.partition("/")[0])
    if found is not None:
        return found if has_text or found in ("pdf", "image", "audio", "video", "svg", "html") else "binary"
    if not has_text:
        return "binary"
    if plain == "application/json" or plain.endswith(("+json", "json")):
        return "json"
    return "code" if language_of(plain) is not None else "text"


def language_of(mime_type: str) -> str | None:
    """Return the name of the language of source code, or None for other texts."""
    plain = mime_type.partition(";")[0].strip().lower()
    if plain in LANGUAGES:
        return LANGUAGES[plain]
    if plain in KINDS or not is_textual(plain):
        return None
    family, _, name = plain.partition("/")
    if name.startswith("x-"):
        return name.removeprefix("x-")
    return name if family == "text" or name in ("javascript", "graphql") else None
