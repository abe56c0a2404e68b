"""Unknown members of messages: kept, so that they can be passed through unchanged.

A struct has fields for the members that the specification defines. Other members of a JSON object are kept in the
``_meta`` of the nearest struct that has one, under ``KEY``, as a tree of paths; ``encoding.restored`` puts them back
into encoded JSON. Results of calls are passed on as JSON instead, see ``carrel.protocol.passed_results``.

https://modelcontextprotocol.io/specification/2026-07-28/basic#meta
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import inspect

from carrel.protocol.connection import UNREADABLE
from carrel.protocol.encoding import FOREIGN, KEY, MARK, encode, has_same_strings, restored

__all__ = [
    *("attach", "distribute", "find", "find_raw", "is_whole", "joined", "kept", "members"),
    *("whole", "without_foreign_blocks"),
]

T = TypeVar("T", bound=msgspec.Struct)

#: Levels of nested objects in which unknown members are looked for.
MAX_DEPTH = 8

Shape: TypeAlias = "Mapping[str, Shape | None]"
"""Known members of an object, with the shapes of members that are objects or lists of objects."""


@cache
def shape_of(kind: type) -> Shape:
    """Return the known members of a type of the protocol."""
    return shape_of_type(inspect.type_info(kind), 0) or {}


def shape_of_type(kind: inspect.Type, depth: int) -> Shape | None:
    """Return the known members of a type; None if any may be in it."""
    if isinstance(kind, inspect.StructType) and depth < MAX_DEPTH:
        known: dict[str, Shape | None] = {} if kind.tag_field is None else {kind.tag_field: None}
        for field in kind.fields:
            known[field.encode_name] = shape_of_type(field.type, depth + 1)
        return known
    if isinstance(kind, inspect.ListType | inspect.VarTupleType | inspect.CollectionType):
        return shape_of_type(kind.item_type, depth + 1)
    if isinstance(kind, inspect.UnionType):
        found = [shape for each in kind.types if (shape := shape_of_type(each, depth)) is not None]
        return {name: shape for each in found for name, shape in each.items()} if found else None
    if isinstance(kind, inspect.CustomType) and kind.cls.__name__ == "ResourceContents":
        from carrel.wire.resources import BlobResourceContents, TextResourceContents

        return {**shape_of(TextResourceContents), **shape_of(BlobResourceContents)}
    return None


@cache
def members(kind: type) -> frozenset[str]:
    """Return the names of the members that a type knows."""
    return frozenset(shape_of(kind))


def find(kind: type, value: Any) -> dict[str, Any] | None:
    """Return the members of a decoded JSON object that its type does not know, as a tree; None if it knows all."""
    found: dict[str, Any] | None = find_in(shape_of(kind), value)
    return found


def find_raw(value: msgspec.Struct, raw: msgspec.Raw) -> dict[str, Any] | None:
    """Return the members of a JSON object that are not in the struct that was decoded from it; None if all are."""
    return None if is_whole(value, raw) else find(type(value), msgspec.json.decode(raw))


def is_whole(value: msgspec.Struct, raw: msgspec.Raw) -> bool:
    """Return whether a struct has all members of its source JSON; False if a quick check cannot tell.

    It has all members if its encoding has as many strings as the source. Encoding costs a fraction of decoding the JSON
    again. Lengths prove nothing: a number may be longer in the encoding, such as 1e15.
    """
    return has_same_strings(bytes(raw), encode(value))


def find_in(shape: Shape, value: Any) -> Any:
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for name, each in value.items():
            if name not in shape:
                found[name] = each
            elif each.__class__ in (dict, list) and (inner := shape[name]) is not None:
                more = find_in(inner, each)
                if more is not None:
                    found[name] = more
        return found or None
    if isinstance(value, list):
        parts = {str(index): more for index, each in enumerate(value) if (more := find_in(shape, each)) is not None}
        return parts or None
    return None


def kept(value: T, given: Any) -> T:
    """Return a struct with the members of the decoded JSON object that it was converted from and does not know."""
    found = find(type(value), given)
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
