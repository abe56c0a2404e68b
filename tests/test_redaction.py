"""Secrets in structs and URLs are not shown."""

from __future__ import annotations

import logging
import typing
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import msgspec
import pytest

from carrel.cli.config.settings import SECTIONS
from carrel.cli.server.sharing import Target
from carrel.redaction import MASK, RedactedStruct, Secret, has, without_secrets
from carrel.search.options import SearchOptions
from carrel.security.client.registration import RegistrationResponse
from carrel.security.client.tokens import Issued
from carrel.sources.databases.address import read_address
from carrel.sources.registry import SOURCES
from carrel.transports.client.options import HTTPOptions, ProcessOptions

SECRET = "open-sesame"
#: Names of fields that hold secrets, whatever their type says.
NAMES = ("password", "secret", "token", "_key")
#: Fields of such names that hold none.
PLAIN = {"redact_secrets", "tokens", "token_url"}


def options_structs() -> Iterator[type[msgspec.Struct]]:
    yield from dict.fromkeys(row.load_options() for row in SOURCES.values())
    yield from SECTIONS.values()
    yield from (SearchOptions, Issued, RegistrationResponse)


@pytest.mark.parametrize("struct", list(options_structs()), ids=lambda struct: struct.__name__)
def test_no_options_struct_shows_a_secret(struct: type[msgspec.Struct], caplog: pytest.LogCaptureFixture) -> None:
    hints = typing.get_type_hints(struct, include_extras=True)
    secret = {name for name, kind in hints.items() if has(kind)}
    named = {name for name in struct.__struct_fields__ if any(word in name for word in NAMES)} - PLAIN
    assert {name for name in named if hints[name] is not bool and not name.startswith("max_")} - {
        "token_type",
        "token_endpoint_auth_method",
        "client_secret_expires_at",
        "issued_token_type",
    } <= secret
    required = {one.name: "x" for one in msgspec.structs.fields(struct) if one.required}
    values: dict[str, Any] = {**required, **dict.fromkeys(secret, SECRET)}
    made = struct(**values)
    logging.getLogger("carrel").warning("%s %r", made, made)
    for text in (repr(made), str(made), f"{[made]}", caplog.text, str(list(made.__rich_repr__()))):  # type: ignore[attr-defined]
        assert SECRET not in text
    for name in secret:
        assert f"{name}={MASK}" in repr(made)
        with pytest.raises(msgspec.ValidationError) as wrong:
            msgspec.convert({**values, name: [SECRET]}, struct)
        assert SECRET not in str(wrong.value)


def test_a_struct_of_another_package_hides_its_secrets_by_their_type() -> None:
    module = import_module("carrel.sources.options")
    assert module.RedactedStruct is RedactedStruct

    made = Example(user="ann", password=SECRET, keys=(SECRET,), place=f"imap://ann:{SECRET}@host/x")
    assert repr(made) == f"Example(user='ann', password={MASK}, keys={MASK}, place='imap://ann:{MASK}@host/x')"
    assert repr(Example()) == "Example(user='', password=None, keys=(), place='')"


class Example(RedactedStruct, frozen=True):
    user: str = ""
    password: Secret | None = None
    keys: tuple[Secret, ...] = ()
    place: str = ""


def test_options_of_connections_show_names_of_headers_and_variables_only() -> None:
    http = HTTPOptions(auth=SECRET, headers={"X-Key": SECRET}, proxy=f"http://ann:{SECRET}@proxy:8080")
    assert SECRET not in repr(http)
    assert f"'X-Key': {MASK}" in repr(http)
    process = ProcessOptions(env={"API_KEY": SECRET})
    assert SECRET not in repr(process)
    assert "API_KEY" in repr(process)


def test_addresses_and_targets_show_no_password() -> None:
    url = f"postgresql://ann:{SECRET}@db.example/shop"
    assert repr(read_address(url)) == "Address('postgres://db.example/shop')"
    assert SECRET not in repr(Target("postgresql", url, {"password": SECRET}))
    assert SECRET not in without_secrets(f"{url} and {url}")
