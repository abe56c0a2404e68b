"""Locations in a database, and their URIs.

BASE                            a directory
BASE/schema                     BASE/dictionary, BASE/diagram, BASE/statistics
BASE/tables                     a directory
BASE/tables/orders              a directory
BASE/tables/orders/schema       …/rows, …/sample, …/statistics
BASE/tables/orders/rows/7       a row by its key
BASE/queries                    a directory
BASE/queries/late_orders        a query that is named in carrel.toml
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from carrel.errors import InvalidParams, ResourceNotFound
from carrel.sources.content.query import read_parameters
from carrel.uri.parse import UriError, encode_path, percent_decode, percent_encode

__all__ = [
    "DIAGRAMS",
    "DICTIONARIES",
    "PARTS",
    "SCHEMAS",
    "TOPS",
    "DatabaseLocation",
    "choice",
    "read_location",
    "uri_of",
    "with_parameters",
]

SCHEMAS = {"markdown": "text/markdown", "json": "application/json"}
DICTIONARIES = {"markdown": "text/markdown", "csv": "text/csv", "json": "application/json"}
DIAGRAMS = {"mermaid": "text/vnd.mermaid", "svg": "image/svg+xml"}

#: Parts of a table, with the parameters that their URIs may have.
PARTS: Mapping[str, tuple[str, ...]] = {
    "schema": ("format",),
    "rows": ("after", "limit", "columns", "format"),
    "sample": ("limit", "columns", "format"),
    "statistics": ("format",),
}
#: Parts of the whole database, with their formats: names and MIME types.
TOPS: Mapping[str, Mapping[str, str]] = {
    "schema": SCHEMAS,
    "dictionary": DICTIONARIES,
    "diagram": DIAGRAMS,
    "statistics": DICTIONARIES,
}
DIRECTORIES = ("tables", "queries")


class DatabaseLocation(NamedTuple):
    """Location in a database, parsed from a URI. ``part`` is "database", "tables", "table", "row", or as in the URI.

    ``segments`` are the decoded segments of the URI after the base.
    """

    part: str
    table: str = ""
    key: str = ""
    query: str = ""
    parameters: Mapping[str, str] = {}
    segments: tuple[str, ...] = ()


def uri_of(base: str, *segments: str) -> str:
    """Return the URI of a location, from its segments."""
    return "/".join((base, encode_path(segments))) if segments else base


def read_location(base: str, uri: str, parameters: Mapping[str, Collection[str]]) -> DatabaseLocation:
    """Parse a URI. ``parameters`` are the parameters of the named queries, by query name.

    Raises:
        ResourceNotFound: the URI does not name a location.
        InvalidParams: the URI has an unknown parameter.
    """
    path, mark, query = uri.partition("?")
    if path.rstrip("/") == base:
        segments: list[str] = []
    elif path.startswith(f"{base}/"):
        try:
            segments = [percent_decode(part) for part in path[len(base) + 1 :].split("/")]
        except UriError:
            raise ResourceNotFound(uri) from None
    else:
        raise ResourceNotFound(uri)
    if "#" in uri or "\0" in "".join(segments):
        raise ResourceNotFound(uri)
    location, known = location_of(segments, parameters) or (None, ())
    if location is None:
        raise ResourceNotFound(uri)
    return location._replace(parameters=read_parameters(query, known) if mark else {}, segments=tuple(segments))


def location_of(
    segments: list[str], parameters: Mapping[str, Collection[str]]
) -> tuple[DatabaseLocation, Collection[str]] | None:
    """Return the location with these segments, and the parameters that its URI may have."""
    match segments:
        case []:
            return DatabaseLocation("database"), ()
        case [top] if top in TOPS:
            return DatabaseLocation("database statistics" if top == "statistics" else top), ("format",)
        case [top] if top in DIRECTORIES:
            return DatabaseLocation(top), ()
        case ["tables", table] if table:
            return DatabaseLocation("table", table), ()
        case ["tables", table, part] if part in PARTS:
            return DatabaseLocation(f"table {part}" if part == "schema" else part, table), PARTS[part]
        case ["tables", table, "rows", key]:
            return DatabaseLocation("row", table, key), ("columns", "format")
        case ["queries", name] if name in parameters:
            return DatabaseLocation("query", query=name), (*parameters[name], "limit", "format")
    return None


def choice(location: DatabaseLocation, formats: Mapping[str, str]) -> str:
    """Return the format in a URI, given by its name or its MIME type; by default, the first format.

    Raises:
        InvalidParams: there is no such format.
    """
    wanted = location.parameters.get("format")
    if wanted is None:
        return next(iter(formats))
    by_type = {mime_type: name for name, mime_type in formats.items()}
    found = wanted if wanted in formats else by_type.get(wanted)
    if found is None:
        raise InvalidParams(
            f"Invalid params: format: {wanted[:50]!r} is not one of {', '.join(formats)}", parameter="format"
        )
    return found


def with_parameters(uri: str, parameters: Mapping[str, str]) -> str:
    """Return a URI with other parameters."""
    text = "&".join(f"{percent_encode(name)}={percent_encode(value)}" for name, value in parameters.items())
    path = uri.partition("?")[0]
    return f"{path}?{text}" if text else path
