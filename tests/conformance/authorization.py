"""Who asks, in each of the suite's scenarios about authorization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

import aiohttp

from carrel.security.client import (
    ClientCredentials,
    EnterpriseAuthorization,
    MemoryStore,
    OAuth,
    PrivateKey,
    WorkloadIdentity,
)
from carrel.transports.client.transport import Credentials

__all__ = ["credentials", "follow"]

#: Where the suite's own client has published what it is; nothing is there, and nothing needs to be.
DOCUMENT = "https://conformance-test.local/client-metadata.json"


async def follow(url: str) -> str:
    """Ask an authorization server that wants nothing of its users, and return where it would send the browser."""
    async with aiohttp.ClientSession() as browser, browser.get(url, allow_redirects=False) as response:
        return urljoin(url, response.headers["location"])


def credentials(scenario: str, context: Mapping[str, Any]) -> Credentials:
    """Return what a scenario needs. ``context`` is what the suite gives along with it."""
    match scenario:
        case "auth/client-credentials-basic":
            return ClientCredentials(context["client_id"], context["client_secret"])
        case "auth/client-credentials-jwt":
            key = PrivateKey(context["private_key_pem"], context["signing_algorithm"])
            return ClientCredentials(context["client_id"], key=key)
        case "auth/wif-jwt-bearer":
            return WorkloadIdentity(context["valid_jwt"], client_id=context["client_id"])
        case "auth/enterprise-managed-authorization":
            return EnterpriseAuthorization(
                context["idp_id_token"],
                idp_issuer=context["idp_issuer"],
                idp_token_endpoint=context["idp_token_endpoint"],
                idp_client_id=context["idp_client_id"],
                client_id=context["client_id"],
                client_secret=context["client_secret"],
            )
        case "auth/pre-registration":
            return OAuth(
                client_id=context["client_id"],
                client_secret=context["client_secret"],
                issuer=context.get("issuer"),
                authorize=follow,
                store=MemoryStore(),
            )
        case "auth/basic-cimd":
            return OAuth(client_metadata_url=DOCUMENT, authorize=follow, store=MemoryStore())
        case _:
            return OAuth(authorize=follow, store=MemoryStore())
