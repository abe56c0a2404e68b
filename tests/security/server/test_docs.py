"""The page about authorization: complete, and its code works."""

from __future__ import annotations

import inspect
import re
import typing
from pathlib import Path
from typing import Any

import pytest

from carrel import Server
from carrel.protocol.principal import Principal
from carrel.security import Authorization, Introspection, OAuthProxy, StaticTokens
from carrel.security.server.bearer import Options
from carrel.security.server.resource_server import ResourceServerOptions
from carrel.security.server.scopes import Scopes
from carrel.security.server.static_tokens import make_token

PAGE = (Path(__file__).parents[3] / "docs" / "authorization.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def options(kind: type) -> set[str]:
    parameters = inspect.signature(kind).parameters.values()
    shared = typing.get_type_hints(Options if kind is StaticTokens else ResourceServerOptions)
    return {one.name for one in parameters if one.kind is one.KEYWORD_ONLY} | set(shared)


@pytest.mark.parametrize("kind", [Authorization, Introspection, OAuthProxy, StaticTokens])
def test_every_option_is_documented(kind: type):
    assert f"`{kind.__name__}`" in PAGE or f"{kind.__name__}(" in PAGE
    for name in options(kind):
        assert f"`{name}" in PAGE, name


def test_everything_on_a_principal_is_documented():
    for name in (*Principal.__struct_fields__, "id"):
        assert f"`{name}" in PAGE, name


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    token, line = make_token("alice")
    (tmp_path / "tokens.txt").write_text(line)
    monkeypatch.chdir(tmp_path)
    for name in ("INTROSPECTION_SECRET", "GITHUB_CLIENT_ID", "GITHUB_CLIENT_SECRET"):
        monkeypatch.setenv(name, token)
    served: list[dict[str, Any]] = []
    monkeypatch.setattr(Server, "run", lambda self, transport, **options: served.append(options))
    names: dict[str, Any] = {"client_id": "id", "client_secret": "secret"}
    exec(
        "import hashlib\nimport os\nfrom starlette.applications import Starlette\nfrom starlette.routing import Mount",
        names,
    )
    for code in CODE:
        exec(compile(code, "authorization.md", "exec"), names)
    assert [type(one["authorization"]) for one in served] == [Authorization, OAuthProxy, StaticTokens]
    for one in served:
        names["app"].asgi(**one)


def test_every_rule_in_the_table_is_one():
    rules = re.findall(r'^\| `"([^"]+)"` \|', PAGE, re.MULTILINE)
    assert len(rules) == 5
    assert Scopes(dict.fromkeys(rules, "x"), {}).known == {"x"}
