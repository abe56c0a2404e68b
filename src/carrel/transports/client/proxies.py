"""Which proxy a URL is asked through: that of the environment, as everywhere.

It is said per request, and not by the ``trust_env`` of aiohttp: with that, names and passwords of ~/.netrc go to
whichever server a document has named.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from carrel.transports.addresses import is_loopback

__all__ = ["find_proxy"]


def find_proxy(url: str) -> str | None:
    """Return the URL of the proxy for ``url``; None if there is none. No proxy leads to this machine."""
    from urllib.request import getproxies, proxy_bypass  # which loads a lot, and only who asks needs it

    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host):
        return None
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found or proxy_bypass(host):
        return None
    return found if "://" in found else f"http://{found}"
