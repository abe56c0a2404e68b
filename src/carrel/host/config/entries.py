"""Parser for server entries, with the keys of all applications, into a ``ServerConfig``.

The applications use different keys, but the keys do not conflict, so there is one parser for all of them. Differences
between applications are in ``DIALECTS``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from carrel.errors import ConfigError
from carrel.host.config.server_config import ConfigOrigin, Input, Isolation, ServerConfig, TransportName
from carrel.near_names import did_you_mean
from carrel.protocol.revisions import REVISIONS

__all__ = ["DIALECTS", "Dialect", "read_entry", "read_input"]


class Dialect(NamedTuple):
    """Differences of an application's entries.

    ``expands``: texts may have variables; ``bare``: ``$VAR`` is a variable too. ``seconds`` is the unit of ``timeout``
    in seconds. ``url`` is the default transport if an entry has a URL. ``strict``: unknown keys are errors.
    """

    expands: bool = True
    bare: bool = False
    seconds: float = 1.0
    url: TransportName = "http"
    strict: bool = False


DIALECTS: Mapping[str, Dialect] = {
    "carrel": Dialect(strict=True),
    "claude-desktop": Dialect(expands=False),
    "claude-code": Dialect(seconds=0.001),
    "codex": Dialect(expands=False),
    "gemini-cli": Dialect(bare=True, seconds=0.001, url="sse"),
    "zed": Dialect(expands=False),
}
#: Transports by their names in entries.
TRANSPORTS: Mapping[str, TransportName] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "remote": "http",
    "sse": "sse",
}
ISOLATIONS = ("auto", "shared", "client", "principal")
URLS = ("url", "serverUrl", "httpUrl")
#: Keys in carrel.toml. Other applications have additional keys.
KEYS = (
    *("command", "args", "env", "cwd", "env_file", "url", "headers", "transport", "disabled", "timeout"),
    *("start_timeout", "isolation", "revision", "tags"),
)
BARE = re.compile(r"\$([A-Za-z_]\w*)")


def read_entry(
    name: str,
    entry: Any,
    application: str,
    *,
    origin: ConfigOrigin,
    inputs: Mapping[str, Input] | None = None,
    workspace: str | None = None,
) -> ServerConfig:
    """Parse an entry.

    Raises:
        ConfigError: the entry is not valid; the message contains no values of the entry.
    """
    if not isinstance(entry, dict):
        raise ConfigError(f"an object with a command or a url is expected, not {kind_of(entry)}")
    dialect = DIALECTS.get(application, Dialect())
    fields = _Fields(entry, dialect)
    if dialect.strict:
        fields.reject_others(KEYS)
    url_key = next((key for key in URLS if key in entry), None)
    command, args, env = _command(fields, entry)
    if command is None and url_key is None:
        raise ConfigError(f"a command or a url is missing{near(entry, ('command', *URLS))}")
    if command is not None and url_key is not None:
        raise ConfigError(f"it has both a command and {url_key}; give one of them")
    transport = _transport(fields, dialect, url_key)
    timeout, start_timeout = _timeouts(fields, dialect)
    isolation = fields.text("isolation") or "auto"
    if isolation not in ISOLATIONS:
        expected = "auto, shared, client or principal is expected"
        raise ConfigError(f"isolation: {expected}{did_you_mean(isolation, ISOLATIONS)}")
    return ServerConfig(
        name=name,
        command=command,
        args=args,
        env=env,
        cwd=fields.text("cwd"),
        env_file=fields.text("env_file") or fields.text("envFile"),
        url=None if url_key is None else fields.text(url_key),
        headers=_headers(fields),
        transport=transport,
        disabled=fields.truth("disabled") is True or fields.truth("enabled") is False,
        timeout=timeout,
        start_timeout=start_timeout,
        isolation=cast("Isolation", isolation),
        revision=_revision(fields),
        tags=fields.texts("tags"),
        inputs=inputs or {},
        origin=origin,
        workspace=workspace,
    )


def read_input(given: Any) -> Input:
    """Parse an input in VS Code's format: ``promptString`` or ``pickString``.

    Raises:
        ConfigError: the input has no id, or an unsupported type, such as the output of a VS Code command.
    """
    if not isinstance(given, dict) or not isinstance(given.get("id"), str):
        raise ConfigError("inputs: an object with an id is expected")
    type_ = given.get("type", "promptString")
    if type_ not in ("promptString", "pickString"):
        raise ConfigError(f"input {given['id']!r}: it is of a type that only the application itself can ask for")
    default, description = given.get("default"), given.get("description")
    options = [one.get("value") if isinstance(one, dict) else one for one in given.get("options") or ()]
    return Input(
        given["id"],
        str(description) if description is not None else None,
        given.get("password") is True,
        str(default) if default is not None else None,
        tuple(str(one) for one in options),
    )


def _command(fields: _Fields, entry: dict[str, Any]) -> tuple[str | None, tuple[str, ...], dict[str, str]]:
    """Return the command, its arguments and environment. The command may be a list, or an object (old Zed versions)."""
    command = entry.get("command")
    if isinstance(command, dict):
        fields = _Fields(command, fields.dialect)
        return fields.text("path"), fields.texts("args"), fields.table("env")
    env = fields.table("env")
    for variable in fields.names("env_vars"):
        env.setdefault(variable, f"${{{variable}:-}}")
    if isinstance(command, list):
        program, *leading = fields.texts("command") or ("",)
        return program or None, (*leading, *fields.texts("args")), env
    return fields.text("command") or None, fields.texts("args"), env


def _headers(fields: _Fields) -> dict[str, str]:
    headers = fields.table("headers") | fields.table("http_headers")
    for header, variable in fields.table("env_http_headers").items():
        headers[header] = f"${{{variable}}}"
    token = fields.text("bearer_token_env_var")
    return headers if token is None else headers | {"Authorization": f"Bearer ${{{token}}}"}


def _transport(fields: _Fields, dialect: Dialect, url_key: str | None) -> TransportName:
    given = fields.text("transport") or fields.text("type")
    if given is None:
        if url_key is None:
            return "stdio"
        return dialect.url if url_key == "url" else "http"
    if given not in TRANSPORTS:
        raise ConfigError(f"transport: stdio, http or sse is expected{did_you_mean(given, TRANSPORTS)}")
    transport = TRANSPORTS[given]
    if (transport == "stdio") != (url_key is None):
        raise ConfigError(f"the transport is {given}, which goes with {'a command' if url_key else 'a url'}")
    return transport


def _revision(fields: _Fields) -> str | None:
    revision = fields.text("revision")
    if revision is not None and revision not in REVISIONS:
        raise ConfigError(f"there is no revision {revision[:40]!r}; they are {', '.join(REVISIONS)}")
    return revision


def _timeouts(fields: _Fields, dialect: Dialect) -> tuple[float | None, float | None]:
    timeout, start = fields.number("timeout", dialect.seconds), fields.number("start_timeout")
    if timeout is None:
        timeout = fields.number("tool_timeout_sec")
    if start is None:
        start = fields.number("startup_timeout_sec") or fields.number("startup_timeout_ms", 0.001)
    return timeout, start


class _Fields:
    """Typed access to the fields of an entry. Variables in texts are converted to Carrel's syntax."""

    def __init__(self, entry: Mapping[str, Any], dialect: Dialect) -> None:
        self.entry = entry
        self.dialect = dialect

    def reject_others(self, known: tuple[str, ...]) -> None:
        for key in self.entry:
            if key not in known:
                raise ConfigError(f"there is no key {key!r}{did_you_mean(key, known)}")

    def _expected(self, key: str, what: str) -> ConfigError:
        return ConfigError(f"{key}: {what} is expected, not {kind_of(self.entry[key])}")

    def _own(self, text: str) -> str:
        if not self.dialect.expands:
            return text.replace("${", "$${")
        return BARE.sub(r"${\1:-$\1}", text) if self.dialect.bare else text  # unset variables stay unchanged

    def text(self, key: str) -> str | None:
        value = self.entry.get(key)
        if value is not None and not isinstance(value, str):
            raise self._expected(key, "a text")
        return None if value is None else self._own(value)

    def names(self, key: str) -> tuple[str, ...]:
        value = self.entry.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(one, str | int | float) for one in value):
            raise self._expected(key, "a list of texts")
        return tuple(plain(one) for one in value)

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(self._own(one) for one in self.names(key))

    def table(self, key: str) -> dict[str, str]:
        value = self.entry.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._expected(key, "an object of texts")
        for name, one in value.items():
            if one is not None and not isinstance(one, str | int | float):
                raise ConfigError(f"{key}.{name}: a text is expected, not {kind_of(one)}")
        return {name: self._own(plain(one)) for name, one in value.items() if one is not None}

    def truth(self, key: str) -> bool | None:
        value = self.entry.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._expected(key, "true or false")
        return value

    def number(self, key: str, unit: float = 1.0) -> float | None:
        value = self.entry.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise self._expected(key, "a number above 0")
        return value * unit


def plain(value: str | float) -> str:
    """Convert a value to text for a command: 8080.0 becomes 8080, as JSON numbers are parsed as floats."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def kind_of(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}
    return kinds.get(type(value), "a number")


def near(entry: Mapping[str, Any], wanted: tuple[str, ...]) -> str:
    """Return a hint if an entry has a key with a spelling similar to a missing key."""
    for key in entry:
        hint = did_you_mean(key, wanted)
        if hint:
            return f"; there is {key!r}{hint}"
    return ""
