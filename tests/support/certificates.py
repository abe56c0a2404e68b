"""Certificates of the tests: an authority, a server's context, and a client's that trusts it; of clients, too."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Authority"]


class Authority:
    """A certificate authority, and one certificate for these hosts and for this machine."""

    def __init__(self, directory: Path, hosts: Iterable[str] = ()) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
        now = datetime.datetime.now(datetime.UTC)

        def begin(public: Any) -> x509.CertificateBuilder:
            return (
                x509.CertificateBuilder()
                .issuer_name(name)
                .public_key(public)
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - datetime.timedelta(days=1))
                .not_valid_after(now + datetime.timedelta(days=1))
            )

        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        root = (
            begin(key.public_key())
            .subject_name(name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        own = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.DNSName(host.encode("idna").decode()) for host in hosts]
        names += [x509.DNSName("localhost")]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "127.0.0.2")]
        leaf = (
            begin(own.public_key())
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "web")]))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        self._begin, self._key, self._directory, self._own = begin, key, directory, own
        self.path = directory / "web.pem"
        self.path.write_bytes(encode(own) + leaf.public_bytes(pem))
        self.root = directory / "root.pem"
        self.root.write_bytes(root.public_bytes(pem))
        self.trust = ssl.create_default_context(cadata=root.public_bytes(pem).decode())
        self.serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.serving.load_cert_chain(self.path)

    def issue(self, name: str, attributes: dict[str, str], alternatives: Iterable[x509.GeneralName] = ()) -> Path:
        """Issue the certificate of a client, in the file ``name`` with its key; attributes are OIDs by name."""
        own = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(getattr(NameOID, oid), value) for oid, value in attributes.items()]
        leaf = (
            self._begin(own.public_key())
            .subject_name(x509.Name(subject))
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if alternatives:
            leaf = leaf.add_extension(x509.SubjectAlternativeName(alternatives), critical=not attributes)
        path = self._directory / name
        path.write_bytes(encode(own) + leaf.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return path

    def encrypted(self, password: bytes) -> bytes:
        """Return the key of the server, encrypted."""
        how = serialization.BestAvailableEncryption(password)
        return self._own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)


def encode(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key in PEM, unencrypted."""
    pem = serialization.Encoding.PEM
    return key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
