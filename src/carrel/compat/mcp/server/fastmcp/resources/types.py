"""Kinds of resources: text, bytes, functions, files, folders and URLs."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydantic_core
from pydantic import AnyUrl, Field, field_validator, model_validator, validate_call

from carrel.compat.mcp.server.fastmcp.resources.base import Resource
from carrel.compat.mcp.types.base import Annotations, Icon

__all__ = ["BinaryResource", "DirectoryResource", "FileResource", "FunctionResource", "HttpResource", "TextResource"]


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


class FunctionResource(Resource):
    """Resource whose contents a function returns: text, bytes, or what becomes JSON."""

    fn: Callable[[], Any] = Field(exclude=True)

    async def read(self) -> str | bytes:
        """Call the function.

        Raises:
            ValueError: it failed.
        """
        try:
            result = self.fn()
            if inspect.iscoroutine(result):
                result = await result
            if isinstance(result, Resource):
                return await result.read()
            if isinstance(result, str | bytes):
                return result
            return pydantic_core.to_json(result, fallback=str, indent=2).decode()
        except Exception as error:
            raise ValueError(f"Error reading resource {self.uri}: {error}") from error

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., Any],
        uri: str,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        icons: list[Icon] | None = None,
        annotations: Annotations | None = None,
        meta: dict[str, Any] | None = None,
    ) -> FunctionResource:
        """Return the resource of a function.

        Raises:
            ValueError: it has no name.
        """
        named = name or fn.__name__
        if named == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        return cls(
            uri=AnyUrl(uri),
            name=named,
            title=title,
            description=description or fn.__doc__ or "",
            mime_type=mime_type or "text/plain",
            fn=validate_call(fn),
            icons=icons,
            annotations=annotations,
            meta=meta,
        )


class FileResource(Resource):
    """Resource with the contents of a file. It is binary if its MIME type is not textual."""

    path: Path
    is_binary: bool = False

    @field_validator("path")
    @classmethod
    def _check_path(cls, path: Path) -> Path:
        if not path.is_absolute():
            raise ValueError("Path must be absolute")
        return path

    @model_validator(mode="after")
    def _set_binary(self) -> FileResource:
        self.is_binary = self.is_binary or not self.mime_type.startswith("text/")
        return self

    async def read(self) -> str | bytes:
        """Read the file.

        Raises:
            ValueError: it cannot be read.
        """
        try:
            return await asyncio.to_thread(self.path.read_bytes if self.is_binary else self.path.read_text)
        except Exception as error:
            raise ValueError(f"Error reading file {self.path}: {error}") from error


class HttpResource(Resource):
    """Resource whose contents are fetched from a URL."""

    url: str
    mime_type: str = "application/json"

    async def read(self) -> str | bytes:
        """Fetch the URL."""
        import httpx  # type: ignore[import-not-found,unused-ignore]

        async with httpx.AsyncClient() as client:
            response = await client.get(self.url)
            response.raise_for_status()
            text: str = response.text
            return text


class DirectoryResource(Resource):
    """Resource whose contents are the names of the files in a folder, as JSON."""

    path: Path
    recursive: bool = False
    pattern: str | None = None
    mime_type: str = "application/json"

    @field_validator("path")
    @classmethod
    def _check_path(cls, path: Path) -> Path:
        if not path.is_absolute():
            raise ValueError("Path must be absolute")
        return path

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
            ValueError: the folder cannot be read.
        """
        try:
            files = await asyncio.to_thread(self.list_files)
            return json.dumps(
                {"files": [str(file.relative_to(self.path)) for file in files if file.is_file()]}, indent=2
            )
        except Exception as error:
            raise ValueError(f"Error reading directory {self.path}: {error}") from error
