"""``carrel doctor``: a good server, and one that breaks nearly every rule."""

import json
import sys
from pathlib import Path

import pytest

from carrel.doctor.rules import RULES
from support.carrel_process import carrel, serving

SERVERS = Path(__file__).parent.parent.parent / "support/servers"
GOOD = str(SERVERS / "good.py")
BAD = ["--", sys.executable, str(SERVERS / "bad.py")]
#: The rules that each mode of the bad server breaks, among others, and the options that show it.
MODES = {
    "odd": ({"id", "traversal"}, ["--hostile"]),
    "mute": ({"ping", "silent"}, ["--timeout", "4"]),
    "slow": ({"slow"}, []),
}


def found(done):
    return {finding["rule"]: finding for finding in json.loads(done.stdout)["findings"]}


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_a_good_server_has_a_score_of_100_in_every_revision(revision):
    done = carrel("doctor", GOOD, "--hostile", "--call", "--json", "--revision", revision)
    report = json.loads(done.stdout)
    assert (done.returncode, report["findings"], report["score"]) == (0, [], 100)
    assert report["revision"] == revision
    assert report["checks"]["hostile"] > 10


def test_a_good_server_over_http_has_a_score_of_100():
    with serving("run", GOOD) as (url, _):
        report = json.loads(carrel("doctor", url, "--json", "--hostile").stdout)
    assert (report["findings"], report["transport"]) == ([], "Streamable HTTP")


def test_a_shared_folder_has_a_score_of_100(tmp_path):
    (tmp_path / "a.md").write_text("# A")
    done = carrel("doctor", str(tmp_path), "--hostile")
    assert done.stdout.endswith(b"No problems found.\n\nscore 100 of 100\n")


def test_what_is_wrong_with_a_bad_server_is_shown_with_places_and_advice():
    done = carrel("doctor", "--json", *BAD)
    findings = found(done)
    elsewhere = set().union(*(rules for rules, _ in MODES.values()), {"died", "unannounced"})
    assert (done.returncode, set(findings)) == (1, set(RULES) - elsewhere)
    assert findings["noise"]["locations"][0] == "'called empty'"
    assert findings["mismatch"]["locations"] == ['wrong: "n" is a required property']
    assert findings["schema"]["severity"] == "error"
    assert findings["subscription"]["specification"].endswith("/2025-06-18/server/resources")
    assert json.loads(done.stdout)["score"] == 0


CHANGING = """
from carrel import Server

app = Server("changing", instructions="Changes.")
count = 0

@app.resource("count://now", description="How often it was called.")
def now() -> str:
    return str(count)

@app.tool(description="Adds a tool, and changes a resource.")
def grow() -> str:
    global count
    count += 1
    app.tools.add(lambda: "new", name=f"new_{count}", description="Does nothing.")
    app.resources.changed("count://now")
    return "done"
"""
SILENT = """
import json, sys

tools, count = ["grow"], 0
for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params", {})
    if "id" not in message:
        continue
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
        result = {"protocolVersion": "2025-06-18", "capabilities": capabilities}
        result["serverInfo"] = {"name": "silent", "version": "1"}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "description": "d", "inputSchema": {"type": "object"}} for name in tools]}
    elif method == "resources/list":
        result = {"resources": [{"uri": "count://now", "name": "now"}]}
    elif method == "resources/templates/list":
        result = {"resourceTemplates": []}
    elif method == "resources/read":
        result = {"contents": [{"uri": "count://now", "text": str(count)}]}
    elif method == "tools/call":
        count += 1
        tools.append(f"new_{count}")
        result = {"content": []}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_notifications_that_arrive_are_noted(tmp_path, revision):
    file = tmp_path / "changing.py"
    file.write_text(CHANGING)
    report = json.loads(carrel("doctor", str(file), "--call", "--json", "--revision", revision).stdout)
    assert "notifications of changes arrived: count://now, tools" in report["notes"]
    assert report["checks"]["changes"] == 2
    assert "unannounced" not in {finding["rule"] for finding in report["findings"]}
    quiet = json.loads(carrel("doctor", str(file), "--json", "--revision", revision).stdout)
    assert any("whether notifications arrive is not known; --call" in note for note in quiet["notes"])


def test_changes_without_a_notification_are_findings(tmp_path):
    file = tmp_path / "silent.py"
    file.write_text(SILENT)
    findings = found(carrel("doctor", "--call", "--json", "--", sys.executable, str(file)))
    locations = findings["unannounced"]["locations"]
    assert locations[0].startswith("count://now has changed while tools were called, and no notification came")
    assert locations[1].startswith("the list of tools has changed")
    assert "unannounced" not in found(carrel("doctor", "--json", "--", sys.executable, str(file)))


def test_a_server_that_dies_of_malformed_messages_is_found_out():
    assert "a message that is not JSON" in found(carrel("doctor", "--json", "--hostile", *BAD))["died"]["locations"]


@pytest.mark.parametrize("mode", MODES)
def test_rules_that_exclude_others_are_found_broken_too(mode):
    rules, options = MODES[mode]
    assert set(found(carrel("doctor", "--json", *options, *BAD, mode))) >= rules


def test_the_report_is_text_and_a_page_of_its_own_with_everything_escaped(tmp_path):
    page = tmp_path / "report.html"
    done = carrel("doctor", "--quiet", "--html", str(page), *BAD)
    text = done.stdout.decode()
    assert "error  Standard output has lines that are not messages\n    'called empty'\n" in text
    assert text.endswith("score 0 of 100\n")
    html = page.read_text()
    assert html.startswith("<!doctype html>")
    assert "&#x27;called empty&#x27;" in html
    assert "<script" not in html
    assert carrel("doctor", "--html", "/no/such/folder/x", GOOD).returncode == 2


def test_a_server_that_is_not_there_is_exit_code_3():
    assert carrel("doctor", "http://127.0.0.1:9/mcp").returncode == 3
