"""Client authentication at the token endpoint: client secret, private key JWT (``private_key_jwt``), or none.

https://www.rfc-editor.org/rfc/rfc6749#section-2.3, https://www.rfc-editor.org/rfc/rfc7523#section-2.2
"""

from __future__ import annotations

import secrets
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from carrel.errors import AuthorizationError, ConfigError
from carrel.security.client.authorization_server import AuthorizationServer
from carrel.security.fetch import Fetcher, basic_authorization, require_libraries
from carrel.security.server.bearer import Clock

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

__all__ = ["ASSERTION", "ClientIdentity", "PrivateKey", "RegisteredClient", "choose_method"]

#: Lifetime of a client assertion in seconds.
LIFETIME = 300
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
#: Authentication methods of clients with a secret, preferred first.
SECRET_METHODS = ("client_secret_basic", "client_secret_post")


class ClientIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Client registration at one authorization server: client identifier, secret, and authentication method.

    ``expires`` is in seconds since the epoch. ``redirect_uri`` is the registered one; ``dynamic`` is whether the client
    registered itself (RFC 7591) and can do so again.
    """

    issuer: str
    id: str
    secret: str | None = None
    method: str | None = None
    expires: float | None = None
    redirect_uri: str | None = None
    dynamic: bool = False

    def __repr__(self) -> str:
        return f"ClientIdentity(issuer={self.issuer!r}, id={self.id!r})"


class PrivateKey:
    """Private key with which a client signs its assertions (``private_key_jwt``), in place of a secret.

    Args:
        pem: the key in PEM (PKCS #8), or as a JSON Web Key.
        algorithm: the signature algorithm: ES256, RS256, PS256, EdDSA …
        id: the key identifier (``kid``), if the authorization server has several keys of the client.

    Raises:
        ConfigError: ``pem`` is not a private key for the algorithm, or a package is not installed.
    """

    def __init__(self, pem: str | bytes | dict[str, Any], algorithm: str = "ES256", *, id: str | None = None) -> None:
        require_libraries()
        from carrel.security.server.keys import ALGORITHMS

        if algorithm not in ALGORITHMS:
            raise ConfigError(f"algorithm: {algorithm!r} is not one of {', '.join(ALGORITHMS)}")
        self.algorithm = algorithm
        self._id = id
        self._key = _import_key(pem, ALGORITHMS[algorithm][0])

    def __repr__(self) -> str:
        return f"PrivateKey(algorithm={self.algorithm!r}, id={self._id!r})"

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        """Return a signed JSON Web Token with these claims."""
        from joserfc import jws
        from joserfc.errors import SecurityWarning

        given = {"alg": self.algorithm, "typ": "JWT", **({"kid": self._id} if self._id else {}), **header}
        registry = jws.JWSRegistry(algorithms=[self.algorithm], strict_check_header=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # about the name EdDSA, which servers expect
            return jws.serialize_compact(given, msgspec.json.encode(claims), self._key, registry=registry)

    def public(self) -> dict[str, Any]:
        """Return the public key as a JSON Web Key with only the required members."""
        from carrel.security.server.keys import MEMBERS

        members = self._key.as_dict(private=False)
        return {name: members[name] for name in MEMBERS[self._key.key_type]}

    def private(self) -> dict[str, Any]:
        """Return the private key as a JSON Web Key."""
        return dict(self._key.as_dict(private=True))

    def thumbprint(self) -> str:
        """Return the JWK thumbprint of the key (RFC 7638)."""
        return self._key.thumbprint()


def _import_key(pem: str | bytes | dict[str, Any], kind: str) -> RSAKey | ECKey | OKPKey:
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    kinds: dict[str, type[RSAKey] | type[ECKey] | type[OKPKey]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
    try:
        key = kinds[kind].import_key(pem)
        if not key.is_private:
            raise ConfigError("The key is a public one; a private key is needed")
    except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"The key is not a private key of type {kind}: {type(error).__name__}") from None
    return key


def choose_method(server: AuthorizationServer, identity: ClientIdentity, key: PrivateKey | None) -> str:
    """Return the client authentication method for the token endpoint.

    Raises:
        AuthorizationError: the server supports no method that the client can use.
    """
    supported = server.token_endpoint_auth_methods_supported
    if key is not None and not identity.dynamic:  # a dynamic registration names no key
        if supported is not None and "private_key_jwt" not in supported:
            raise AuthorizationError(
                f"{server.issuer} does not take private_key_jwt, only {', '.join(supported) or 'nothing'}"
            )
        return "private_key_jwt"
    if identity.secret is None:
        return "none"
    if identity.method is not None:
        return identity.method
    if supported is None:
        return SECRET_METHODS[0]  # the default of RFC 8414
    for method in (*SECRET_METHODS, "none"):
        if method in supported:
            return method
    raise AuthorizationError(f"{server.issuer} takes no secret from clients, only {', '.join(supported) or 'nothing'}")


class RegisteredClient(NamedTuple):
    """Client at one authorization server, and how it sends requests. ``key`` signs its assertions, if it has one."""

    server: AuthorizationServer
    identity: ClientIdentity
    fetcher: Fetcher
    clock: Clock
    key: PrivateKey | None = None

    def authenticate(self, form: dict[str, str], headers: dict[str, str]) -> None:
        """Add client authentication to the form or the headers of a request.

        Raises:
            AuthorizationError: the identity belongs to another authorization server, or its method is not supported.
        """
        server, identity, key, now = self.server, self.identity, self.key, int(self.clock())
        if identity.issuer != server.issuer:
            raise AuthorizationError(
                f"The client {identity.id!r} is registered with {identity.issuer}, and not with {server.issuer}"
            )
        method = choose_method(server, identity, key)
        if method == "private_key_jwt" and key is not None:
            claims = {"iss": identity.id, "sub": identity.id, "aud": server.issuer, "jti": secrets.token_urlsafe(16)}
            form["client_assertion_type"] = ASSERTION
            form["client_assertion"] = key.sign({**claims, "iat": now, "exp": now + LIFETIME})
            form.pop("client_id", None)  # the assertion contains the client id
        elif method == "client_secret_basic" and identity.secret is not None:
            headers["authorization"] = basic_authorization(identity.id, identity.secret)
        elif method == "client_secret_post" and identity.secret is not None:
            form |= {"client_id": identity.id, "client_secret": identity.secret}
        elif method == "none":
            if identity.id:
                form["client_id"] = identity.id
        else:
            raise AuthorizationError(f"{server.issuer} wants clients to authenticate by {method}, which is unknown")
