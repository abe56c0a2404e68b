"""Pieces: content blocks and contents of resources as text, documents and media, the same for all vendors."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET

from carrel.media_types import is_textual
from carrel.wire.client_features import ToolResultContent
from carrel.wire.content import AudioContent, ContentBlock, EmbeddedResource, ImageContent, ResourceLink, TextContent
from carrel.wire.resources import BlobResourceContents, ResourceContents, TextResourceContents
from carrel.wire.tools import CallToolResult

__all__ = [
    "MediaContent",
    "Piece",
    "ResourceText",
    "TextPiece",
    "as_text",
    "described",
    "error_text",
    "joined",
    "pieces",
    "pieces_of_result",
]

PDF = "application/pdf"
#: Other names of media types.
ALIASES = {
    "image/jpg": "image/jpeg",
    "image/x-png": "image/png",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "application/x-pdf": PDF,
}


class TextPiece(msgspec.Struct, frozen=True):
    """Text."""

    text: str


class ResourceText(msgspec.Struct, frozen=True):
    """Text of a resource."""

    uri: str
    text: str


class MediaContent(msgspec.Struct, frozen=True):
    """Bytes of an image, audio or file, with the media type in lower case. ``uri`` is set for a resource."""

    mime_type: str
    data: bytes
    uri: str | None = None

    @property
    def kind(self) -> Literal["image", "audio", "pdf", "other"]:
        """Kind of the content, by its MIME type."""
        if self.mime_type == PDF:
            return "pdf"
        kind = self.mime_type.partition("/")[0]
        return kind if kind in ("image", "audio") else "other"  # type: ignore[return-value]

    @property
    def base64(self) -> str:
        """The bytes in base64."""
        return b64encode(self.data).decode("ascii")

    @property
    def data_uri(self) -> str:
        """The bytes as a data: URI."""
        return f"data:{self.mime_type};base64,{self.base64}"

    @property
    def file_name(self) -> str:
        """Name of a file for it: the last part of its URI."""
        name = (self.uri or "").rstrip("/").rpartition("/")[2].partition("?")[0]
        return name or ("document.pdf" if self.kind == "pdf" else "file")


Piece: TypeAlias = TextPiece | ResourceText | MediaContent


def pieces(blocks: Iterable[ContentBlock | ResourceContents]) -> list[Piece]:
    """Return the pieces of content blocks, or of what reading a resource returned. Empty text is left out."""
    found = [_piece(block) for block in blocks]
    return [piece for piece in found if isinstance(piece, MediaContent) or piece.text.strip()]


def pieces_of_result(result: CallToolResult | ToolResultContent) -> list[Piece]:
    """Return the pieces of the result of a tool: its content; its structured content if there is no text in that."""
    found = pieces(result.content)
    if result.structured_content is not UNSET and all(isinstance(piece, MediaContent) for piece in found):
        found.insert(0, TextPiece(msgspec.json.encode(result.structured_content).decode()))
    return found


def _piece(block: ContentBlock | ResourceContents) -> Piece:
    match block:
        case TextContent():
            return TextPiece(block.text)
        case ImageContent() | AudioContent():
            return MediaContent(_media_type(block.mime_type), block.data)
        case ResourceLink():
            return TextPiece(_link(block))
        case EmbeddedResource():
            return _piece(block.resource)
        case TextResourceContents():
            return ResourceText(block.uri, block.text)
        case BlobResourceContents():
            return _blob(block)
    raise TypeError(f"{type(block).__qualname__} is not a content block")


def _blob(contents: BlobResourceContents) -> Piece:
    media = MediaContent(_media_type(contents.mime_type or "application/octet-stream"), contents.blob, contents.uri)
    if media.kind == "other" and is_textual(media.mime_type):
        try:
            return ResourceText(contents.uri, contents.blob.decode())
        except UnicodeDecodeError:
            pass
    return media


def _media_type(value: str) -> str:
    plain = value.partition(";")[0].strip().lower()
    return ALIASES.get(plain, plain)


def _link(link: ResourceLink) -> str:
    about = " ".join(part for part in (link.title or link.name, link.description) if part)
    kind = f" ({link.mime_type})" if link.mime_type else ""
    return f"Resource {link.uri}{kind}: {about}"


def described(media: MediaContent) -> str:
    """Return a line for the model in place of media that it cannot take."""
    where = f" {media.uri}" if media.uri else ""
    return f"[{media.mime_type},{where} {len(media.data)} bytes: cannot be shown to this model]"


def as_text(piece: Piece) -> str:
    """Return a piece as text: documents after a line with their URI, media as a line that describes them."""
    match piece:
        case TextPiece():
            return piece.text
        case ResourceText():
            return f"Resource {piece.uri}:\n{piece.text}"
        case MediaContent():
            return described(piece)


def joined(found: Sequence[Piece]) -> str:
    """Return pieces as one text."""
    return "\n".join(map(as_text, found))


def error_text(text: str) -> str:
    """Return the text of a tool error, for vendors whose results have no flag for it."""
    return f"Error: {text}" if text else "Error: the tool failed without a message"
