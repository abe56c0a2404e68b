"""URI templates of resources: variables of the path (``{name}``, ``{name*}``) and of the query (``{?a,b*}``)."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs, quote, unquote, unquote_plus

__all__ = ["build_regex", "expand_uri_template", "is_path_variable", "match_uri_template", "path_of", "query_variables"]

QUERY = re.compile(r"\{\?([^}]+)\}")
EXPRESSION = re.compile(r"(\{[^}]+\})")
ENCODED = re.compile(r"(%[0-9A-Fa-f]{2})")
RESERVED = ":/?#[]@!$&'()*+,;="
MAX_PATTERNS = 4096


def path_of(template: str) -> str:
    """Return a template without its query variables."""
    return QUERY.sub("", template)


def is_path_variable(part: str) -> bool:
    """Return whether a part of a template is a variable in braces."""
    return part.startswith("{") and part.endswith("}")


def query_variables(template: str) -> dict[str, bool]:
    """Return the names of the query variables, and whether each may be repeated (``{?name*}``)."""
    found = QUERY.search(template)
    names = [name.strip() for name in found.group(1).split(",")] if found else []
    return {name.removesuffix("*"): name.endswith("*") for name in names}


def _encoded(text: str) -> str:
    """Return the literal text of a template as it is in URIs: percent-encoded, unless it already is."""
    return "".join(part if index % 2 else quote(part, safe=RESERVED) for index, part in enumerate(ENCODED.split(text)))


def _literal_pattern(text: str) -> str:
    """Return the pattern of literal text, which matches each character as it is and percent-encoded."""

    def either(character: str) -> str:
        encoded = quote(character, safe=RESERVED)
        plain = re.escape(character)
        return plain if encoded == character else f"(?:{plain}|(?i:{re.escape(encoded)}))"

    parts = ENCODED.split(text)
    return "".join(
        f"(?i:{re.escape(part)})" if index % 2 else "".join(map(either, part)) for index, part in enumerate(parts)
    )


@lru_cache(MAX_PATTERNS)
def build_regex(template: str) -> re.Pattern[str] | None:
    """Return the pattern of a template's path; None if its names cannot be the names of groups."""
    pattern = ""
    for part in EXPRESSION.split(path_of(template)):
        if is_path_variable(part):
            name = part[1:-1].replace("-", "_")
            pattern += f"(?P<{name[:-1]}>.+)" if name.endswith("*") else f"(?P<{name}>[^/]+)"
        else:
            pattern += _literal_pattern(part)
    try:
        return re.compile(f"^{pattern}$")
    except re.error:
        return None


def match_uri_template(
    uri: str, uri_template: str, *, list_params: Collection[str] = (), regex: re.Pattern[str] | None = None
) -> dict[str, Any] | None:
    """Return the variables of a URI; None if it does not match.

    ``list_params`` are query variables whose value is a list with commas. Hyphens in names become underscores.
    """
    if "#" not in uri_template:
        uri = uri.partition("#")[0]
    path, _, query = uri.partition("?")
    pattern = regex or build_regex(uri_template)
    found = None if pattern is None else pattern.match(path)
    if found is None:
        return None
    values: dict[str, Any] = {name: unquote(value) for name, value in found.groupdict().items()}
    given = parse_qs(query, keep_blank_values=True)
    for name, repeated in query_variables(uri_template).items():
        key = name.replace("-", "_")
        if name not in given or key in values:
            continue
        if repeated:
            values[key] = given[name]
        elif name in list_params:
            values[key] = _listed(query, name)
        else:
            values[key] = given[name][0]
    return values


def _listed(query: str, name: str) -> list[str]:
    """Return the items of a query variable; a comma within an item is percent-encoded."""
    pairs = (pair.partition("=") for pair in query.split("&"))
    value = next(value for key, _, value in pairs if unquote_plus(key) == name)
    return [unquote_plus(item) for item in value.split(",")] if value else []


def expand_uri_template(uri_template: str, params: dict[str, Any]) -> str:
    """Return the URI of values of a template's variables; query variables without a value are left out."""

    def value_of(name: str) -> Any:
        return params.get(name, params.get(name.replace("-", "_")))

    def expanded(part: str) -> str:
        if not is_path_variable(part):
            return _encoded(part)
        if part.startswith("{?"):
            given = [
                pair
                for name, repeated in query_variables(part).items()
                for pair in _pairs(name, value_of(name), repeated=repeated)
            ]
            return f"?{'&'.join(given)}" if given else ""
        name = part[1:-1]
        value = value_of(name.removesuffix("*"))
        return part if value is None else quote(str(value), safe="/" if name.endswith("*") else "")

    return "".join(map(expanded, EXPRESSION.split(uri_template)))


def _pairs(name: str, value: Any, *, repeated: bool) -> list[str]:
    """Return the pairs of a query variable: several if its name may be repeated, none without a value."""
    listed = isinstance(value, list | tuple)
    if value is None or (listed and not value):
        return []
    encoded = [quote(str(each), safe="") for each in (value if listed else [value])]
    return [f"{quote(name, safe='')}={each}" for each in (encoded if repeated else [",".join(encoded)])]
