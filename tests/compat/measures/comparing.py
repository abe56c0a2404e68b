"""Comparison of what a server answers on Carrel with what it answers on the original."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from compat.measures.probe import LISTS

__all__ = ["differences", "is_list", "normal", "reason", "start_reason"]

#: Parts of texts that differ from run to run, or with the version of a package.
VARYING: tuple[tuple[re.Pattern[str], Any], ...] = (
    (re.compile(r" at 0x[0-9a-f]+"), ""),
    (re.compile(r"errors\.pydantic\.dev/[0-9.]+"), "errors.pydantic.dev"),
    (re.compile(r"__main__(?=[.:])"), "server"),  # the name of the program's module, see launch.py
    (re.compile(r"\{'[^{}]*', '[^{}]*'\}"), lambda found: "{" + ", ".join(sorted(found[0][1:-1].split(", "))) + "}"),
)
MISSING = object()
MAX_TEXT = 160


def normal(answers: Mapping[str, Any]) -> Any:
    """Return answers without addresses of objects, and without the version of the server."""
    text = json.dumps(answers)
    for pattern, replacement in VARYING:
        text = pattern.sub(replacement, text)
    found = json.loads(text)
    for key in ("initialize", "discover"):
        result = found.get(key, {}).get("result", {})
        result.get("serverInfo", {}).pop("version", None)  # without one of its own, a server has that of the package
        for name in ("protocolVersion", "supportedVersions"):  # of the packages: Carrel has all of them
            result.pop(name, None)
    for message in found.get("messages", ()):
        if message.get("params", {}) is None:
            message["params"] = {}  # requests may leave empty parameters out
    remove_server_info(found)
    return found


def remove_server_info(value: Any) -> None:
    """Remove the version from the information about the server that results of 2026-07-28 carry."""
    if isinstance(value, dict):
        information = (value.get("_meta") or {}) if isinstance(value.get("_meta"), dict) else {}
        if isinstance(information.get("io.modelcontextprotocol/serverInfo"), dict):
            information["io.modelcontextprotocol/serverInfo"].pop("version", None)
        for each in value.values():
            remove_server_info(each)
    elif isinstance(value, list):
        for each in value:
            remove_server_info(each)


def differences(expected: Any, found: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield where two JSON values differ: the path, and both values."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted({*expected, *found}):
            left, right = expected.get(key, MISSING), found.get(key, MISSING)
            yield from differences(left, right, (*path, key))
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (left, right) in enumerate(zip(expected, found, strict=True)):
            yield from differences(left, right, (*path, str(index)))
    elif expected is MISSING or found is MISSING or expected != found or type(expected) is not type(found):
        yield path, expected, found


def is_list(key: str) -> bool:
    """Return whether a request belongs to the start and the lists of a server."""
    return key in LISTS or key in ("initialize", "discover")


def shown(value: Any) -> str:
    return "nothing" if value is MISSING else json.dumps(value, ensure_ascii=False)[:MAX_TEXT]


def reason(path: tuple[str, ...], expected: Any, found: Any) -> str:
    """Return a description of a difference that is the same for similar differences of other programs."""
    kind = path[0].partition(" ")[0]
    members = [part for part in path[1:] if not part.isdigit()]
    where = "/".join(members[-3:])
    if "error" in path or (path[-1] == "text" and isinstance(expected, str)):
        return f"{kind} {where}: {shown(expected)[:70]} / {shown(found)[:70]}"
    if isinstance(expected, list) and isinstance(found, list):
        return f"{kind} {where}: another number of items"
    if MISSING in (expected, found) or isinstance(expected, dict):
        return f"{kind} {where}: {'not in the original' if expected is MISSING else 'missing or another type'}"
    return f"{kind} {where}: another value"


def start_reason(errors: str) -> str:
    """Return the last error line of what a server wrote to standard error."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    stated = [
        line for line in lines if re.match(r"(carrel( run)?|carrel\.compat|[\w.]*(Error|Exception|Exit)\b)", line)
    ]
    last = (stated or lines or ["ended without a word"])[-1]
    last = re.sub(r"^carrel[^:]*: ", "", last)
    last = re.sub(r"(/[\w.+-]+)+/([\w.-]+\.py)", r"\2", last)
    return re.sub(r"^\S+\.py (cannot be loaded: |ended )", r"\1", last)[:200]
