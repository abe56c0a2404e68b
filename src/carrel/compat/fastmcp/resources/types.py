"""Kinds of resources: text, bytes, files, folders and URLs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from pydantic import Field, field_validator

from carrel.compat.fastmcp.exceptions import ResourceError
from carrel.compat.fastmcp.resources.resource import Resource

__all__ = ["BinaryResource", "DirectoryResource", "FileResource", "HttpResource", "TextResource"]


class TextResource(Resource):
    """Resource whose contents are text."""

    text: str

    async def read(self) -> str:
        """Return the text."""
        return self.text


class BinaryResource(Resource):
    """Resource whose contents are bytes."""

    data: bytes

    async def read(self) -> bytes:
        """Return the bytes."""
        return self.data


class PathResource(Resource):
    """Resource on an absolute path."""

    path: Path

    @field_validator("path")
    @classmethod
    def _check_path(cls, path: Path) -> Path:
        if not path.is_absolute():
            raise ValueError("Path must be absolute")
        return path


class FileResource(PathResource):
    """Resource with the contents of a file. It is text unless its MIME type or ``is_binary`` says otherwise."""

    is_binary: bool = False
    encoding: str = "utf-8"

    async def read(self) -> str | bytes:
        """Read the file.

        Raises:
            ResourceError: it cannot be read.
        """
        try:
            if self.is_binary or not self.mime_type.startswith("text/"):
                return await asyncio.to_thread(self.path.read_bytes)
            return await asyncio.to_thread(self.path.read_text, self.encoding)
        except Exception as error:
            raise ResourceError(f"Error reading file {self.path}") from error


class HttpResource(Resource):
    """Resource whose contents are fetched from a URL."""

    url: str
    mime_type: str = Field(default="application/json")

    async def read(self) -> str:
        """Fetch the URL."""
        import httpx  # type: ignore[import-not-found,unused-ignore]

        async with httpx.AsyncClient() as client:
            response = await client.get(self.url)
            response.raise_for_status()
            text: str = response.text
            return text


class DirectoryResource(PathResource):
    """Resource whose contents are the names of the files in a folder, as JSON."""

    recursive: bool = False
    pattern: str | None = None
    mime_type: str = Field(default="application/json")

    def list_files(self) -> list[Path]:
        """Return the entries of the folder that match the pattern.

        Raises:
            OSError: there is no such folder.
        """
        if not self.path.exists():
            raise FileNotFoundError(f"Directory not found: {self.path}")
        if not self.path.is_dir():
            raise NotADirectoryError(f"Not a directory: {self.path}")
        find = self.path.rglob if self.recursive else self.path.glob
        return list(find(self.pattern or "*"))

    async def read(self) -> str:
        """Return the names of the files.

        Raises:
            ResourceError: the folder cannot be read.
        """
        try:
            files = await asyncio.to_thread(self.list_files)
            names = [str(each.relative_to(self.path)) for each in files if each.is_file()]
            return json.dumps({"files": names}, indent=2)
        except Exception as error:
            raise ResourceError(f"Error reading directory {self.path}") from error
