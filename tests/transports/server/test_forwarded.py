"""Trusted proxies: the client that a request comes from."""

import pytest

from carrel.errors import ConfigError
from carrel.transports.server.forwarded import TrustedProxies

PROXIES = TrustedProxies(["10.0.0.0/8", "fd00::/8", "192.0.2.7"])


def client(*headers):
    return PROXIES.client("10.0.0.1", [(name.encode(), value.encode()) for name, value in headers])


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("198.51.100.4", "198.51.100.4"),
        ("1.1.1.1, 198.51.100.4", "198.51.100.4"),  # the client has invented the first
        ("1.1.1.1, 198.51.100.4, 10.0.0.9, 192.0.2.7", "198.51.100.4"),
        ("198.51.100.4:4711", "198.51.100.4"),
        ("2001:db8::5", "2001:db8::5"),
        ("[2001:db8::5]:4711", "2001:db8::5"),
        ("::ffff:198.51.100.4", "198.51.100.4"),
        ("10.0.0.5", "10.0.0.5"),  # a client within the network of the proxies
        ("198.51.100.4, unknown", "10.0.0.1"),
        ("198.51.100.4, unknown, 10.0.0.9", "10.0.0.9"),
        ("", "10.0.0.1"),
        (",,,", "10.0.0.1"),
    ],
)
def test_the_client_is_the_last_address_that_is_not_a_trusted_proxy(value, found):
    assert client(("x-forwarded-for", value)) == found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("for=198.51.100.4", "198.51.100.4"),
        ("for=1.1.1.1, For=198.51.100.4;proto=https;by=10.0.0.1", "198.51.100.4"),
        ('by=10.0.0.1; for="[2001:db8::5]:4711"', "2001:db8::5"),
        ('for="1.1.1.1, for=198.51.100.4', "198.51.100.4"),  # an open quotation mark hides nothing
        ("for=_hidden", "10.0.0.1"),
        ("proto=https", "10.0.0.1"),
    ],
)
def test_forwarded_is_read_as_well(value, found):
    assert client(("forwarded", value)) == found


def test_several_headers_are_one_list():
    assert client(("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "198.51.100.4")) == "198.51.100.4"


def test_two_headers_that_disagree_name_no_client():
    assert client(("x-forwarded-for", "198.51.100.4"), ("forwarded", "for=1.1.1.1")) == "10.0.0.1"
    assert client(("x-forwarded-for", "198.51.100.4"), ("forwarded", "for=198.51.100.4")) == "198.51.100.4"
    assert client(("accept", "1.1.1.1")) == "10.0.0.1"


def test_addresses_and_networks_are_trusted():
    assert "10.255.0.1" in PROXIES
    assert "fd12::1" in PROXIES
    assert "192.0.2.8" not in PROXIES
    assert "" not in PROXIES
    assert "127.0.0.1" in TrustedProxies("127.0.0.1")
    assert "127.0.0.1" not in TrustedProxies(())


@pytest.mark.parametrize("proxy", ["proxy.example", "10.0.0.1/8", "*", ""])
def test_an_invalid_network_is_refused(proxy):
    with pytest.raises(ConfigError, match="trusted_proxies"):
        TrustedProxies([proxy])
