"""Lists of a database: resources in order, entries of directories, templates, and search."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from carrel.catalog.provider import Hit
from carrel.media_types import DIRECTORY
from carrel.sources.content.words import words_of
from carrel.sources.databases.location import PARTS, SCHEMAS, TOPS, DatabaseLocation, uri_of
from carrel.sources.databases.model import Schema, Table
from carrel.sources.databases.render import FORMATS
from carrel.wire.base import Annotations
from carrel.wire.resources import Resource, ResourceTemplate

if TYPE_CHECKING:
    from carrel.sources.databases.queries import NamedQuery

__all__ = ["Offers"]

T = TypeVar("T")

FIRST = Annotations(priority=1.0)
MAX_DESCRIPTION = 500
#: Tables whose resources are listed; more are in the directory of tables.
MAX_LISTED = 500
TITLES = {
    "schema": ("Schema", "Tables with their columns, types, keys, references, indexes and comments"),
    "dictionary": ("Data dictionary", "The columns of each table: type, null, key, default, meaning"),
    "diagram": ("Entity diagram", "Tables and their foreign keys"),
    "statistics": ("Statistics", "Rows, columns, key, references and indexes of each table"),
}


class Offers:
    """Resources and templates of a database, by its schema."""

    def __init__(self, base: str, name: str) -> None:
        self._base = base
        self._name = name

    def resources(self, catalog: Schema, queries: Mapping[str, NamedQuery]) -> list[Resource]:
        """Return the listed resources, sorted by URI. For each table: its schema and rows."""
        found = [self.top(part, catalog) for part in TITLES]
        found.append(self.directory("tables", "tables"))
        found += [self.query(query) for query in queries.values() if not query.statement.parameters]
        for table in islice(catalog.main.values(), MAX_LISTED):
            found += [self.part(table, "schema"), self.part(table, "rows" if table.key else "sample")]
        return sorted(found, key=lambda resource: resource.uri)

    def top(self, part: str, catalog: Schema) -> Resource:
        """Return the resource of the whole schema, the dictionary, the diagram or the statistics."""
        title, text = TITLES[part]
        count = len(catalog.main)
        size = "1 table or view" if count == 1 else f"{count:,} tables and views"
        return Resource(
            uri_of(self._base, part),
            f"{self._name}/{part}",
            title=f"{title} of {self._name}",
            description=f"{text} ({catalog.product}, {size})",
            mime_type=next(iter(TOPS[part].values())),
            annotations=FIRST if part == "schema" else None,
        )

    def parts(self, table: Table) -> list[str]:
        """Return the parts of a table. A table without a key has no pages of rows."""
        return [part for part in PARTS if part != "rows" or table.key]

    def part(self, table: Table, part: str) -> Resource:
        """Return the resource of a part of a table."""
        title = {"schema": "Columns", "rows": "Rows", "sample": "Some rows", "statistics": "Statistics"}[part]
        comment = f": {' '.join(table.comment.split())}"[:MAX_DESCRIPTION] if table.comment else ""
        return Resource(
            uri_of(self._base, "tables", table.id, part),
            f"{table.id}/{part}",
            title=f"{title} of {table.id}",
            description=f"{title} of the {table.kind} {table.id}{comment}",
            mime_type=SCHEMAS["markdown"] if part == "schema" else FORMATS["json"],
        )

    def query(self, query: NamedQuery) -> Resource:
        """Return the resource of a named query without parameters."""
        return Resource(
            uri_of(self._base, "queries", query.name),
            query.name,
            description=query.description,
            mime_type=FORMATS["json"],
        )

    def directory(self, name: str, *segments: str) -> Resource:
        """Return the resource of a directory."""
        return Resource(uri_of(self._base, *segments), name, mime_type=DIRECTORY)

    def entries(
        self, location: DatabaseLocation, catalog: Schema, queries: Mapping[str, NamedQuery]
    ) -> list[Resource] | None:
        """Return the entries of a directory, sorted by URI, or None if the location is not a directory."""
        found: list[Resource]
        if location.part == "database":
            found = [self.top(part, catalog) for part in TITLES] + [self.directory("tables", "tables")]
            found += [self.directory("queries", "queries")] if queries else []
        elif location.part == "tables":
            found = [self.directory(id, "tables", id) for id in catalog.main]
        elif location.part == "queries" and queries:
            found = [self.query(query) for query in queries.values() if not query.statement.parameters]
        elif location.part == "table" and location.table in catalog.tables:
            table = catalog.tables[location.table]
            found = [self.part(table, part) for part in self.parts(table)]
            found += [self.directory(id, "tables", id) for id in catalog.partitions(table)]
        else:
            return None
        return sorted(found, key=lambda resource: resource.uri)

    def templates(self, queries: Mapping[str, NamedQuery]) -> list[ResourceTemplate]:
        """Return the templates."""
        base, name = self._base, self._name
        table = f"{base}/tables/{{table}}"
        rows = FORMATS["json"]
        found = [
            ResourceTemplate(
                f"{base}/{part}{{?format}}",
                f"{name}-{part}",
                title=f"{title} of {name}",
                description=f"{title} of the database, as {', '.join(TOPS[part])}",
            )
            for part, (title, _) in TITLES.items()
        ]
        for part, variables, text in (
            ("schema", "?format", "Columns, keys, references and indexes of a table"),
            ("rows", "?after,limit,columns,format", "Rows of a table in the order of their key, after a key"),
            ("rows/{key}", "?columns,format", "A row by its key; the values of a key of several columns have commas"),
            ("sample", "?limit,columns,format", "Some rows of a table or a view"),
            ("statistics", "?format", "Number of values, nulls, different values, least and greatest of each column"),
        ):
            short = "row" if "{key}" in part else part
            found.append(
                ResourceTemplate(
                    f"{table}/{part}{{{variables}}}",
                    f"{name}-table-{short}",
                    description=text,
                    mime_type=SCHEMAS["markdown"] if part == "schema" else rows,
                )
            )
        for query in queries.values():
            names = ",".join((*query.statement.parameters, "limit", "format"))
            uri = f"{uri_of(base, 'queries', query.name)}{{?{names}}}"
            found.append(
                ResourceTemplate(uri, f"{name}-query-{query.name}", description=query.description, mime_type=rows)
            )
        return found

    def search(self, catalog: Schema, query: str, limit: int) -> list[Hit]:
        """Return the tables whose names, columns and comments contain all words, best first."""
        words = words_of(query)
        hits = []
        for table in catalog.tables.values() if words else ():
            scores = [score_of(table, word) for word in words]
            if all(scores):
                names = [
                    column.name for column in table.columns if any(word in column.name.casefold() for word in words)
                ]
                snippet = f"columns {', '.join(names[:10])}" if names else table.comment
                hits.append(Hit(self.part(table, "schema"), sum(scores) / len(scores), snippet))
        hits.sort(key=lambda hit: (-hit.score, hit.resource.uri))
        return hits[:limit]


def score_of(table: Table, word: str) -> float:
    """Return how well a word matches a table, from 0 to 1."""
    name = table.name.casefold()
    if word in (name, table.id.casefold()):
        return 1.0
    if word in table.id.casefold():
        return 0.8
    columns = [column.name.casefold() for column in table.columns]
    if word in columns:
        return 0.6
    if any(word in column for column in columns):
        return 0.5
    comments = [table.comment or "", *(column.comment or "" for column in table.columns)]
    return 0.3 if any(word in comment.casefold() for comment in comments) else 0.0
