"""Unknown members of messages: kept, so that they can be passed through unchanged.

A struct has fields for the members that the specification defines. Other members of a JSON object are kept in the
``_meta`` of the nearest struct that has one, under ``KEY``, as a tree of paths; ``encoding.restored`` puts them back
into encoded JSON. Results of calls are passed on as JSON instead, see ``carrel.protocol.passed_results``.

https://modelcontextprotocol.io/specification/2026-07-28/basic#meta
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, get_args

import msgspec

from carrel.protocol.connection import UNREADABLE
from carrel.protocol.encoding import FOREIGN, KEY, MARK, encode, has_same_strings, restored

__all__ = ["attach", "distribute", "find", "find_raw", "is_whole", "joined", "kept", "whole", "without_foreign_blocks"]

T = TypeVar("T", bound=msgspec.Struct)


def find(value: Any, given: Any) -> dict[str, Any] | None:
    """Return the members of decoded JSON that the structs converted from it do not have, as a tree; None if none."""
    found: dict[str, Any] = {}
    if isinstance(value, msgspec.Struct) and isinstance(given, dict):
        fields = dict(zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True))
        for name, each in given.items():
            if name not in fields:
                if name != value.__struct_config__.tag_field:
                    found[name] = each
            elif (inner := find(getattr(value, fields[name]), each)) is not None:
                found[name] = inner
    elif isinstance(value, list) and isinstance(given, list):
        for index, pair in enumerate(zip(value, given, strict=False)):
            if (inner := find(*pair)) is not None:
                found[str(index)] = inner
    return found or None


def find_raw(value: msgspec.Struct, raw: msgspec.Raw) -> dict[str, Any] | None:
    """Return the members of a JSON object that are not in the struct that was decoded from it; None if all are."""
    return None if is_whole(value, raw) else find(value, msgspec.json.decode(raw))


def is_whole(value: msgspec.Struct, raw: msgspec.Raw) -> bool:
    """Return whether a struct has all members of its source JSON; False if a quick check cannot tell.

    It has all members if its encoding has as many strings as the source. Encoding costs a fraction of decoding the JSON
    again. Lengths prove nothing: a number may be longer in the encoding, such as 1e15.
    """
    return has_same_strings(bytes(raw), encode(value))


def kept(value: T, given: Any) -> T:
    """Return a struct with the members of the decoded JSON object that it was converted from and does not know."""
    found = find(value, given)
    return value if found is None else attach(value, found)


def whole(value: msgspec.Struct) -> Any:
    """Return a struct as decoded JSON, with the members that are not known in their places."""
    data = encode(value)
    return msgspec.json.decode(restored(data) if MARK in data else data)


def attach(value: Any, unknown: Mapping[str, Any]) -> Any:
    """Return a struct with members that its type does not know, to be put back when it is encoded."""
    return msgspec.structs.replace(value, meta={**(value.meta or {}), KEY: unknown})


def without_foreign_blocks(raw: msgspec.Raw) -> tuple[msgspec.Raw, dict[str, Any]] | None:
    """Replace content blocks of unknown types with empty text; return the result and a tree of the replaced blocks.

    Return None if all types are known. Blocks are in ``content``, and in the ``content`` of ``messages``.
    """
    try:
        result = msgspec.json.decode(raw)
    except UNREADABLE:
        return None
    found = foreign_in(result) if isinstance(result, dict) else {}
    if not found:
        return None
    return msgspec.Raw(encode(result)), found


def foreign_in(holder: dict[str, Any]) -> dict[str, Any]:
    """Replace the content blocks of types that are not known in a decoded object, and return them as a tree."""
    found: dict[str, Any] = {}
    blocks, messages = holder.get("content"), holder.get("messages")
    if is_foreign(blocks):
        found["content"] = {FOREIGN: blocks}
        holder["content"] = {"type": "text", "text": ""}
    elif isinstance(blocks, list):
        parts = {str(index): {FOREIGN: block} for index, block in enumerate(blocks) if is_foreign(block)}
        for index in parts:
            blocks[int(index)] = {"type": "text", "text": ""}
        if parts:
            found["content"] = parts
    if isinstance(messages, list):
        parts = {
            str(index): part
            for index, each in enumerate(messages)
            if isinstance(each, dict) and (part := foreign_in(each))
        }
        if parts:
            found["messages"] = parts
    return found


def is_foreign(block: Any) -> bool:
    """Return whether a decoded content block has a type that is not known here."""
    kind = block.get("type") if isinstance(block, dict) else None
    return isinstance(kind, str) and kind not in block_types()


@cache
def block_types() -> frozenset[str]:
    from carrel.wire.content import ContentBlock

    return frozenset(kind.__struct_config__.tag for kind in get_args(ContentBlock))


def joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return two trees of unknown members as one."""
    both = {**second, **first}
    for name in first.keys() & second.keys():
        if isinstance(first[name], dict) and isinstance(second[name], dict):
            both[name] = joined(first[name], second[name])
    return both


def distribute(result: T) -> T:
    """Return a struct with the unknown members of the entries of its lists in the entries themselves."""
    unknown = (getattr(result, "meta", None) or {}).get(KEY)
    if unknown is None:
        return result
    changed: dict[str, Any] = {}
    rest = dict(unknown)
    for field in msgspec.structs.fields(result):
        parts, entries = unknown.get(field.encode_name), getattr(result, field.name)
        if isinstance(parts, dict) and isinstance(entries, list) and all(hasattr(entry, "meta") for entry in entries):
            changed[field.name] = [
                entry if (part := parts.get(str(index))) is None else attach(entry, part)
                for index, entry in enumerate(entries)
            ]
            del rest[field.encode_name]
    changed["meta"] = {**result.meta, KEY: rest}  # type: ignore[attr-defined]
    return msgspec.structs.replace(result, **changed)
