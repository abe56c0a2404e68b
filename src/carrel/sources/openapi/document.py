"""Documents of an OpenAPI description: decoding, and references within and across files, all bounded.

Files must be below the folder of the first file; documents of a description from the web must have its origin.
References are resolved lazily, and references of a remote document must not lead to another host.

https://spec.openapis.org/oas/v3.1.1.html#relative-references-in-api-description-uris
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urljoin

import msgspec

from carrel.errors import ConfigError
from carrel.sources.packages import needed

__all__ = ["ApiDocuments", "Location", "decode_document", "external_references"]

MAX_DOCUMENTS = 50
#: References to references.
MAX_HOPS = 20
#: Limits on the values of a YAML document after resolving aliases: an absolute number, and a multiple of its values.
MAX_VALUES, MAX_GROWTH = 200_000, 3
MAX_DEPTH = 200

_EXTERNAL = re.compile(rb"\$ref[\"']?\s*:\s*[\"']?([^#\"'\s{}][^\"'\s#{}]{0,500})")

Location = str
"""URL of a document, without a fragment."""


def decode_document(data: bytes, where: str) -> Any:
    """Decode a document in JSON or YAML.

    Raises:
        ConfigError: the document is neither JSON nor YAML.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if data.lstrip()[:1] in (b"{", b"["):
            start = data.lstrip()[:200]
            if b'"' in start[:40]:
                raise ConfigError(f"{where} is not valid JSON") from None
    try:
        return decode_yaml(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where} is neither JSON nor YAML: {str(error)[:200]}") from None


def external_references(data: bytes, location: Location) -> list[Location]:
    """Return the locations of the other documents that a document refers to, found in its text."""
    found: dict[Location, None] = {}
    for reference in _EXTERNAL.findall(data):
        try:
            found[urljoin(location, reference.decode())] = None
        except ValueError:
            continue
    found.pop(location, None)
    return list(found)


def decode_yaml(data: bytes) -> Any:
    """Decode YAML into values of JSON: times stay text, and keys become text.

    Raises:
        ValueError: it is not YAML, is recursive, or expands too much.
        ConfigError: PyYAML is not installed.
    """
    with needed("descriptions in YAML", "openapi"):
        import yaml  # type: ignore[import-untyped]
    base = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

    class Loader(base):  # type: ignore[misc,valid-type]
        yaml_implicit_resolvers = {  # noqa: RUF012
            first: [(tag, pattern) for tag, pattern in rules if not tag.endswith((":timestamp", ":merge"))]
            for first, rules in base.yaml_implicit_resolvers.items()
        }
        depth = 0

        def descend_resolver(self, *node: object) -> None:
            """Limit the depth: PyYAML's C parser recurses without a limit, until the stack overflows."""
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise yaml.YAMLError("it is nested too deeply")

        def ascend_resolver(self) -> None:
            self.depth -= 1

    try:
        found = yaml.load(data, Loader)  # noqa: S506  (a safe loader)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    count, own = 0, set[int]()

    def plain(value: Any, depth: int) -> Any:
        nonlocal count
        if isinstance(value, (dict, list)):
            count += 1
            own.add(id(value))
        if (count > MAX_VALUES and count > MAX_GROWTH * len(own)) or depth > MAX_DEPTH:
            raise ValueError("its aliases expand too much, or it is nested too deeply")
        if isinstance(value, dict):
            return {str(key): plain(one, depth + 1) for key, one in value.items()}
        if isinstance(value, list):
            return [plain(one, depth + 1) for one in value]
        if isinstance(value, (str, int, float, bool)) or value is None:
            return value
        return str(value)

    return plain(found, 0)


class ApiDocuments:
    """Documents by their locations; ``root`` is the first one."""

    def __init__(self, root: Any, location: Location) -> None:
        self.root = root
        self.location = location
        self._known: dict[Location, Any] = {location: root}

    def add(self, location: Location, document: Any) -> None:
        """Add a document that others refer to."""
        self._known[location] = document

    def target(self, reference: str, base: Location) -> tuple[Location, str]:
        """Return the location of the document that a reference is in, and the JSON pointer."""
        location, _, pointer = reference.partition("#")
        try:
            return (urljoin(base, location) if location else base), unquote(pointer)
        except ValueError:
            return base, "/\0"

    def resolve(self, value: Any, base: Location) -> tuple[Any, Location]:
        """Resolve the ``$ref`` of an object, if it has one. Return the value and the document that contains it.

        Siblings of ``$ref`` take precedence (OpenAPI 3.1). A dangling reference resolves to an empty object.
        """
        for _ in range(MAX_HOPS):
            if not isinstance(value, dict) or not isinstance(value.get("$ref"), str):
                return value, base
            beside = {key: one for key, one in value.items() if key in ("summary", "description")}
            base, pointer = self.target(value["$ref"], base)
            value = self.at(base, pointer)
            if beside and isinstance(value, dict):
                value = {**value, **beside}
        return {}, base

    def at(self, location: Location, pointer: str) -> Any:
        """Return the value at a JSON pointer (RFC 6901) of a document, or an empty object if it does not exist."""
        value = self._known.get(location, {})
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and key in value:
                value = value[key]
            elif isinstance(value, list) and key.isascii() and key.isdigit() and int(key[:9]) < len(value):
                value = value[int(key[:9])]
            else:
                return {}
        return {} if value is None else value
