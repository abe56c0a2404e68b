"""Results of another server, passed on to a client: unchanged if both sides speak the same revision.

The result was decoded once, to check it. What is sent is the JSON that was received, except for members that belong to
one connection. If the revisions differ, the decoded result is converted, and members that its type does not know are
put back.

https://modelcontextprotocol.io/specification/2026-07-28/basic#meta
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw

from carrel.errors import InvalidMessage
from carrel.protocol.encoding import encode, merged
from carrel.protocol.revision import Revision
from carrel.wire.base import CacheableResult, Result

if TYPE_CHECKING:
    from carrel.protocol.server import Call

__all__ = ["PassedResult", "attached", "pass_on", "private", "with_members"]

R = TypeVar("R", bound=Result)

#: Keys of ``_meta`` of a result that belong to one connection.
OWN_META = frozenset({"io.modelcontextprotocol/serverInfo", "io.modelcontextprotocol/related-task"})

_members_of = msgspec.json.Decoder(dict[str, Raw]).decode


class PassedResult(msgspec.Struct, Generic[R], gc=False):
    """Result of a server, as it was received and decoded.

    ``foreign`` are content blocks of types that are not known here, as a tree of ``carrel.protocol.unknown``.
    """

    value: R
    raw: Raw
    revision: Revision
    foreign: dict[str, Any] | None = None


def pass_on(call: Call, passed: PassedResult[Any]) -> bytes:
    """Return the encoded result of a call, which another server has returned.

    Raises:
        InvalidMessage: the result is not valid UTF-8.
    """
    revision, value = call.peer.revision, passed.value
    if passed.revision is not revision or passed.foreign is not None or revision.project(value) is not value:
        return _converted(call, passed)
    raw, meta = bytes(passed.raw), value.meta
    if revision.stateless:
        hinted = not isinstance(value, CacheableResult) or not (value.ttl_ms is None or value.cache_scope is None)
        if value.result_type is UNSET or not hinted:
            return _converted(call, passed)
        raw = with_members(raw, {"_meta": {**call.connection.description.identity, **_others(meta)}})
    else:
        if meta is not None and not OWN_META.isdisjoint(meta):
            raw = with_members(raw, {"_meta": _others(meta) or UNSET})
        if b'"resultType"' in raw or b"\\u00" in raw:  # a member name may contain an escaped letter
            raw = with_members(raw, {"resultType": UNSET})
    if not raw.isascii():
        try:
            raw.decode()  # the decoder does not validate UTF-8 in members that it skips
        except UnicodeDecodeError as error:
            raise InvalidMessage(f"The result of {call.request.method} is not valid UTF-8: {error.reason}") from None
    return msgspec.json.format(raw, indent=-1) if b"\n" in raw or b"\r" in raw else raw


def attached(passed: PassedResult[R]) -> R:
    """Return the decoded result with the members that its type does not know; see ``carrel.protocol.unknown``."""
    from carrel.protocol import unknown  # here and below: few results have any

    value = _stripped(passed.value)
    found = _unknown(passed)
    return value if found is None else unknown.attach(value, found)


def with_members(result: bytes, members: Mapping[str, Any]) -> bytes:
    """Return an encoded result with other values for some members; UNSET removes a member."""
    found: dict[str, Any] = _members_of(result)
    for name, value in members.items():
        if value is UNSET:
            found.pop(name, None)
        else:
            found[name] = value
    return encode(found)


def private(result: bytes) -> bytes:
    """Return an encoded result that only the caller may cache. Letters of its members may be escaped."""
    if b"public" not in result and b"\\u00" not in result:
        return result
    members = _members_of(result)
    scope = members.get("cacheScope")
    return result if scope is None or _decode(scope) == "private" else encode({**members, "cacheScope": "private"})


def _converted(call: Call, passed: PassedResult[Any]) -> bytes:
    """Return the encoded result in the revision of the client."""
    data = encode(call.connection.finish(call, _stripped(passed.value)))
    found = _unknown(passed)
    return data if found is None else encode(merged(_decode(data), found))


def _unknown(passed: PassedResult[Any]) -> dict[str, Any] | None:
    """Return the members that the type of a result does not know."""
    from carrel.protocol import unknown

    value, foreign = passed.value, passed.foreign
    try:
        found = None if unknown.is_whole(value, passed.raw) else unknown.find(type(value), _decode(passed.raw))
    except UnicodeDecodeError as error:
        raise InvalidMessage(f"The result is not valid UTF-8: {error.reason}") from None
    except msgspec.DecodeError as error:  # the decoder does not validate members that it skips
        raise InvalidMessage(f"The result is not valid: {error}") from None
    return found if foreign is None else unknown.joined(found or {}, foreign)


_decode = msgspec.json.Decoder().decode


def _stripped(value: R) -> R:
    """Return a result without keys of ``_meta`` that belong to one connection."""
    if value.meta is None or OWN_META.isdisjoint(value.meta):
        return value
    return msgspec.structs.replace(value, meta=_others(value.meta) or None)


def _others(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if meta is None else {key: value for key, value in meta.items() if key not in OWN_META}
