"""Error messages for invalid arguments of a call, which a model can act on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import NODEFAULT, ValidationError

from carrel.protocol.json_values import InvalidArguments, to_jsonable

__all__ = ["explain", "missing_argument", "unknown_argument"]

WORDS = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "null": "null",
    "array": "an array",
    "object": "an object",
    "bytes": "base64 text",
    "uuid": "a UUID",
    "decimal": "a decimal number",
    "datetime": "a date and time such as 2024-02-29T12:30:00Z",
    "date": "a date such as 2024-02-29",
    "time": "a time such as 12:30:00",
    "duration": "a duration such as PT1H30M",
}
INVALID = {
    "Invalid UUID": WORDS["uuid"],
    "Invalid base64 encoded string": WORDS["bytes"],
    "Invalid decimal string": WORDS["decimal"],
    "Invalid RFC3339 encoded datetime": WORDS["datetime"],
    "Invalid RFC3339 encoded date": WORDS["date"],
    "Invalid RFC3339 encoded time": WORDS["time"],
    "Invalid ISO8601 duration": WORDS["duration"],
}


def explain(
    error: Exception, annotations: Mapping[str, Any], name: str = "", given: Any = NODEFAULT
) -> InvalidArguments:
    """Return an error of msgspec as ``InvalidArguments``, in plain words.

    ``annotations`` has the annotations of all arguments; ``name`` is the argument, and ``given`` its text, if only one
    argument was decoded.
    """
    from carrel.server.schema.type_hints import values_of  # most servers never come here

    text, path = split_error(str(error))
    path = name + path if name else path.removeprefix(".")
    quoted = text[text.find("`") + 1 : text.rfind("`")]
    if text.startswith("Object missing required field"):
        return missing_argument(f"{path}.{quoted}" if path else quoted, annotations)
    if text.startswith("Object contains unknown field"):
        return unknown_argument(quoted, annotations, path)
    subject = f"Argument `{path[:200]}`" if path else "The arguments"
    top = argument_of(path, annotations)
    values = values_of(annotations[top]) if top is not None and top in annotations else ()
    if isinstance(error, TypeError):
        return InvalidArguments(f"{subject} cannot be used: {text}", top, path)
    if not isinstance(error, ValidationError):
        problem = "nested too deeply" if isinstance(error, RecursionError) else f"not valid JSON: {text}"
        return InvalidArguments(f"{subject} {'is' if path else 'are'} {problem}", top, path)
    if text.startswith("Invalid enum value") and values:
        problem = "must be one of " + ", ".join(msgspec.json.encode(to_jsonable(value)).decode() for value in values)
    elif text.startswith("Expected `"):
        problem = "must be " + say_expected(text)
    elif text in INVALID:
        problem = "must be " + INVALID[text]
    else:
        return InvalidArguments(f"{subject}: {text[:300]}", top, path)
    if given is not NODEFAULT and ", not " not in problem:
        problem += f", not {str(given)[:80]!r}"
    return InvalidArguments(f"{subject} {problem}", top, path)


def argument_of(path: str, names: Collection[str]) -> str | None:
    """Return the name of the argument that a path leads into; names may have dots in them."""
    inside = (name for name in names if path == name or path.startswith((name + ".", name + "[")))
    return max(inside, key=len, default=path.partition(".")[0].partition("[")[0] or None)


def missing_argument(path: str, names: Collection[str]) -> InvalidArguments:
    """Return the error for a missing argument or member at ``path``. ``names`` are the argument names."""
    return InvalidArguments(f"Missing required argument `{path[:200]}`", argument_of(path, names), path)


def unknown_argument(name: str, names: Collection[str], path: str = "") -> InvalidArguments:
    """Return the error for an unknown argument, or an unknown member of the value at ``path``."""
    if path:
        return InvalidArguments(f"Argument `{path[:200]}` has no `{name[:100]}`", argument_of(path, names), path)
    from carrel.near_names import nearest_first

    known = ", ".join(f"`{known}`" for known in nearest_first(name, names))
    advice = f"the arguments are {known}" if known else "there are no arguments"
    return InvalidArguments(f"Unknown argument `{name[:100]}`; {advice}", name)


def split_error(text: str) -> tuple[str, str]:
    """Split a message of msgspec into its text and the path, such as ``.size[0]``."""
    problem, found, path = text.rpartition(" - at `")
    if not found or not path.endswith("`"):
        return text, ""
    if path.startswith("key` in `"):
        return problem, path[len("key` in `") : -1].removeprefix("$") + "[key]"
    return problem, path[:-1].removeprefix("$")


def say_expected(text: str) -> str:
    """Return a message such as "Expected `int | null`, got `str`" in plain words."""
    quoted, _, rest = text.removeprefix("Expected `").partition("`")
    expected = quoted.split(" | ")
    problem = " or ".join(WORDS.get(name, name) for name in expected)
    if not rest.startswith(", got `"):
        return problem + rest
    got = rest.removeprefix(", got `").rstrip("`")
    words = {"bool": "a boolean", "float": "a fraction" if "int" in expected else "a number"}
    return f"{problem}, not {words.get(got) or WORDS.get(got, got)}"
