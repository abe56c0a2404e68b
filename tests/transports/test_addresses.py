"""Which addresses are public, and connections that lead to no others."""

from __future__ import annotations

import socket
from typing import Any

import aiohttp
import pytest

from carrel.transports.addresses import PublicResolver, is_public, public_connector, read_address
from support.token_issuer import Issuer


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254"),
        *("169.254.169.254", "168.63.129.16", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1"),
        *("192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250"),
        *("240.0.0.1", "255.255.255.255"),
        *("::", "::1", "::127.0.0.1", "::10.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:169.254.169.254"),
        *("64:ff9b::a9fe:a9fe", "64:ff9b::8.8.8.8", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:4136:e378::1"),
        *("2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "3fff::1", "4000::1", "5f00::1"),
        *("fc00::1", "fd00:ec2::254", "fd20:ce::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "ff0e::1"),
    ],
)
def test_some_addresses_are_not_of_the_public_internet(address: str):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "172.15.0.1", "100.63.0.1", "2606:4700::1111", "2a00::1"])
def test_others_are(address: str):
    assert is_public(address)


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0x7f.1", "017700000001", "127.1", "127.0.0.1.", "0"])
def test_the_odd_ways_to_write_an_address_are_taken_for_one_that_is_not_public(host: str):
    address = read_address(host)
    assert address is not None
    assert not is_public(address)


@pytest.mark.parametrize(
    "host", ["example.org", "1password.example", "localhost", "xn--bcher-kva.example", "a.1e100.net"]
)
def test_names_are_not_taken_for_addresses(host: str):
    assert read_address(host) is None


async def get(url: str, allowed: tuple[str, ...] = ()) -> int:
    async with (
        aiohttp.ClientSession(connector=public_connector(allowed), trust_env=False) as session,
        session.get(url, allow_redirects=False) as response,
    ):
        return response.status


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "localhost", "LOCALHOST", "2130706433", "0x7f.1"])
async def test_no_connection_is_made_to_an_address_in_here(issuer: Issuer, host: str):
    with pytest.raises((aiohttp.ClientError, OSError)):
        await get(f"{issuer.url.replace('127.0.0.1', host)}/jwks")
    assert issuer.seen == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_hosts_that_the_user_has_named_may_be_anywhere(issuer: Issuer, host: str):
    assert await get(f"{issuer.url.replace('127.0.0.1', host)}/jwks", (host,)) == 200
    with pytest.raises((aiohttp.ClientError, OSError)):
        await get(f"{issuer.url}/jwks", ("auth.example",))


class Names:
    """A name service whose answers change with every question."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> list[Any]:
        self.asked.append(host)
        found = self.answers.pop(0)
        v4, v6 = socket.AF_INET, socket.AF_INET6
        return [
            (v6, socket.SOCK_STREAM, 6, "", (one, port, 0, 0))
            if ":" in one
            else (v4, socket.SOCK_STREAM, 6, "", (one, port))
            for one in found
        ]


async def test_a_name_is_resolved_once_and_what_was_looked_at_is_connected_to(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
):
    names = Names(["8.8.8.8", "127.0.0.1", "fd00::1"], ["127.0.0.1"])
    monkeypatch.setattr(socket, "getaddrinfo", names.getaddrinfo)
    [found] = await PublicResolver().resolve("rebinding.example", 443)
    assert (found["host"], found["hostname"]) == ("8.8.8.8", "rebinding.example")
    assert found["flags"] & socket.AI_NUMERICHOST  # whoever connects to it cannot ask for the name again
    with pytest.raises((aiohttp.ClientError, OSError), match="not an address of the public Internet"):
        await get(f"http://rebinding.example:{issuer.url.rpartition(':')[2]}/jwks")
    assert names.asked == ["rebinding.example"] * 2
    assert issuer.seen == []


async def test_a_proxy_of_the_environment_may_be_in_here(issuer: Issuer, monkeypatch: pytest.MonkeyPatch):
    issuer.publish(b"by proxy", "http://public.example/x")
    monkeypatch.setenv("http_proxy", issuer.url.replace("127.0.0.1", "localhost"))
    async with aiohttp.ClientSession(connector=public_connector(), trust_env=True) as session:
        async with session.get("http://public.example/x") as response:
            assert await response.read() == b"by proxy"
        with pytest.raises((aiohttp.ClientError, OSError), match="not an address of the public Internet"):
            await session.get("http://169.254.169.254/latest/meta-data")
    assert issuer.seen == ["http://public.example/x"]
