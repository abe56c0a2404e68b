"""Images, audio and files as results of tools, in messages of prompts, and as contents of resources."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, ClassVar

from carrel.errors import ConfigError
from carrel.late import is_instance
from carrel.media_types import BINARY, is_textual, type_of_bytes, type_of_name
from carrel.wire.base import Annotations
from carrel.wire.content import AudioContent, ContentBlock, EmbeddedResource, ImageContent
from carrel.wire.resources import BlobResourceContents, TextResourceContents

__all__ = ["Audio", "BaseMedia", "File", "Image", "contents_of_data", "media_of", "type_of_data"]

#: Formats of images and audio whose MIME types have another name.
NAMES = {"jpg": "jpeg", "svg": "svg+xml", "mp3": "mpeg", "wave": "wav"}
#: First bytes of the formats of images and audio that models know.
SIGNATURES = (
    (b"\x89PNG\r\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
)
#: Formats in which an image of Pillow is sent as it came; any other becomes PNG.
KEPT = ("PNG", "JPEG", "GIF", "WEBP")


class BaseMedia:
    """Base class of data with a MIME type, from a file or from bytes. A file is read at once.

    The MIME type is ``mime_type``, or follows from ``format`` ("png", "mp3"), the name of the file, or the data.

    Raises:
        ConfigError: neither data nor a path is given, or both are.
        OSError: the file cannot be read.
    """

    kind: ClassVar[str] = ""
    otherwise: ClassVar[str] = BINARY

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        data: bytes | None = None,
        format: str | None = None,
        *,
        mime_type: str | None = None,
        annotations: Annotations | None = None,
    ) -> None:
        name = type(self).__name__
        if isinstance(path, bytes | bytearray | memoryview):
            path, data = None, bytes(path)
        if (path is None) is (data is None):
            raise ConfigError(f"{name} takes the path of a file, or data=, which are bytes")
        if data is not None and not isinstance(data, bytes | bytearray | memoryview):
            raise ConfigError(f"{name} takes data as bytes, not {type(data).__name__}")
        self.path = None if path is None else Path(path)
        self.data = Path(path).read_bytes() if path is not None else bytes(data or b"")
        self.mime_type = mime_type or self._type_of(format)
        self.annotations = annotations

    def _type_of(self, format: str | None) -> str:
        if format is not None:
            format = NAMES.get(format.lower().lstrip("."), format.lower().lstrip("."))
            return f"{self.kind}/{format}" if self.kind else type_of_name(f"x.{format}") or BINARY
        name = "" if self.path is None else self.path.name
        found = type_of_name(name) or type_of_data(self.data) or type_of_bytes(self.data[:4096], name)
        return found if found.startswith(self.kind) else self.otherwise

    def to_block(self) -> ContentBlock:
        """Return the data as a content block."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mime_type}, {len(self.data)} bytes)"


class Image(BaseMedia):
    """Image in a result: ``Image("chart.png")`` or ``Image(data=…, format="png")``."""

    kind, otherwise = "image", "image/png"

    def to_block(self) -> ImageContent:
        """Return the image as a content block."""
        return ImageContent(self.data, self.mime_type, annotations=self.annotations)


class Audio(BaseMedia):
    """Audio in a result: ``Audio("speech.mp3")`` or ``Audio(data=…, format="wav")``."""

    kind, otherwise = "audio", "audio/wav"

    def to_block(self) -> AudioContent:
        """Return the audio as a content block."""
        return AudioContent(self.data, self.mime_type, annotations=self.annotations)


class File(BaseMedia):
    """File in a result, as an embedded resource: ``File("report.pdf")`` or ``File(data=…, name="report.pdf")``.

    ``uri`` is its address for the client, by default ``file:///`` and its name.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        data: bytes | None = None,
        format: str | None = None,
        *,
        name: str | None = None,
        uri: str | None = None,
        mime_type: str | None = None,
        annotations: Annotations | None = None,
    ) -> None:
        if mime_type is None and format is None and name is not None:
            mime_type = type_of_name(name)
        super().__init__(path, data, format, mime_type=mime_type, annotations=annotations)
        self.name = name or (self.path.name if self.path is not None else "file")
        from urllib.parse import quote  # few servers need it

        self.uri = uri or f"file:///{quote(self.name)}"

    def to_block(self) -> EmbeddedResource:
        """Return the file as a content block: text if it is text, else a blob."""
        return EmbeddedResource(contents_of_data(self.data, self.mime_type, self.uri), annotations=self.annotations)


def type_of_data(data: bytes) -> str | None:
    """Return the MIME type of an image or of audio, by its first bytes."""
    if data[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12])
    return next((kind for signature, kind in SIGNATURES if data.startswith(signature)), None)


def contents_of_data(data: bytes, mime_type: str, uri: str) -> TextResourceContents | BlobResourceContents:
    """Return data as contents of a resource: text if the MIME type is textual and the data is UTF-8."""
    if is_textual(mime_type):
        try:
            return TextResourceContents(uri, data.decode("utf-8-sig"), mime_type=mime_type)
        except UnicodeDecodeError:
            pass
    return BlobResourceContents(uri, data, mime_type=mime_type)


def media_of(value: Any) -> BaseMedia | None:
    """Return an ``Image``, ``Audio`` or ``File`` as it is, and an image of Pillow as an ``Image``; None otherwise."""
    if isinstance(value, BaseMedia):
        return value
    return image_of(value) if is_instance(value, "PIL.Image", "Image") else None


def image_of(value: Any) -> Image:
    """Return an image of Pillow as an ``Image``, in its own format if models know that, else as PNG."""
    format = value.format if value.format in KEPT else "PNG"
    if format == "PNG" and value.mode not in ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"):
        value = value.convert("RGBA" if "a" in value.mode.lower() else "RGB")
    out = io.BytesIO()
    value.save(out, format=format)
    return Image(data=out.getvalue(), format=format)
