"""Client address behind trusted reverse proxies, from ``X-Forwarded-For`` or ``Forwarded`` (RFC 7239).

Every proxy appends the address of its peer. Earlier entries may be forged. So the list is read from its end, past the
addresses of trusted proxies, up to the first other one.

https://www.rfc-editor.org/rfc/rfc7239
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from carrel.errors import ConfigError

__all__ = ["TrustedProxies"]


class TrustedProxies:
    """Addresses and networks of trusted reverse proxies.

    Raises:
        ConfigError: one is neither an address nor a network.
    """

    def __init__(self, proxies: str | Iterable[str]) -> None:
        try:
            self._networks = [ip_network(each) for each in ([proxies] if isinstance(proxies, str) else proxies)]
        except ValueError as error:
            raise ConfigError(f"trusted_proxies: {error}; addresses or networks are needed") from None

    def __contains__(self, address: str) -> bool:
        if not self._networks:
            return False
        parsed = _read(address)
        return parsed is not None and any(parsed in network for network in self._networks)

    def client(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Return the client address of a request from a trusted ``peer``; ``peer`` itself if no header names it.

        A proxy sets one of the two headers and may pass on the other one as the client sent it. If they disagree,
        both are ignored.
        """
        plain: list[bytes] = []
        standard: list[bytes] = []
        for name, value in headers:
            if name == b"x-forwarded-for":
                plain += value.split(b",")
            elif name == b"forwarded":
                standard += map(_node, value.split(b","))
        found = {self._last(peer, hops) for hops in (plain, standard) if hops}
        return found.pop() if len(found) == 1 else peer

    def _last(self, peer: str, hops: list[bytes]) -> str:
        """Return the last address in the list that is not a trusted proxy."""
        for hop in reversed(hops):
            address = _read(hop.decode("latin-1"))
            if address is None:
                break
            peer = str(address)
            if peer not in self:
                break
        return peer


def _node(element: bytes) -> bytes:
    """Return the ``for`` parameter of an element of ``Forwarded``."""
    for pair in element.split(b";"):
        name, _, value = pair.partition(b"=")
        if name.strip().lower() == b"for":
            return value.strip().strip(b'"')
    return b""


def _read(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an address, which may have a port."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
