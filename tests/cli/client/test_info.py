"""``carrel info``: what a server says of itself, and measurements."""

import json
import re

from carrel.cli.client.info import details
from carrel.cli.terminal.output import duration
from support.carrel_process import BOOKS, carrel, serving


def test_a_server_is_described_with_its_revisions_capabilities_and_times():
    done = carrel("info", BOOKS)
    out = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert "  server     books" in out
    assert "  revision   2026-07-28 (stateless)\n  transport  stdio\n" in out
    assert "  accepts    2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05\n" in out
    assert "  resources  subscribe, listChanged\n" in out
    assert "ping (median of 9)" in out
    assert re.search(r"  tools      4, about 1\d\d tokens of a model's context\n", out)


def test_json_has_the_same_facts_and_quick_asks_for_no_other_revision():
    with serving("run", BOOKS) as (url, _):
        facts = json.loads(carrel("info", url, "--json", "--quick").stdout)
    assert facts["transport"] == "Streamable HTTP"
    assert facts["server"]["name"] == "books"
    assert facts["capabilities"]["tools"] == {"listChanged": True}
    assert "accepts" not in facts
    assert set(facts["timing"]) == {"connect", "firstList", "list", "ping"}
    assert all(value > 0 for value in facts["timing"].values())


SEARCHED = """
from carrel import Server
from carrel.gateway.tool_search import ToolSearch
from carrel.host import RemoteProvider

inner = Server("inner")
for number in range(40):
    inner.tools.add(lambda: "done", name=f"tool_{number}", description="Does one of many things.")
app = Server("outer")
app.add_provider(ToolSearch(RemoteProvider(inner, name="inner")))
"""


def test_what_a_tool_search_saves_is_shown(tmp_path):
    (tmp_path / "searched.py").write_text(SEARCHED)
    done = carrel("info", str(tmp_path / "searched.py:app"), "--quick")
    assert re.search(
        r"  tools      2, about 2\d\d tokens of a model's context, instead of 40, about \d{3,4}\n",
        done.stdout.decode(),
    ), done


def test_settings_of_capabilities_and_times_are_short():
    assert details({"listChanged": True, "modes": ["a"], "x": {}}) == 'listChanged, modes: ["a"], x'
    assert details(5) == "5"
    assert (duration(0.00025), duration(1.5)) == ("0.2 ms", "1.50 s")
