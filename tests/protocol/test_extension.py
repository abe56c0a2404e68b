"""Identifiers of extensions."""

from __future__ import annotations

import pytest

from carrel.errors import ConfigError
from carrel.protocol.extension import Extension

pytestmark = pytest.mark.requirement


@pytest.mark.parametrize(
    "name", ["com.example/a", "io.modelcontextprotocol/ui", "x/a-b_c.d", "a-1.b2/3", "x/0", "a1.b/c"]
)
def test_an_identifier_has_a_prefix_and_a_name(name: str) -> None:
    assert Extension(name=name).name == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a",
        "/a",
        "a/",
        "1a/b",
        "1/b",
        "a-/b",
        "-a/b",
        "a..b/c",
        ".a/b",
        "a_b/c",
        "a/-b",
        "a/b-",
        "a/b/c",
        "é/a",
        "a/é",
        "a/.b",
        "a/b_",
        "a /b",
        "a/b c",
    ],
)
def test_invalid_extension_identifiers_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not the identifier of an extension"):
        Extension(name=name)
