"""Middleware that puts definitions of schemas in the place of references to them."""

from __future__ import annotations

from typing import Any

from carrel.compat.fastmcp.server.middleware.middleware import Middleware
from carrel.compat.fastmcp.utilities.json_schema import dereference_refs

__all__ = ["DereferenceRefsMiddleware"]


class DereferenceRefsMiddleware(Middleware):
    """Middleware that changes the schemas of listed tools and templates. Servers do so without it too."""

    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        """Handle a list of tools."""
        found = []
        for tool in await call_next(context):
            changes = {"parameters": dereference_refs(tool.parameters)}
            if tool.output_schema is not None:
                changes["output_schema"] = dereference_refs(tool.output_schema)
            found.append(tool.model_copy(update=changes))
        return found

    async def on_list_resource_templates(self, context: Any, call_next: Any) -> Any:
        """Handle a list of resource templates."""
        found = await call_next(context)
        return [each.model_copy(update={"parameters": dereference_refs(each.parameters)}) for each in found]
