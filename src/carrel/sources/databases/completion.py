"""Completion of the variables of a database's templates: tables, keys, columns, formats."""

from __future__ import annotations

from functools import partial

from carrel.errors import ResourceNotFound
from carrel.sources.base import MAX_SUGGESTIONS, Variable
from carrel.sources.databases.failure import DatabaseFailed
from carrel.sources.databases.location import SCHEMAS, TOPS
from carrel.sources.databases.reader import DatabaseReader
from carrel.sources.databases.render import FORMATS
from carrel.wire.completion import Completion

__all__ = ["complete"]


async def complete(reader: DatabaseReader, variable: Variable, client: str) -> Completion | list[str]:
    """Return suggestions for a variable of one of the templates."""
    name, value = variable.name, variable.value
    if not value.isprintable() or len(value) > 500:
        return []
    location = variable.template.uri_template.removeprefix(reader.base)
    try:
        if name == "format":
            known = SCHEMAS if "/schema{" in location else TOPS.get(location.partition("{")[0][1:], FORMATS)
            return [one for one in known if one.startswith(value)]
        if name == "table" and location.startswith("/tables/"):
            catalog = await reader.cache.get(client)
            typed = value.casefold()
            found = [table for table in catalog.tables.values() if table.id.casefold().startswith(typed)]
            return [table.id for table in found if table.key or "/rows" not in location]
        if name in ("key", "after", "columns") and location.startswith("/tables/"):
            return await complete_in_table(reader, variable, client)
    except (DatabaseFailed, ResourceNotFound):
        pass
    return []


async def complete_in_table(reader: DatabaseReader, variable: Variable, client: str) -> Completion | list[str]:
    """Return the keys, or the columns, of a table that begin with the typed text."""
    from carrel.sources.databases.rows import prefix_of_key

    table = await reader.table(reader.base, variable.context.get("table", ""), client)
    if variable.name == "columns":
        before, comma, typed = variable.value.rpartition(",")
        return [f"{before}{comma}{column.name}" for column in table.columns if column.name.startswith(typed)]
    job = partial(prefix_of_key, table=table, typed=variable.value, limit=MAX_SUGGESTIONS + 1)
    found = await reader.processes.run(client, job, list[str])
    return Completion(found[:MAX_SUGGESTIONS], has_more=len(found) > MAX_SUGGESTIONS)
