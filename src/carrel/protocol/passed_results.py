"""Results of another server, passed on to a client: unchanged if both sides speak the same revision.

The result was decoded once, to check it. The JSON that was received is sent unchanged, except for members that belong
to one connection, duplicate members, and members that only stateless revisions have. If the revisions differ, the
decoded result is converted, and members that its type does not know are put back.

https://modelcontextprotocol.io/specification/2026-07-28/basic#meta
https://www.rfc-editor.org/rfc/rfc8259#section-4
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw

from carrel.errors import InvalidMessage
from carrel.protocol.encoding import CR, LF, encode, has_same_strings, merged
from carrel.protocol.revision import Revision
from carrel.wire.base import CacheableResult, Result
from carrel.wire.client_features import InputRequiredResult

if TYPE_CHECKING:
    from carrel.protocol.server import Call

__all__ = ["PassedResult", "attached", "pass_on", "private", "with_members"]

R = TypeVar("R", bound=Result)

#: Keys of ``_meta`` of a result that belong to one connection.
OWN_META = frozenset({"io.modelcontextprotocol/serverInfo", "io.modelcontextprotocol/related-task"})

#: Members of results that only stateless revisions have.
STATELESS_MEMBERS = frozenset(
    (*CacheableResult.__struct_encode_fields__, *InputRequiredResult.__struct_encode_fields__)
) - {"_meta"}

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
        InvalidMessage: the result is not valid JSON in a member that its type does not know.
    """
    revision, value = call.peer.revision, passed.value
    if passed.revision is not revision or passed.foreign is not None or revision.project(value) is not value:
        return _converted(call, passed)
    raw, meta = _without_duplicates(passed), value.meta
    if revision.stateless:
        hinted = not isinstance(value, CacheableResult) or not (value.ttl_ms is None or value.cache_scope is None)
        if value.result_type is UNSET or not hinted:
            return _converted(call, passed)
        raw = with_members(raw, {"_meta": {**call.connection.description.identity, **_others(meta)}})
    elif meta is not None and not OWN_META.isdisjoint(meta):
        raw = with_members(raw, {"_meta": _others(meta) or UNSET})
    return msgspec.json.format(raw, indent=-1) if LF in raw or CR in raw else raw


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
    if result.find(b"public") < 0 and result.find(b"\\u00") < 0:
        return result
    members = _members_of(result)
    scope = members.get("cacheScope")
    return result if scope is None or _decode(scope) == "private" else encode({**members, "cacheScope": "private"})


def _without_duplicates(passed: PassedResult[Any]) -> bytes:
    """Return the JSON of a result, encoded again if it has duplicate members, or members of stateless revisions only.

    Parsers disagree about duplicates. A decoded result without them has as many strings as its JSON, and so as many
    quotes, unless the JSON has escaped quotes. The quotes are counted in the result itself first, which has no members
    that its type does not know.
    """
    raw, encoded = bytes(passed.raw), encode(passed.value)
    if encoded == raw or has_same_strings(raw, encoded):
        return raw
    members = _decoded(passed)
    if not passed.revision.stateless and not STATELESS_MEMBERS.isdisjoint(members):
        members = {name: each for name, each in members.items() if name not in STATELESS_MEMBERS}
    encoded = encode(members)
    return raw if has_same_strings(raw, encoded) else encoded


def _decoded(passed: PassedResult[Any]) -> Any:
    try:
        return _decode(passed.raw)
    except UnicodeDecodeError as error:  # the decoder does not validate members that it skips
        raise InvalidMessage(f"The result is not valid UTF-8: {error.reason}") from None
    except msgspec.DecodeError as error:
        raise InvalidMessage(f"The result is not valid: {error}") from None


def _converted(call: Call, passed: PassedResult[Any]) -> bytes:
    """Return the encoded result in the revision of the client."""
    data = encode(call.connection.finish(call, _stripped(passed.value)))
    found = _unknown(passed)
    if found is not None and not (call.peer.revision.stateless and passed.revision.stateless):
        found = {name: each for name, each in found.items() if name not in STATELESS_MEMBERS}
    return data if found is None else encode(merged(_decode(data), found))


def _unknown(passed: PassedResult[Any]) -> dict[str, Any] | None:
    """Return the members that the type of a result does not know."""
    from carrel.protocol import unknown

    value, foreign = passed.value, passed.foreign
    found = None if unknown.is_whole(value, passed.raw) else unknown.find(value, _decoded(passed))
    return found if foreign is None else unknown.joined(found or {}, foreign)


_decode = msgspec.json.Decoder().decode


def _stripped(value: R) -> R:
    """Return a result without keys of ``_meta`` that belong to one connection."""
    if value.meta is None or OWN_META.isdisjoint(value.meta):
        return value
    return msgspec.structs.replace(value, meta=_others(value.meta) or None)


def _others(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if meta is None else {key: value for key, value in meta.items() if key not in OWN_META}
