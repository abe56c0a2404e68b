"""Checks of lists: paging, stability, duplicates, descriptions, names, URIs and schemas."""

from __future__ import annotations

import re
from typing import Any

import jsonschema_rs

from carrel.doctor.subject import Subject
from carrel.protocol.methods import ITEM_KEYS, LIST_REQUESTS, ItemKind, RequestType
from carrel.uri.parse import UriError, parse
from carrel.uri.template import UriTemplate, UriTemplateError

__all__ = ["check_lists", "wire_names"]

MAX_PAGES = 100
LONG_PAGE = 1000
TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
BAD_CURSOR = "no-such-cursor"


async def check_lists(subject: Subject) -> None:
    """Check every list that the server offers, and the items in it."""
    for kind, row in LIST_REQUESTS.items():
        method, (key, identity) = row.method, wire_names(row)
        if row.capability is None or not subject.offers(row.capability):
            continue
        items = await read_all(subject, method, key)
        if items is None:
            continue
        subject.lists[key] = items
        subject.report.check("lists")
        names = [str(item.get(identity)) for item in items]
        for name in {name for name in names if names.count(name) > 1} if len(names) < LONG_PAGE else duplicates(names):
            subject.find("duplicate", f"{method}: {name}")
        again = await read_all(subject, method, key)
        if again is not None and [str(item.get(identity)) for item in again] != names:
            subject.find("unstable-list", method)
        await check_bad_cursor(subject, method)
        for item, name in zip(items, names, strict=True):
            check_item(subject, kind, item, name)


def wire_names(row: RequestType) -> tuple[str, str]:
    """Return the key of the items in the result of a list request, and the key that identifies an item."""
    assert row.item is not None
    names = (row.result_field, ITEM_KEYS[row.item])
    items, identity = (re.sub("_(.)", lambda match: match[1].upper(), name) for name in names)
    return items, identity


def duplicates(names: list[str]) -> set[str]:
    seen: set[str] = set()
    return {name for name in names if name in seen or seen.add(name)}  # type: ignore[func-returns-value]


async def read_all(subject: Subject, method: str, key: str) -> list[dict[str, Any]] | None:
    """Return all items of a list; None if it cannot be read."""
    items: list[dict[str, Any]] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        response = await subject.ask(method, {} if cursor is None else {"cursor": cursor})
        if response.failure is not None:
            subject.find("silent", f"{method}: {response.failure}")
            return None
        if not isinstance(response.result, dict) or not isinstance(response.result.get(key), list):
            reason = (
                "no list" if response.error is None else f"{response.error.get('code')} {response.error.get('message')}"
            )
            subject.find("refused", f"{method}: {reason}")
            return None
        page = [item for item in response.result[key] if isinstance(item, dict)]
        items += page
        if len(page) > LONG_PAGE:
            subject.find("long-page", f"{method}: {len(page)} items")
        cursor = response.result.get("nextCursor")
        if cursor is None:
            return items
        if not isinstance(cursor, str) or cursor in seen:
            subject.find("cursor-loop", f"{method}: cursor {str(cursor)[:60]!r}")
            return items
        if cursor.isdecimal() and len(cursor) < 6:
            subject.find("plain-cursor", f"{method}: cursor {cursor!r}")
        seen.add(cursor)
    subject.report.notes.append(f"{method}: only the first {MAX_PAGES} pages were read")
    return items


async def check_bad_cursor(subject: Subject, method: str) -> None:
    subject.report.check("errors")
    response = await subject.ask(method, {"cursor": BAD_CURSOR})
    if response.error is None or response.error.get("code") != -32602:
        said = "a result" if response.error is None else str(response.error.get("code"))
        subject.find("bad-cursor", f"{method}: {response.failure or said}")


def check_item(subject: Subject, kind: ItemKind, item: dict[str, Any], name: str) -> None:
    """Check an item of a list."""
    subject.report.check("items")
    if kind != "resource" and not item.get("description") and not (kind == "template" and item.get("title")):
        subject.find("undescribed", f"{kind} {name}")
    if kind == "tool":
        check_tool(subject, item, name)
    elif kind == "prompt":
        for argument in item.get("arguments") or ():
            if isinstance(argument, dict) and not argument.get("description"):
                subject.find("undescribed-argument", f"prompt {name}: {argument.get('name')}")
    else:
        try:
            if kind == "resource":
                parse(name)
            else:
                UriTemplate(name)
        except (UriError, UriTemplateError) as error:
            subject.find("bad-uri", f"{kind} {name[:100]}: {error}")


def check_tool(subject: Subject, tool: dict[str, Any], name: str) -> None:
    if TOOL_NAME.fullmatch(name) is None:
        subject.find("tool-name", repr(name))
    for field in ("inputSchema", "outputSchema"):
        schema = tool.get(field)
        if schema is None:
            continue
        subject.report.check("schemas")
        problem = problem_of(schema)
        if problem is not None:
            subject.find("tool-schema", f"{name}, {field}: {problem}")
        elif field == "inputSchema":
            for argument, about in (schema.get("properties") or {}).items():
                if isinstance(about, dict) and not about.get("description") and "$ref" not in about:
                    subject.find("undescribed-argument", f"tool {name}: {argument}")


def problem_of(schema: Any) -> str | None:
    """Return why a value is no valid JSON Schema of an object; None if it is one."""
    if not isinstance(schema, dict):
        return "it is not an object"
    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as error:
        where = "/".join(str(part) for part in error.instance_path)
        return f"{where}: {error.message}"[:200]
    except Exception as error:  # an unknown $schema, or a reference that leads nowhere
        return str(error)[:200]
    properties = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if isinstance(properties, dict) and name not in properties]
    if missing and schema.get("additionalProperties") is False:
        return f"it requires {missing[0]!r}, which it does not allow"
    return None
