"""Relative paths in URLs of sources: made absolute from a folder, in whatever form the URL has."""

from pathlib import Path
from typing import Any

import pytest

from carrel.cli.config.toml import read_file
from carrel.cli.server.sharing import target_of
from carrel.sources.databases.address import read_address


@pytest.mark.parametrize(
    ("url", "absolute"),
    [
        ("sqlite:///shop.db", "sqlite:////srv/data/shop.db"),
        ("sqlite:shop.db", "sqlite:////srv/data/shop.db"),
        ("sqlite:///../shop.db", "sqlite:////srv/shop.db"),
        ("SQLite:////var/shop.db", "SQLite:////var/shop.db"),
        ("duckdb:///a/events.duckdb", "duckdb:////srv/data/a/events.duckdb"),
        ("git+file:.", "git+file:/srv/data"),
        ("git:/srv/shop.git", "git:/srv/shop.git"),
        ("git+file:///srv/shop.git", "git+file:///srv/shop.git"),
        ("logs:log/*.log", "logs:/srv/data/log/*.log"),
        ("logs://log/*.log", "logs:/srv/data/log/*.log"),
        ("logs:journal", "logs:journal"),
        ("openapi+file:api.json", "openapi+file:/srv/data/api.json"),
        ("openapi+https://api.example.com/a.json", "openapi+https://api.example.com/a.json"),
        ("mysql://ann@host/shop?ssl_ca=ca%20.pem&x=1", "mysql://ann@host/shop?ssl_ca=/srv/data/ca%20.pem&x=1"),
        ("postgres:///?service=shop&servicefile=s.conf", "postgres:///?service=shop&servicefile=/srv/data/s.conf"),
        ("postgres://host/shop?host=/run/postgresql", "postgres://host/shop?host=/run/postgresql"),
        ("web+https://example.com/", "web+https://example.com/"),
    ],
)
def test_a_relative_path_begins_at_the_folder(url: str, absolute: str) -> None:
    assert target_of(url, {}, "/srv/data").location == absolute


@pytest.mark.parametrize("url", ["sqlite://shop.db", "sqlite:", "sqlite:///", "sqlite:///:memory:", "duckdb://///x"])
def test_a_url_without_a_path_is_left_to_its_source(url: str) -> None:
    assert target_of(url, {}, "/srv/data").location == url


def test_a_name_with_percent_signs_is_found_in_either_spelling(tmp_path: Path) -> None:
    folder = tmp_path / "50%25 off"
    folder.mkdir()
    for name in ("a b.db", "50%25.db"):
        (folder / name).touch()
    for written, name in (("a%20b.db", "a b.db"), ("a b.db", "a b.db"), ("50%25.db", "50%25.db")):
        target = target_of(f"sqlite:///{written}", {}, str(folder))
        assert read_address(target.location).path == str(folder / name)


def test_without_a_folder_paths_begin_at_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert target_of("sqlite:///shop.db", {}).location == f"sqlite:///{tmp_path}/shop.db"


def test_the_source_of_another_package_may_say_how(monkeypatch: pytest.MonkeyPatch) -> None:
    from carrel.sources.registry import Source

    class Mailbox:
        @staticmethod
        def relative(target: str, folder: str) -> str:
            return target.replace(":", f":{folder}/")

    def load(self: Source) -> Any:
        return Mailbox if self.scheme == "mbox" else object

    monkeypatch.setattr(Source, "load", load)
    assert Source("mbox", "", "", "").absolute("mbox:inbox", "/srv") == "mbox:/srv/inbox"
    assert Source("imap", "", "", "").absolute("imap:inbox", "/srv") == "imap:inbox"


def test_a_misspelled_table_of_queries_is_told_the_name_of_the_table(tmp_path: Path) -> None:
    (tmp_path / "carrel.toml").write_text('[[sources]]\nurl = "sqlite:///a.db"\n[sources.querys]\na = "SELECT 1"\n')
    [problem] = read_file(str(tmp_path / "carrel.toml")).problems
    assert problem.endswith("carrel.toml:3:1: [[sources]] querys: sqlite: has no such option; did you mean 'queries'?")
