"""Changes of a tool's arguments: the schema after the changes, and the original arguments of a call."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

from carrel.compat.fastmcp.utilities.json_schema import compress_schema
from carrel.compat.fastmcp.utilities.types import NotSet

__all__ = ["ArgTransform", "Arguments"]


@dataclass(kw_only=True)
class ArgTransform:
    """Changes of one argument.

    Raises:
        ValueError: the changes contradict each other.
    """

    name: Any = NotSet
    description: Any = NotSet
    default: Any = NotSet
    default_factory: Callable[[], Any] | Any = NotSet
    type: Any = NotSet
    hide: bool = False
    required: Literal[True] | Any = NotSet
    examples: Any = NotSet

    def __post_init__(self) -> None:
        fixed, made = self.default is not NotSet, self.default_factory is not NotSet
        conflicts = (
            (fixed and made, "Cannot specify both 'default' and 'default_factory' in ArgTransform."),
            (made and not self.hide, "default_factory can only be used with hide=True: a schema has fixed defaults."),
            (
                self.required is True and (fixed or made),
                "Cannot specify 'required=True' with 'default' or 'default_factory': required parameters have none.",
            ),
            (
                self.hide and self.required is True,
                "Cannot specify both 'hide=True' and 'required=True': clients do not see a hidden parameter.",
            ),
            (self.required is False, "Cannot specify 'required=False'. Set a default value instead."),
        )
        for conflict, message in conflicts:
            if conflict:
                raise ValueError(message)


class Arguments:
    """Arguments of a tool after changes: ``schema`` describes them to clients.

    Raises:
        ValueError: an argument is unknown, or is required and hidden without a default.
    """

    def __init__(self, tool: str, parameters: dict[str, Any], changes: dict[str, ArgTransform]) -> None:
        fields = parameters.get("properties", {})
        unknown = changes.keys() - fields.keys()
        if unknown:
            raise ValueError(
                f"Unknown arguments in transform_args: {', '.join(sorted(unknown))}. "
                f"Parent tool `{tool}` has: {', '.join(sorted(fields))}"
            )
        self._names: list[tuple[str, str]] = []
        self._hidden: dict[str, ArgTransform] = {}
        self._definitions: dict[str, Any] = copy.deepcopy(parameters.get("$defs", {}))
        self._fields: dict[str, Any] = {}
        required = set(parameters.get("required", ()))
        self._required: set[str] = set()
        for name, field in fields.items():
            change = changes.get(name, ArgTransform())
            if change.hide:
                self._hide(name, change, name in required)
            else:
                self._change(name, copy.deepcopy(field), change, name in required)
        self.schema = self._schema()

    def _hide(self, name: str, change: ArgTransform, required: bool) -> None:
        if change.default is NotSet and change.default_factory is NotSet:
            if required:
                raise ValueError(
                    f"Hidden parameter '{name}' has no default value in parent tool and no default or default_factory "
                    "provided in ArgTransform."
                )
            return
        self._hidden[name] = change

    def _change(self, name: str, field: dict[str, Any], change: ArgTransform, required: bool) -> None:
        new = name if change.name is NotSet else change.name
        if change.description is None:
            field.pop("description", None)
        elif change.description is not NotSet:
            field["description"] = change.description
        if change.required is True:
            required = True
            field.pop("default", None)
        if change.default is not NotSet:
            required = False
            field["default"] = change.default
        if change.type is not NotSet:
            schema = TypeAdapter(change.type).json_schema()
            for key, definition in schema.pop("$defs", {}).items():
                if self._definitions.setdefault(key, definition) != definition:
                    raise ValueError(f"$defs collision for '{key}': rename one of the types of this name.")
            field.update(schema)
        if change.examples is not NotSet:
            field["examples"] = change.examples
        self._names.append((new, name))
        self._fields[new] = field
        if required:
            self._required.add(new)

    def _schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {
            "type": "object",
            "properties": self._fields,
            "required": [name for name in self._fields if name in self._required],
            "additionalProperties": False,
        }
        return compress_schema({**schema, "$defs": self._definitions})

    def check_names(self) -> None:
        """Check that no two arguments have the same name.

        Raises:
            ValueError: two arguments have the same name.
        """
        names = [new for new, _ in self._names]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"Multiple arguments would be mapped to the same names: {', '.join(twice)}")

    def original(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call under their original names, with the hidden ones.

        Raises:
            TypeError: an argument is missing or unknown.
        """
        unknown = given.keys() - self._fields.keys()
        if unknown:
            raise TypeError(f"Got unexpected keyword argument(s): {', '.join(sorted(unknown))}")
        missing = self._required - given.keys()
        if missing:
            raise TypeError(f"Missing required argument(s): {', '.join(sorted(missing))}")
        found = {old: given[new] for new, old in self._names if new in given}
        for name, change in self._hidden.items():
            found[name] = change.default if change.default_factory is NotSet else change.default_factory()
        return found
