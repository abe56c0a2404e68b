"""Provider: a source of components, with transforms around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Self

from carrel.compat.fastmcp.server.providers.addressing import hash_tool, is_app_tool_with_identity
from carrel.compat.fastmcp.server.transforms.transform import KINDS, Transform
from carrel.compat.fastmcp.server.transforms.visibility import Visibility
from carrel.compat.fastmcp.utilities.versions import VersionSpec, version_sort_key

__all__ = ["Provider"]


def _matches(component: Any, kind: str, identifier: str) -> bool:
    if kind == "resource_template":
        return component.matches(identifier) is not None
    return bool(component.identifier == identifier)


class Provider:
    """Source of components. Subclasses override ``_list_tools`` and the like, and may override ``_get_tool``."""

    def __init__(self) -> None:
        self._transforms: list[Transform] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def transforms(self) -> list[Transform]:
        """Transforms of this provider, of which the first is innermost."""
        return list(self._transforms)

    def add_transform(self, transform: Transform) -> None:
        """Add a transform, outside of the others."""
        self._transforms.append(transform)

    def wrap_transform(self, transform: Transform) -> Provider:
        """Return a provider of the same components with one more transform."""
        wrapped = WrappedProvider(self)
        wrapped.add_transform(transform)
        return wrapped

    def required_extensions(self) -> Sequence[Any]:
        """Return the extensions that each server with the provider's components has too."""
        return ()

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Set up and tear down, with the server."""
        yield

    def enable(
        self, *, only: bool = False, names: Collection[str] | None = None, keys: Collection[str] | None = None,
        version: VersionSpec | None = None, tags: Collection[str] | None = None, components: Any = None,
    ) -> Self:  # fmt: skip
        """Show components that fit everything that is given; with ``only``, hide all others."""
        if only:
            self._transforms.append(Visibility(False, match_all=True))
        self._transforms.append(
            Visibility(True, names=names, keys=keys, version=version, tags=tags, components=components)
        )
        return self

    def disable(
        self, *, names: Collection[str] | None = None, keys: Collection[str] | None = None,
        version: VersionSpec | None = None, tags: Collection[str] | None = None, components: Any = None,
    ) -> Self:  # fmt: skip
        """Hide components that fit everything that is given."""
        self._transforms.append(
            Visibility(False, names=names, keys=keys, version=version, tags=tags, components=components)
        )
        return self

    # Lists and single components, with transforms

    async def _listed(self, kind: str) -> list[Any]:
        found: Sequence[Any] = await getattr(self, f"_list_{kind}s")()
        for transform in self._transforms:
            found = await getattr(transform, f"list_{kind}s")(found)
        return list(found)

    async def _found(self, kind: str, identifier: str, version: VersionSpec | None) -> Any:
        get: Any = getattr(self, f"_get_{kind}")
        for transform in self._transforms:
            get = partial(getattr(transform, f"get_{kind}"), call_next=get)
        return await get(identifier, version=version)

    async def list_tools(self) -> Sequence[Any]:
        """Return the tools."""
        return await self._listed("tool")

    async def list_resources(self) -> Sequence[Any]:
        """Return the resources."""
        return await self._listed("resource")

    async def list_resource_templates(self) -> Sequence[Any]:
        """Return the resource templates."""
        return await self._listed("resource_template")

    async def list_prompts(self) -> Sequence[Any]:
        """Return the prompts."""
        return await self._listed("prompt")

    async def get_tool(self, name: str, version: VersionSpec | None = None) -> Any:
        """Return the newest tool of a name, or None."""
        return await self._found("tool", name, version)

    async def get_tool_by_hash(self, tool_hash: str, tool_name: str) -> Any:
        """Return the tool of an app by its address, whatever its name is here; None if it is hidden or not unique."""
        found = [tool.name for tool in await self._listed("tool") if is_app_tool_with_identity(tool, tool_hash)]
        return await self.get_tool(found[0]) if len(found) == 1 else None

    async def get_app_tool(self, app_name: str, tool_name: str) -> Any:
        """Return a tool that an app calls, by the name that it has in the app, or None."""
        tool = await self._get_tool(tool_name)
        calls = tool is not None and is_app_tool_with_identity(tool, hash_tool(app_name, tool_name))
        return tool if calls else None

    async def get_resource(self, uri: str, version: VersionSpec | None = None) -> Any:
        """Return the newest resource of a URI, or None."""
        return await self._found("resource", uri, version)

    async def get_resource_template(self, uri: str, version: VersionSpec | None = None) -> Any:
        """Return the newest resource template that matches a URI, or None."""
        return await self._found("resource_template", uri, version)

    async def get_prompt(self, name: str, version: VersionSpec | None = None) -> Any:
        """Return the newest prompt of a name, or None."""
        return await self._found("prompt", name, version)

    async def get_tasks(self) -> Sequence[Any]:
        """Return the components whose calls may run as tasks."""
        found = [each for kind in KINDS for each in await self._listed(kind)]
        return [each for each in found if each.task_config.supports_tasks()]

    # What subclasses provide

    async def _list_tools(self) -> Sequence[Any]:
        return []

    async def _list_resources(self) -> Sequence[Any]:
        return []

    async def _list_resource_templates(self) -> Sequence[Any]:
        return []

    async def _list_prompts(self) -> Sequence[Any]:
        return []

    async def _newest(self, kind: str, identifier: str, version: VersionSpec | None) -> Any:
        found = [
            each
            for each in await getattr(self, f"_list_{kind}s")()
            if _matches(each, kind, identifier) and (version is None or version.matches(each.version))
        ]
        return max(found, key=version_sort_key, default=None)

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Any:
        return await self._newest("tool", name, version)

    async def _get_resource(self, uri: str, version: VersionSpec | None = None) -> Any:
        return await self._newest("resource", uri, version)

    async def _get_resource_template(self, uri: str, version: VersionSpec | None = None) -> Any:
        return await self._newest("resource_template", uri, version)

    async def _get_prompt(self, name: str, version: VersionSpec | None = None) -> Any:
        return await self._newest("prompt", name, version)


class WrappedProvider(Provider):
    """Provider for the components of another provider, with further transforms."""

    def __init__(self, inner: Provider) -> None:
        super().__init__()
        self._inner = inner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r}, transforms={self._transforms!r})"

    def required_extensions(self) -> Sequence[Any]:
        """Return the extensions of the other provider."""
        return self._inner.required_extensions()

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Set up and tear down the other provider."""
        async with self._inner.lifespan():
            yield

    async def _list_tools(self) -> Sequence[Any]:
        return await self._inner.list_tools()

    async def _list_resources(self) -> Sequence[Any]:
        return await self._inner.list_resources()

    async def _list_resource_templates(self) -> Sequence[Any]:
        return await self._inner.list_resource_templates()

    async def _list_prompts(self) -> Sequence[Any]:
        return await self._inner.list_prompts()

    async def _newest(self, kind: str, identifier: str, version: VersionSpec | None) -> Any:
        return await getattr(self._inner, f"get_{kind}")(identifier, version)
