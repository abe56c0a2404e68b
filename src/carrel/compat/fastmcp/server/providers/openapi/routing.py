"""Which routes of an API become tools, resources or resource templates."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from carrel.compat.fastmcp.utilities.openapi import HttpMethod, HTTPRoute

__all__ = ["DEFAULT_ROUTE_MAPPINGS", "ComponentFn", "MCPType", "RouteMap", "RouteMapFn", "route_map_of"]


class MCPType(enum.Enum):
    """Kind of component that a route becomes."""

    TOOL = "TOOL"
    RESOURCE = "RESOURCE"
    RESOURCE_TEMPLATE = "RESOURCE_TEMPLATE"
    EXCLUDE = "EXCLUDE"


@dataclass(kw_only=True)
class RouteMap:
    """Rule for routes: method, path pattern and tags select them; it sets their kind of component and adds tags."""

    methods: list[HttpMethod] | Literal["*"] = "*"
    pattern: re.Pattern[str] | str = ".*"
    tags: set[str] = field(default_factory=set)
    mcp_type: MCPType
    mcp_tags: set[str] = field(default_factory=set)


RouteMapFn = Callable[[HTTPRoute, MCPType], MCPType | None]
ComponentFn = Callable[[HTTPRoute, Any], None]
DEFAULT_ROUTE_MAPPINGS = [RouteMap(mcp_type=MCPType.TOOL)]


def route_map_of(route: HTTPRoute, maps: Sequence[RouteMap]) -> RouteMap:
    """Return the first entry that fits a route; tools by default."""
    for each in (*maps, *DEFAULT_ROUTE_MAPPINGS):
        by_method = each.methods == "*" or route.method in each.methods
        if by_method and re.search(each.pattern, route.path) and each.tags <= set(route.tags):
            return each
    return DEFAULT_ROUTE_MAPPINGS[0]
