"""HTTP proxy of a URL, from the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY).

The proxy is set per request or session rather than with aiohttp's ``trust_env``, which would also send user names and
passwords of ~/.netrc to any server that a document names.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from carrel.errors import ConfigError
from carrel.transports.addresses import is_loopback

__all__ = ["find_proxy", "read_proxy"]


def find_proxy(url: str) -> str | None:
    """Return the URL of the environment's proxy for ``url``, or None. Loopback hosts have no proxy.

    Raises:
        ConfigError: it is not an http or https URL.
    """
    from urllib.request import getproxies, proxy_bypass  # slow to import, so only on first use

    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"):
        return None
    return read_proxy(proxy)


def read_proxy(proxy: str) -> str | None:
    """Return the URL of a proxy, which may lack its scheme; None if it is empty.

    Raises:
        ConfigError: it is not an http or https URL.
    """
    if not proxy:
        return None
    url = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ConfigError("The URL of the proxy is not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"A proxy must be http:// or https://; the configured one begins with {parts.scheme}://")
    return url
