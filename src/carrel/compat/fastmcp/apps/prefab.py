"""Apps of Prefab: tools that return components of the package ``prefab_ui``, and the page that renders them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from carrel.compat.fastmcp.apps.config import UI_MIME_TYPE
from carrel.compat.fastmcp.decorators import get_fastmcp_meta
from carrel.compat.fastmcp.resources.types import TextResource
from carrel.compat.fastmcp.server.providers.addressing import (
    hash_tool,
    hashed_backend_name,
    parse_hashed_backend_name,
    tool_app,
    tool_identity,
)
from carrel.compat.generation import fastmcp_generation

__all__ = ["PLACEHOLDER", "addresses", "prefab_types", "readdress", "renderers", "rendering", "with_renderer"]

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


def rendering(value: Any, app_name: str | None = None) -> dict[str, Any] | None:
    """Return the structured content of an app or component, or None for other values.

    Calls of the app's tools have the address of the tool. From version 4 on, ``_meta`` keeps the addresses when servers
    rename tools.
    """
    types = prefab_types()
    if not isinstance(value, types):
        return None
    app = value if isinstance(value, types[0]) else types[0](view=value)
    content: dict[str, Any] = app.to_json(tool_resolver=_resolver(app_name))
    names = {call["tool"]: call["tool"] for call in _calls(content) if parse_hashed_backend_name(call["tool"])}
    if names and fastmcp_generation() > 3:
        _write_addresses(content, {**addresses(content), **names})
    return content


def _resolver(app_name: str | None) -> Callable[[Any], Any]:
    """Return the function that gives a tool its address: the tool's name, or its function."""

    def resolve(tool: Any) -> Any:
        from prefab_ui.app import ResolvedTool

        name = tool if isinstance(tool, str) else getattr(get_fastmcp_meta(tool), "name", None)
        name = name or getattr(tool, "__name__", None)
        if name is None:
            raise ValueError(f"Cannot resolve tool reference: {tool!r}")
        known = not app_name or parse_hashed_backend_name(name)
        return ResolvedTool(name=name if known else hashed_backend_name(str(app_name), name))

    return resolve


def _calls(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the actions that call a tool."""
    if isinstance(value, dict):
        if value.get("action") == "toolCall" and isinstance(value.get("tool"), str):
            yield value
        for each in value.values():
            yield from _calls(each)
    elif isinstance(value, list):
        for each in value:
            yield from _calls(each)


def addresses(content: Any) -> dict[str, str]:
    """Return the addresses of the tools that an app calls, by the names that the content has for the tools."""
    found: Any = content
    for key in ("_meta", "fastmcp", "toolNames"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _write_addresses(content: dict[str, Any], names: dict[str, str]) -> None:
    content.setdefault("_meta", {}).setdefault("fastmcp", {})["toolNames"] = names


def readdress(content: dict[str, Any], tools: Iterable[Any]) -> None:
    """Give the tools that an app calls the names that the server lists, or their addresses without clear names."""
    listed: dict[str | None, list[str]] = {}
    owners: dict[str, list[str | None]] = {}
    for tool in tools:
        listed.setdefault(tool_identity(tool), []).append(tool.name)
        owners.setdefault(tool.name, []).append(tool_identity(tool))
    renamed = {}
    for name, address in addresses(content).items():
        identity = (parse_hashed_backend_name(address) or ("", ""))[0]
        names = listed.get(identity, [])
        renamed[name] = names[0] if len(names) == 1 and owners[names[0]] == [identity] else address
    for call in _calls(content):
        call["tool"] = renamed.get(call["tool"], call["tool"])
    _write_addresses(content, {renamed[name]: address for name, address in addresses(content).items()})


def _declaration(tool: Any) -> dict[str, Any] | None:
    ui = (tool.meta or {}).get("ui")
    if ui is True and "prefab_ui" in sys.modules:
        return {"resourceUri": PLACEHOLDER}
    return ui if isinstance(ui, dict) and ui.get("resourceUri") == PLACEHOLDER else None


def _uri(tool: Any) -> str:
    return f"ui://prefab/tool/{tool_identity(tool) or hash_tool(tool_app(tool) or '', tool.name)}/renderer.html"


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
