"""SSRF protection: a DNS resolver and a connector that allow only public IP addresses.

A URL from an untrusted source must not lead to machines of the internal network, for any host name and
any address that it currently resolves to (DNS rebinding). So a name is resolved once, its addresses are checked, and
the connection goes to exactly those.

https://cheatsheetseries.owasp.org/cheatsheets/Server_Side_Request_Forgery_Prevention_Cheat_Sheet.html
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiohttp import TCPConnector
    from aiohttp.abc import AbstractResolver, ResolveResult
else:  # authorization imports this module even if no request is ever made
    AbstractResolver = object

__all__ = ["PublicResolver", "is_loopback", "is_public", "plain", "public_connector", "read_address"]

#: Non-public IPv4 networks: https://www.iana.org/assignments/iana-ipv4-special-registry, and 168.63.129.16, at which
#: a machine in Azure finds its own metadata. Written out, because ``is_global`` differs between Python versions.
INSIDE_IPV4 = tuple(
    map(
        ip_network,
        [
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "168.63.129.16/32",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/3",
        ],
    )
)
#: IPv6 global unicast: the rest is unassigned, or embeds IPv4 addresses (mapped, NAT64).
GLOBAL_IPV6 = ip_network("2000::/3")
#: IPv6 networks within it that are not public: Teredo and the like, documentation, and 6to4, which embeds IPv4.
INSIDE_IPV6 = tuple(map(ip_network, ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"]))


def is_public(address: str | IPv4Address | IPv6Address) -> bool:
    """Return whether an address is on the public Internet and embeds no other address.

    Raises:
        ValueError: it is not an address.
    """
    if isinstance(address, str):
        address = ip_address(address.partition("%")[0])
    if isinstance(address, IPv4Address):
        return not any(address in network for network in INSIDE_IPV4)
    return address in GLOBAL_IPV6 and not any(address in network for network in INSIDE_IPV6)


def is_loopback(host: str) -> bool:
    """Return whether the host of a URL is localhost or a loopback address. Names are not resolved."""
    if host.lower().removesuffix(".") == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_address(host: str) -> IPv4Address | IPv6Address | None:
    """Parse the host of a URL as an IP address; return None if it is a name.

    Non-standard notations that some resolvers accept (2130706433, 0x7f.1, 017700000001) are not names either: they
    count as 0.0.0.0, which is not public.
    """
    host = host.strip("[]").rstrip(".")
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return IPv4Address(0) if all(label[:1].isdigit() for label in host.split(".")) else None


class PublicResolver(AbstractResolver):
    """DNS resolver that returns only public addresses, except for ``allowed`` hosts.

    Addresses that are not public are left out. It is called once per connection, so the addresses it has checked are
    those connected to. Hosts that are IP addresses never get here; see ``public_connector``.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self.allowed = {plain(host) for host in allowed}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Resolve a host to its addresses.

        Raises:
            OSError: the host has no addresses, or no public address.
        """
        loop = asyncio.get_running_loop()
        found: list[ResolveResult] = []
        anything = plain(host) in self.allowed
        for kind, _, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family):
            numeric = str(address[0])
            if anything or is_public(numeric):
                found.append(
                    {
                        "hostname": host,
                        "host": numeric,
                        "port": int(address[1]),
                        "family": kind,
                        "proto": protocol,
                        "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                    }
                )
        if not found:
            raise inside(host)
        return found

    async def close(self) -> None:
        """Do nothing: there are no resources to release."""


def public_connector(allowed: Iterable[str] = (), *, proxies: bool = True, **options: Any) -> TCPConnector:
    """Return an ``aiohttp`` connector that connects only to public addresses and to ``allowed`` hosts.

    Hosts are checked whenever a request needs a connection, both literal addresses and the addresses that names resolve
    to. With ``proxies``, the proxies of the environment may have any address; behind a proxy, names are resolved by the
    proxy and not checked here. ``options`` are passed to ``aiohttp.TCPConnector``. The connector belongs to the running
    event loop.
    """
    import aiohttp

    hosts = frozenset(map(plain, allowed))

    class PublicConnector(aiohttp.TCPConnector):
        async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:
            host = plain(req.url.raw_host or "")
            address = read_address(host)
            if host not in hosts and address is not None and not is_public(address):
                raise inside(host)
            return await super().connect(req, traces, timeout)

    anywhere = {*hosts, *proxy_hosts()} if proxies else hosts
    return PublicConnector(resolver=PublicResolver(anywhere), **options)


def plain(host: str) -> str:
    """Normalize a host for comparison."""
    return host.lower().strip("[]").rstrip(".")


def inside(host: str) -> OSError:
    return OSError(errno.EACCES, f"{host[:200]} is not an address of the public Internet")


def proxy_hosts() -> set[str]:
    """Return the hosts of all proxies configured in the environment."""
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    hosts: set[str] = set()
    for name, url in getproxies().items():
        if name != "no":
            try:
                hosts.add(urlsplit(url if "://" in url else f"http://{url}").hostname or "")
            except ValueError:
                continue  # the error is raised where the proxy is used
    return hosts - {""}
