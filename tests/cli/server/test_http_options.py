"""Addresses that other machines reach, and TLS, as ``serve``, ``run`` and ``gateway`` have them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from carrel import Client
from carrel.cli import main
from carrel.cli.server.http_options import check_exposure
from carrel.errors import ConfigError, MCPError
from carrel.transports.client.options import HTTPOptions
from carrel.uri.parse import file_uri
from support.carrel_process import BOOKS, serving
from support.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    (tmp_path / "tls").mkdir()
    return Authority(tmp_path / "tls")


def arguments_of(program: str, folder: Path) -> list[str]:
    (folder / "notes").mkdir()
    (folder / "notes/a.md").write_text("text")
    (folder / "mcp.json").write_text(
        json.dumps({"mcpServers": {"books": {"command": sys.executable, "args": ["-m", "carrel", "run", BOOKS]}}})
    )
    return [program, {"serve": f"{folder}/notes", "run": BOOKS, "gateway": f"{folder}/mcp.json"}[program]]


@pytest.mark.parametrize("program", ["serve", "run", "gateway"])
def test_an_address_that_others_reach_takes_tls_and_authorization(
    program: str, tmp_path: Path, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = arguments_of(program, tmp_path)
    for given, missing in (
        ([], "no TLS (--certificate FILE) and no authorization (--tokens FILE, or [auth]). Add both; or"),
        (["--certificate", str(authority.path)], "no authorization (--tokens FILE, or [auth]). Add it; or"),
    ):
        assert main([*arguments, "--http", "0.0.0.0:0", *given]) == 2
        error = capsys.readouterr().err
        assert f"other machines may reach 0.0.0.0, and the server has {missing} write --behind-proxy, if" in error
        assert error.count("\n") == 1


@pytest.mark.parametrize("way", ["--behind-proxy", "--insecure"])
def test_the_check_can_be_left_out(tmp_path: Path, way: str) -> None:
    arguments = arguments_of("serve", tmp_path)
    with serving(*arguments, http=("--http", "0.0.0.0:0", way)) as (url, errors):
        assert url.startswith("http://127.0.0.1:")
        assert "listening on 0.0.0.0, where other machines may reach it, without authentication" in errors.text


@pytest.mark.parametrize("program", ["serve", "run", "gateway"])
async def test_https_with_client_certificates_and_roles(program: str, tmp_path: Path, authority: Authority) -> None:
    arguments = arguments_of(program, tmp_path)
    office = authority.issue("office.pem", {"COMMON_NAME": "pc7.office.example.org"})
    home = authority.issue("home.pem", {"COMMON_NAME": "pc7.home.example.org"})
    (tmp_path / "carrel.toml").write_text(
        '[http]\nhost = "0.0.0.0"\nport = 0\ncertificate = "tls/web.pem"\nclient_ca = "tls/root.pem"\n'
        '[access.roles]\noffice = { certificate = "CN=*.office.example.org" }\n'
        '[[access.rules]]\nrole = "office"\nallow = "read"\n'
    )
    arguments += ["--config", str(tmp_path / "carrel.toml")]
    with serving(*arguments, http=()) as (url, errors):
        url = url.replace("0.0.0.0", "127.0.0.1")
        assert "without authentication" not in errors.text
        seen = []
        for certificate in (office, home):
            options = HTTPOptions(ca_file=authority.root, client_certificate=certificate)
            async with Client(url, http=options) as client:
                seen.append(len([one async for one in client.list_resources()]))
        assert seen[0] > 0
        assert seen[1] == 0
        with pytest.raises(MCPError):
            async with Client(url, http=HTTPOptions(ca_file=authority.root)) as client:
                await client.list_tools()


async def test_flags_name_the_files(tmp_path: Path, authority: Authority) -> None:
    arguments = arguments_of("serve", tmp_path)
    key = tmp_path / "key.pem"
    pem = authority.path.read_text()
    end = pem.index("-----BEGIN CERTIFICATE")
    key.write_text(pem[:end])
    authority.path.write_text(pem[end:])
    ann = authority.issue("ann.pem", {"COMMON_NAME": "ann"})
    flags = ["--certificate", str(authority.path), "--key", str(key), "--client-ca", str(authority.root)]
    with serving(*arguments, *flags, http=("--http", "0")) as (url, _):
        assert url.startswith("https://")
        async with Client(url, http=HTTPOptions(ca_file=authority.root, client_certificate=ann)) as client:
            found = await client.read_resource(file_uri(tmp_path / "notes/a.md"))
            assert found.contents[0].text == "text"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--key", "a"], "key and client_ca need a certificate"),
        (["--client-ca", "a"], "key and client_ca need a certificate"),
        (["--certificate", "missing.pem"], "missing.pem cannot be read"),
    ],
)
def test_files_of_no_use_are_one_line(
    flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments_of("serve", tmp_path), "--http", "0", *flags]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_server_with_everything_is_not_refused() -> None:
    from carrel.cli.config.settings import HTTPSettings

    check_exposure(HTTPSettings(host="::", certificate="a.pem"), is_authorized=True)
    with pytest.raises(ConfigError):
        check_exposure(HTTPSettings(host="::"), is_authorized=True)
