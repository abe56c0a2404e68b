"""Operations of an OpenAPI description, with their parameters, request bodies and security requirements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from carrel.errors import ConfigError
from carrel.log import Log
from carrel.sources.openapi.document import ApiDocuments, Location
from carrel.sources.openapi.parameters import ApiParameter, default_style

__all__ = ["METHODS", "ApiOperation", "check_version", "read_operations"]

log = Log("carrel.sources")

METHODS = ("get", "head", "post", "put", "patch", "delete", "options", "trace")
READING = ("get", "head", "options", "trace")
#: Header parameters that are not parameters (OpenAPI: "SHALL be ignored").
IGNORED_HEADERS = ("accept", "content-type", "authorization")
LOCATIONS = ("path", "query", "header", "cookie")
MAX_OPERATIONS = 20_000
_NOT_ID = re.compile(r"[^A-Za-z0-9_.-]+")


class ApiOperation(msgspec.Struct, frozen=True):
    """Operation of an API. ``raw`` is its object in the description, which is in the document at ``location``."""

    id: str
    tool: str
    method: str
    path: str
    title: str
    description: str
    deprecated: bool
    tags: tuple[str, ...]
    parameters: tuple[ApiParameter, ...]
    security: list[dict[str, Any]]
    raw: dict[str, Any]
    location: Location

    @property
    def reads(self) -> bool:
        """Whether its method is safe (read-only)."""
        return self.method in READING

    def located(self, location: str) -> list[ApiParameter]:
        """Return the parameters of a location: path, query, header or cookie."""
        return [parameter for parameter in self.parameters if parameter.location == location]

    def matches(self, pattern: str) -> bool:
        """Return whether an operationId, or ``POST /path``, names it; ``*`` stands for any characters."""
        return fnmatchcase(self.id, pattern) or fnmatchcase(f"{self.method.upper()} {self.path}", pattern)


def check_version(document: Any, where: str) -> str:
    """Return the version of OpenAPI that a description has.

    Raises:
        ConfigError: the document is not an OpenAPI 3 description.
    """
    if not isinstance(document, dict):
        raise ConfigError(f"{where} is not an OpenAPI description: it is not an object")
    if "swagger" in document:
        raise ConfigError(
            f"{where} is in Swagger {str(document['swagger'])[:10]}, and OpenAPI 3.0 or 3.1 is needed; "
            "convert it, for example with: npx swagger2openapi FILE"
        )
    version = document.get("openapi")
    if not isinstance(version, str) or not version.startswith(("3.0", "3.1", "3.2")):
        raise ConfigError(f"{where} is not an OpenAPI description: it has no openapi: 3.0.x or 3.1.x")
    if not isinstance(document.get("paths", {}), dict):
        raise ConfigError(f"{where} is not an OpenAPI description: its paths are not an object")
    return version


def read_operations(documents: ApiDocuments) -> list[ApiOperation]:
    """Return the operations of a description, in its order. Invalid operations are skipped, with a warning."""
    found: list[ApiOperation] = []
    ids: dict[str, int] = {}
    tools: dict[str, int] = {}
    for path, method, item, raw, base in walk(documents):
        if len(found) == MAX_OPERATIONS:
            log.warning("the description has more than %d operations; the others are left out", MAX_OPERATIONS)
            break
        if raw.get("servers") or item.get("servers"):
            log.warning("%s %s is left out: it has its own server", method.upper(), path)
            continue
        id = raw.get("operationId")
        id = unique(id if isinstance(id, str) and id else f"{method}{path}", ids)
        tool = unique(_NOT_ID.sub("_", id).strip("_")[:100] or "operation", tools)
        parameters = read_parameters(documents, [(item.get("parameters"), base), (raw.get("parameters"), base)])
        names = re.findall(r"\{([^{}]*)\}", path)
        known = {parameter.name for parameter in parameters if parameter.location == "path"}
        parameters += [
            ApiParameter(name, "path", True, {"type": "string"}, style="simple", explode=False)
            for name in dict.fromkeys(names)
            if name not in known
        ]
        security = raw.get("security", documents.root.get("security", []))
        found.append(
            ApiOperation(
                id,
                tool,
                method,
                path,
                text(raw, "summary") or text(item, "summary") or id,
                text(raw, "description") or text(item, "description"),
                raw.get("deprecated") is True,
                tuple(tag for tag in as_list(raw.get("tags")) if isinstance(tag, str)),
                tuple(one for one in parameters if one.location != "path" or one.name in names),
                [one for one in as_list(security) if isinstance(one, dict)],
                raw,
                base,
            )
        )
    return found


def walk(documents: ApiDocuments) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any], Location]]:
    for path, given in documents.root.get("paths", {}).items():
        item, base = documents.resolve(given, documents.location)
        if not isinstance(item, dict) or not path.startswith("/") or is_devious(path) or "{}" in path:
            continue
        for method in METHODS:
            raw, where = documents.resolve(item.get(method), base)
            if isinstance(raw, dict) and raw:
                yield path, method, item, raw, where


def is_devious(path: str) -> bool:
    """Return whether the path of an operation could lead out of the base of the API."""
    return (
        any(part in (".", "..") for part in path.split("/")) or re.search(r"[\\\s#?]|%2[eEfF]|%5[cC]", path) is not None
    )


def read_parameters(documents: ApiDocuments, lists: list[tuple[Any, Location]]) -> list[ApiParameter]:
    """Return the parameters of a path and of an operation. Operation parameters take precedence."""
    found: dict[tuple[str, str], ApiParameter] = {}
    for items, base in lists:
        for given in as_list(items):
            raw, where = documents.resolve(given, base)
            name, location = (raw.get("name"), raw.get("in")) if isinstance(raw, dict) else (None, None)
            if not isinstance(name, str) or not name or location not in LOCATIONS:
                continue
            if location == "header" and name.lower() in IGNORED_HEADERS:
                continue
            found[location, name] = read_parameter(documents, raw, name, location, where)
    return list(found.values())


def read_parameter(
    documents: ApiDocuments, raw: Mapping[str, Any], name: str, location: Any, base: Location
) -> ApiParameter:
    content = raw.get("content")
    media: Any = next(iter(content.values()), {}) if isinstance(content, dict) and content else None
    given = raw.get("schema") if media is None else (media.get("schema") if isinstance(media, dict) else None)
    given = given if isinstance(given, dict) else {}
    schema, where = settle(documents, given, base)
    style = raw.get("style") if isinstance(raw.get("style"), str) else default_style(location)
    kind = kind_of(schema)
    items, _ = settle(documents, schema.get("items"), where)
    choices = (items if kind == "array" else schema).get("enum")
    explode = raw.get("explode")
    return ApiParameter(
        name,
        location,
        raw.get("required") is True or location == "path",
        given,
        text(raw, "description") or text(schema, "description"),
        str(style),
        explode if isinstance(explode, bool) else style in ("form", "deepObject"),
        kind,
        kind_of(items),
        tuple(as_list(choices)),
        media is not None,
        raw.get("allowReserved") is True,
    )


def settle(documents: ApiDocuments, schema: Any, base: Location, depth: int = 0) -> tuple[dict[str, Any], Location]:
    """Return the schema that defines the type of a value: resolve references, and a single alternative besides null.

    If alternatives have several types, return an empty schema: any text.
    """
    found, where = documents.resolve(schema, base)
    if not isinstance(found, dict):
        return {}, where
    for word in ("allOf", "oneOf", "anyOf"):
        if "type" in found or depth == 5:
            break
        parts = [settle(documents, part, where, depth + 1) for part in as_list(found.get(word))[:20]]
        parts = [part for part in parts if part[0] and part[0].get("type") != "null"]
        if parts:
            return parts[0] if word == "allOf" or len({kind_of(part) for part, _ in parts}) == 1 else ({}, where)
    return found, where


def kind_of(schema: Mapping[str, Any]) -> str:
    """Return the first type of a schema that is not null; by default, string."""
    kinds = schema.get("type")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if isinstance(kind, str) and kind != "null":
            return kind
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def unique(name: str, taken: dict[str, int]) -> str:
    count = taken[name] = taken.get(name, 0) + 1
    return name if count == 1 else unique(f"{name}_{count}", taken)


def text(raw: Mapping[str, Any], key: str) -> str:
    value = raw.get(key)
    return value.strip() if isinstance(value, str) else ""


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
