"""Provider of the components of another server: calls run inside of that server's middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from pydantic import Field

from carrel.compat.fastmcp.prompts.prompt import Prompt, PromptResult
from carrel.compat.fastmcp.resources.resource import Resource, ResourceResult
from carrel.compat.fastmcp.resources.template import ResourceTemplate, expand_uri_template
from carrel.compat.fastmcp.server.providers.base import Provider
from carrel.compat.fastmcp.tools.tool import Tool, ToolResult
from carrel.compat.fastmcp.utilities.components import FastMCPComponent
from carrel.compat.fastmcp.utilities.versions import VersionSpec

__all__ = [
    "FastMCPProvider",
    "FastMCPProviderPrompt",
    "FastMCPProviderResource",
    "FastMCPProviderResourceTemplate",
    "FastMCPProviderTool",
]


class Mounted(FastMCPComponent):
    """Component of another server, which calls it by its name or URI there."""

    KEY_PREFIX: ClassVar[str] = "mounted"

    server: Any = Field(exclude=True)
    inner: Any = Field(exclude=True)

    @classmethod
    def wrap(cls, server: Any, component: Any) -> Any:
        """Return the component as one of this server."""
        values = {name: getattr(component, name) for name in cls.model_fields if name in type(component).model_fields}
        values.update(meta=component.get_meta(), auth=None, server=server, inner=component)
        return cls.model_construct(**values)

    @property
    def wanted(self) -> VersionSpec | None:
        """The version of this component, to be called."""
        return VersionSpec(eq=self.version) if self.version else None


class FastMCPProviderTool(Mounted, Tool):
    """Tool of another server."""

    KEY_PREFIX: ClassVar[str] = "tool"

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call the tool in its server."""
        found: ToolResult = await self.server.call_tool(self.inner.name, arguments, version=self.wanted)
        return found


class FastMCPProviderResource(Mounted, Resource):
    """Resource of another server."""

    KEY_PREFIX: ClassVar[str] = "resource"

    async def read(self) -> ResourceResult:
        """Read the resource in its server."""
        found: ResourceResult = await self.server.read_resource(str(self.inner.uri), version=self.wanted)
        return found


class FastMCPProviderPrompt(Mounted, Prompt):
    """Prompt of another server."""

    KEY_PREFIX: ClassVar[str] = "prompt"

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """Render the prompt in its server."""
        found: PromptResult = await self.server.render_prompt(self.inner.name, arguments, version=self.wanted)
        return found


class FastMCPProviderResourceTemplate(Mounted, ResourceTemplate):
    """Resource template of another server."""

    KEY_PREFIX: ClassVar[str] = "template"

    async def read(self, arguments: dict[str, Any]) -> ResourceResult:
        """Read the resource in its server."""
        uri = expand_uri_template(self.inner.uri_template, arguments)
        found: ResourceResult = await self.server.read_resource(uri, version=self.wanted)
        return found


CLASSES: dict[str, Any] = {
    "tool": FastMCPProviderTool,
    "resource": FastMCPProviderResource,
    "resource_template": FastMCPProviderResourceTemplate,
    "prompt": FastMCPProviderPrompt,
}


class FastMCPProvider(Provider):
    """Provider of what another server shows."""

    def __init__(self, server: Any) -> None:
        super().__init__()
        self.server = server

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r})"

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Enter the lifespan of the server."""
        async with self.server._live(mounted=True):
            yield

    def required_extensions(self) -> Sequence[Any]:
        """Return the extensions of the server that belong to each server with its components."""
        found: Sequence[Any] = self.server.required_extensions()
        return found

    async def _all(self, kind: str) -> list[Any]:
        found = await getattr(self.server, f"list_{kind}s")()
        return [CLASSES[kind].wrap(self.server, each) for each in found]

    async def _list_tools(self) -> Sequence[Any]:
        return await self._all("tool")

    async def _list_resources(self) -> Sequence[Any]:
        return await self._all("resource")

    async def _list_resource_templates(self) -> Sequence[Any]:
        return await self._all("resource_template")

    async def _list_prompts(self) -> Sequence[Any]:
        return await self._all("prompt")

    async def _newest(self, kind: str, identifier: str, version: VersionSpec | None) -> Any:
        found = await getattr(self.server, f"get_{kind}")(identifier, version)
        return None if found is None else CLASSES[kind].wrap(self.server, found)
