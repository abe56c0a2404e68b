"""Server with a provider in memory, or a verifier of static tokens, written for ``fastmcp``: KIND PORT."""

import sys

from fastmcp import FastMCP
from fastmcp.server.auth import MultiAuth, RemoteAuthProvider, StaticTokenVerifier
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from fastmcp.server.dependencies import get_access_token
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions

kind, port = sys.argv[1:]
origin = f"http://127.0.0.1:{port}"
tokens = {
    "good": {"client_id": "app", "scopes": ["read"], "sub": "ann"},
    "poor": {"client_id": "app", "scopes": ["write"]},
    "late": {"client_id": "app", "scopes": ["read"], "expires_at": 1},
}
verifier = StaticTokenVerifier(tokens)
verifier.required_scopes = ["read"]
if kind == "remote":
    auth = RemoteAuthProvider(verifier, ["https://auth.example"], origin, resource_name="books")
elif kind == "verifier":
    auth = verifier
else:
    provider = InMemoryOAuthProvider(
        base_url=origin,
        required_scopes=["read"],
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["read", "write"]),
        revocation_options=RevocationOptions(enabled=True),
    )
    auth = MultiAuth(server=provider, verifiers=[verifier]) if kind == "several" else provider
mcp = FastMCP("guarded", auth=auth)


@mcp.tool
def whoami() -> str:
    """Tell whose token was sent."""
    token = get_access_token()
    return "nobody" if token is None else f"{token.claims.get('sub')} {token.scopes}"


mcp.run("http", host="127.0.0.1", port=int(port), show_banner=False)
