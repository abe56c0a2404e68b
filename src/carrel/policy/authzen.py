"""Client of a policy engine that speaks OpenID AuthZEN 1.0, such as Cerbos, OpenFGA, Topaz and Keycloak.

The subject has the type ``user``, or ``anonymous`` without a principal, the id of the principal's subject, and the
properties ``issuer``, ``client``, ``scopes``, ``roles`` and ``claims``. The action is a verb. The type of the resource
is ``resource``, ``tool`` or ``prompt``, its id a URI or a name.

https://openid.net/specs/authorization-api-1_0.html
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from carrel.errors import ConfigError, MCPError, RequestTimeout, ResourceError, ServerUnavailable
from carrel.log import Log
from carrel.policy.authzen_options import AuthZenOptions
from carrel.policy.engine import EngineAnswer, Question
from carrel.redaction import without_secrets
from carrel.transports.addresses import is_loopback
from carrel.transports.client.fetch import Fetch

if TYPE_CHECKING:
    from carrel.protocol.principal import Principal

__all__ = ["AuthZen"]

log = Log("carrel.policy")

WELL_KNOWN = "/.well-known/authzen-configuration"
#: Questions of one request, and requests at a time if each has one question.
BATCH, AT_A_TIME = 500, 8
#: Size limit of a response.
MAX_RESPONSE = 4 * 1024 * 1024
#: Longest time for which decisions are cached, in seconds.
MAX_SECONDS = 3600.0
TYPES = {"call": "tool", "get": "prompt"}

_MAX_AGE = re.compile(r'(?:^|,)\s*max-age\s*=\s*"?(\d{1,10})', re.IGNORECASE)
_NEVER = re.compile(r"(?:^|,)\s*(?:no-store|no-cache)\s*(?:$|[,=])", re.IGNORECASE)


class AuthZen:
    """Policy engine behind the Access Evaluation API.

    Raises:
        ConfigError: the URL is not https://, nor http:// of this machine.
    """

    def __init__(self, options: AuthZenOptions) -> None:
        self._options = options
        self._url = _checked(options.url).rstrip("/")
        self._fetch = Fetch(
            timeout=options.timeout, max_bytes=MAX_RESPONSE, hosts=None, accept="application/json", proxies=True
        )
        self._endpoints: tuple[str, str | None] | None = None
        """URLs of one evaluation and of several; None until the metadata of the engine was read."""

    async def close(self) -> None:
        """Close the connections. The next question opens new ones."""
        await self._fetch.close()

    async def decide(
        self, principal: Principal | None, roles: frozenset[str], questions: Sequence[Question]
    ) -> EngineAnswer:
        """Return whether a caller may use each target.

        Raises:
            ServerUnavailable: the engine does not answer, or not as the specification says.
        """
        if self._endpoints is None:
            self._endpoints = await self._find_endpoints()
        single, several = self._endpoints
        subject = subject_of(principal, roles)
        documents = [
            {"action": {"name": verb}, "resource": {"type": TYPES.get(verb, "resource"), "id": target}}
            for verb, target in questions
        ]
        allowed: list[bool] = []
        seconds = MAX_SECONDS
        if several is None or len(documents) == 1:
            for start in range(0, len(documents), AT_A_TIME):
                part = documents[start : start + AT_A_TIME]
                for answer, lasts in await asyncio.gather(
                    *(self._post(single, {"subject": subject, **document}) for document in part)
                ):
                    allowed.append(_decision(answer))
                    seconds = min(seconds, lasts)
            return EngineAnswer(allowed, seconds)
        for start in range(0, len(documents), BATCH):
            part = documents[start : start + BATCH]
            answer, lasts = await self._post(several, {"subject": subject, "evaluations": part})
            found = answer.get("evaluations")
            if not isinstance(found, list) or len(found) != len(part):
                raise _unavailable("it has not answered each question")
            allowed += map(_decision, found)
            seconds = min(seconds, lasts)
        return EngineAnswer(allowed, seconds)

    async def _find_endpoints(self) -> tuple[str, str | None]:
        """Return the URLs of one evaluation and of several, from the metadata of the engine if it has some.

        Raises:
            ServerUnavailable: the engine does not answer.
        """
        base = self._url
        usual = f"{base}/access/v1/evaluation", f"{base}/access/v1/evaluations"
        parts = urlsplit(base)
        status, body, _ = await self._send("GET", f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path}", None)
        if status in (404, 405, 501):
            return usual
        metadata = _read(status, body)
        if str(metadata.get("policy_decision_point", "")).rstrip("/") != base:
            log.warning("the metadata of %s is for another policy decision point, and is not used", base)
            return usual
        single, several = (metadata.get(f"access_{name}_endpoint") for name in ("evaluation", "evaluations"))
        try:
            for url in (single, several):
                if isinstance(url, str) and urlsplit(_checked(url)).scheme != parts.scheme:
                    raise ConfigError(f"the endpoint {without_secrets(url)[:200]!r} must begin with {parts.scheme}://")
            return (single if isinstance(single, str) else usual[0], several if isinstance(several, str) else None)
        except ConfigError as error:
            raise _unavailable(str(error)) from None

    async def _post(self, url: str, document: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        """Return the answer to a question, and the seconds for which it may be cached."""
        status, body, headers = await self._send("POST", url, msgspec.json.encode(document, enc_hook=dict))
        controls = [value for name, value in headers.items() if name.lower() == "cache-control"]
        seconds = self._options.cache_seconds
        if controls:
            control = ",".join(controls)
            age = _MAX_AGE.search(control)
            seconds = 0.0 if age is None or _NEVER.search(control) else float(age[1])
        return _read(status, body), min(seconds, MAX_SECONDS)

    async def _send(self, method: str, url: str, data: bytes | None) -> tuple[int, bytes, Mapping[str, str]]:
        headers = {} if data is None else {"Content-Type": "application/json"}
        if self._options.token:
            headers["Authorization"] = f"Bearer {self._options.token}"
        try:
            async with self._fetch.request(method, url, data=data, headers=headers) as response:
                return response.status, await response.read(), response.headers
        except (ResourceError, RequestTimeout) as error:
            raise _unavailable(str(error)) from None


def subject_of(principal: Principal | None, roles: frozenset[str]) -> dict[str, Any]:
    """Return the subject of a caller."""
    if principal is None:
        return {"type": "anonymous", "id": "anonymous", "properties": {"roles": sorted(roles)}}
    properties: dict[str, Any] = {"roles": sorted(roles), "scopes": sorted(principal.scopes)}
    if principal.issuer:
        properties["issuer"] = principal.issuer
    if principal.client is not None:
        properties["client"] = principal.client
    if principal.claims:
        properties["claims"] = dict(principal.claims)
    return {"type": "user", "id": principal.subject, "properties": properties}


def _checked(url: str) -> str:
    shown = without_secrets(url)[:200]
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ConfigError(f"the policy engine {shown!r} is not a URL") from None
    if not host or "@" in parts.netloc or parts.fragment or parts.query:
        raise ConfigError(f"the policy engine {shown!r} is not a URL with a host, without user, query and fragment")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise ConfigError(f"the policy engine {shown!r} must begin with https://, or http:// for this machine")
    return url


def _read(status: int, body: bytes) -> dict[str, Any]:
    if status != 200:
        raise _unavailable(f"it has answered with the status {status}")
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _unavailable("its response is not a JSON object") from None


def _decision(answer: object) -> bool:
    found = answer.get("decision") if isinstance(answer, dict) else None
    if not isinstance(found, bool):
        raise _unavailable("its response has no decision")
    return found


def _unavailable(reason: str) -> MCPError:
    """Return the error for the client, which learns nothing about the engine."""
    log.error("the policy engine does not answer: %s", reason)
    return ServerUnavailable("The policy engine does not answer")
