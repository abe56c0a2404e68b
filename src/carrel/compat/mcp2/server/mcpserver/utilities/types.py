"""Images and audio as results of tools."""

from carrel.compat.mcp.server.fastmcp.utilities.types import Audio as AnyAudio
from carrel.compat.mcp.server.fastmcp.utilities.types import Image as AnyImage
from carrel.compat.mcp.server.fastmcp.utilities.types import encoded
from carrel.compat.mcp2 import types

__all__ = ["Audio", "Image"]


class Image(AnyImage):
    """Image in a file or in memory."""

    def to_image_content(self) -> types.ImageContent:
        """Return the image as content."""
        return types.ImageContent(data=encoded(self.path, self.data), mime_type=self._mime_type)


class Audio(AnyAudio):
    """Audio in a file or in memory."""

    def to_audio_content(self) -> types.AudioContent:
        """Return the audio as content."""
        return types.AudioContent(data=encoded(self.path, self.data), mime_type=self._mime_type)
