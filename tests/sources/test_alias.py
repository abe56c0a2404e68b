"""Aliases: any base for the URIs of a source, to the letter."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from carrel import Server, sources
from carrel.errors import ConfigError
from carrel.sources.alias import base_of
from carrel.sources.databases.address import read_address
from carrel.sources.screen.scope import read_target
from carrel.sources.stores.address import read_address as read_store
from carrel.sources.stores.zip_archive import ZipSource
from support.carrel_process import COMMAND, carrel


@pytest.mark.parametrize(
    ("alias", "base"),
    [
        ("shop", "s3://shop"),
        ("Data/customers", "s3://data/customers"),
        ("s3://data/customers", "s3://data/customers"),
        ("customers://all", "customers://all"),
        ("läden/käse", "s3://l%C3%A4den/k%C3%A4se"),
    ],
)
def test_an_alias_is_a_name_a_path_or_a_whole_base(alias: str, base: str) -> None:
    assert base_of("s3", alias) == base
    assert read_store("s3://bucket/x", alias).base == f"{base}/"


NO_BASES = [
    *("://", "/", "x://ann@host", "x://host?y", "x://host#y", "x://"),
    *("a b", "a/b c", "x://a b", "x/y/z", "x://a/b/c", "shop/", "/shop", "x//y", "x://a/", "x://a//b"),
    *("http://x/y", "HTTPS://x/y", "file:///x", "screen://x/y", "s3://x/y"),
]


@pytest.mark.parametrize("alias", NO_BASES)
def test_an_alias_that_is_no_base_is_refused(alias: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a base of URIs.*; write NAME, HOST/NAME or SCHEME://HOST/NAME"):
        base_of("postgres", alias)


@pytest.mark.parametrize(
    "aliases", [("postgres://shop", "postgres://shop/a"), ("postgres://shop/a", "postgres://shop")]
)
def test_a_database_inside_the_base_of_another_one_is_refused_at_the_start(tmp_path: Path, aliases: list[str]) -> None:
    app = Server("shops")
    files = [tmp_path / "one.db", tmp_path / "two.db"]
    app.add_provider(sources.open(f"sqlite:///{files[0]}", alias=aliases[0]))
    app.add_provider(sources.open(f"sqlite:///{tmp_path}/three.db", alias="postgres://shops"))
    with pytest.raises(ConfigError, match=r"postgres://shop/a are inside postgres://shop: .* with the option alias"):
        app.add_provider(sources.open(f"sqlite:///{files[1]}", alias=aliases[1]))


def test_the_alias_of_a_database_file_is_refused_in_other_forms() -> None:
    assert read_address("sqlite:////srv/shop.db", "sqlite:///shop").base == "sqlite:///shop"
    for alias in ("a b", "x/y/z", "/x", "https://x/y", "sqlite:////x"):
        with pytest.raises(ConfigError, match="is not a base of URIs"):
            read_address("sqlite:////srv/shop.db", alias)


def test_a_screen_may_not_have_the_uris_of_other_sources() -> None:
    with pytest.raises(ConfigError, match="is not a base of URIs"):
        read_target("screen:", "postgres://localhost/display1")


def test_a_file_name_of_an_archive_may_have_spaces(tmp_path: Path) -> None:
    assert ZipSource(f"zip:{tmp_path}/My Photos.zip").name == "zip://my%20photos.zip/"


def test_a_database_is_read_under_the_uri_of_its_alias(tmp_path: Path) -> None:
    assert read_address("postgres://ann@host/shop", "database/customers").base == "postgres://database/customers"
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY)")
    connection.close()
    served = [*COMMAND, "serve", f"sqlite:///{tmp_path}/shop.db", "--alias", "postgres://database/customers"]
    done = carrel("cat", "postgres://database/customers/schema", "--", *served)
    assert b"## customers" in done.stdout, done.stderr


def test_a_display_may_have_a_number_in_its_name() -> None:
    assert read_target("screen://localhost/display1").uri == "screen://localhost/display1"
    assert [read_target(f"screen://localhost/display{number}").monitor for number in (1, 2)] == [0, 1]
    whole = read_target("screen:", "localhost/display1")
    assert (whole.uri, whole.monitor) == ("screen://localhost/display1", None)
    assert read_target("screen:", "screen://localhost/display1") == whole
    with pytest.raises(ConfigError):
        read_target("screen://localhost/display0")
