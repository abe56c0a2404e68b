"""Settings: documented, with the defaults of what they set."""

import inspect
import re
from pathlib import Path

import pytest

from carrel import Server
from carrel.cli.config.settings import SECTIONS, fields, table
from carrel.security import Authorization, Introspection
from carrel.security.server.resource_server import ResourceServer
from carrel.transports.server.http import StreamableHTTP
from carrel.transports.server.uvicorn import serve_async

DOCS = Path(__file__).parent.parent.parent.parent / "docs"


@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_every_setting_is_documented_as_its_struct_has_it(section):
    text = (DOCS / "configuration.md").read_text(encoding="utf-8")
    assert f"## `[{section}]`\n" in text
    if section == "limits":
        limits = (DOCS / "limits.md").read_text(encoding="utf-8")
        names = {field.name for field in fields().values() if field.section == "limits"}
        assert names <= set(re.findall(r"^\| `(\w+)` \|", limits, re.MULTILINE))
    else:
        assert f"\n{table(section)}\n" in text


def test_every_setting_has_a_description():
    assert [path for path, field in fields().items() if not field.description and field.section != "limits"] == []


@pytest.mark.parametrize(
    ("section", "functions"),
    [
        ("server", [Server.__init__]),
        ("http", [StreamableHTTP.__init__, serve_async]),
        ("auth", [Authorization.__init__, ResourceServer.__init__]),
        ("auth.introspection", [Introspection.__init__]),
    ],
)
def test_defaults_are_those_of_what_is_set(section, functions):
    defaults = {
        name: parameter.default
        for function in functions
        for name, parameter in inspect.signature(function).parameters.items()
    }
    compared = [field for field in fields().values() if field.section == section and field.name in defaults]
    assert compared
    for field in compared:
        default = defaults[field.name]
        if field.default not in (None, ()) and default is not inspect.Parameter.empty and field.name != "method":
            assert field.default == default, field.path
