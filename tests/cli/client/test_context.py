"""``carrel context``: packing what folders, repositories and servers say about a question."""

import json
import os
import shlex
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from chat.endpoints import Answer, Say, openai_endpoint
from context.pages import FORMATS, TEXT
from support.carrel_process import carrel, command
from support.git import Repository

SERVER = """
from carrel import Server

app = Server("shop")
app.resources.add("shop://teas", "Our green tea costs seven euros a bag.")
app.run()
"""
TEA = "# Tea\n\nGreen tea is brewed at seventy degrees.\n"


@pytest.fixture
def folder(tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "tea.md").write_text(TEA)
    (notes / "cars.md").write_text("# Cars\n\nAn engine.\n")
    return notes


def test_a_folder_a_git_repository_and_a_server_are_packed_together(tmp_path, folder):
    repository = Repository(tmp_path / "code")
    (repository.path / "tea.md").write_text(TEA)
    (repository.path / "brew.py").write_text("def brew():\n    return 'green tea'\n")
    repository.run("add", ".")
    repository.run("commit", "-q", "-m", "first")
    (tmp_path / "shop.py").write_text(SERVER)
    server = shlex.join([sys.executable, str(tmp_path / "shop.py")])
    done = carrel("context", str(folder), f"git:{repository.path}", server, "green tea", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == ["question", "budget", "tokens", "items", "leftOut"]
    assert found["tokens"] <= found["budget"] == 8000
    fields = ["server", "uri", "title", "lines", "tokens", "score", "reason", "text"]
    assert all(list(item) == fields for item in found["items"])
    packed = {item["uri"].rpartition("/")[2]: item for item in found["items"]}
    assert packed.keys() == {"tea.md", "brew.py", "teas"}
    assert packed["teas"]["server"] == "shop"
    assert packed["tea.md"]["lines"] is None
    assert [each["reason"].partition(" of ")[0] for each in found["leftOut"] if "tea.md" in each["uri"]] == [
        "near-duplicate"
    ]


def test_one_page_in_several_formats_is_packed_once(tmp_path):
    pages = tmp_path / "pages"
    pages.mkdir()
    for name, text in FORMATS.items():
        (pages / f"tea.{name}").write_text(text)
    (pages / "long.md").write_text(
        f"{TEXT}\n" + "".join(f"The pot number {n} is for tea of kind {n}.\n" for n in range(40))
    )
    done = carrel("context", str(pages), "how is green tea brewed", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    packed = [item["uri"].rpartition("/")[2].partition("?")[0] for item in found["items"]]
    duplicates = {each["uri"].rpartition("/")[2] for each in found["leftOut"] if "near-duplicate" in each["reason"]}
    assert "long.md" in packed  # it has the whole page, and more
    assert len(packed) + len(duplicates) == len(FORMATS) + 1
    assert len(packed) <= 2


def test_the_summary_counts_one_resource(folder):
    done = carrel("context", str(folder), "how is green tea brewed", "--pin", "file:///absent")
    assert done.stderr.endswith(b", 1 resource left out\n")


def test_a_file_that_is_open_is_ranked_higher(folder):
    (folder / "pot.md").write_text("# Pot\n\nBlack leaves are brewed at ninety degrees in it.\n")
    arguments = ("context", str(folder), "brewed at degrees", "--format", "json")
    before, after = carrel(*arguments), carrel(*arguments, "--open", str(folder / "pot.md"))
    assert before.returncode == after.returncode == 0, after.stderr
    first, second = ([item["title"] for item in json.loads(done.stdout)["items"]] for done in (before, after))
    assert (first, second) == (["tea.md", "pot.md"], ["pot.md", "tea.md"])


def test_a_watched_context_is_printed_again_after_a_change(folder):
    watching = command("context", str(folder), "green tea", "--watch")
    with subprocess.Popen(watching, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        told = iter(process.stderr)
        assert next(line for line in told if "waiting for changes" in line)
        (folder / "pot.md").write_text("A pot for green tea.\n")
        assert (folder / "pot.md").as_uri() in next(line for line in told if line.startswith("added: "))
        assert "tokens (estimated)" in next(told)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert output.count("Green tea is brewed") == 2
    assert output.count("A pot for green tea.") == 1
    assert process.returncode == 130


def test_a_model_adds_words_and_ranks(folder):
    (folder / "pot.md").write_text("Pour the kettle over the leaves of green tea.\n")
    with openai_endpoint([Answer(Say("kettle leaves")), Answer(Say("2, 1"))]) as endpoint:
        done = carrel(
            *("context", str(folder), "green tea", "--format", "json", "--model", f"{endpoint.url}#gpt-6.2-sol"),
            env={**os.environ, **endpoint.environment},
        )
    assert done.returncode == 0, done.stderr
    assert [item["score"] for item in json.loads(done.stdout)["items"]] == [1.0, 0.6]
    assert len(endpoint.requests) == 2
    assert endpoint.refusals == []


def test_a_model_that_does_not_exist_is_an_error(folder):
    done = carrel("context", str(folder), "green tea", "--model", "nobody:model", text=True)
    assert done.returncode == 2
    assert "nobody" in done.stderr


def test_the_formats_have_citations(folder):
    done = carrel("context", str(folder), "green tea", "--budget", "300", text=True)
    assert done.returncode == 0
    assert f"[1] tea.md <{(folder / 'tea.md').as_uri()}>\n```\n{TEA}```\n" in done.stdout
    assert "of 300 tokens (estimated)" in done.stderr
    done = carrel("context", str(folder), "green tea", "--format", "xml", "--quiet", text=True)
    assert ElementTree.fromstring(done.stdout)[1].text == f"\n{TEA}"
    assert done.stderr == ""


def test_a_citation_of_a_page_leads_to_the_text_in_which_its_lines_count(tmp_path):
    paragraphs = "".join(f"<p>Paragraph {number} about nothing.</p>\n" for number in range(400))
    tea = "<p>Green tea is brewed at seventy degrees.</p>\n"
    (tmp_path / "tea.html").write_text(f"<html><body>\n\n\n{paragraphs}{tea}{paragraphs}</body></html>")
    done = carrel("context", str(tmp_path), "green tea brewed", "--budget", "600", "--format", "json")
    [item] = json.loads(done.stdout)["items"]
    assert item["uri"] == f"{(tmp_path / 'tea.html').as_uri()}?view=text"
    text = carrel("cat", item["uri"], "--", *command("serve", str(tmp_path))).stdout.decode().splitlines()
    first, last = item["lines"]
    assert any("Green tea" in line for line in text[first - 1 : last])
    found = carrel("find", shlex.join(command("serve", str(tmp_path), "--search")), "green tea")
    assert b"tea.html?view=text, line" in found.stdout
    marked = carrel("context", str(tmp_path), "green tea brewed", "--budget", "600")
    assert f"<{item['uri']}>, lines {first}-{last}" in marked.stdout.decode()


def test_files_are_pinned_and_left_out_by_their_paths(folder):
    cars, tea = str(folder / "cars.md"), str(folder / "tea.md")
    done = carrel("context", str(folder), "green tea", "--pin", cars, "--without", tea, "--format", "json")
    found = json.loads(done.stdout)
    assert [(item["title"], item["reason"]) for item in found["items"]] == [("cars.md", "pinned, whole")]
    assert found["leftOut"] == [{"uri": (folder / "tea.md").as_uri(), "reason": "excluded"}]


def test_a_configuration_file_names_servers(tmp_path, folder):
    (tmp_path / "shop.py").write_text(SERVER)
    servers = {"shop": {"command": sys.executable, "args": [str(tmp_path / "shop.py")]}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    found = json.loads(carrel("context", str(tmp_path / "mcp.json"), "green tea", "--format", "json").stdout)
    assert [(item["server"], item["uri"]) for item in found["items"]] == [("shop", "shop://teas")]
    done = carrel("context", "green tea", "--format", "json", "--", sys.executable, str(tmp_path / "shop.py"))
    assert [item["uri"] for item in json.loads(done.stdout)["items"]] == ["shop://teas"]


def test_the_sources_of_a_carrel_toml_are_packed_with_its_servers(tmp_path, folder):
    (tmp_path / "shop.py").write_text(SERVER)
    server = f'[servers.shop]\ncommand = "{sys.executable}"\nargs = ["{tmp_path / "shop.py"}"]\n'
    (tmp_path / "carrel.toml").write_text(f'[[sources]]\npath = "notes"\n{server}')
    found = json.loads(carrel("context", "green tea", "--format", "json", cwd=tmp_path).stdout)
    assert {item["server"] for item in found["items"]} == {"shop", "shared"}


def test_without_a_target_the_current_folder_is_packed(folder):
    found = json.loads(carrel("context", "green tea", "--format", "json", cwd=folder).stdout)
    assert [item["title"] for item in found["items"]] == ["tea.md"]


def test_nothing_relevant_is_said_with_the_nearest_resources(tmp_path):
    for number in range(300):
        (tmp_path / f"page{number}.txt").write_text(f"A server answers word{number}.")
    done = carrel("context", str(tmp_path), "bake lasagna server", text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "carrel: nothing relevant is found; the nearest: file:///" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["green tea", "--budget", "10"], 1, "carrel: --budget 10 is too small for what was found"),
        (["unheard"], 1, "carrel: nothing is found"),
        (["green tea", "--pin", "memo://none"], 1, "carrel: --pin memo://none: cannot be read"),
        (
            ["green tea", "--without", "car.md"],
            1,
            "carrel: --without car.md: no resource matches it; did you mean",
        ),
        (["green tea", "--without", "*.log"], 0, "carrel: --without *.log: no resource matches it"),
        (["green tea", "--budget", "0"], 2, "--budget"),
        ([" "], 2, "carrel: QUESTION is empty"),
        (["green tea", "--header", "A: b"], 2, "carrel: --header is for URLs"),
        (["green tea", "--timeout", "0"], 2, "--timeout"),
    ],
)
def test_errors_are_plain(folder, arguments, code, message):
    done = carrel("context", str(folder), *arguments, text=True)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr


def test_a_target_that_is_nothing_is_wrong_use(folder):
    done = carrel("context", str(folder / "none"), "green tea", text=True)
    assert (done.returncode, "no such file" in done.stderr) == (2, True), done.stderr


def test_a_server_that_does_not_start_is_exit_code_3_or_a_warning(folder):
    broken = f"{sys.executable} -c pass"
    done = carrel("context", broken, "green tea", text=True)
    assert (done.returncode, "is not available" in done.stderr) == (3, True), done.stderr
    done = carrel("context", broken, str(folder), "green tea", text=True)
    assert (done.returncode, "is not available" in done.stderr) == (0, True), done.stderr
    assert "seventy degrees" in done.stdout


def test_a_python_file_is_a_server(tmp_path):
    (tmp_path / "shop.py").write_text(SERVER)
    done = carrel("context", str(tmp_path / "shop.py"), "green tea", "--quiet", text=True)
    assert "[1] teas <shop://teas>, shop\n```\nOur green tea costs seven euros a bag.\n```\n" in done.stdout
