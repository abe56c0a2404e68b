"""Proxy of apps: a page of the content origin that frames an app, and passes messages between the app and the page.

https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx#sandbox-proxy
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

__all__ = ["PROXY", "proxy_page"]

#: Path of the proxy on the content origin. The id of the app's link is in the fragment.
PROXY = "/app"
STYLE = "html,body,iframe{margin:0;border:0;width:100%;height:100%;display:block;overflow:hidden}"
SCRIPT = """
const frame = document.querySelector("iframe"), page = document.documentElement.dataset.page;
addEventListener("message", (event) => {
  if (event.source === parent && event.origin === page) frame.contentWindow.postMessage(event.data, "*");
  else if (event.source === frame.contentWindow) parent.postMessage(event.data, page);
});
const id = location.hash.slice(1);
if (/^[0-9a-f]{32}$/.test(id)) frame.src = "/" + id;
"""


def proxy_page(page_origin: str, origin: str) -> tuple[bytes, str]:
    """Return the proxy, and its policy: it runs one script, and frames only the content origin."""
    text = (
        f'<!doctype html><html data-page="{page_origin}"><title>App</title><style>{STYLE}</style>'
        f'<iframe sandbox="allow-scripts" referrerpolicy="no-referrer" title="App"></iframe><script>{SCRIPT}</script>'
    )
    policy = (
        f"default-src 'none'; script-src {_hash(SCRIPT)}; style-src {_hash(STYLE)}; frame-src {origin}; "
        f"base-uri 'none'; form-action 'none'; frame-ancestors {page_origin}; sandbox allow-scripts allow-same-origin"
    )
    return text.encode(), policy


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
