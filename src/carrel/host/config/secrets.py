"""Secrets in configurations: detected by name and by format, and replaced by variables.

False positives are better than false negatives: a replaced text only needs a value from elsewhere, but a missed secret
is copied in plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from carrel.host.config.server_config import ServerConfig

__all__ = ["Replace", "hide", "table_of"]

#: Returns the variable that replaces a secret. The arguments are a name for the secret, and the secret.
Replace: TypeAlias = Callable[[str, str], str]

SECRET_NAME = re.compile(
    r"(?i)key|token|secret|passw|pwd|auth|credential|cookie|session|bearer|(?:^|[_-])(?:pat|pass)$"
)
#: Names whose values are the locations of secrets, not secrets.
LOCATION_NAME = re.compile(r"(?i)[_-](?:file|path|dir|url|uri|host|type)$")
#: Values with the prefix of a known type of key, or with digits mixed with letters.
SECRET_VALUE = re.compile(
    r"(?:sk|pk|rk|ghp|gho|ghs|xox[abeprs]|glpat|github_pat|AKIA|AIza|eyJ)[-_A-Za-z0-9]{12,}"
    r"|(?=[\w-]*\d[\w-]*\d[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,}"
)
#: User name and password in a URL.
USER = re.compile(r"(?<=://)[^/@\s:]+:([^/@\s]+)(?=@)")
VARIABLE = re.compile(r"\$\{[^{}]*\}")
#: Headers that never contain credentials.
PLAIN_HEADERS = ("accept", "accept-language", "content-type", "user-agent", "mcp-protocol-version")
#: Words that may occur next to a variable in a header.
SCHEMES = re.compile(r"(?i)\b(?:bearer|basic|token)\b")
HEADER_OPTIONS = ("--header", "-H")
SETTING = re.compile(r"(--?)?(?P<name>[\w.-]+)=(?P<value>.+)", re.DOTALL)
QUERY = re.compile(r"(?<=[?&])(?P<name>[^=&#]+)=(?P<value>[^&#]+)")


def hide(server: ServerConfig, replace: Replace) -> ServerConfig:
    """Replace the secrets in the arguments, environment, headers and URL of a configuration."""
    env = {name: _env(name, text, replace) for name, text in server.env.items()}
    headers = {name: _header(name, text, replace) for name, text in server.headers.items()}
    args = tuple(
        _argument(before, text, replace) for before, text in zip(("", *server.args), server.args, strict=False)
    )
    url = None if server.url is None else _url(server.url, replace)
    return msgspec.structs.replace(server, env=env, headers=headers, args=args, url=url)


def _env(name: str, text: str, replace: Replace) -> str:
    if _named(name) and _plain(text):
        return replace(name, text)
    return _values(name, text, replace)


def _header(name: str, text: str, replace: Replace) -> str:
    if name.lower() in PLAIN_HEADERS or not SCHEMES.sub("", _plain(text)).strip():
        return text
    return replace(name, text)


def _argument(before: str, text: str, replace: Replace) -> str:
    """Replace the secrets in an argument, which may be the value of the previous argument (an option)."""
    if before in HEADER_OPTIONS:
        name, colon, value = text.partition(":")
        return f"{name}: {_header(name, value.strip(), replace)}" if colon else text
    if before.startswith("-") and "=" not in before and not text.startswith("-") and _named(before) and _plain(text):
        return replace(before.lstrip("-"), text)
    setting = SETTING.fullmatch(text)
    if setting is not None and _named(setting["name"]) and _plain(setting["value"]):
        return text[: setting.start("value")] + replace(setting["name"], setting["value"])
    if "://" in text:
        return _url(text, replace)
    return _values("argument", text, replace)


def _url(url: str, replace: Replace) -> str:
    def query(found: re.Match[str]) -> str:
        if _named(found["name"]) and _plain(found["value"]):
            return f"{found['name']}={replace(found['name'], found['value'])}"
        return found[0]

    return _values("url", QUERY.sub(query, url), replace)


def _values(name: str, text: str, replace: Replace) -> str:
    """Replace everything in a text that looks like a secret, except in variables."""

    def password(found: re.Match[str]) -> str:
        secret = found[1]
        return found[0] if VARIABLE.fullmatch(secret) else found[0].removesuffix(secret) + replace("password", secret)

    parts = re.split(r"(\$\{[^{}]*\})", USER.sub(password, text))
    return "".join(
        part if VARIABLE.fullmatch(part) else SECRET_VALUE.sub(lambda found: replace(name, found[0]), part)
        for part in parts
    )


def _named(name: str) -> bool:
    return SECRET_NAME.search(name) is not None and LOCATION_NAME.search(name) is None


def _plain(text: str) -> str:
    """Return a text without its variables."""
    return VARIABLE.sub("", text).strip()


def table_of(server: ServerConfig) -> Mapping[str, object]:
    """Return a server's entry for carrel.toml, without default values."""
    given: dict[str, object] = {
        "command": server.command,
        "args": list(server.args),
        "env": dict(server.env),
        "cwd": server.cwd,
        "env_file": server.env_file,
        "url": server.url,
        "headers": dict(server.headers),
        "transport": "sse" if server.transport == "sse" else None,
        "disabled": server.disabled,
        "timeout": server.timeout,
        "start_timeout": server.start_timeout,
        "isolation": server.isolation if server.isolation != "auto" else None,
        "revision": server.revision,
        "tags": list(server.tags),
    }
    return {key: value for key, value in given.items() if value}
