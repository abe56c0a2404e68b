"""CertificatePattern: which client certificates match, and what is not a pattern."""

from __future__ import annotations

import pytest

from carrel.errors import ConfigError
from carrel.policy.certificate_pattern import CertificatePattern

CLAIMS = {
    "CN": ["laptop.office.example.org"],
    "O": ["Example, Inc."],
    "OU": ["blue", "green"],
    "URI": ["spiffe://example.org/blue/1"],
}


@pytest.mark.parametrize(
    "text",
    [
        "CN=*.office.example.org",
        "cn=LAPTOP.office.example.org",
        r"O=Example\, Inc.",
        r"CN=laptop*, O=*\,*",
        " OU = green , OU=blue ",
        "URI=spiffe://example.org/blue/*",
        "CN=*",
    ],
)
def test_a_certificate_matches_if_every_attribute_does(text: str) -> None:
    assert CertificatePattern(text).matches(CLAIMS)


@pytest.mark.parametrize(
    "text",
    [
        "CN=office.example.org",
        "CN=*.office.example.org, OU=red",
        "CN=laptop-office.example.org",  # the dot is no wildcard
        r"CN=\*",  # an asterisk
        "DNS=*",
        "O=Example",
        "OU=bluegreen",
    ],
)
def test_a_certificate_does_not_match_if_one_attribute_does_not(text: str) -> None:
    assert not CertificatePattern(text).matches(CLAIMS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected attributes"),
        ("*.example.org", "expected attributes"),
        ("CN=", "expected attributes"),
        ("CN=a,", "expected attributes"),
        ("CN=a, b", "expected attributes"),
        ("CN=a,,O=b", "expected attributes"),
        ("OUU=a", "there is no attribute 'OUU'; did you mean 'OU'"),
    ],
)
def test_an_error_says_what_is_expected(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        CertificatePattern(text)
    assert message in str(caught.value)
