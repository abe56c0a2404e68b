"""Resource template: a function for the resources whose URIs match."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from types import UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

from pydantic import BeforeValidator, Field, field_validator

from carrel.compat.fastmcp.resources.resource import PLAIN, FunctionResource, Resource, ResourceResult, result_of
from carrel.compat.fastmcp.resources.uri_templates import (
    EXPRESSION,
    build_regex,
    expand_uri_template,
    is_path_variable,
    match_uri_template,
    path_of,
    query_variables,
)
from carrel.compat.fastmcp.utilities.components import FastMCPComponent, read_model
from carrel.compat.fastmcp.utilities.functions import Callee
from carrel.compat.fastmcp.utilities.tasks import TaskConfig
from carrel.compat.mcp.types import ResourceTemplate as MCPResourceTemplate
from carrel.compat.mcp.types.base import Annotations

__all__ = [
    "FunctionResourceTemplate",
    "ResourceTemplate",
    "build_regex",
    "expand_uri_template",
    "match_uri_template",
    "query_variables",
]

TRUE = ("true", "1", "yes")
FALSE = ("false", "0", "no")


class ResourceTemplate(FastMCPComponent):
    """Template whose variables are in the path (``{name}``, or ``{name*}`` with slashes) or query (``{?a,b}``)."""

    KEY_PREFIX: ClassVar[str] = "template"

    uri_template: str
    mime_type: str = Field(default=PLAIN, validate_default=True)
    parameters: dict[str, Any]
    annotations: Annotated[Annotations | None, BeforeValidator(read_model)] = None
    security: Any = Field(default=None, exclude=True)

    @field_validator("mime_type", mode="before")
    @classmethod
    def _read_mime_type(cls, given: str | None) -> str:
        return given or PLAIN

    @property
    def identifier(self) -> str:
        """The template."""
        return self.uri_template

    @staticmethod
    def from_function(fn: Callable[..., Any], uri_template: str, **details: Any) -> FunctionResourceTemplate:
        """Return the template of a function."""
        return FunctionResourceTemplate.from_function(fn, uri_template, **details)

    def _list_variables(self) -> set[str]:
        """Return the query variables whose value is a list with commas."""
        return set()

    def matches(self, uri: str) -> dict[str, Any] | None:
        """Return the variables of a URI; None if it does not match."""
        return match_uri_template(uri, self.uri_template, list_params=self._list_variables() if "?" in uri else ())

    async def read(self, arguments: dict[str, Any]) -> Any:
        """Return the contents for values of the variables."""
        raise NotImplementedError("Subclasses must implement read()")

    async def read_result(self, arguments: dict[str, Any]) -> ResourceResult:
        """Return the contents as a result."""
        return result_of(await self.read(arguments), self.mime_type, self.meta)

    async def create_resource(self, uri: str, params: dict[str, Any]) -> Resource:
        """Return the resource of a URI."""

        async def read() -> Any:
            return await self.read(params)

        return FunctionResource.from_function(
            read, uri, name=self.name, description=self.description, mime_type=self.mime_type, tags=self.tags
        )

    def to_mcp_template(self, **changes: Any) -> MCPResourceTemplate:
        """Return the template as it is listed."""
        fields: dict[str, Any] = {
            "uriTemplate": self.uri_template,
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "mimeType": self.mime_type,
            "icons": self.icons,
            "annotations": self.annotations,
            "_meta": self.get_meta(),
        }
        return MCPResourceTemplate(**{**fields, **changes})


class FunctionResourceTemplate(ResourceTemplate):
    """Template of a function, whose parameters are the variables."""

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
        uri_template: str,
        name: str | None = None,
        description: str | None = None,
        task: Any = None,
        **details: Any,
    ) -> FunctionResourceTemplate:
        """Return the template of a function.

        Raises:
            ValueError: its parameters are not the variables of the template.
        """
        callee = Callee(fn)
        mode = TaskConfig.of(task)
        mode.validate_function(callee.function, name or callee.name)
        if (name or callee.name) == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        _check_variables(callee, uri_template)
        return cls(
            fn=callee.function,
            callee=callee,
            uri_template=uri_template,
            name=name or callee.name,
            description=callee.docs if description is None else description,
            task_config=mode,
            parameters=callee.schema(),
            **details,
        )

    @cached_property
    def _lists(self) -> set[str]:
        hints = self.callee.hints
        variables = query_variables(self.uri_template).items()
        return {
            name
            for name, repeated in variables
            if not repeated and takes_lists(hints.get(name.replace("-", "_"), str), alone=True)
        }

    def _list_variables(self) -> set[str]:
        return self._lists

    async def read(self, arguments: dict[str, Any]) -> Any:
        """Call the function with values of the variables, which are converted to its annotations."""
        hints = self.callee.hints
        given = {name: _converted(name, each, hints.get(name)) for name, each in arguments.items()}
        found = await self.callee.call(self.callee.adapter.validate_python(given))
        return await found.read() if isinstance(found, Resource) else found


def _converted(name: str, value: Any, kind: Any) -> Any:
    """Return the value of a variable for a parameter.

    Raises:
        ValueError: the parameter is an int, float or bool, and the value is none.
    """
    if not isinstance(value, str) or kind not in (int, float, bool):
        return value
    if kind is not bool:
        return kind(value)
    if value.lower() not in TRUE + FALSE:
        raise ValueError(f"Invalid boolean value for {name}: {value!r}")
    return value.lower() in TRUE


def takes_lists(annotation: Any, *, alone: bool = False) -> bool:
    """Return whether a parameter takes lists; if ``alone``, whether it takes nothing else but None."""
    if annotation in (Any, object, inspect.Parameter.empty):
        return not alone
    origin = get_origin(annotation) or annotation
    if origin is Annotated:
        return takes_lists(get_args(annotation)[0], alone=alone)
    if origin in (Union, UnionType):
        members = [takes_lists(each, alone=alone) for each in get_args(annotation) if each is not type(None)]
        return all(members) if alone else any(members)
    return origin is list or (isinstance(annotation, str) and not alone)


def _check_variables(callee: Callee, template: str) -> None:
    """Compare the variables of a template with the parameters of its function.

    Raises:
        ValueError: they differ.
    """
    parameters = callee.parameters
    kinds = {each.kind for each in callee.signature.parameters.values()}
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        raise ValueError(
            "Functions with positional-only parameters are not supported as resource templates, "
            "whose variables are passed by name"
        )
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        raise ValueError("Functions with *args are not supported as resource templates")
    written = {part[1:-1].removesuffix("*") for part in EXPRESSION.split(path_of(template)) if is_path_variable(part)}
    known: dict[str, str] = {}
    for raw in sorted({*written, *query_variables(template)}):
        name = raw.replace("-", "_")
        if name in known:
            raise ValueError(f"URI template parameters '{known[name]}' and '{raw}' both normalize to '{name}'")
        known[name] = raw
    path = {name.replace("-", "_") for name in written}
    query = {name.replace("-", "_"): repeated for name, repeated in query_variables(template).items()}
    if not known:
        raise ValueError("URI template must contain at least one parameter")
    open_ended = inspect.Parameter.VAR_KEYWORD in kinds
    named = {name: each for name, each in parameters.items() if each.kind is not each.VAR_KEYWORD}
    required = {name for name, each in named.items() if each.default is inspect.Parameter.empty}
    wrong = query.keys() - (named.keys() - required)
    if wrong:
        raise ValueError(f"Query parameters {wrong} must be optional function parameters with default values")
    for name in sorted(name for name, repeated in query.items() if repeated):
        if not takes_lists(callee.hints.get(name, inspect.Parameter.empty)):
            raise ValueError(
                f"Query parameter '{name}' uses the RFC 6570 explode modifier, "
                f"so its function parameter must accept a list: use '{{?{name}}}' for a scalar value"
            )
    if not required <= path:
        raise ValueError(f"Required function arguments {required} must be a subset of the URI path parameters {path}")
    if not open_ended and not known.keys() <= set(parameters):
        raise ValueError(f"URI parameters {set(known)} must be a subset of the function arguments: {set(parameters)}")
