"""Who asks: credentials for ``Client(url, auth=…)``.

    Client(url, auth=OAuth())                                a user, who logs in and agrees in a browser
    Client(url, auth=Bearer("token"))                        a token that is there already
    Client(url, auth=ClientCredentials("id", "secret"))      an application that acts for itself
    Client(url, auth=WorkloadIdentity(read_token))           a program that its platform vouches for
    Client(url, auth=EnterpriseAuthorization(id_token, …))   a user whose company says what may be used

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
