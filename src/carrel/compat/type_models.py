"""Pydantic models that are created from a table when they are first used."""

from ast import literal_eval
from collections.abc import Mapping
from threading import RLock
from typing import Any, Literal

from pydantic import Field, create_model

__all__ = ["Models"]


class Models(dict[str, Any]):
    """Models of a table by name, and the names that the rows of the table refer to. Thread-safe.

    ``known`` has the base classes and types that are not in the table. Attributes are in camelCase, as in ``mcp`` 1, or
    with ``snake_case`` as in ``mcp`` 2, whose base class has an alias generator. A later row replaces an
    earlier row of the same name.
    """

    def __init__(
        self, table: Mapping[str, str], known: Mapping[str, Any], *, module: str, snake_case: bool = False
    ) -> None:
        super().__init__(known)
        self._lock = RLock()
        self._module = module
        self._snake_case = snake_case
        self._rows: dict[str, tuple[str, str]] = {}
        for kind, text in table.items():
            for row in _rows(text):
                name = row.partition(" ")[0].partition("(")[0].rstrip(":")
                self._rows[name] = kind, row[len(name) :].strip()
        self.names = [*known, *self._rows]
        """All names, also of models that are not created yet."""

    def __missing__(self, name: str) -> Any:
        with self._lock:
            if name not in self:
                kind, row = self._rows[name]
                self[name] = getattr(self, f"_{kind}")(name, row)
            return self[name]

    def _evaluate(self, expression: str) -> Any:
        return eval(expression, {}, self)  # noqa: S307 - a row of our own table

    def _aliases(self, name: str, row: str) -> Any:
        return self._evaluate(row.removeprefix("=").strip())

    def _messages(self, name: str, row: str) -> Any:
        method, params = row.split()
        kind: Any = Literal[method]
        fields: dict[str, Any] = {"method": (kind, method)}
        if params == "PaginatedRequestParams?":
            return self._create(name, self["PaginatedRequest"], fields)
        fields["params"] = _field(self._evaluate(params.rstrip("?")), "None" if params.endswith("?") else "")
        return self._create(name, self["Request" if name.endswith("Request") else "Notification"], fields)

    def _models(self, name: str, row: str) -> Any:
        bases, _, columns = row.removeprefix("(").partition("):") if row.startswith("(") else ("Model", "", row)
        fields: dict[str, Any] = {}
        for column in filter(None, map(str.strip, columns.lstrip(":").split(";"))):
            field, _, kind = column.partition(": ")
            if field == "meta":
                fields[field] = (dict[str, Any] | None, Field(alias="_meta", default=None))
                continue
            kind, _, default = kind.partition(" = ")
            value = "None" if kind.endswith("?") else default
            if self._snake_case and not value and kind.startswith('Literal["') and "," not in kind:
                value = kind[len("Literal[") : -1]  # the only value is the default too
            fields[self._attribute(field)] = _field(self._evaluate(kind.rstrip("?")), value)
        return self._create(name, self._evaluate(f"({bases.rstrip(')')},)"), fields)

    def _attribute(self, name: str) -> str:
        first, *others = name.split("_")
        return name if self._snake_case else first + "".join(map(str.capitalize, others))

    def _create(self, name: str, base: Any, fields: dict[str, Any]) -> Any:
        words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
        return create_model(name, __base__=base, __module__=self._module, __doc__=f"{words.capitalize()}.", **fields)


def _field(kind: Any, default: str) -> tuple[Any, Any]:
    """Return the type and default of a field; the default is an expression, or empty if the field is required."""
    if not default:
        return kind, ...
    return (kind | None if default == "None" and kind is not Any else kind), literal_eval(default)


def _rows(text: str) -> list[str]:
    """Return the rows of a table, with their continuation lines."""
    return text.strip().replace("\n    ", " ").split("\n")
