"""Resource template: a function for the resources whose URIs match."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

from pydantic import BaseModel, Field, validate_call

from carrel.compat.mcp.server.fastmcp.context import find_context_parameter, inject_context
from carrel.compat.mcp.server.fastmcp.resources.base import Resource
from carrel.compat.mcp.server.fastmcp.resources.types import FunctionResource
from carrel.compat.mcp.server.fastmcp.utilities.func_metadata import func_metadata
from carrel.compat.mcp.types.base import Annotations, Icon

__all__ = ["ResourceTemplate"]


class ResourceTemplate(BaseModel):
    """Template whose variables are the parameters of a function. A variable is a part of a path: it has no slash."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None
    mime_type: str = "text/plain"
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None
    fn: Callable[..., Any] = Field(exclude=True)
    parameters: dict[str, Any]
    context_kwarg: str | None = None

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., Any],
        uri_template: str,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        icons: list[Icon] | None = None,
        annotations: Annotations | None = None,
        meta: dict[str, Any] | None = None,
        context_kwarg: str | None = None,
    ) -> ResourceTemplate:
        """Return the template of a function.

        Raises:
            ValueError: it has no name.
        """
        named = name or fn.__name__
        if named == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        parameter = context_kwarg or find_context_parameter(fn)
        metadata = func_metadata(fn, () if parameter is None else (parameter,))
        return cls(
            uri_template=uri_template,
            name=named,
            title=title,
            description=description or fn.__doc__ or "",
            mime_type=mime_type or "text/plain",
            icons=icons,
            annotations=annotations,
            meta=meta,
            fn=validate_call(fn),
            parameters=metadata.arg_model.model_json_schema(),
            context_kwarg=parameter,
        )

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.uri_template.replace("{", "(?P<").replace("}", ">[^/]+)"))

    def matches(self, uri: str) -> dict[str, Any] | None:
        """Return the variables of a URI; None if it does not match."""
        found = self._pattern.fullmatch(uri)
        return None if found is None else found.groupdict()

    async def create_resource(self, uri: str, params: dict[str, Any], context: Any = None) -> Resource:
        """Create the resource of a URI from the return value of the function.

        Raises:
            ValueError: the function failed.
        """
        try:
            result = self.fn(**inject_context(self.fn, params, context, self.context_kwarg))
            if inspect.iscoroutine(result):
                result = await result
            return FunctionResource(
                uri=uri,  # type: ignore[arg-type]
                name=self.name,
                title=self.title,
                description=self.description,
                mime_type=self.mime_type,
                icons=self.icons,
                annotations=self.annotations,
                meta=self.meta,
                fn=lambda: result,
            )
        except Exception as error:
            raise ValueError(f"Error creating resource from template: {error}") from error
