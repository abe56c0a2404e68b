"""References: one syntax for settings and servers, with the same values and the same errors."""

import os
import sys

import pytest

from carrel.cli.config import values
from carrel.errors import ConfigError
from carrel.host.config import ServerConfig, variables
from carrel.references import MAX_FILE, look_up, references_in, substitute

ENVIRONMENT = {"TOKEN": "t", "EMPTY": "", "HOME": "/home/me", "ProgramFiles(x86)": "programs"}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.delenv("NONE", raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${TOKEN}", "t"),
        ("a-${env:TOKEN}-b", "a-t-b"),
        ("${env:ProgramFiles(x86)}", "programs"),
        ("${NONE:-else} ${env:NONE:-}", "else "),
        ("${EMPTY}-${env:EMPTY:-else}", "-else"),
        ("${file:secret}", "hunter2"),
        ("${workspaceFolderBasename}${/}x", f"shop{os.sep}x"),
        ("${userHome}", "/home/me"),
        ("$${TOKEN} $TOKEN {TOKEN}", "${TOKEN} $TOKEN {TOKEN}"),
    ],
)
async def test_settings_and_servers_have_the_same_references(text, expected, tmp_path):
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "secret").write_bytes(b"\xef\xbb\xbfhunter2\r\n")
    server = ServerConfig(name="a", command="x", args=(text,), workspace=str(folder))
    assert (await variables.resolve(server)).args == (expected,)
    assert values.resolve(text, str(folder)).value == expected


@pytest.mark.parametrize("text", ["${env:NONE}", "${NONE}", "${file:none}", "${vault:x}", "${}", "${env:${TOKEN}}"])
async def test_settings_and_servers_have_the_same_errors(text, tmp_path):
    with pytest.raises(ConfigError) as in_settings:
        values.resolve(text, str(tmp_path))
    with pytest.raises(ConfigError) as in_server:
        await variables.resolve(ServerConfig(name="a", command="x", args=(text,), workspace=str(tmp_path)))
    assert str(in_server.value) == f"args: {in_settings.value}"


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"\xff", "it is not UTF-8 text"), (b"x" * (MAX_FILE + 1), f"has more than {MAX_FILE} bytes")],
)
def test_a_file_that_is_no_value_is_rejected(data, message, tmp_path):
    (tmp_path / "value").write_bytes(data)
    with pytest.raises(ConfigError, match=rf"\$\{{file:value\}}.*{message}"):
        look_up("file:value", str(tmp_path))


def test_a_keyring_that_cannot_be_read_is_an_error_of_the_configuration(monkeypatch):
    class Broken:
        def get_password(self, service, name):
            raise RuntimeError("locked")

    monkeypatch.setitem(sys.modules, "keyring", Broken())
    with pytest.raises(ConfigError, match="the keyring cannot be read: locked"):
        look_up("keyring:shop/key", "")


def test_the_text_around_references_is_unchanged():
    text = "a ${b} $${c} ${d:-${e} }"
    assert references_in(text) == ["b", "d:-${e"]
    assert substitute("a ${b} $${c} $d", str.upper) == "a B ${c} $d"
