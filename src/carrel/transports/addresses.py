"""Which addresses are of the public Internet, and connections that lead to no others.

A URL that somebody else has written down must not lead to machines in here, whatever its host is called and whatever
that name stands for at the moment. So a name is resolved once, the addresses are looked at, and the connection goes
to exactly those.

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
else:  # loaded with everything that has to do with authorization, also where no request is ever made
    AbstractResolver = object

__all__ = ["PublicResolver", "is_loopback", "is_public", "public_connector", "read_address"]

#: What is not public of IPv4: https://www.iana.org/assignments/iana-ipv4-special-registry, and 168.63.129.16, at which
#: a machine in Azure finds its own metadata. Written out, because what Python counts as global differs by version.
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
#: What can be public of IPv6 at all: the rest is not given to anybody, or stands for addresses of IPv4 (mapped, NAT64).
GLOBAL_IPV6 = ip_network("2000::/3")
#: What is not public within that: Teredo and the like, documentation, and 6to4, which stands for any address of IPv4.
INSIDE_IPV6 = tuple(map(ip_network, ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"]))


def is_public(address: str | IPv4Address | IPv6Address) -> bool:
    """Say whether an address is of a machine on the public Internet, and means nothing else than itself.

    Raises:
        ValueError: it is not an address.
    """
    if isinstance(address, str):
        address = ip_address(address.partition("%")[0])
    if isinstance(address, IPv4Address):
        return not any(address in network for network in INSIDE_IPV4)
    return address in GLOBAL_IPV6 and not any(address in network for network in INSIDE_IPV6)


def is_loopback(host: str) -> bool:
    """Say whether a host, as it stands in a URL, is this machine by its very name."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that a host of a URL is written as; None if it is a name.

    The short and the odd ways to write addresses, which some resolvers take (2130706433, 0x7f.1, 017700000001), are
    nobody's name either: they count as 0.0.0.0, which is not public.
    """
    host = host.strip("[]").rstrip(".")
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return IPv4Address(0) if all(label[:1].isdigit() for label in host.split(".")) else None


class PublicResolver(AbstractResolver):
    """Resolves names to public addresses, and those of ``allowed`` hosts to any.

    It leaves out all addresses that are not public, and it is asked once per connection: what it has looked at is what
    is connected to. A host that is written as an address never gets here; see ``public_connector``.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self.allowed = {plain(host) for host in allowed}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host.

        Raises:
            OSError: there are none, or none that is public.
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
        """There is nothing to let go of."""


def public_connector(allowed: Iterable[str] = (), *, proxies: bool = True, **options: Any) -> TCPConnector:
    """Return a connector for an ``aiohttp.ClientSession`` that leads to public addresses, and to ``allowed`` hosts.

    Hosts are looked at whenever a request wants a connection: those written as addresses, and those which names stand
    for. With ``proxies``, those of the environment may be anywhere; behind one, names are resolved by it, and so not
    looked at here. ``options`` are those of ``aiohttp.TCPConnector``. It belongs to the running event loop.
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
    """Return the one form of a host by which it is compared."""
    return host.lower().strip("[]").rstrip(".")


def inside(host: str) -> OSError:
    return OSError(errno.EACCES, f"{host[:200]} is not an address of the public Internet")


def proxy_hosts() -> set[str]:
    """Return the hosts of all proxies that the environment names."""
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    hosts: set[str] = set()
    for name, url in getproxies().items():
        if name != "no":
            try:
                hosts.add(urlsplit(url if "://" in url else f"http://{url}").hostname or "")
            except ValueError:
                continue  # which is for whoever uses it to complain about
    return hosts - {""}
