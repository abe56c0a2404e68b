"""HTTP proxy of a URL, from the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY).

The proxy is set per request rather than with aiohttp's ``trust_env``, which would also send user names and passwords
of ~/.netrc to any server that a document names.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from carrel.transports.addresses import is_loopback

__all__ = ["find_proxy"]


def find_proxy(url: str) -> str | None:
    """Return the URL of the proxy for ``url``; None if there is none. Loopback hosts have none."""
    from urllib.request import getproxies, proxy_bypass  # slow to import, so only on first use

    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host):
        return None
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found or proxy_bypass(host):
        return None
    return found if "://" in found else f"http://{found}"
