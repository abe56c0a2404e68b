"""A database served on stdio and over HTTP, seen by the official client and the Inspector's command line."""

import json
import sqlite3
from pathlib import Path

import pytest

from carrel import Server, sources
from carrel.cli.server.sharing import default_name
from interop.test_inspector import inspect
from support.carrel_process import command
from support.http_server import over_http
from support.sdk_session import sdk_session
from support.shop_database import statements

pytestmark = pytest.mark.slow

ROW = "sqlite:///shop.db/tables/customers/rows/3"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.executescript(";".join(statements()))
    connection.close()
    return path


CONFIGURATION = """
[[sources]]
url = "sqlite:///second.db"

[sources.queries]
orders_of = "SELECT id, total FROM orders WHERE customer_id = :customer ORDER BY id"
"""


def test_the_official_client_reads_and_queries_on_stdio(file: Path) -> None:
    second = file.with_name("second.db")
    second.write_bytes(file.read_bytes())
    configuration = file.with_name("carrel.toml")  # which is in another folder than the server
    configuration.write_text(CONFIGURATION)
    serve = command("serve", f"sqlite:///{file}", "--query", "--config", str(configuration))
    with sdk_session(*serve) as client:
        query = client.tool("read_resource", uri="sqlite:///second.db/queries/orders_of?customer=1")
        assert '{"id":10,"total":12.5}' in query
        assert {"query_shop", "query_second"} <= set(client.tools())
        answer = client.tool("query_second", sql="SELECT name FROM customers WHERE id = 3")
        assert "李雷" in answer
        assert "Refused" in client.tool("query_shop", sql="DELETE FROM customers")


@pytest.mark.exhaustive  # tests/interop/test_all_sources.py
def test_the_inspector_reads_over_http(file: Path) -> None:
    app = Server("shop")
    app.add_provider(sources.open(f"sqlite:///{file}"))
    with over_http(app) as origin:
        result = inspect([f"{origin}/mcp"], "auto", "--method", "resources/read", "--uri", ROW)
    assert json.loads(result["contents"][0]["text"])["row"]["name"] == "李雷"


def test_the_name_of_a_server_has_neither_account_nor_options() -> None:
    assert default_name(["postgresql://ann@db.example.com/shop?host=/run/postgresql"]) == "shop"
    assert default_name(["postgres://ann@?service=shop"]) == "carrel"
    assert default_name(["sqlite:///shop.db"]) == "shop.db"
