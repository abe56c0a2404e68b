"""Transform that replaces lists, and can still read the original lists."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from carrel.compat.fastmcp.server.transforms.transform import Transform
from carrel.compat.fastmcp.utilities.versions import dedupe_with_versions

__all__ = ["CatalogTransform"]


class CatalogTransform(Transform):
    """Transform whose subclasses replace lists (``transform_tools``) and read the originals (``get_tool_catalog``)."""

    def __init__(self) -> None:
        self._bypass: ContextVar[bool] = ContextVar("bypass", default=False)

    async def _change(self, kind: str, components: Sequence[Any]) -> Any:
        return components if self._bypass.get() else await getattr(self, f"transform_{kind}")(components)

    async def list_tools(self, tools: Sequence[Any], /) -> Sequence[Any]:
        """Return the tools after the change."""
        return await self._change("tools", tools)  # type: ignore[no-any-return]

    async def list_resources(self, resources: Sequence[Any], /) -> Sequence[Any]:
        """Return the resources after the change."""
        return await self._change("resources", resources)  # type: ignore[no-any-return]

    async def list_resource_templates(self, templates: Sequence[Any], /) -> Sequence[Any]:
        """Return the resource templates after the change."""
        return await self._change("resource_templates", templates)  # type: ignore[no-any-return]

    async def list_prompts(self, prompts: Sequence[Any], /) -> Sequence[Any]:
        """Return the prompts after the change."""
        return await self._change("prompts", prompts)  # type: ignore[no-any-return]

    async def transform_tools(self, tools: Sequence[Any]) -> Sequence[Any]:
        """Return the tools after the change."""
        return tools

    async def transform_resources(self, resources: Sequence[Any]) -> Sequence[Any]:
        """Return the resources after the change."""
        return resources

    async def transform_resource_templates(self, templates: Sequence[Any]) -> Sequence[Any]:
        """Return the resource templates after the change."""
        return templates

    async def transform_prompts(self, prompts: Sequence[Any]) -> Sequence[Any]:
        """Return the prompts after the change."""
        return prompts

    async def _catalog(self, method: str, context: Any, run_middleware: bool) -> Any:
        token = self._bypass.set(True)
        try:
            return await getattr(context.fastmcp, method)(run_middleware=run_middleware)
        finally:
            self._bypass.reset(token)

    async def get_tool_catalog(self, ctx: Any, *, run_middleware: bool = True) -> Sequence[Any]:
        """Return the tools before the change, in their newest versions."""
        return dedupe_with_versions(await self._catalog("list_tools", ctx, run_middleware), lambda each: each.name)

    async def get_resource_catalog(self, ctx: Any, *, run_middleware: bool = True) -> Sequence[Any]:
        """Return the resources before the change."""
        return await self._catalog("list_resources", ctx, run_middleware)  # type: ignore[no-any-return]

    async def get_resource_template_catalog(self, ctx: Any, *, run_middleware: bool = True) -> Sequence[Any]:
        """Return the resource templates before the change."""
        return await self._catalog("list_resource_templates", ctx, run_middleware)  # type: ignore[no-any-return]

    async def get_prompt_catalog(self, ctx: Any, *, run_middleware: bool = True) -> Sequence[Any]:
        """Return the prompts before the change."""
        return await self._catalog("list_prompts", ctx, run_middleware)  # type: ignore[no-any-return]
