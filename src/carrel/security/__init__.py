"""Authorization of HTTP servers: access tokens of an authorization server (OAuth 2.1), or static tokens from a file.

    app.run("http", authorization=Authorization(issuer="https://auth.example.org", resource="https://mcp.example.org/mcp"))

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from typing import TYPE_CHECKING

from carrel.late import late

if TYPE_CHECKING:
    from carrel.protocol.principal import Principal
    from carrel.security.client.authorization_code import OAuth
    from carrel.security.client.bearer_token import Bearer
    from carrel.security.client.client_authentication import PrivateKey
    from carrel.security.client.client_credentials import ClientCredentials, WorkloadIdentity
    from carrel.security.client.enterprise import EnterpriseAuthorization
    from carrel.security.client.file_store import FileStore
    from carrel.security.client.keyring_store import KeyringStore
    from carrel.security.client.storage import MemoryStore, TokenStore, UserStore
    from carrel.security.server.introspection import Introspection
    from carrel.security.server.jwt import Authorization
    from carrel.security.server.proxy.proxy import OAuthProxy
    from carrel.security.server.proxy.stores import ProxyStore
    from carrel.security.server.proxy.upstream import Upstream
    from carrel.security.server.static_tokens import StaticTokens, make_token

__all__ = [
    "Authorization",
    "Bearer",
    "ClientCredentials",
    "EnterpriseAuthorization",
    "FileStore",
    "Introspection",
    "KeyringStore",
    "MemoryStore",
    "OAuth",
    "OAuthProxy",
    "Principal",
    "PrivateKey",
    "ProxyStore",
    "StaticTokens",
    "TokenStore",
    "Upstream",
    "UserStore",
    "WorkloadIdentity",
    "make_token",
]

#: Modules that are imported when their names are first used.
MODULES = {
    "carrel.security.server.proxy.stores": ("ProxyStore",),
    "carrel.security.server.proxy.upstream": ("Upstream",),
    "carrel.protocol.principal": ("Principal",),
    "carrel.security.client.authorization_code": ("OAuth",),
    "carrel.security.client.bearer_token": ("Bearer",),
    "carrel.security.client.client_authentication": ("PrivateKey",),
    "carrel.security.client.client_credentials": (
        "ClientCredentials",
        "WorkloadIdentity",
    ),
    "carrel.security.client.enterprise": ("EnterpriseAuthorization",),
    "carrel.security.client.file_store": ("FileStore",),
    "carrel.security.client.keyring_store": ("KeyringStore",),
    "carrel.security.client.storage": (
        "MemoryStore",
        "TokenStore",
        "UserStore",
    ),
    "carrel.security.server.introspection": ("Introspection",),
    "carrel.security.server.jwt": ("Authorization",),
    "carrel.security.server.proxy.proxy": ("OAuthProxy",),
    "carrel.security.server.static_tokens": (
        "StaticTokens",
        "make_token",
    ),
}

if not TYPE_CHECKING:
    __getattr__ = late(__name__, MODULES)
