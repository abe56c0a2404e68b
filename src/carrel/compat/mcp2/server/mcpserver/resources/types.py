"""Kinds of resources: text, bytes, functions, files, folders and URLs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pydantic_core
from pydantic import Field, field_validator, validate_call

from carrel.compat.mcp2.server.mcpserver.resources.base import Resource
from carrel.compat.mcp2.server.mcpserver.utilities.functions import call_function, name_of
from carrel.compat.mcp2.types.base import InputRequired

__all__ = ["BinaryResource", "DirectoryResource", "FileResource", "FunctionResource", "HttpResource", "TextResource"]

#: Types besides text/* whose contents are text.
TEXTUAL = ("application/json", "application/xml")


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
            ValueError: it has questions to the client, whose answers it could not take.
        """
        result = await call_function(self.fn, {})
        if isinstance(result, InputRequired):
            raise ValueError(
                "static resources cannot return InputRequiredResult; only resource "
                "template functions participate in the multi-round-trip flow"
            )
        if isinstance(result, Resource):
            return await result.read()
        if isinstance(result, str | bytes):
            return result
        return pydantic_core.to_json(result, fallback=str, indent=2).decode()

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., Any],
        uri: str,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        **details: Any,
    ) -> FunctionResource:
        """Return the resource of a function.

        Raises:
            ValueError: it has no name.
        """
        found = name_of(fn, name)
        return cls(
            uri=uri,
            name=found,
            title=title,
            description=description or fn.__doc__ or "",
            mime_type=mime_type or "text/plain",
            fn=validate_call(fn),
            **details,
        )


def encoding_of(mime_type: str) -> str | None:
    """Return the encoding of a type: its charset, UTF-8 for text, or None for bytes."""
    kind, *parameters = (part.strip() for part in mime_type.lower().split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value:
            return value.strip().strip('"')
    text = kind.startswith("text/") or kind.endswith(("+json", "+xml")) or kind in TEXTUAL
    return "utf-8-sig" if text else None


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("Path must be absolute")
    return path


class FileResource(Resource):
    """Resource with the contents of a file: text in an encoding, or bytes if it is None."""

    path: Path
    encoding: str | None = Field(default_factory=lambda data: encoding_of(data["mime_type"]))

    @field_validator("path")
    @classmethod
    def _check_path(cls, path: Path) -> Path:
        return _absolute(path)

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, encoding: str | None) -> str | None:
        if encoding is not None:
            try:
                b"x".decode(encoding)
            except LookupError as error:
                raise ValueError(str(error)) from error
            except UnicodeError:
                pass  # the encoding exists, and has no such byte
        return encoding

    async def read(self) -> str | bytes:
        """Read the file."""
        if self.encoding is None:
            return await anyio.to_thread.run_sync(self.path.read_bytes)
        return await anyio.to_thread.run_sync(partial(self.path.read_text, encoding=self.encoding))


class HttpResource(Resource):
    """Resource with the text at a URL."""

    url: str
    mime_type: str = "application/json"

    async def read(self) -> str | bytes:
        """Request the URL."""
        import httpx2  # type: ignore[import-not-found,unused-ignore]

        async with httpx2.AsyncClient() as client:
            response = await client.get(self.url)
            response.raise_for_status()
            return str(response.text)


class DirectoryResource(Resource):
    """Resource with the names of the files in a folder, as JSON."""

    path: Path
    recursive: bool = False
    pattern: str | None = None
    mime_type: str = "application/json"

    @field_validator("path")
    @classmethod
    def _check_path(cls, path: Path) -> Path:
        return _absolute(path)

    def list_files(self) -> list[Path]:
        """Return the entries of the folder.

        Raises:
            FileNotFoundError, NotADirectoryError: it is no folder.
        """
        if not self.path.exists():
            raise FileNotFoundError(f"Directory not found: {self.path}")
        if not self.path.is_dir():
            raise NotADirectoryError(f"Not a directory: {self.path}")
        search = self.path.rglob if self.recursive else self.path.glob
        return list(search(self.pattern or "*"))

    async def read(self) -> str:
        """List the files."""
        found = await anyio.to_thread.run_sync(self.list_files)
        return json.dumps({"files": [str(each.relative_to(self.path)) for each in found if each.is_file()]}, indent=2)
