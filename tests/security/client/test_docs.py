"""The page about who asks: complete, and its code works."""

from __future__ import annotations

import inspect
import re
import typing
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey

import carrel.security.client
from carrel.security.client import ClientCredentials, EnterpriseAuthorization, OAuth, WorkloadIdentity
from carrel.security.client.credentials import OAuthOptions

PAGE = (Path(__file__).parents[3] / "docs" / "client-authorization.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("kind", [OAuth, ClientCredentials, WorkloadIdentity, EnterpriseAuthorization])
def test_every_option_is_documented(kind: type):
    parameters = inspect.signature(kind).parameters.values()
    names = {one.name for one in parameters if one.kind is one.KEYWORD_ONLY} | set(typing.get_type_hints(OAuthOptions))
    for name in names:
        assert f"`{name}`" in PAGE, name


def test_everything_there_is_is_named():
    for name in set(carrel.security.client.__all__) - {"UserStore"}:
        assert name in PAGE, name


def test_the_code_makes_credentials(tmp_path: Path):
    made: list[Any] = []
    for code in CODE:
        names: dict[str, Any] = {}
        exec(compile(code, "client-authorization.md", "exec"), names)
        made += [names[name] for name in ("auth", "with_secret") if name in names]
        if "with_key" in names:
            path = tmp_path / "key.pem"
            path.write_bytes(ECKey.generate_key("P-256").as_pem(private=True))
            made.append(names["with_key"](path))
    assert len(made) == len(CODE)  # the first makes its own, in a function; the one about applications makes two


def test_every_message_in_the_table_is_one():
    sources = "".join(path.read_text() for path in Path(carrel.security.client.__file__).parent.glob("*.py"))
    sources += (Path(carrel.security.client.__file__).parent.parent / "discovery.py").read_text()
    sources += (Path(carrel.__file__).parent / "transports" / "addresses.py").read_text()
    joined = re.sub(r'"\s*\n\s*f?"', "", sources)
    messages = re.findall(r'^\| "([^"]+)" \|', PAGE, re.MULTILINE)
    assert len(messages) == 7
    for message in messages:
        for piece in message.split("…"):
            assert piece.strip() in joined, message
