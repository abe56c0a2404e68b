"""Entries of servers for the configurations of other applications, without secrets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from carrel.host.config.server_config import ServerConfig
from carrel.redaction import MASK, without_secrets
from carrel.studio.api import Payload

__all__ = ["HandOver", "hand_over"]


#: Part of the name of an option, a variable, a header or a member whose value is left out.
SECRET_NAME = re.compile(
    r"pass|pwd|(?<![a-z])pw(?![a-z])|key|secret|token|auth|bearer|jwt|(?<![a-z])pat(?![a-z])|cred|cookie|session|signature",
    re.IGNORECASE,
)
#: Beginnings of tokens of well-known services, JSON Web Tokens, and values of the header Authorization.
SECRET_VALUE = re.compile(r"(?:sk-|gh[oprsu]_|github_pat_|glpat-|xox[a-z]-|AKIA|eyJ)|(?:bearer|basic)\s", re.IGNORECASE)
#: Options of curl and others whose values are headers, cookies, users with passwords, passwords or keys.
SECRET_OPTIONS = ("-H", "-b", "-u", "-p", "-k", "-t", "--header", "--user")
#: User of a URL without a password, which may be a token.
URL_USER = re.compile(r"(?<=://)[^\s/?#@:]+(?=@)")


class HandOver(Payload, frozen=True, kw_only=True):
    """Entry of a server for other applications; ``entry`` is None for a server that runs inside Carrel.

    ``blank`` names the variables and headers whose values are left out, and the URL and arguments whose secrets are.
    """

    entry: dict[str, Any] | None
    blank: Sequence[str]


def hand_over(config: ServerConfig) -> HandOver:
    """Return the entry of a server without secrets."""
    if config.app is not None or (config.command is None and config.url is None):
        return HandOver(entry=None, blank=())
    entry: dict[str, Any] = {}
    blank: list[str] = []
    if config.command is not None:
        entry |= {"command": without_secrets(config.command), "args": arguments(config.args)}
        blank += [each for each, given in zip(entry["args"], config.args, strict=True) if each != given]
        if config.cwd is not None:
            entry["cwd"] = config.cwd
    else:
        url = clean_url(config.url or "")
        entry |= {"type": "sse" if config.transport == "sse" else "http", "url": url}
        blank += [url] if url != config.url else []
    for field, values in (("env", config.env), ("headers", config.headers)):
        if values:
            entry[field] = dict.fromkeys(values, "")
            blank += values
    return HandOver(entry=entry, blank=tuple(blank))


def arguments(given: Sequence[str]) -> Sequence[str]:
    """Return the arguments of a command with ``********`` in place of each value that may be a secret."""
    shown: list[str] = []
    is_secret = False
    for argument in given:
        if is_secret and not argument.startswith("--"):
            shown.append(MASK)
            is_secret = False
            continue
        name, sign, value = argument.partition("=")
        is_option = argument.startswith("-")
        is_secret = is_option and not sign and (name in SECRET_OPTIONS or SECRET_NAME.search(name) is not None)
        if is_option and sign and (name in SECRET_OPTIONS or SECRET_NAME.search(name) or may_be_secret(value)):
            shown.append(f"{name}={MASK}")
        elif is_option and not argument.startswith("--") and argument[:2] in SECRET_OPTIONS and argument[2:]:
            shown.append(argument[:2] + MASK)
            is_secret = False
        elif may_be_secret(argument):
            shown.append(MASK)
            is_secret = False
        else:
            shown.append(clean_url(argument))
    return shown


def may_be_secret(text: str) -> bool:
    """Return whether a text looks like a token, or has the name of a secret and a value."""
    if SECRET_VALUE.match(text):
        return True
    return "://" not in text and re.search("[:=]", text) is not None and SECRET_NAME.search(text) is not None


def clean_url(text: str) -> str:
    """Return a text without the secrets of URLs: user, password, fragment and query parameters with such names."""
    if "://" not in text:
        return without_secrets(text)
    return URL_USER.sub(MASK, re.sub(r"#\S+", f"#{MASK}", without_secrets(text)))
