"""Resource template: a function for the resources whose URIs match."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, ClassVar
from urllib.parse import parse_qs, quote, unquote, urlencode

from pydantic import BeforeValidator, Field, field_validator

from carrel.compat.fastmcp.resources.resource import PLAIN, FunctionResource, Resource, ResourceResult, result_of
from carrel.compat.fastmcp.utilities.components import FastMCPComponent, read_model
from carrel.compat.fastmcp.utilities.functions import Callee
from carrel.compat.fastmcp.utilities.tasks import TaskConfig
from carrel.compat.mcp.types import ResourceTemplate as MCPResourceTemplate
from carrel.compat.mcp.types.base import Annotations

__all__ = ["FunctionResourceTemplate", "ResourceTemplate", "expand_uri_template"]

QUERY = re.compile(r"\{\?([^}]+)\}")
VARIABLE = re.compile(r"\{(\w+)(\*?)\}")
TRUE = ("true", "1", "yes")


def expand_uri_template(uri_template: str, params: dict[str, Any]) -> str:
    """Return the URI of values of a template's variables; query variables without a value are left out."""

    def query(found: re.Match[str]) -> str:
        names = [name.strip() for name in found.group(1).split(",")]
        given = urlencode({name: params[name] for name in names if name in params})
        return f"?{given}" if given else ""

    def variable(found: re.Match[str]) -> str:
        name, star = found.groups()
        return quote(str(params[name]), safe="/" if star else "") if name in params else found.group()

    return VARIABLE.sub(variable, QUERY.sub(query, uri_template))


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

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = VARIABLE.split(QUERY.sub("", self.uri_template))
        texts, names, stars = parts[::3], parts[1::3], parts[2::3]
        found = re.escape(texts[0])
        for name, star, text in zip(names, stars, texts[1:], strict=True):
            found += f"(?P<{name}>{'.+' if star else '[^/]+'})" + re.escape(text)
        return re.compile(found)

    def matches(self, uri: str) -> dict[str, Any] | None:
        """Return the variables of a URI; None if it does not match."""
        path, _, query = uri.partition("?")
        found = self._pattern.fullmatch(path)
        if found is None:
            return None
        values = {name: unquote(value) for name, value in found.groupdict().items()}
        wanted = QUERY.search(self.uri_template)
        given = parse_qs(query)
        for name in () if wanted is None else wanted.group(1).split(","):
            if name.strip() in given:
                values[name.strip()] = given[name.strip()][0]
        return values

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

    async def read(self, arguments: dict[str, Any]) -> Any:
        """Call the function with values of the variables, which are converted to int, float or bool where it wants."""
        hints = self.callee.hints
        found = await self.callee.call({name: _converted(each, hints.get(name)) for name, each in arguments.items()})
        return await found.read() if isinstance(found, Resource) else found


def _converted(value: Any, kind: Any) -> Any:
    if kind is bool:
        return str(value).lower() in TRUE
    if kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            return value
    return value


def _check_variables(callee: Callee, template: str) -> None:
    path = {name for name, _ in VARIABLE.findall(QUERY.sub("", template))}
    found = QUERY.search(template)
    query = {name.strip() for name in found.group(1).split(",")} if found else set()
    if not path | query:
        raise ValueError("URI template must contain at least one parameter")
    parameters = callee.parameters
    if any(each.kind is each.VAR_POSITIONAL for each in parameters.values()):
        raise ValueError("Functions with *args are not supported as resource templates")
    open_ended = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    required = {
        name
        for name, each in parameters.items()
        if each.default is inspect.Parameter.empty and each.kind is not each.VAR_KEYWORD
    }
    if query & required:
        raise ValueError(
            f"Query parameters {query & required} must be optional function parameters with default values"
        )
    if not required <= path:
        raise ValueError(f"Required function arguments {required} must be a subset of the URI path parameters {path}")
    if not open_ended and not path | query <= set(parameters):
        raise ValueError(f"URI parameters {path | query} must be a subset of the function arguments: {set(parameters)}")
