"""Client credentials for ``Client(url, auth=…)``: OAuth 2.1 grants and bearer tokens.

    Client(url, auth=OAuth())                                a user who logs in with a browser (authorization code)
    Client(url, auth=Bearer("token"))                        an existing bearer token
    Client(url, auth=ClientCredentials("id", "secret"))      an application acting on its own behalf
    Client(url, auth=WorkloadIdentity(read_token))           a workload with a platform token (JWT bearer)
    Client(url, auth=EnterpriseAuthorization(id_token, …))   a user, by a company identity provider (ID-JAG)

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from carrel.security.client.authorization_code import OAuth
from carrel.security.client.bearer_token import Bearer
from carrel.security.client.client_authentication import PrivateKey
from carrel.security.client.client_credentials import ClientCredentials, WorkloadIdentity
from carrel.security.client.enterprise import EnterpriseAuthorization
from carrel.security.client.file_store import FileStore
from carrel.security.client.keyring_store import KeyringStore
from carrel.security.client.storage import MemoryStore, TokenStore, UserStore

__all__ = [
    "Bearer",
    "ClientCredentials",
    "EnterpriseAuthorization",
    "FileStore",
    "KeyringStore",
    "MemoryStore",
    "OAuth",
    "PrivateKey",
    "TokenStore",
    "UserStore",
    "WorkloadIdentity",
]
