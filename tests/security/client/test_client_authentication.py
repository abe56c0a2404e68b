"""Client authentication at the token endpoint: the choice of its method, and what each method sends."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from joserfc.jwk import ECKey

from carrel.errors import AuthorizationError
from carrel.security.client.authorization_server import AuthorizationServer
from carrel.security.client.client_authentication import (
    ClientIdentity,
    PrivateKey,
    RegisteredClient,
    choose_method,
)
from support.clock import Clock

ISSUER = "https://auth.example"
KEY = PrivateKey(ECKey.generate_key("P-256").as_dict(private=True))


def server(*supported: str) -> AuthorizationServer:
    return AuthorizationServer(issuer=ISSUER, token_endpoint_auth_methods_supported=supported or None)


def identity(**given: Any) -> ClientIdentity:
    return ClientIdentity(**{"issuer": ISSUER, "id": "app", **given})


@pytest.mark.parametrize(
    ("supported", "given", "key", "method"),
    [
        ((), {"secret": "s"}, None, "client_secret_basic"),  # the default of RFC 8414
        (("client_secret_post", "client_secret_basic"), {"secret": "s"}, None, "client_secret_basic"),
        (("none", "client_secret_post"), {"secret": "s"}, None, "client_secret_post"),
        (("private_key_jwt", "none"), {"secret": "s"}, None, "none"),
        (("client_secret_basic",), {"secret": "s", "method": "client_secret_post"}, None, "client_secret_post"),
        (("client_secret_basic",), {}, None, "none"),
        ((), {}, KEY, "private_key_jwt"),
        (("client_secret_basic", "private_key_jwt"), {"secret": "s"}, KEY, "private_key_jwt"),
        (("client_secret_basic",), {"secret": "s", "dynamic": True}, KEY, "client_secret_basic"),
    ],
)
def test_the_method_is_one_that_server_and_client_have(
    supported: tuple[str, ...], given: dict[str, Any], key: PrivateKey | None, method: str
) -> None:
    assert choose_method(server(*supported), identity(**given), key) == method


@pytest.mark.parametrize("key", [None, KEY])
def test_an_error_names_the_methods_of_the_server(key: PrivateKey | None) -> None:
    with pytest.raises(AuthorizationError, match=r", only tls_client_auth, x$"):
        choose_method(server("tls_client_auth", "x"), identity(secret="s"), key)
    nothing = AuthorizationServer(issuer=ISSUER, token_endpoint_auth_methods_supported=())
    with pytest.raises(AuthorizationError, match=r", only nothing$"):
        choose_method(nothing, identity(secret="s"), key)


def authenticate(who: ClientIdentity, key: PrivateKey | None = None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the form and the headers of a request."""
    form, headers = {"grant_type": "x"}, dict[str, str]()
    RegisteredClient(server(), who, None, Clock(), key).authenticate(form, headers)  # type: ignore[arg-type]
    return form, headers


def test_a_secret_is_where_its_method_has_it_and_nowhere_else() -> None:
    basic = {"authorization": f"Basic {b64encode(b'app:s').decode()}"}
    assert authenticate(identity(secret="s")) == ({"grant_type": "x"}, basic)
    posted = {"grant_type": "x", "client_id": "app", "client_secret": "s"}
    assert authenticate(identity(secret="s", method="client_secret_post")) == (posted, {})
    assert authenticate(identity(secret="s", method="none")) == ({"grant_type": "x", "client_id": "app"}, {})
    assert authenticate(identity()) == ({"grant_type": "x", "client_id": "app"}, {})
    assert authenticate(identity(id="")) == ({"grant_type": "x"}, {})
    signed, headers = authenticate(identity(secret="s"), KEY)
    assert (sorted(signed), headers) == (["client_assertion", "client_assertion_type", "grant_type"], {})


def test_an_identity_is_sent_to_no_other_server() -> None:
    with pytest.raises(AuthorizationError, match=r"is registered with https://evil\.example, and not with"):
        authenticate(identity(issuer="https://evil.example", secret="s"))


@pytest.mark.parametrize("method", ["client_secret_jwt", "private_key_jwt", "tls_client_auth"])
def test_an_unknown_method_is_an_error(method: str) -> None:
    with pytest.raises(AuthorizationError, match=f"by {method}, which is unknown"):
        authenticate(identity(secret="s", method=method))
