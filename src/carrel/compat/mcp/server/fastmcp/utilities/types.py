"""Images and audio as results of tools."""

from __future__ import annotations

import base64
from pathlib import Path

from carrel.compat import mcp

__all__ = ["Audio", "Image", "encoded"]

UNKNOWN = "application/octet-stream"
IMAGES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
SOUNDS = {
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".flac": "audio/flac",
    ".aac": "audio/aac",
    ".m4a": "audio/mp4",
}


def _type_of(kind: str, known: dict[str, str], path: Path | None, format: str | None, default: str) -> str:
    if format:
        return f"{kind}/{format.lower()}"
    return default if path is None else known.get(path.suffix.lower(), UNKNOWN)


def encoded(path: Path | None, data: bytes | None) -> str:
    """Return the content of a file, or the data, as base64."""
    return base64.b64encode(path.read_bytes() if path is not None else data or b"").decode()


class Image:
    """Image in a file or in memory. ``format`` is such as "png".

    Raises:
        ValueError: there is neither a path nor data, or there are both.
    """

    def __init__(self, path: str | Path | None = None, data: bytes | None = None, format: str | None = None) -> None:
        if path is None and data is None:
            raise ValueError("Either path or data must be provided")
        if path is not None and data is not None:
            raise ValueError("Only one of path or data can be provided")
        self.path = Path(path) if path else None
        self.data = data
        self._format = format
        self._mime_type = _type_of("image", IMAGES, self.path, format, "image/png")

    def to_image_content(self) -> mcp.types.ImageContent:
        """Return the image as content."""
        return mcp.types.ImageContent(type="image", data=encoded(self.path, self.data), mimeType=self._mime_type)


class Audio:
    """Audio in a file or in memory. ``format`` is such as "wav".

    Raises:
        ValueError: there is neither a path nor data, or there are both.
    """

    def __init__(self, path: str | Path | None = None, data: bytes | None = None, format: str | None = None) -> None:
        if bool(path) == bool(data):
            raise ValueError("Either path or data can be provided")
        self.path = Path(path) if path else None
        self.data = data
        self._format = format
        self._mime_type = _type_of("audio", SOUNDS, self.path, format, "audio/wav")

    def to_audio_content(self) -> mcp.types.AudioContent:
        """Return the audio as content."""
        return mcp.types.AudioContent(type="audio", data=encoded(self.path, self.data), mimeType=self._mime_type)
