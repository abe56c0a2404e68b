"""Methods of the protocol and their models by revision: the face of ``mcp_types.methods``.

``surface`` maps of the functions have a model for each method and revision, ``monolith`` maps one for each method. Here
both have the same models; which methods a revision has, and what its results have, is read from Carrel's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias, get_args

import msgspec
from pydantic import TypeAdapter

from carrel.compat.mcp2 import types
from carrel.compat.mcp2.types.kinds import (
    CACHEABLE_METHODS,
    INPUT_REQUIRED_METHODS,
    CacheableMethod,
    is_input_required,
)
from carrel.compat.mcp2.types.version import KNOWN_PROTOCOL_VERSIONS
from carrel.protocol.revisions import REQUESTS, REVISIONS
from carrel.wire.resources import read_contents

__all__ = [
    "CACHEABLE_METHODS",
    "CLIENT_NOTIFICATIONS",
    "CLIENT_REQUESTS",
    "CLIENT_RESULTS",
    "INPUT_REQUIRED_METHODS",
    "MONOLITH_NOTIFICATIONS",
    "MONOLITH_REQUESTS",
    "MONOLITH_RESULTS",
    "SERVER_NOTIFICATIONS",
    "SERVER_REQUESTS",
    "SERVER_RESULTS",
    "SPEC_CLIENT_METHODS",
    "SPEC_CLIENT_NOTIFICATION_METHODS",
    "CacheableMethod",
    "is_input_required",
    "parse_client_notification",
    "parse_client_request",
    "parse_client_result",
    "parse_server_notification",
    "parse_server_request",
    "parse_server_result",
    "serialize_server_result",
    "validate_client_notification",
    "validate_client_request",
    "validate_client_result",
    "validate_server_result",
]

Table: TypeAlias = Mapping[str, Any]
Surface: TypeAlias = Mapping[tuple[str, str], Any]
Params: TypeAlias = Mapping[str, Any] | None

#: Requests whose result has no fields.
EMPTY = ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")


def _by_method(union: Any) -> dict[str, Any]:
    return {each.model_fields["method"].default: each for each in get_args(union)}


def _result_of(method: str, request: Any) -> Any:
    name = request.__name__.removesuffix("Request")
    result = types.EmptyResult if method in EMPTY else getattr(types, f"{name}Result")
    if method in INPUT_REQUIRED_METHODS:
        return result | types.InputRequiredResult
    return result | types.CreateMessageResultWithTools if name == "CreateMessage" else result


_FROM_CLIENT, _FROM_SERVER = _by_method(types.ClientRequest), _by_method(types.ServerRequest)
_EVENTS = _by_method(types.ServerNotification)
_NOTICES = _by_method(types.ClientNotification)

MONOLITH_REQUESTS: Table = MappingProxyType({**_FROM_CLIENT, **_FROM_SERVER})
MONOLITH_NOTIFICATIONS: Table = MappingProxyType({**_EVENTS, **_NOTICES})
MONOLITH_RESULTS: Table = MappingProxyType({name: _result_of(name, kind) for name, kind in MONOLITH_REQUESTS.items()})


def _in_revisions(table: Table, methods_of: Any) -> Surface:
    """Return the rows of a table for each revision that has the method."""
    pairs = ((method, version) for version in KNOWN_PROTOCOL_VERSIONS for method in methods_of(REVISIONS[version]))
    return MappingProxyType({(method, version): table[method] for method, version in pairs if method in table})


def _asked(revision: Any) -> set[str]:
    methods = {row.method for row in revision.server_requests.values()}
    return set() if revision.stateless else {*methods, "ping"}


CLIENT_REQUESTS = _in_revisions(_FROM_CLIENT, lambda revision: revision.requests)
CLIENT_NOTIFICATIONS = _in_revisions(_NOTICES, lambda revision: revision.client_notifications)
SERVER_REQUESTS = _in_revisions(_FROM_SERVER, _asked)
SERVER_NOTIFICATIONS = _in_revisions(_EVENTS, lambda revision: [row.method for row in revision.events.values()])
SERVER_RESULTS = _in_revisions(MONOLITH_RESULTS, lambda revision: revision.requests)
CLIENT_RESULTS = _in_revisions(MONOLITH_RESULTS, _asked)
SPEC_CLIENT_METHODS = frozenset(method for method, _ in CLIENT_REQUESTS)
SPEC_CLIENT_NOTIFICATION_METHODS = frozenset(method for method, _ in CLIENT_NOTIFICATIONS)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _row(surface: Surface, method: str, version: str) -> Any:
    if version not in KNOWN_PROTOCOL_VERSIONS:
        raise ValueError(f"version must be a known protocol version, got {version!r}")
    return surface[method, version]


def _parse(surface: Surface, monolith: Table, method: str, version: str, body: Mapping[str, Any]) -> Any:
    """Validate the body of a message with its models in both maps, and return the second model.

    Raises:
        ValueError: the revision is not known.
        KeyError: the revision does not have the method.
        ValidationError: the body is not valid.
        RuntimeError: the second map does not have the method.
    """
    first = _row(surface, method, version)
    found = _adapter(first).validate_python(body, by_name=False)
    if method not in monolith:
        raise RuntimeError(f"inconsistent extension maps: surface defines {method!r} but monolith does not")
    second = monolith[method]
    return found if second is first else _adapter(second).validate_python(body, by_name=False)


def _body(method: str, params: Params) -> dict[str, Any]:
    return {"method": method} if params is None else {"method": method, "params": params}


def _parser(default: Surface, models: Table) -> Callable[..., Any]:
    """Return the function that returns messages of one kind as models: a request or notification by its ``params``.

    A result is given as ``data``, which is the third argument too.
    """

    def parse(
        method: str,
        version: str,
        params: Params = None,
        *,
        data: Params = None,
        surface: Any = default,
        monolith: Any = models,
    ) -> Any:
        body = _body(method, params) if models is not MONOLITH_RESULTS else data or params or {}
        return _parse(surface, monolith, method, version, body)

    return parse


def _validator(default: Surface, *, results: bool = False) -> Callable[..., None]:
    """Return the function that checks messages of one kind, with the arguments of ``_parser``."""

    def validate(
        method: str, version: str, params: Params = None, *, data: Params = None, surface: Any = default
    ) -> None:
        body = (data or params or {}) if results else _body(method, params)
        _adapter(_row(surface, method, version)).validate_python(body, by_name=False)

    return validate


parse_client_request = _parser(CLIENT_REQUESTS, MONOLITH_REQUESTS)
parse_server_request = _parser(SERVER_REQUESTS, MONOLITH_REQUESTS)
parse_client_notification = _parser(CLIENT_NOTIFICATIONS, MONOLITH_NOTIFICATIONS)
parse_server_notification = _parser(SERVER_NOTIFICATIONS, MONOLITH_NOTIFICATIONS)
parse_client_result = _parser(CLIENT_RESULTS, MONOLITH_RESULTS)
parse_server_result = _parser(SERVER_RESULTS, MONOLITH_RESULTS)
validate_client_request = _validator(CLIENT_REQUESTS)
validate_client_notification = _validator(CLIENT_NOTIFICATIONS)
validate_client_result = _validator(CLIENT_RESULTS, results=True)
validate_server_result = _validator(SERVER_RESULTS, results=True)


def serialize_server_result(
    method: str, version: str, data: Mapping[str, Any], *, surface: Surface = SERVER_RESULTS
) -> dict[str, Any]:
    """Return a result with the fields that its revision has."""
    model = _adapter(_row(surface, method, version)).validate_python(data, by_name=False)
    whole = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    row = REQUESTS.get(method)
    if row is None or is_input_required(whole):
        return dict(whole)
    struct = msgspec.convert(whole, row.result, dec_hook=read_contents)
    revision = REVISIONS[version]
    shaped = revision.project(struct)
    found: dict[str, Any] = msgspec.to_builtins(shaped, str_keys=True)
    return found
