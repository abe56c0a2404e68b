"""Templates of resources, and the check of their values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field, validate_call

from carrel.compat.mcp2 import types
from carrel.compat.mcp2.server.mcpserver.exceptions import ResourceError, UnexpectedResourceError
from carrel.compat.mcp2.server.mcpserver.resources.security import (
    DEFAULT_RESOURCE_SECURITY,
    ResourceSecurity,
    ResourceSecurityError,
)
from carrel.compat.mcp2.server.mcpserver.resources.types import FunctionResource
from carrel.compat.mcp2.server.mcpserver.utilities.context_injection import find_context_parameter, inject_context
from carrel.compat.mcp2.server.mcpserver.utilities.func_metadata import func_metadata
from carrel.compat.mcp2.server.mcpserver.utilities.functions import call_function, name_of
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.shared.uri_template import UriTemplate
from carrel.compat.mcp2.types.base import InputRequired

if TYPE_CHECKING:
    from carrel.compat.mcp2.server.mcpserver.context import Context

__all__ = [
    "DEFAULT_RESOURCE_SECURITY",
    "ResourceSecurity",
    "ResourceSecurityError",
    "ResourceTemplate",
    "check_parameters",
]

#: For pydantic, which reads annotations at run time.
Icon: Any = types.Icon
Annotations: Any = types.Annotations


class ResourceTemplate(BaseModel):
    """Template of a server, whose function makes the contents."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str = "text/plain"
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None
    fn: Callable[..., Any] = Field(exclude=True)
    parameters: dict[str, Any]
    context_kwarg: str | None = None
    parsed_template: UriTemplate = Field(exclude=True)
    security: ResourceSecurity = Field(exclude=True)

    model_config = {"arbitrary_types_allowed": True, "defer_build": True}

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., Any],
        uri_template: str,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        context_kwarg: str | None = None,
        security: ResourceSecurity = DEFAULT_RESOURCE_SECURITY,
        **details: Any,
    ) -> ResourceTemplate:
        """Return the template of a function.

        Raises:
            InvalidUriTemplate: the template is malformed.
            ValueError: the function has no name.
        """
        found, parsed = name_of(fn, name), UriTemplate.parse(uri_template)
        context_kwarg = context_kwarg or find_context_parameter(fn)
        skipped = [] if context_kwarg is None else [context_kwarg]
        return cls(
            uri_template=uri_template,
            name=found,
            title=title,
            description=description or fn.__doc__ or "",
            mime_type=mime_type or "text/plain",
            fn=validate_call(fn),
            parameters=func_metadata(fn, skipped, structured_output=False).arg_model.model_json_schema(),
            context_kwarg=context_kwarg,
            parsed_template=parsed,
            security=security,
            **details,
        )

    def matches(self, uri: str) -> dict[str, str | list[str]] | None:
        """Return the values of a URI; None if it does not match.

        Raises:
            ResourceSecurityError: a value is refused.
        """
        params = self.parsed_template.match(uri)
        refused = None if params is None else self.security.validate(params)
        if refused is not None:
            raise ResourceSecurityError(self.uri_template, refused)
        return params

    async def create_resource(self, uri: str, params: dict[str, Any], context: Context[Any, Any]) -> Any:
        """Call the function, and return the resource with its result, or its questions to the client.

        Raises:
            ResourceError: the function raised it.
            UnexpectedResourceError: the function failed otherwise.
        """
        try:
            given = inject_context(self.fn, params, context, self.context_kwarg)
            result = await call_function(self.fn, given)
            if isinstance(result, InputRequired):
                return result
            details = ("name", "title", "description", "mime_type", "icons", "annotations", "meta")
            return FunctionResource(uri=uri, fn=lambda: result, **{each: getattr(self, each) for each in details})
        except (ResourceError, MCPError):
            raise
        except Exception as error:
            raise UnexpectedResourceError(f"Error creating resource from template {uri}") from error


def check_parameters(fn: Callable[..., Any], template: UriTemplate) -> None:
    """Check that a function takes the variables of a URI.

    Raises:
        ValueError: it does not.
    """
    parameters, context = inspect.signature(fn).parameters, find_context_parameter(fn)
    taken, variables = set(parameters) - {context}, set(template.variable_names)
    if variables and variables != taken:
        raise ValueError(f"Mismatch between URI parameters {variables} and function parameters {taken}")
    optional = sorted(template.query_variable_names)
    missing = [name for name in optional if parameters[name].default is inspect.Parameter.empty]
    if missing:
        raise ValueError(
            f"Resource {template.template!r}: query parameter(s) {missing} have no default value. A client may omit "
            "a {?...}/{&...} query parameter, so the matching handler parameter must declare a default."
        )
    if not variables and taken:
        raise ValueError(
            f"Resource {template.template!r} has no URI template variables, but the handler declares parameters "
            f"{taken}. Add matching {{...}} variables to the URI or remove the parameters."
        )
    if not variables and context is not None:
        raise ValueError(
            f"Resource {template.template!r} has no URI template variables, but the handler declares a Context "
            "parameter. Context injection for static resources is not supported. "
            "Add a template variable to the URI or remove the Context parameter."
        )
