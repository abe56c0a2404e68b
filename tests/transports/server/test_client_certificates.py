"""Principals of client certificates, and their authorization."""

from __future__ import annotations

import time

import pytest

from carrel.protocol.principal import AuthenticatedCaller, HTTPErrorResponse
from carrel.transports.server.client_certificates import CLIENT_CERTIFICATE, ClientCertificates, principal_of

LATER = "Jan  1 00:00:00 2100 GMT"


def test_the_subject_is_text_that_only_this_subject_has():
    subject = ((("organizationName", "A, B=C"),), (("commonName", " #ann"), ("userId", "7")))
    names = (("DNS", "ann.example"), ("IP Address", "10.0.0.1"))
    principal = principal_of({"subject": subject, "subjectAltName": names, "notAfter": LATER})
    assert principal.subject == "UID=7,CN=\\ #ann,O=A\\, B\\=C"
    assert principal.claims == {"O": ["A, B=C"], "CN": [" #ann"], "UID": ["7"], "DNS": ["ann.example"]}
    assert (principal.issuer, principal.expires) == ("certificate", 4102444800.0)


def test_without_a_subject_the_first_alternative_name_takes_its_place():
    names = (("URI", "spiffe://example.org/a"), ("DNS", "a"))
    principal = principal_of({"subject": (), "subjectAltName": names, "notAfter": LATER})
    assert principal.subject == "URI=spiffe://example.org/a"


@pytest.mark.parametrize("seconds", [-1, 60])
async def test_an_expired_certificate_is_refused(seconds):
    when = time.strftime("%b %d %H:%M:%S %Y GMT", time.gmtime(time.time() + seconds))
    principal = principal_of({"subject": ((("commonName", "a"),),), "notAfter": when})
    found = await ClientCertificates().identify({CLIENT_CERTIFICATE: principal}, {}, "/mcp")
    assert isinstance(found, AuthenticatedCaller if seconds > 0 else HTTPErrorResponse)


async def test_a_request_without_a_certificate_is_refused():
    found = await ClientCertificates().identify({}, {}, "/mcp")
    assert isinstance(found, HTTPErrorResponse)
    assert found.status == 403
