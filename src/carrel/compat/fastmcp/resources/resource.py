"""Resource: what clients read, and its contents."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import pydantic_core
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from carrel.compat.fastmcp.decorators import DecoratedResource, ResourceMeta, marked
from carrel.compat.fastmcp.utilities.components import FastMCPComponent, read_model
from carrel.compat.fastmcp.utilities.functions import Callee
from carrel.compat.fastmcp.utilities.tasks import TaskConfig
from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp.types import BlobResourceContents, ReadResourceResult, TextResourceContents
from carrel.compat.mcp.types import Resource as MCPResource
from carrel.compat.mcp.types.base import Annotations, Uri

__all__ = [
    "PLAIN",
    "DecoratedResource",
    "FunctionResource",
    "Resource",
    "ResourceContent",
    "ResourceResult",
    "resource",
    "result_of",
]

PLAIN = "text/plain"


class ResourceContent(BaseModel):
    """Text, bytes, or anything else, which becomes JSON."""

    model_config = ConfigDict(ser_json_bytes="base64")

    content: str | bytes
    mime_type: str | None = None
    meta: dict[str, Any] | None = None

    def __init__(self, content: Any, mime_type: str | None = None, meta: dict[str, Any] | None = None) -> None:
        usual = PLAIN if isinstance(content, str) else "application/octet-stream"
        if not isinstance(content, str | bytes):
            content, usual = pydantic_core.to_json(content, fallback=str).decode(), "application/json"
        super().__init__(content=content, mime_type=mime_type or usual, meta=meta)

    def to_mcp_resource_contents(self, uri: Any) -> TextResourceContents | BlobResourceContents:
        """Return the contents in the terms of the protocol."""
        details: dict[str, Any] = {"uri": uri, "mimeType": self.mime_type}
        if self.meta is not None:
            details["_meta"] = self.meta
        if isinstance(self.content, str):
            return TextResourceContents(text=self.content, **details)
        return BlobResourceContents(blob=base64.b64encode(self.content).decode(), **details)


class ResourceResult(BaseModel):
    """Contents of a resource, and ``_meta``.

    Raises:
        TypeError: the contents are neither text, bytes nor a list of ``ResourceContent``.
    """

    model_config = ConfigDict(ser_json_bytes="base64")

    contents: list[ResourceContent]
    meta: dict[str, Any] | None = None

    def __init__(self, contents: Any, meta: dict[str, Any] | None = None) -> None:
        if isinstance(contents, str | bytes):
            contents = [ResourceContent(contents)]
        if not isinstance(contents, list):
            raise TypeError(f"contents must be str, bytes, or list[ResourceContent], got {type(contents).__name__}")
        for index, each in enumerate(contents):
            if not isinstance(each, ResourceContent):
                raise TypeError(
                    f"contents[{index}] must be ResourceContent, got {type(each).__name__}. "
                    f"Use ResourceContent({each!r}) to wrap the value."
                )
        super().__init__(contents=contents, meta=meta)

    def to_mcp_result(self, uri: Any) -> ReadResourceResult:
        """Return the result in the terms of the protocol."""
        details: dict[str, Any] = {} if self.meta is None else {"_meta": self.meta}
        return ReadResourceResult(contents=[each.to_mcp_resource_contents(uri) for each in self.contents], **details)


def result_of(value: Any, mime_type: str, meta: dict[str, Any] | None) -> ResourceResult:
    """Convert the return value of a resource's function to a result."""
    if isinstance(value, ResourceResult):
        return value
    if isinstance(value, str | bytes):
        return ResourceResult([ResourceContent(value, mime_type, meta)])
    if isinstance(value, list) and value and all(isinstance(each, ResourceContent) for each in value):
        return ResourceResult(value)
    plain = fastmcp_generation() > 2 and (value is None or isinstance(value, dict | list | tuple | int | float))
    text = json.dumps(value) if plain else pydantic_core.to_json(value, fallback=str).decode()
    return ResourceResult([ResourceContent(text, mime_type, meta)])


class Resource(FastMCPComponent):
    """Resource that clients read. Subclasses have ``read``. Without a name, that is the URI."""

    KEY_PREFIX: ClassVar[str] = "resource"

    uri: Uri
    name: str = ""
    mime_type: str = Field(default=PLAIN, validate_default=True)
    annotations: Annotated[Annotations | None, BeforeValidator(read_model)] = None

    @field_validator("mime_type", mode="before")
    @classmethod
    def _read_mime_type(cls, given: str | None) -> str:
        return given or PLAIN

    @model_validator(mode="after")
    def _set_name(self) -> Resource:
        self.name = self.name or str(self.uri)
        return self

    @property
    def identifier(self) -> str:
        """The URI."""
        return str(self.uri)

    @classmethod
    def from_function(cls, fn: Callable[..., Any], uri: Any, **details: Any) -> FunctionResource:
        """Return the resource of a function."""
        return FunctionResource.from_function(fn, uri, **details)

    async def read(self) -> Any:
        """Return the contents."""
        raise NotImplementedError("Subclasses must implement read()")

    async def read_result(self) -> ResourceResult:
        """Return the contents as a result."""
        return result_of(await self.read(), self.mime_type, self.meta)

    def to_mcp_resource(self, **changes: Any) -> MCPResource:
        """Return the resource as it is listed."""
        fields: dict[str, Any] = {
            "uri": self.uri,
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "mimeType": self.mime_type,
            "icons": self.icons,
            "annotations": self.annotations,
            "_meta": self.get_meta(),
        }
        return MCPResource(**{**fields, **changes})


class FunctionResource(Resource):
    """Resource of a function, which is called for each read."""

    fn: Callable[..., Any] = Field(exclude=True)
    callee: Any = Field(default=None, exclude=True)

    def model_post_init(self, context: Any, /) -> None:
        """Take the function as it was given, if there is no more about it."""
        super().model_post_init(context)
        self.callee = self.callee or Callee(self.fn)

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., Any],
        uri: Any,
        *,
        name: str | None = None,
        description: str | None = None,
        task: Any = None,
        **details: Any,
    ) -> FunctionResource:
        """Return the resource of a function.

        Raises:
            ValueError: it has no name.
        """
        callee = Callee(fn)
        mode = TaskConfig.of(task)
        mode.validate_function(callee.function, name or callee.name)
        if (name or callee.name) == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        return cls(
            fn=callee.function,
            callee=callee,
            uri=uri,
            name=name or callee.name,
            description=callee.docs if description is None else description,
            task_config=mode,
            **details,
        )

    async def read(self) -> Any:
        """Call the function."""
        found = await self.callee.call({})
        return await found.read() if isinstance(found, Resource) else found


def resource(uri: str, **details: Any) -> Any:
    """Mark the decorated function as a resource or template, for ``add_resource``.

    Raises:
        TypeError: there is no URI.
    """
    if not isinstance(uri, str):
        raise TypeError(
            "The @resource decorator was used incorrectly. "
            "It requires a URI as the first argument. Use @resource('uri') instead of @resource"
        )
    return lambda function: marked(function, ResourceMeta(uri=uri, **details))
