"""Images, audio and files that tools return, from a path or from bytes."""

from __future__ import annotations

import base64
import mimetypes
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict

from carrel.compat.fastmcp.utilities.annotations import (
    create_function_without_params,
    find_kwarg_by_type,
    get_cached_typeadapter,
    is_class_member_of_type,
    issubclass_safe,
    replace_type,
)
from carrel.compat.mcp.types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    TextResourceContents,
)
from carrel.compat.mcp.types.base import Annotations

__all__ = [
    "Audio",
    "FastMCPBaseModel",
    "File",
    "Image",
    "NotSet",
    "NotSetT",
    "create_function_without_params",
    "find_kwarg_by_type",
    "get_cached_typeadapter",
    "is_class_member_of_type",
    "issubclass_safe",
    "replace_type",
]

BINARY = "application/octet-stream"
#: MIME types of formats and suffixes where they are not the usual ones.
IMAGES = {"jpg": "image/jpeg", "svg": "image/svg+xml", "tif": "image/tiff"}
SOUNDS = {
    **{name: f"audio/{name}" for name in ("wav", "ogg", "flac", "aac", "webm", "aiff")},
    "aif": "audio/aiff",
    "m4a": "audio/mp4",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
}
TEXTS = {
    **dict.fromkeys(("plain", "txt", "text"), "text/plain"),
    **dict.fromkeys(("html", "htm"), "text/html"),
    **dict.fromkeys(("md", "markdown"), "text/markdown"),
    "csv": "text/csv",
}


class FastMCPBaseModel(BaseModel):
    """Model that takes no other fields than its own."""

    model_config = ConfigDict(extra="forbid")


class NotSetT:
    """Type of the default of arguments for which None means something."""

    def __repr__(self) -> str:
        return "NotSet"

    def __deepcopy__(self, memo: Any) -> NotSetT:
        return self


NotSet = NotSetT()


class Media:
    """Bytes, or the path of a file that has them."""

    def __init__(
        self,
        path: str | Path | None = None,
        data: bytes | None = None,
        format: str | None = None,
        annotations: Annotations | None = None,
    ) -> None:
        if path is None and data is None:
            raise ValueError("Either path or data must be provided")
        if path is not None and data is not None:
            raise ValueError("Only one of path or data can be provided")
        self.path = None if path is None else Path(os.path.expandvars(str(path))).expanduser()
        self.data = data
        self.annotations = annotations
        self._format = format
        self._mime_type = self._find_mime_type()

    def _find_mime_type(self) -> str:
        raise NotImplementedError

    def _read(self) -> bytes:
        if self.path is None and self.data is None:
            raise ValueError(f"No {type(self).__name__.lower()} data available")
        return self.path.read_bytes() if self.path is not None else self.data or b""

    def _encoded(self) -> str:
        return base64.b64encode(self._read()).decode()


class Image(Media):
    """Image that a tool returns."""

    def _find_mime_type(self) -> str:
        if self._format:
            return IMAGES.get(self._format.lower(), f"image/{self._format.lower()}")
        if self.path is None:
            return "image/png"
        return mimetypes.guess_type(self.path, strict=False)[0] or BINARY

    def to_image_content(self, mime_type: str | None = None, annotations: Annotations | None = None) -> ImageContent:
        """Return the content block."""
        return ImageContent(
            type="image",
            data=self._encoded(),
            mimeType=mime_type or self._mime_type,
            annotations=annotations or self.annotations,
        )

    def to_data_uri(self, mime_type: str | None = None) -> str:
        """Return the image as a ``data:`` URI."""
        return f"data:{mime_type or self._mime_type};base64,{self._encoded()}"


class Audio(Media):
    """Audio that a tool returns."""

    def _find_mime_type(self) -> str:
        if self._format:
            return SOUNDS.get(self._format.lower(), f"audio/{self._format.lower()}")
        return "audio/wav" if self.path is None else SOUNDS.get(self.path.suffix.lower()[1:], BINARY)

    def to_audio_content(self, mime_type: str | None = None, annotations: Annotations | None = None) -> AudioContent:
        """Return the content block."""
        return AudioContent(
            type="audio",
            data=self._encoded(),
            mimeType=mime_type or self._mime_type,
            annotations=annotations or self.annotations,
        )


class File(Media):
    """File that a tool returns, as an embedded resource: text if its MIME type is, else base64."""

    def __init__(
        self,
        path: str | Path | None = None,
        data: bytes | None = None,
        format: str | None = None,
        name: str | None = None,
        annotations: Annotations | None = None,
    ) -> None:
        super().__init__(path, data, format, annotations)
        self._name = name

    def _find_mime_type(self) -> str:
        if self._format:
            kind = self._format.lower()
            return TEXTS.get(kind, f"application/{kind}")
        return (self.path is not None and mimetypes.guess_type(self.path)[0]) or BINARY

    def to_resource_content(
        self, mime_type: str | None = None, annotations: Annotations | None = None
    ) -> EmbeddedResource:
        """Return the content block."""
        suffix = f".{self._format.lower() if self._format else self._mime_type.partition('/')[2]}"
        name = self._name or "resource"
        uri: Any = f"file:///{quote(name if self._name and Path(name).suffix else name + suffix)}"
        if self.path is not None:
            uri = self.path.resolve().as_uri()
        mime = mime_type or self._mime_type
        resource: TextResourceContents | BlobResourceContents
        if mime.startswith("text/"):
            data = self._read()
            try:
                text = data.decode()
            except UnicodeDecodeError:
                text = data.decode("latin-1")
            resource = TextResourceContents(uri=uri, text=text, mimeType=mime)
        else:
            resource = BlobResourceContents(uri=uri, blob=self._encoded(), mimeType=mime)
        return EmbeddedResource(type="resource", resource=resource, annotations=annotations or self.annotations)
