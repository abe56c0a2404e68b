"""API client: build and send requests for operations, and check the responses.

Requests go to the base URL and nowhere else: path parameters cannot leave it, and redirects are followed only within.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urljoin

import msgspec

from carrel.errors import (
    ConfigError,
    InvalidParams,
    RequestTimeout,
    ResourceError,
    ResourceForbidden,
    ResourceNotFound,
    ResourceTooLarge,
)
from carrel.log import Log
from carrel.sources.openapi.credentials import ApiCredentials
from carrel.sources.openapi.document import ApiDocuments
from carrel.sources.openapi.multipart import MULTIPART, encode_multipart, files_of, types_of
from carrel.sources.openapi.operations import ApiOperation, read_operations
from carrel.sources.openapi.parameters import ApiParameter, query_pairs, text_of
from carrel.sources.openapi.routes import PathRoutes, build_url
from carrel.sources.openapi.schemas import Body
from carrel.sources.openapi.transport import ApiResponse, ApiTransport
from carrel.transports.client.fetch import REDIRECTS

__all__ = ["API", "Values", "next_link"]

log = Log("carrel.sources")

Values = Mapping[tuple[str, str], Any]
"""Values of parameters by location and name."""

MAX_REDIRECTS = 3
MAX_EXCERPT = 1000
_LINK = re.compile(r"<([^<>]*)>([^<]*)")
_HEADER = re.compile(r"[\x20-\x7e\xa0-\xff]*")


class API:
    """API that a description describes, at a base URL."""

    def __init__(
        self, documents: ApiDocuments, base: str, transport: ApiTransport, credentials: ApiCredentials
    ) -> None:
        self.documents = documents
        self.base = base
        self.credentials = credentials
        self._transport = transport
        self.operations = {operation.id: operation for operation in read_operations(documents)}
        self.tools = {operation.tool: operation for operation in self.operations.values()}
        self.readable: dict[str, ApiOperation] = {}
        self.routes = PathRoutes()
        for operation in self.operations.values():
            # A header or cookie that is required cannot be in a URI: such operations can be tools.
            unfit = any(one.required and one.location in ("header", "cookie") for one in operation.parameters)
            if operation.method == "get" and not unfit:
                self.readable[operation.id] = operation
                self.routes.add(operation)
        schemas = documents.root.get("components")
        schemas = schemas.get("schemas") if isinstance(schemas, dict) else None
        self.schemas: dict[str, Any] = schemas if isinstance(schemas, dict) else {}

    async def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Post a form to a token endpoint."""
        body = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in form.items()).encode()
        sent = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        response = await self._send("POST", url, sent, body)
        return response.status, response.body

    async def request(
        self, operation: ApiOperation, values: Values, body: bytes | None = None, kind: str | None = None
    ) -> tuple[str, ApiResponse]:
        """Send the request of an operation. Return its URL without credentials, and the response.

        Errors do not contain the URL of the API: they name the operation, and details are logged.

        Raises:
            InvalidParams: a parameter is not valid.
            ResourceError: no response arrived.
            RequestTimeout: the response does not arrive in time.
        """
        try:
            return await self._request(operation, values, body, kind)
        except ResourceError as error:
            raise type(error)(operation.id, error.message) from None
        except RequestTimeout as error:
            log.warning("%s: %s", operation.id, self.credentials.hide(str(error)))
            raise RequestTimeout(f"{operation.id}: the API did not answer in time (request_timeout)") from None

    async def _request(
        self, operation: ApiOperation, values: Values, body: bytes | None, kind: str | None
    ) -> tuple[str, ApiResponse]:
        public = build_url(self.base, operation, values)
        headers = headers_of(operation, values)
        if body is not None:
            headers["Content-Type"] = kind or "application/json"
        added, query = await self.credentials.apply(operation, self.post_form)
        if "Cookie" in added and "Cookie" in headers:
            added["Cookie"] = f"{headers['Cookie']}; {added['Cookie']}"
        url = public
        for _ in range(MAX_REDIRECTS + 1):
            whole = with_query(url, query)
            response = await self._send(operation.method.upper(), whole, {**headers, **added}, body)
            location = response.headers.get("location")
            if response.status not in REDIRECTS or location is None or not operation.reads:
                return public, response
            try:
                target = urljoin(url, location).partition("#")[0]
            except ValueError:
                target = ""
            if not self.includes(target):
                raise ResourceForbidden(public, "The API redirects to a URL that is not shared")
            url = target
        raise ResourceError(public, f"The API redirects more than {MAX_REDIRECTS} times")

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> ApiResponse:
        """Send a request. If no response arrives, the reason is logged, and not sent to clients."""
        try:
            return await self._transport.send(method, url, headers, body)
        except (ResourceTooLarge, ResourceForbidden):
            raise
        except ResourceError as error:
            log.warning("%s: %s", self.base, self.credentials.hide(error.message))
            raise ResourceError(error.uri, "The API cannot be reached") from None

    def includes(self, url: str) -> bool:
        """Return whether a URL is below the base."""
        lower = url.lower()
        odd = any(word in lower for word in ("/../", "/./", "\\", "%2e", "%2f", "%5c")) or lower.endswith(("/..", "/."))
        return not odd and url.isprintable() and " " not in url and url.startswith((f"{self.base}/", f"{self.base}?"))

    def check(self, uri: str, response: ApiResponse) -> None:
        """Check that a response is a success.

        Raises:
            ResourceNotFound: 404 or 410.
            ResourceForbidden: 401 or 403.
            ResourceError: any other error.
        """
        status = response.status
        if 200 <= status < 300:
            return
        if status in (404, 410):
            raise ResourceNotFound(uri)
        if status in (401, 403):
            raise ResourceForbidden(uri, f"The API denies access with status {status}")
        if status in (400, 422):
            raise InvalidParams(
                f"Invalid params: the API responds with status {status}{self.excerpt(response)}",
                {"uri": uri[:1000], "reason": "invalid"},
            )
        raise ResourceError(uri, f"The API responds with status {status}")

    def excerpt(self, response: ApiResponse) -> str:
        """Return the beginning of an error response for messages, without credentials; empty if it is not text."""
        kind = response.headers.get("content-type", "")
        if not ("json" in kind or kind.startswith("text/plain")):
            return ""
        text = " ".join(response.body[: MAX_EXCERPT * 20].decode("utf-8", "replace").split())
        return f": {self.credentials.hide(text)[:MAX_EXCERPT]}" if text else ""


def headers_of(operation: ApiOperation, values: Values) -> dict[str, str]:
    """Return the header and cookie parameters of a request as headers.

    Raises:
        InvalidParams: a value cannot be in a header.
    """
    found: dict[str, str] = {}
    cookies: list[str] = []
    for parameter in operation.parameters:
        value = values.get((parameter.location, parameter.name))
        if value is None or parameter.location not in ("header", "cookie"):
            continue
        if parameter.location == "cookie":
            cookies += [f"{name}={one}" for name, one in query_pairs(parameter, value)]
            continue
        text = header_text(parameter, value)
        if not _HEADER.fullmatch(text):
            raise InvalidParams(
                f"Invalid params: {parameter.name}: it cannot be sent in a header", parameter=parameter.name
            )
        found[parameter.name] = text
    if cookies:
        found["Cookie"] = "; ".join(cookies)
    return found


def header_text(parameter: ApiParameter, value: Any) -> str:
    if isinstance(value, dict):
        pairs = [(str(key), text_of(one)) for key, one in value.items()]
        return ",".join(f"{key}={one}" if parameter.explode else f"{key},{one}" for key, one in pairs)
    return ",".join(map(text_of, value)) if isinstance(value, list) else text_of(value)


def with_query(url: str, query: list[tuple[str, str]]) -> str:
    added = "&".join(f"{name}={value}" for name, value in query)
    return f"{url}{'&' if '?' in url else '?'}{added}" if added else url


def form_body(body: Any) -> bytes:
    """Return an object as a form (application/x-www-form-urlencoded).

    Raises:
        InvalidParams: the value is not an object.
    """
    if not isinstance(body, dict):
        raise InvalidParams("Invalid params: body: a form is an object", parameter="body")
    pairs: list[tuple[str, str]] = []
    for name, value in body.items():
        style = "deepObject" if isinstance(value, dict) else "form"
        pairs += query_pairs(ApiParameter(str(name), "query", False, {}, style=style), value)
    return "&".join(f"{name}={value}" for name, value in pairs).encode()


def encode_body(documents: ApiDocuments, described: Body, body: Any) -> tuple[bytes, str]:
    """Return a request body, and its media type.

    Raises:
        InvalidParams: the value cannot be encoded in this media type.
    """
    kind, media, _, base = described
    bare = kind.partition(";")[0].strip().lower()
    if bare == MULTIPART:
        schema, where = documents.resolve(media.get("schema"), base)
        properties = schema.get("properties") if isinstance(schema, dict) else None
        files = files_of(documents, properties, where) if isinstance(properties, dict) else {}
        return encode_multipart(body, files, dict(types_of(media)))
    if bare == "application/x-www-form-urlencoded":
        return form_body(body), kind
    if bare.startswith("text/"):
        return (body if isinstance(body, str) else msgspec.json.encode(body).decode()).encode(), kind
    return msgspec.json.encode(body), kind


def next_link(response: ApiResponse, url: str) -> str | None:
    """Return the URL of the next page that a response names in its Link header (RFC 8288)."""
    for target, parameters in _LINK.findall(response.headers.get("link", "")[:8192]):
        words = parameters.replace('"', "").replace("'", "").lower().split(";")
        if any(word.strip().rstrip(", ").partition("=")[::2] == ("rel", "next") for word in words):
            try:
                return str(urljoin(url, target))
            except ValueError:
                return None
    return None


def check_credentials(documents: ApiDocuments, base: str, given: bool, *, named: bool) -> None:
    """Check that credentials are sent only to the host of the description, or to the server that the user has
    configured.

    Raises:
        ConfigError: a remote description names a server elsewhere.
    """
    remote = documents.location.startswith(("https:", "http:"))
    if given and remote and not named and origin(base) != origin(documents.location):
        raise ConfigError(
            f"the description at {origin(documents.location)} is of an API at {origin(base)}; "
            f"confirm with the option server that your credentials are for it: server={base}"
        )


def origin(url: str) -> str:
    return "/".join(url.split("/")[:3])
