"""Transform: changes lists of components, and finds single components under the changed names."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from carrel.compat.fastmcp.utilities.versions import VersionSpec

__all__ = [
    "KINDS",
    "ComponentTransform",
    "GetPromptNext",
    "GetResourceNext",
    "GetResourceTemplateNext",
    "GetToolNext",
    "Transform",
]

KINDS = ("tool", "resource", "resource_template", "prompt")


class GetToolNext(Protocol):
    """Type of ``call_next``: finds a component in the next transform or in the provider."""

    def __call__(self, name: str, *, version: VersionSpec | None = None) -> Awaitable[Any]: ...


GetResourceNext = GetResourceTemplateNext = GetPromptNext = GetToolNext


class Transform:
    """Base class of transforms, which changes nothing."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    async def list_tools(self, tools: Sequence[Any], /) -> Sequence[Any]:
        """Return the tools after the change."""
        return tools

    async def list_resources(self, resources: Sequence[Any], /) -> Sequence[Any]:
        """Return the resources after the change."""
        return resources

    async def list_resource_templates(self, templates: Sequence[Any], /) -> Sequence[Any]:
        """Return the resource templates after the change."""
        return templates

    async def list_prompts(self, prompts: Sequence[Any], /) -> Sequence[Any]:
        """Return the prompts after the change."""
        return prompts

    async def get_tool(self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None) -> Any:
        """Return the tool that has a name after the change, or None."""
        return await call_next(name, version=version)

    async def get_resource(self, uri: str, call_next: GetToolNext, *, version: VersionSpec | None = None) -> Any:
        """Return the resource that has a URI after the change, or None."""
        return await call_next(uri, version=version)

    async def get_resource_template(
        self, uri: str, call_next: GetToolNext, *, version: VersionSpec | None = None
    ) -> Any:
        """Return the resource template that matches a URI after the change, or None."""
        return await call_next(uri, version=version)

    async def get_prompt(self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None) -> Any:
        """Return the prompt that has a name after the change, or None."""
        return await call_next(name, version=version)


class ComponentTransform(Transform):
    """Transform that changes components of all kinds alike: ``change`` and ``original`` are to be overridden."""

    def change(self, component: Any) -> Any:
        """Return a component after the change, or None to hide it."""
        return component

    def original(self, identifier: str, kind: str) -> str | None:
        """Return the name or URI before the change, or None if nothing has this one after the change."""
        return identifier

    def versions(self, version: VersionSpec | None) -> VersionSpec | None:
        """Return the versions to look for."""
        return version

    async def _list(self, components: Sequence[Any], /) -> Sequence[Any]:
        changed = (self.change(each) for each in components)
        return [each for each in changed if each is not None]

    async def _get(self, kind: str, identifier: str, call_next: GetToolNext, version: VersionSpec | None) -> Any:
        original = self.original(identifier, kind)
        found = None if original is None else await call_next(original, version=self.versions(version))
        return None if found is None else self.change(found)

    list_tools = list_resources = list_resource_templates = list_prompts = _list

    async def get_tool(self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None) -> Any:
        """Return the tool that has a name after the change, or None."""
        return await self._get("tool", name, call_next, version)

    async def get_resource(self, uri: str, call_next: GetToolNext, *, version: VersionSpec | None = None) -> Any:
        """Return the resource that has a URI after the change, or None."""
        return await self._get("resource", uri, call_next, version)

    async def get_resource_template(
        self, uri: str, call_next: GetToolNext, *, version: VersionSpec | None = None
    ) -> Any:
        """Return the resource template that matches a URI after the change, or None."""
        return await self._get("resource_template", uri, call_next, version)

    async def get_prompt(self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None) -> Any:
        """Return the prompt that has a name after the change, or None."""
        return await self._get("prompt", name, call_next, version)
