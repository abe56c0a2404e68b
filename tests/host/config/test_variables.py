"""Variables in configurations: the environment, defaults, inputs that are asked for once, and what is missing."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import keyring
import pytest

from carrel.errors import ConfigError
from carrel.host.config import ConfigOrigin, Input, ServerConfig, read_file
from carrel.host.config.inputs import Inputs
from carrel.host.config.variables import resolve

ENVIRONMENT = {"TOKEN": "t", "EMPTY": "", "HOME": "/home/me"}


class Memory:
    """Store of inputs in memory."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    async def get(self, name: str) -> str | None:
        return self.texts.get(name)

    async def put(self, name: str, text: str) -> None:
        self.texts[name] = text

    async def delete(self, name: str) -> None:
        self.texts.pop(name, None)


def config(argument: str, **others: object) -> ServerConfig:
    return ServerConfig(name="a", command="x", args=(argument,), workspace="/work", **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${TOKEN}", "t"),
        ("a-${env:TOKEN}-b", "a-t-b"),
        ("${NONE:-else}", "else"),
        ("${EMPTY:-else}", "else"),
        ("${env:NONE:-}", ""),
        ("${EMPTY}", ""),
        ("${NONE:-$NONE}", "$NONE"),
        ("${workspaceFolder}/x", "/work/x"),
        ("${workspaceFolderBasename}", "work"),
        ("${userHome}", "/home/me"),
        ("$${TOKEN} $TOKEN {TOKEN}", "${TOKEN} $TOKEN {TOKEN}"),
    ],
)
async def test_variables_are_replaced(text: str, expected: str) -> None:
    assert (await resolve(config(text), environment=ENVIRONMENT)).args == (expected,)


async def test_variables_are_replaced_everywhere(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# mine\nexport A=1\nB='two'\nTOKEN = from the file\n")
    given = ServerConfig(
        name="a", command="${TOKEN}", env={"TOKEN": "${TOKEN}"}, cwd="sub", env_file=".env", workspace=str(tmp_path)
    )
    found = await resolve(given, environment=ENVIRONMENT)
    assert found.command == "t"
    assert found.env == {"A": "1", "B": "two", "TOKEN": "t"}
    assert found.cwd == str(tmp_path / "sub")
    remote = ServerConfig(name="a", url="http://${TOKEN}/", headers={"Authorization": "${TOKEN}"}, transport="http")
    found = await resolve(remote, environment=ENVIRONMENT)
    assert (found.url, found.headers) == ("http://t/", {"Authorization": "t"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${NONE}", "args: the environment variable NONE is not set"),
        ("${config:x.y}", r"args: \$\{config:x.y\} is no reference"),
    ],
)
async def test_a_variable_without_a_value_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await resolve(config(text), environment=ENVIRONMENT)


async def test_files_and_the_keyring_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("from the file\n")
    entries = {("shop", "key"): "from the keyring"}
    monkeypatch.setattr(keyring, "get_password", lambda service, name: entries.get((service, name)))
    found = await resolve(config(f"${{file:{tmp_path}/secret}}, ${{keyring:shop/key}}"))
    assert found.args == ("from the file, from the keyring",)
    with pytest.raises(ConfigError, match="args: the keyring has no such entry; keyring set shop none adds it"):
        await resolve(config("${keyring:shop/none}"))
    with pytest.raises(ConfigError, match=r"args: \$\{file:none\} cannot be read"):
        await resolve(config("${file:none}"))


async def test_an_env_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ConfigError, match=r"env_file: /work/none cannot be read"):
        await resolve(config("a", env_file="none"), environment=ENVIRONMENT)


# Inputs


async def test_an_input_is_asked_for_once_and_kept() -> None:
    asked: list[Input] = []

    async def ask(wanted: Input, server: ServerConfig) -> str:
        asked.append(wanted)
        await asyncio.sleep(0)
        return "secret"

    store = Memory()
    key = Input("key", "The key", password=True)
    given = config("${input:key}", inputs={"key": key}, origin=ConfigOrigin("vscode", "mcp.json"))
    inputs = Inputs(ask, store)
    found = await asyncio.gather(resolve(given, inputs=inputs), resolve(given, inputs=inputs))
    assert {one.args for one in found} == {("secret",)}
    assert asked == [key]
    assert (await resolve(given, inputs=Inputs(None, store))).args == ("secret",)
    await inputs.forget("key", given)
    with pytest.raises(ConfigError, match=r"the input 'key' \(The key\) is not given"):
        await resolve(given, inputs=Inputs(None, store))


async def test_without_the_package_keyring_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match=r"needs the package keyring: pip install 'carrel\[keyring\]'"):
        await resolve(config("${input:key}"))


async def test_files_that_are_not_regular_are_refused_and_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (f"{tmp_path}/pipe", "/dev/zero", str(tmp_path)):
        with pytest.raises(ConfigError, match=r"cannot be read: it is a (device|folder)"):
            await resolve(config(f"${{file:{place}}}"))
    with pytest.raises(ConfigError, match=r"env_file: .*/pipe cannot be read: it is a device"):
        await resolve(config("x", env_file=f"{tmp_path}/pipe"))
    file = read_file(tmp_path / "pipe", "cursor")
    assert "it is a device, a pipe or a socket" in str(file.problems[0])
