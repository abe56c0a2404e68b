"""Principals of clients with certificates (mutual TLS), and their authorization without tokens."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from carrel.protocol.principal import CERTIFICATE, AuthenticatedCaller, HTTPErrorResponse, Principal
from carrel.protocol.server import Call, ClientBatch
from carrel.transports.server.http_request import Headers
from carrel.transports.server.route import Route

__all__ = ["CLIENT_CERTIFICATE", "ClientCertificates", "principal_of"]

#: Key in the ASGI scope for the principal of the client's certificate.
CLIENT_CERTIFICATE = "carrel.certificate"
#: Short names of attributes of subjects, and of alternative names.
#: https://www.rfc-editor.org/rfc/rfc4514#section-3
SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "domainComponent": "DC",
    "userId": "UID",
    "DNS": "DNS",
    "URI": "URI",
    "email": "EMAIL",
}
#: Characters that are escaped in the text of a subject: https://www.rfc-editor.org/rfc/rfc4514#section-2.4
SPECIAL = re.compile(r'[\\,+"<>;=\0]|^[ #]| $')


def principal_of(certificate: Mapping[str, Any]) -> Principal:
    """Return the principal of a verified certificate, as ``ssl.SSLSocket.getpeercert`` returns it.

    Its subject is the subject of the certificate, such as "CN=ann,O=Example", or its first alternative name if it has
    none. Its claims are the values of each attribute by name, and ``expires`` is the end of the certificate.
    """
    named = list(_attributes(certificate))
    subject = ",".join(f"{name}={_escape(value)}" for name, value, in_subject in reversed(named) if in_subject)
    alternatives = [f"{name}={value}" for name, value, in_subject in named if not in_subject]
    claims: dict[str, list[str]] = {}
    for name, value, _ in named:
        claims.setdefault(name, []).append(value)
    return Principal(
        subject=subject or next(iter(alternatives), ""),
        issuer=CERTIFICATE,
        expires=float(ssl.cert_time_to_seconds(certificate["notAfter"])),
        claims=claims,
    )


def _attributes(certificate: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Yield name and value of each attribute of the subject, and of the known alternative names after them."""
    for relative in certificate.get("subject", ()):
        for name, value in relative:
            yield SHORT.get(name, name), value, True
    for name, value in certificate.get("subjectAltName", ()):
        if name in SHORT:
            yield SHORT[name], value, False


def _escape(value: str) -> str:
    return SPECIAL.sub(lambda found: f"\\{found[0]}", value)


class ClientCertificates:
    """Authorizer of requests by the certificate of the client, for servers without another authorization."""

    def document(self, scope: dict[str, Any], path: str) -> None:
        """Return None: there is no authorization server to name."""

    def routes(self, path: str) -> Sequence[Route]:
        """Return no routes."""
        return ()

    async def identify(
        self, scope: dict[str, Any], headers: Headers, path: str
    ) -> AuthenticatedCaller | HTTPErrorResponse:
        """Return the caller, or refuse it if its certificate has expired since the connection began."""
        principal: Principal | None = scope.get(CLIENT_CERTIFICATE)
        if principal is None:
            return HTTPErrorResponse(403, "This server requires a client certificate", [])
        if principal.expires is not None and principal.expires < time.time():
            return HTTPErrorResponse(403, "The client certificate has expired", [(b"connection", b"close")])
        return AuthenticatedCaller(principal)

    def permit(self, caller: AuthenticatedCaller, event: Call | ClientBatch) -> HTTPErrorResponse | None:
        """Permit every call: rules of access by role come later."""
        return None

    async def stop(self) -> None:
        """Do nothing."""
