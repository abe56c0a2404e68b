"""Apps of Prefab: tools that return components of the package ``prefab_ui``, and the page that renders them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from typing import Any

from carrel.compat.fastmcp.apps.config import UI_MIME_TYPE
from carrel.compat.fastmcp.resources.types import TextResource

__all__ = ["PLACEHOLDER", "prefab_types", "renderers", "rendering", "with_renderer"]

PLACEHOLDER = "ui://prefab/renderer.html"
"""URI of the page in the declaration of a tool. Clients get one URI for each tool."""
#: Members of a tool's declaration that belong to its page.
OF_PAGE = ("csp", "permissions", "domain", "prefersBorder")


def prefab_types() -> tuple[type[Any], ...]:
    """Return the types of apps and components of the package ``prefab_ui``, if the program has loaded it."""
    if "prefab_ui" not in sys.modules:
        return ()
    from prefab_ui.app import PrefabApp  # type: ignore[import-not-found]
    from prefab_ui.components.base import Component  # type: ignore[import-not-found]

    return PrefabApp, Component


def rendering(value: Any) -> dict[str, Any] | None:
    """Return the structured content of an app or component, or None for other values."""
    types = prefab_types()
    if not isinstance(value, types):
        return None
    app = value if isinstance(value, types[0]) else types[0](view=value)
    return dict(app.to_json())


def _declaration(tool: Any) -> dict[str, Any] | None:
    ui = (tool.meta or {}).get("ui")
    if ui is True and "prefab_ui" in sys.modules:
        return {"resourceUri": PLACEHOLDER}
    return ui if isinstance(ui, dict) and ui.get("resourceUri") == PLACEHOLDER else None


def _uri(tool: Any) -> str:
    digest = hashlib.sha256(b"\x00" + tool.name.encode()).hexdigest()[:12]
    return f"ui://prefab/tool/{digest}/renderer.html"


def with_renderer(tool: Any) -> Any:
    """Return a tool with the URI of its own page, or the tool itself if it does not return components."""
    ui = _declaration(tool)
    if ui is None:
        return tool
    kept = {key: value for key, value in ui.items() if key not in OF_PAGE}
    return tool.model_copy(update={"meta": {**(tool.meta or {}), "ui": {**kept, "resourceUri": _uri(tool)}}})


def renderers(tools: Iterable[Any]) -> list[TextResource]:
    """Return the pages of the tools that return components."""
    found = []
    for tool in tools:
        ui = _declaration(tool)
        if ui is None:
            continue
        from prefab_ui.renderer import get_renderer_csp, get_renderer_html  # type: ignore[import-not-found]

        page = {key: ui[key] for key in OF_PAGE if key in ui}
        csp = dict(page.get("csp") or {})
        for name, domains in get_renderer_csp().items():
            camel = name.replace("_domains", "Domains").replace("base_uri", "baseUri")
            csp[camel] = list(dict.fromkeys([*domains, *csp.get(camel, ())]))
        page |= {"csp": csp} if csp else {}
        details: Any = {"uri": _uri(tool), "name": f"Prefab Renderer ({tool.name})", "mime_type": UI_MIME_TYPE}
        found.append(TextResource(**details, text=get_renderer_html(), meta={"ui": page}))
    return found
