"""``carrel find``: finding by words."""

import json
import shlex

from carrel import Client, Server
from carrel.cli.client.find import linked, search_tool, searched
from carrel.cli.terminal.progress import Bar
from carrel.wire.tools import CallToolResult, Tool, ToolAnnotations
from support.carrel_process import BOOKS, carrel, command

QUERY = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


def test_names_and_descriptions_are_searched_in_any_case_and_order():
    found = json.loads(carrel("find", BOOKS, "NUMBERS add", "--json").stdout)
    assert found == {"matches": [{"kind": "tool", "name": "add", "about": "Add two numbers."}], "search": None}
    assert json.loads(carrel("find", BOOKS, "--json", "NUMBERS", "add").stdout) == found
    assert carrel("find", BOOKS, "book").stdout.decode() == (
        "Names\n  resource  book://cover\n  template  book://{author}/{title}  A book\n"
    )


def test_the_search_tool_of_a_server_is_used(tmp_path):
    (tmp_path / "wine.md").write_text("red")
    found = json.loads(carrel("find", str(tmp_path), "wine", "--json").stdout)
    assert "wine.md" in json.dumps(found["search"])
    assert json.loads(carrel("find", str(tmp_path), "wine", "--json", "--names").stdout)["search"] is None


def test_terms_select_by_type_age_and_size_in_names_and_texts(tmp_path):
    (tmp_path / "wine.md").write_text("red wine")
    (tmp_path / "wine.txt").write_text("red wine")
    served = shlex.join(command("serve", str(tmp_path), "--search"))
    for text in ("red type:text/markdown changed:<1h size:<1kB", "type:text/markdown wine -beer"):
        found = json.loads(carrel("find", served, text, "--json").stdout)
        assert [hit["resource"]["name"] for hit in found["search"]["structuredContent"]["hits"]] == ["wine.md"]
    assert "wine.txt" not in carrel("find", served, "wine type:text/markdown").stdout.decode()
    assert carrel("find", str(tmp_path), "type:text/plain").stdout.decode().count("wine.txt") == 1
    assert carrel("find", served, "red -type:text").returncode == 1
    done = carrel("find", str(tmp_path), "priority:high")
    assert (done.returncode, b"priority:high: write a number" in done.stderr) == (2, True)


def test_a_text_and_its_copy_are_one_hit_with_both_places(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "wine.md").write_text("# Cellar\n\nWe keep *red* wine.\n")
    (tmp_path / "other.md").write_text("We keep white wine.\n")
    served = shlex.join(command("serve", str(tmp_path), "--search"))
    shown = carrel("find", served, "keep wine").stdout.decode()
    assert shown.count("We keep *red* wine.") == 1  # as it is, without escapes of Markdown
    assert (shown.count("/one/wine.md, line 3"), shown.count("/two/wine.md, line 3")) == (1, 1)
    assert shown.count("    also ") == 1
    assert "other.md, line 1" in shown


def test_the_nearest_hits_and_the_absent_words_are_told_if_nothing_is_relevant(tmp_path):
    for number in range(300):
        (tmp_path / f"page{number}.md").write_text(f"# Server {number}\n\nServer word{number} answers requests.\n")
    served = shlex.join(command("serve", str(tmp_path), "--search"))
    done = carrel("find", served, "bake lasagna server", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["matches"], found["search"]) == (1, [], None)
    assert found["absent"] == ["bake", "lasagna"]
    assert [hit["resource"]["mimeType"] for hit in found["nearest"]] == ["text/markdown"] * 3
    assert {"link", "line", "score", "snippet"} <= found["nearest"][0].keys()
    done = carrel("find", served, "bake lasagna server")
    assert (done.returncode, done.stdout.decode().splitlines()[0]) == (
        1,
        "Nothing relevant found. No text has: bake, lasagna. The nearest:",
    )
    assert "absent" not in json.loads(carrel("find", served, "servers word7", "--json").stdout)


def test_a_search_waits_for_the_index(tmp_path):
    (tmp_path / "wine.md").write_text("red and 上下文")
    done = carrel("find", shlex.join(command("serve", str(tmp_path), "--search")), "上下文")
    assert done.returncode == 0
    assert "wine.md" in done.stdout.decode()
    assert b"not complete" not in done.stdout


async def test_a_search_is_repeated_until_it_is_complete_or_there_is_no_time_left():
    app = Server("slow")
    calls = []

    @app.tool
    def search(query: str) -> dict[str, bool]:
        calls.append(query)
        return {"complete": len(calls) == 3}

    async with Client(app) as client:
        bar = Bar(wanted=False)
        result = await searched(client, "search", {"query": "x"}, 0.0, bar)
        assert result.structured_content == {"complete": False}
        result = await searched(client, "search", {"query": "x"}, 60.0, bar)
    assert result.structured_content == {"complete": True}
    assert len(calls) == 3


def test_nothing_found_is_exit_code_1():
    done = carrel("find", BOOKS, "unheard-of")
    assert (done.returncode, done.stdout) == (1, b"Nothing found.\n")


def test_a_search_that_finds_no_resources_is_exit_code_1_too(tmp_path):
    (tmp_path / "wine.md").write_text("red")
    done = carrel("find", str(tmp_path), "beer")
    assert (done.returncode, done.stdout) == (1, b"Nothing found.\n")
    assert b"Only names and descriptions were searched. To search texts: carrel serve PATH --search" in done.stderr
    for quiet in ("--names", "--quiet"):
        assert b"Only names" not in carrel("find", str(tmp_path), "beer", quiet).stderr


def test_a_folder_is_searched_by_its_texts_if_a_server_with_an_index_is_given(tmp_path):
    (tmp_path / "wine.txt").write_text("猫が好き", encoding="utf-8")
    served = shlex.join(command("serve", str(tmp_path), "--search"))
    done = carrel("find", served, "猫")
    assert "wine.txt" in done.stdout.decode(), done.stderr
    done = carrel("find", served, "犬")
    assert (done.returncode, b"Only names" in done.stderr) == (1, False), done.stderr


def test_nothing_relevant_is_said_with_the_nearest_texts(tmp_path):
    for number in range(300):
        (tmp_path / f"page{number}.txt").write_text(f"A server answers word{number}.")
    done = carrel("find", shlex.join(command("serve", str(tmp_path), "--search")), "bake lasagna server")
    first, *nearest = done.stdout.decode().splitlines()
    assert (done.returncode, first) == (1, "Nothing relevant found. No text has: bake, lasagna. The nearest:"), (
        done.stderr
    )
    assert len(nearest) == 3
    assert all(line.startswith("  file:///") for line in nearest)


def test_resources_of_a_search_are_a_table_and_any_other_result_is_its_text():
    found = {"resources": [{"uri": "a:b", "name": "B"}, {"uri": "a:c", "title": "C", "name": "c"}]}
    rows = linked(CallToolResult(content=[], structured_content=found))
    assert rows == [("resource", "a:b", "B"), ("resource", "a:c", "C")]
    assert linked(CallToolResult(content=[], structured_content={"hits": []})) == []
    for other in (None, {"hits": [1]}, {"resources": 5}, {"resources": [5]}, {"resources": [{}]}):
        assert linked(CallToolResult(content=[], structured_content=other)) is None


def test_a_search_tool_reads_only_and_needs_one_text():
    reading = ToolAnnotations(read_only_hint=True)
    tool = Tool(name="search", input_schema=QUERY, annotations=reading)
    assert search_tool([tool]) == (tool, "query")
    assert search_tool([Tool(name="search", input_schema=QUERY)]) is None
    assert search_tool([Tool(name="search", input_schema={}, annotations=reading)]) is None
    assert search_tool([Tool(name="other", input_schema=QUERY, annotations=reading)]) is None
