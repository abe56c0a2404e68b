"""JSON schema of ``carrel.toml``, for editors: generated from the structs of the settings and sources.

Editors with Taplo or Tombi use it for a file that begins with ``#:schema PATH``.
https://taplo.tamasfe.dev/configuration/directives.html
"""

from __future__ import annotations

from typing import Any

import msgspec

from carrel.cli.config.settings import HOST_SECTIONS, SECTIONS, Field, fields, fields_of
from carrel.errors import ConfigError
from carrel.sources.registry import SOURCES, installed

__all__ = ["schema"]

DIALECT = "http://json-schema.org/draft-07/schema#"
#: Text with a reference, which is allowed for a value of any type.
REFERENCE = {"type": "string", "pattern": r"\$\{[^}]+\}"}
ONLY_REFERENCE = {"type": "string", "pattern": r"^\$\{[^}]+\}$"}
SIZE = {"type": "string", "pattern": r"^\s*[0-9.]+ *[kKmMgG]?[iI]?[bB]?\s*$"}
LOCATIONS = {
    "path": "a folder or a file to share, relative to this file",
    "url": "what to share: a path, skills:FOLDER, or a URL of a source",
}


def schema() -> dict[str, Any]:
    """Return the schema of the file, including all installed sources."""
    root = closed("Settings of carrel serve and carrel run.")
    for name, struct in SECTIONS.items():
        *outer, last = name.split(".")
        location = root
        for part in outer:
            location = location["properties"][part]
        section = closed((struct.__doc__ or "").partition("\n")[0])
        section["properties"] = {
            field.name: schema_of(field)
            for field in fields().values()
            if field.section == name and field.path not in SECTIONS
        }
        required = [field.name for field in fields_of(struct, name).values() if field.default is msgspec.NODEFAULT]
        location["properties"][last] = section | ({"required": required} if required else {})
    root["properties"]["sources"] = {"type": "array", "description": "The sources to share.", "items": source()}
    root["properties"]["access"] = access()
    root["properties"]["limits"]["properties"] |= limit_rules()
    for name in HOST_SECTIONS:
        description = f"The {name} of hosts and gateways, by name (docs/host.md)."
        tables = {"type": "object", "additionalProperties": {"type": "object"}}
        root["properties"][name] = {**tables, "description": description}
    return {"$schema": DIALECT, "title": "carrel.toml", **root}


def access() -> dict[str, Any]:
    """Return the schema of ``[access]``."""
    from carrel.policy.reading import GROUPS, TARGETS, VERBS

    verbs = [*GROUPS, *sorted(VERBS - set(GROUPS))]
    rule = closed("A rule that allows or denies.")
    rule["properties"] = {
        "role": texts("the roles that the rule is for; * is everybody"),
        "allow": texts("the verbs that the rule allows", enum=verbs),
        "deny": texts("the verbs that the rule denies", enum=verbs),
        "server": texts("the servers of a gateway that the rule is for"),
        **{key: texts(f"patterns of {key}; without patterns, the rule is for everything") for key in TARGETS},
    }
    rule |= {"required": ["role"], "oneOf": [{"required": ["allow"]}, {"required": ["deny"]}]}
    found = closed("Which callers may use what (docs/access.md).")
    conditions = {"type": "object", "minProperties": 1}
    engine = closed("Policy engine that decides instead of rules, by AuthZEN 1.0.")
    engine["properties"] = {
        "url": {"type": "string", "description": "the URL before /access/v1/evaluation"},
        "token": {"type": "string", "description": "a bearer token, as ${env:NAME} or ${file:PATH}"},
        "cache_seconds": {"type": "number", "description": "caching of decisions without Cache-Control", "default": 0},
        "timeout": {"type": "number", "description": "seconds for a question", "default": 5},
    }
    found["properties"] = {
        "roles": {"type": "object", "description": "Conditions, by role.", "additionalProperties": conditions},
        "rules": {"type": "array", "description": "The rules.", "items": rule},
        "engine": {**engine, "required": ["url"]},
    }
    return found


def texts(description: str, **item: Any) -> dict[str, Any]:
    """Return the schema of a text, or a list of texts."""
    one = {"type": "string", **item}
    return {"description": description, "anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}


def limit_rules() -> dict[str, Any]:
    """Return the schemas of the keys of ``[limits]`` that limit requests."""
    from carrel.policy.limit_reading import PER, RATE
    from carrel.policy.reading import TARGETS

    plain = {
        "requests": {"type": "string", "pattern": RATE, "description": "requests of a client, such as 100/minute"},
        "burst": {"type": "integer", "minimum": 1, "description": "how many of these requests may come at once"},
        "bytes": {"type": "string", "pattern": RATE, "description": "bytes of responses, such as 10MiB/minute"},
        "concurrent": {"type": "integer", "minimum": 1, "description": "requests that are handled at a time"},
    }
    rule = closed("A limit on requests.")
    rule["properties"] = {
        **plain,
        "role": texts("the roles that the rule is for; * is everybody, and the default"),
        "per": {"enum": list(PER), "default": PER[0], "description": "whose requests are counted together"},
        **{key: texts(f"patterns of {key} that the requests are about") for key in TARGETS},
    }
    rule["anyOf"] = [{"required": [name]} for name in ("requests", "bytes", "concurrent")]
    return {**plain, "rules": {"type": "array", "description": "Limits on requests (docs/limits.md).", "items": rule}}


def closed(description: str) -> dict[str, Any]:
    """Return the schema of a table that allows no other keys."""
    return {"type": "object", "description": description, "properties": {}, "additionalProperties": False}


def source() -> dict[str, Any]:
    """Return the schema of a ``[[sources]]`` table, with the options of all sources. The URL selects the source."""
    found = closed("A source; its options depend on its kind.")
    for name, description in LOCATIONS.items():
        found["properties"][name] = {"type": "string", "description": description}
    found["properties"]["optional"] = {
        "type": "boolean",
        "default": False,
        "description": "leave the source out, with a warning, if it cannot be opened",
    }
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in {**installed(), **SOURCES}.values():
        try:
            options = row.load_options()
        except ConfigError:
            continue  # a required package is missing
        for field in fields_of(options, "sources").values():
            kind = schema_of(field)
            if kind not in kinds.setdefault(field.name, []):
                kinds[field.name].append(kind)
    for name, some in kinds.items():
        found["properties"][name] = some[0] if len(some) == 1 else {"anyOf": some}
    found["oneOf"] = [{"required": [name]} for name in LOCATIONS]
    return found


def schema_of(field: Field) -> dict[str, Any]:
    """Return the schema of a setting."""
    kind = msgspec.json.schema(field.kind)
    kind.pop("title", None)
    found: dict[str, Any] = {"description": kind.pop("description", field.description)}
    if field.default not in (None, msgspec.NODEFAULT):
        found["default"] = list(field.default) if isinstance(field.default, tuple) else field.default
    if field.is_secret:
        return {**found, **ONLY_REFERENCE}
    plain = [one for one in kind.pop("anyOf", [kind]) if one != {"type": "null"}]  # TOML has no null
    others = [SIZE] if field.is_size else []
    if field.types != {str} or field.choices:
        others.append(REFERENCE)
    every = [*plain, *others]
    return {**found, **every[0]} if len(every) == 1 else {**found, "anyOf": every}
