"""Options of the OpenAPI source."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from carrel.sources.documents.options import AsText, Locations
from carrel.sources.options import RedactedStruct, Seconds, Secret, Size

__all__ = ["OpenAPIOptions", "Pattern"]

Pattern: TypeAlias = Annotated[str, Meta(title="OPERATION")]
"""Operation by its operationId or as ``POST /path``; ``*`` stands for any characters."""


class OpenAPIOptions(RedactedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of an API: its server, the operations that are tools, credentials, limits."""

    api_name: Annotated[str | None, Meta(description="the name in the URIs of the API (default: its host)")] = None
    server: Annotated[str | None, Meta(description="the URL of the API (default: the URL in its description)")] = None
    write: Annotated[bool, Meta(description="offer operations that change data as tools")] = False
    read_tools: Annotated[bool, Meta(description="offer GET operations as tools too, besides resources")] = False
    operations: Annotated[
        tuple[Pattern, ...], Meta(description="offer this operation as a tool, for example 'createPet' or 'POST /pets'")
    ] = ()
    token: Annotated[Secret | None, Meta(description="a bearer token for the API")] = None
    api_key: Annotated[Secret | None, Meta(description="a key for the API, sent as its description specifies")] = None
    user: Annotated[str | None, Meta(description="the user name, for an API (basic authentication) or a server")] = None
    password: Annotated[Secret | None, Meta(description="the password, for an API, a database or a server")] = None
    client_id: Annotated[str | None, Meta(description="a client id for the API (OAuth 2.0 client credentials)")] = None
    client_secret: Annotated[Secret | None, Meta(description="the secret of the client")] = None
    token_url: Annotated[
        str | None, Meta(description="the token endpoint (default: the endpoint in the description)")
    ] = None
    scopes: Annotated[tuple[str, ...], Meta(description="a scope to request")] = ()
    documents: AsText = True
    image_locations: Locations = False
    max_description_size: Annotated[Size, Meta(description="the maximum size of the description")] = 32 * 1024 * 1024
    max_response_size: Annotated[Size, Meta(description="the maximum size of a response")] = 4 * 1024 * 1024
    request_timeout: Annotated[Seconds, Meta(description="the time limit for a request to the API")] = 30.0
    poll_seconds: Annotated[Seconds, Meta(description="the interval between two polls of subscribed resources")] = 60.0
