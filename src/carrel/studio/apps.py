"""Apps of tools (MCP Apps): pages of servers, in a frame without access to the page and to other servers.

The page shows a proxy of the content origin in a frame, and the proxy shows the app in a second one. The app has an
opaque origin. Its policy allows only the origins that its metadata names, if ``ORIGIN`` matches them. Messages are
passed only between the app and the page.

https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.catalog.tool_pages import HTML
from carrel.client.extensions import ClientExtension
from carrel.errors import ResourceNotFound
from carrel.host.relayed import PAGES
from carrel.protocol.extensions.ui import UI
from carrel.studio.api import Payload
from carrel.studio.app_proxy import PROXY
from carrel.wire.apps import PageMeta, PageSecurity
from carrel.wire.resources import TextResourceContents

if TYPE_CHECKING:
    from carrel.client.requests import Requests
    from carrel.host.host import Host
    from carrel.studio.links import Links
    from carrel.wire.tools import Tool

__all__ = ["App", "AppsShown", "app_of", "open_app", "policy_of", "split"]

SCHEME = "ui://"
#: Origins that an app may use: a domain name, over TLS.
ORIGIN = re.compile(r"(https|wss)://(\*\.)?([a-z0-9-]+\.)+[a-z]{2,}(:\d{1,5})?", re.IGNORECASE)


class App(Payload, frozen=True, kw_only=True):
    """App of a tool. ``url`` opens it once, in a frame.

    ``csp`` and ``origins`` are the other origins that it may use. It also asks for the ``refused`` origins.
    """

    uri: str
    url: str
    origin: str
    csp: dict[str, Any]
    origins: Sequence[str]
    refused: Sequence[str]


class AppsShown(ClientExtension):
    """Declares that the page shows apps. Several clients share the declaration: it sends no requests."""

    protocol = UI
    settings = PAGES

    def attach(self, session: Requests) -> None:
        """Do nothing, as the extension sends no requests."""


async def open_app(host: Host, links: Links, server: str, tool: Tool) -> App:
    """Read the app of a tool, and return it with the URL of its proxy. The app can be opened once.

    Raises:
        ResourceNotFound: the tool has no app, or its contents are not a page.
        MCPError: the server returns an error, or is not available.
    """
    uri = app_of(tool)
    if uri is None:
        raise ResourceNotFound(f"The tool {tool.name} has no app")
    for contents in (await host.read_resource(server, uri)).contents:
        if (contents.mime_type or "").replace(" ", "").lower() == HTML:
            text = (
                contents.text
                if isinstance(contents, TextResourceContents)
                else contents.blob.decode("utf-8", "replace")
            )
            meta = meta_of(contents.meta)
            allowed, refused = split(meta.csp)
            url = links.add(f"{HTML};charset=utf-8", text.encode(), "app.html", policy_of(allowed, links))
            id = url.rpartition("/")[2]
            return App(
                uri=uri,
                url=f"{links.origin}{PROXY}#{id}",
                origin=links.origin,
                csp=msgspec.to_builtins(allowed),
                origins=tuple(sorted({origin for _, origins in fields(allowed) for origin in origins})),
                refused=tuple(refused),
            )
    raise ResourceNotFound(f"{uri} has no contents of type {HTML}")


def app_of(tool: Tool) -> str | None:
    """Return the URI of the app of a tool, or None."""
    meta = tool.meta or {}
    nested = meta.get("ui")
    uri = nested.get("resourceUri") if isinstance(nested, dict) else None
    uri = uri or meta.get("ui/resourceUri")
    return uri if isinstance(uri, str) and uri.startswith(SCHEME) else None


def meta_of(meta: Any) -> PageMeta:
    """Return the metadata of an app. Invalid metadata asks for nothing."""
    try:
        return msgspec.convert((meta or {}).get("ui") or {}, PageMeta)
    except msgspec.ValidationError:
        return PageMeta()


def split(asked: PageSecurity | None) -> tuple[PageSecurity, Sequence[str]]:
    """Return the origins that an app may use, and the others that it asks for."""
    refused: list[str] = []
    allowed: dict[str, list[str]] = {}
    for name, origins in fields(asked or PageSecurity()):
        allowed[name] = [origin for origin in origins if ORIGIN.fullmatch(origin)]
        refused += [origin for origin in origins if not ORIGIN.fullmatch(origin)]
    return PageSecurity(**{name: origins or None for name, origins in allowed.items()}), refused


def fields(security: PageSecurity) -> Iterable[tuple[str, Sequence[str]]]:
    """Return the kinds of origins, with the origins of each."""
    return [(name, getattr(security, name) or ()) for name in PageSecurity.__struct_fields__]


def policy_of(allowed: PageSecurity, links: Links) -> str:
    """Return the Content Security Policy of an app."""
    resources = " ".join(allowed.resource_domains or ())

    def only(origins: Sequence[str] | None) -> str:
        return " ".join(origins or ("'none'",))

    directives = {
        "sandbox": "allow-scripts",
        "default-src": "'none'",
        "script-src": f"'unsafe-inline' {resources}",
        "style-src": f"'unsafe-inline' {resources}",
        "img-src": f"data: blob: {resources}",
        "media-src": f"data: blob: {resources}",
        "font-src": f"data: {resources}",
        "connect-src": only(allowed.connect_domains),
        "frame-src": only(allowed.frame_domains),
        "base-uri": only(allowed.base_uri_domains),
        "object-src": "'none'",
        "form-action": "'none'",
        "frame-ancestors": f"{links.page_origin} {links.origin}",
    }
    return "; ".join(f"{name} {value.strip()}" for name, value in directives.items())
