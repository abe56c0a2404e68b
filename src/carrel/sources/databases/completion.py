"""Completion of the variables of a database's templates: tables, keys, columns, formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from carrel.errors import InvalidParams, ResourceNotFound
from carrel.sources.databases.failure import DatabaseFailed
from carrel.sources.databases.location import SCHEMAS, TOPS
from carrel.sources.databases.reader import DatabaseReader
from carrel.sources.databases.render import FORMATS
from carrel.uri.template import UriTemplate
from carrel.wire.completion import Completion

__all__ = ["complete"]

MAX_SUGGESTIONS = 100


async def complete(
    reader: DatabaseReader, template: str, argument: str, value: str, context: Mapping[str, str], client: str
) -> Completion:
    """Return suggestions for a variable of one of the templates.

    Raises:
        InvalidParams: the template has no such variable.
    """
    if argument not in UriTemplate(template).names:
        raise InvalidParams(f"Invalid params: the template has no variable {argument[:200]!r}", parameter="argument")
    if not value.isprintable() or len(value) > 500:
        return Completion([])
    location = template.removeprefix(reader.base)
    try:
        if argument == "format":
            known = SCHEMAS if "/schema{" in location else TOPS.get(location.partition("{")[0][1:], FORMATS)
            return limited(name for name in known if name.startswith(value))
        if argument == "table" and location.startswith("/tables/"):
            catalog = await reader.cache.get(client)
            typed = value.casefold()
            found = [table for table in catalog.tables.values() if table.id.casefold().startswith(typed)]
            keyed = [table.id for table in found if table.key or "/rows" not in location]
            return limited(keyed)
        if argument in ("key", "after", "columns") and location.startswith("/tables/"):
            return await complete_in_table(reader, argument, value, context.get("table", ""), client)
    except (DatabaseFailed, ResourceNotFound):
        pass
    return Completion([])


async def complete_in_table(reader: DatabaseReader, argument: str, value: str, id: str, client: str) -> Completion:
    """Return the keys, or the columns, of a table that begin with the typed text."""
    from carrel.sources.databases.rows import prefix_of_key

    table = await reader.table(reader.base, id, client)
    if argument == "columns":
        before, comma, typed = value.rpartition(",")
        names = [column.name for column in table.columns if column.name.startswith(typed)]
        return limited(f"{before}{comma}{name}" for name in names)
    job = partial(prefix_of_key, table=table, typed=value, limit=MAX_SUGGESTIONS + 1)
    found = await reader.processes.run(client, job, list[str])
    return Completion(found[:MAX_SUGGESTIONS], has_more=len(found) > MAX_SUGGESTIONS)


def limited(values: Iterable[str]) -> Completion:
    every = list(values)
    return Completion(every[:MAX_SUGGESTIONS], total=len(every), has_more=len(every) > MAX_SUGGESTIONS)
