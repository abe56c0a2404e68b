"""Parsers of the databases source with input of any kind: addresses, URIs, keys, statements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.errors import ConfigError, MCPError
from carrel.sources.databases.address import read_address
from carrel.sources.databases.failure import StatementRejected
from carrel.sources.databases.location import DatabaseLocation, read_location, uri_of
from carrel.sources.databases.model import join_key, split_key
from carrel.sources.databases.statements import check_statement

WORDS = [
    "SELECT",
    "FROM",
    "customers",
    "(",
    ")",
    "WITH",
    "AS",
    ";",
    "'",
    '"',
    "--",
    "/*",
    "*/",
    "DELETE",
    "INTO",
    "x",
    "$$",
    "`",
    ",",
]


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("postgresql://ann:secret@DB.example.com:5433/customers", "postgres://db.example.com:5433/customers"),
        ("postgres://ann@db.example.com:5432/customers?sslmode=require", "postgres://db.example.com/customers"),
        ("postgresql+asyncpg://ann:p%40ss@[::1]/customers", "postgres://[::1]/customers"),
        ("mariadb://ann:secret@localhost/shop", "mysql://localhost/shop"),
        ("mysql:///shop?unix_socket=/run/mysqld.sock", "mysql://localhost/shop"),
        ("sqlite:////srv/data/shop.db", "sqlite:///shop.db"),
        ("sqlite:shop.db", "sqlite:///shop.db"),
        ("duckdb:////srv/a%20b.duckdb", "duckdb:///a%20b.duckdb"),
    ],
)
def test_the_base_of_an_address_has_neither_account_nor_path(url: str, base: str) -> None:
    assert read_address(url).base == base


@pytest.mark.parametrize(
    "url",
    [
        "postgres://ann:secret@host",
        "mysql://host/a/b",
        "postgres://host:secret/x",
        "sqlite:",
        "sqlite::memory:",
        "sqlite://x",
        "mysql://host/%zz",
        f"mysql://host:{'1' * 5000}/x",
        "postgres://%ff:secret@host/x",
        "postgres://ann:secret%ff@host/x",
    ],
)
def test_an_address_that_names_no_database_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="should look like") as raised:
        read_address(url)
    assert "secret" not in str(raised.value)


def test_the_name_of_a_file_may_be_any_bytes() -> None:
    assert read_address("sqlite:///caf\udce9.db").base == "sqlite:///caf%E9.db"


@given(st.text(), st.sampled_from(["postgres://", "mysql:", "sqlite:///", "duckdb:"]))
def test_any_address_is_read_or_refused(text: str, scheme: str) -> None:
    try:
        address = read_address(scheme + text)
    except ConfigError:
        return
    assert address.base.startswith(address.kind)


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_a_key_of_any_values_is_read_back(values: list[str]) -> None:
    assert split_key(join_key(values), len(values)) == values


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_a_table_and_key_of_any_name_are_read_back(name: str) -> None:
    location = read_location("sqlite:///x", uri_of("sqlite:///x", "tables", name, "rows", name), {})
    assert location == DatabaseLocation("row", name, name, segments=("tables", name, "rows", name))


@given(st.text())
def test_any_uri_is_a_place_or_a_documented_error(text: str) -> None:
    for uri in (text, f"sqlite:///x/{text}", f"sqlite:///x/tables/t/rows?{text}"):
        try:
            read_location("sqlite:///x", uri, {})
        except MCPError:
            pass


@given(st.lists(st.sampled_from(WORDS), max_size=12), st.sampled_from(["postgres", "mysql", "sqlite", "duckdb"]))
def test_what_passes_the_check_is_one_query_and_passes_it_again(words: list[str], dialect: str) -> None:
    try:
        statement = check_statement(" ".join(words), dialect)
    except StatementRejected:
        return
    again = check_statement(statement.sql, dialect)
    assert again.tables == statement.tables
    assert again.sql == statement.sql
