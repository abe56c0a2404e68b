"""``carrel serve``: real folders, real processes."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from carrel.cli import main
from carrel.cli.values import read_address
from carrel.errors import ConfigError
from support.carrel_process import COMMAND, command

LIBRARY = Path(__file__).parent.parent.parent.parent / "examples" / "library"
HANDSHAKE = [
    {
        "jsonrpc": "2.0",
        "id": "hello",
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


def converse(arguments, *requests, flags=(), cwd=None):
    """Send requests to ``carrel serve`` on stdio; return their results, how it greeted, and its error output."""
    serve = ["serve", *map(str, arguments)]
    messages = [*HANDSHAKE, *({"jsonrpc": "2.0", "id": i, **request} for i, request in enumerate(requests))]
    done = subprocess.run(
        [sys.executable, *flags, *COMMAND[1:], *serve] if flags else command(*serve),
        input="".join(json.dumps(message) + "\n" for message in messages).encode(),
        capture_output=True,
        timeout=120,
        check=True,
        cwd=cwd,
    )
    replies = {reply.get("id"): reply for reply in map(json.loads, done.stdout.splitlines())}
    return [replies[i] for i in range(len(requests))], replies["hello"]["result"], done.stderr.decode()


def names(listing):
    return {resource["name"] for resource in listing["result"]["resources"]}


def module(*arguments):
    """Return a command line that the commands that are printed begin with too."""
    return [*COMMAND, *arguments]


@contextmanager
def serving(*arguments, start=command):
    """Run ``carrel serve … --http 0``, and give the process and what it printed when it was ready."""
    process = subprocess.Popen(
        start("serve", *map(str, arguments)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        text = ""
        while not re.search(r"\n    curl .*\n\n|There is no file.*\n\n", text, re.DOTALL):
            line = process.stderr.readline()
            assert line, text
            text += line
        yield process, text
    finally:
        watchdog.cancel()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)


def send(command):
    """Do what a printed curl command does."""
    program, *words = shlex.split(command)
    assert (program, words[0]) == ("curl", "-s")
    headers = dict(words[i + 1].split(": ", 1) for i, word in enumerate(words) if word == "-H")
    body = words[words.index("-d") + 1].encode()
    with urllib.request.urlopen(urllib.request.Request(words[1], body, headers), timeout=120) as response:
        return json.load(response)


def test_a_folder_is_listed_and_read_on_stdio(tmp_path):
    (tmp_path / "糖尿病.txt").write_text("血糖", encoding="utf-8")
    [listing], greeting, errors = converse([tmp_path], {"method": "resources/list"})
    [resource] = [r for r in listing["result"]["resources"] if r["name"] == "糖尿病.txt"]
    assert resource["size"] == 6
    assert greeting["serverInfo"]["name"] == tmp_path.name
    assert errors == ""

    [read], _, _ = converse([tmp_path], {"method": "resources/read", "params": {"uri": resource["uri"]}})
    assert read["result"]["contents"][0]["text"] == "血糖"


def test_options_decide_what_is_shared(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("a.md", "b.txt", "c.log", ".hidden.md", "ignored.md", "sub/d.md"):
        (tmp_path / name).write_text("x")
    (tmp_path / ".gitignore").write_text("ignored.md\n")
    everything = {"method": "resources/list"}

    def files(*options):
        [listing], _, _ = converse([tmp_path, *options], everything)
        return {r["name"] for r in listing["result"]["resources"] if r.get("mimeType") != "inode/directory"}

    assert files() == {"a.md", "b.txt", "c.log", "d.md"}
    assert files("--include", "*.md") == {"a.md", "d.md"}
    assert files("--include", "*.md", "--include=*.txt", "--exclude", "sub") == {"a.md", "b.txt"}
    assert files("--hidden", "--include", "*.md") == {"a.md", "d.md", ".hidden.md"}
    assert files("--no-gitignore", "--exclude", "*.txt") == {"a.md", "c.log", "d.md", "ignored.md"}


def test_links_that_lead_out_are_followed_only_if_asked_for(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("s")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "link.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    listing = {"method": "resources/list"}
    [without], _, _ = converse([tmp_path / "shared"], listing)
    assert "link.txt" not in names(without)
    [followed], _, _ = converse([tmp_path / "shared", "--follow-symlinks"], listing)
    assert "link.txt" in names(followed)


def test_name_page_size_and_size_limit_reach_the_server(tmp_path):
    for i in range(5):
        (tmp_path / f"{i}.txt").write_text("0123456789")
    uri = (tmp_path / "0.txt").as_uri()
    [listing, read], greeting, _ = converse(
        [tmp_path, "--name", "my files", "--page-size", "2", "--max-size", "5"],
        {"method": "resources/list"},
        {"method": "resources/read", "params": {"uri": uri}},
    )
    assert greeting["serverInfo"] == {"name": "my files", "version": greeting["serverInfo"]["version"]}
    assert len(listing["result"]["resources"]) == 2
    assert listing["result"]["nextCursor"]
    assert "?bytes=" in read["error"]["message"] or "?lines=" in read["error"]["message"]


def test_resources_are_tools_too_unless_turned_off(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    [tools], greeting, _ = converse([tmp_path], {"method": "tools/list"})
    assert len(tools["result"]["tools"]) == 3
    assert all(tool["annotations"]["readOnlyHint"] is True for tool in tools["result"]["tools"])
    _, greeting, _ = converse([tmp_path, "--no-tools"])
    assert "tools" not in greeting["capabilities"]


def test_several_folders_are_shared_as_one_server(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(name)
    [listing], greeting, _ = converse(["one", "two"], {"method": "resources/list"}, cwd=tmp_path)
    assert {"one.txt", "two.txt"} <= names(listing)
    assert greeting["serverInfo"]["name"] == "one"


def test_skills_are_served_alone_or_beside_folders(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("a")
    (tmp_path / "skills" / "tool").mkdir(parents=True)
    (tmp_path / "skills" / "tool" / "SKILL.md").write_text("---\nname: tool\ndescription: d\n---\n")
    listing = {"method": "resources/list"}
    [alone], greeting, _ = converse(["--skills", tmp_path / "skills"], listing)
    assert (names(alone), greeting["serverInfo"]["name"]) == ({"tool"}, "skills")
    [both], greeting, _ = converse([tmp_path / "notes", "--skills", tmp_path / "skills" / "tool"], listing)
    assert (names(both), greeting["serverInfo"]["name"]) == ({"notes", "a.md", "tool"}, "notes")
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    discover = {"method": "server/discover", "params": {"_meta": meta}}
    directory = {"method": "resources/directory/read", "params": {"uri": (tmp_path / "notes").as_uri(), "_meta": meta}}
    [found, inside], _, _ = converse([tmp_path / "notes"], discover, directory)
    assert found["result"]["capabilities"]["extensions"] == {"io.modelcontextprotocol/skills": {"directoryRead": True}}
    assert names(inside) == {"a.md"}


def test_options_of_folders_are_options_of_skills_too(tmp_path):
    for name in ("one", "two", ".three"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: d\n---\n")
        (tmp_path / name / ".hidden").write_text("x")
    listing = {"method": "resources/list"}
    [listed], _, stderr = converse(["--skills", tmp_path, "--exclude", "two", "--hidden"], listing)
    assert names(listed) == {"one", ".hidden"}
    assert ".three is not served as a skill: the name has to be" in stderr


def test_an_empty_folder_is_mentioned_on_stderr_and_served(tmp_path):
    [listing], _, errors = converse([tmp_path], {"method": "resources/list"})
    assert "result" in listing
    assert errors == f"carrel: {tmp_path} is empty\n"


def test_the_stdio_start_path_loads_no_http_and_nothing_slow(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    _, _, times = converse([tmp_path], {"method": "resources/list"}, flags=["-X", "importtime"])
    loaded = set(re.findall(r"\| +([\w.]+)$", times, re.MULTILINE))
    assert "carrel.cli.server.sharing" in loaded
    unwanted = {"uvicorn", "http.client", "email", "importlib.metadata", "pydantic", "carrel.cli.install.install"}
    assert loaded & unwanted == set()


def test_over_http_it_says_where_it_is_and_how_to_use_it():
    with serving(LIBRARY, "--name", "library", "--http", "0", start=module) as (_, text):
        [url] = re.findall(r"^    URL +(\S+)$", text, re.MULTILINE)
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", url)
        configuration = json.loads(re.search(r"^    \{.*\}$", text, re.MULTILINE)[0])
        assert configuration == {"mcpServers": {"library": {"url": url}}}
        assert f"-m carrel install claude-desktop {LIBRARY} --name=library\n" in text
        assert f"-m carrel install vscode {url} --name library\n" in text

        assert len(text.splitlines()) <= 22  # a screen of the usual size

        command = re.search(r"^    curl .*?(?=\n\n)", text, re.MULTILINE | re.DOTALL)[0]
        reply = send(command.replace("\\\n", " "))
        [content] = reply["result"]["contents"]
        [name] = re.findall(r"Read (.*) with curl:", text)
        assert f"-m carrel ls {url} (likewise: find … WORDS, watch …)\n" in text
        assert content["text"] == next(LIBRARY.rglob(name)).read_text(encoding="utf-8")


def test_the_command_that_installs_it_has_the_flags_and_no_secret(tmp_path):
    (tmp_path / "api.json").write_text('{"openapi": "3.1.0", "info": {"title": "A", "version": "1"}, "paths": {}}')
    api, flags = f"openapi+file:{tmp_path}/api.json", ["--server", "https://api.example/v1", "--token", "hush4hush"]
    with serving(LIBRARY, api, *flags, "--exclude", "*.log", "--http", "0", start=module) as (_, text):
        options = "'--exclude=*.log' --server=https://api.example/v1 '--token=********'"
        assert f"-m carrel install claude-desktop {LIBRARY} {api} {options}\n" in text
        assert "hush4hush" not in text


def test_the_path_of_the_url_can_be_chosen(tmp_path):
    (tmp_path / "a file's name #1.txt").write_text("it's here")
    with serving(tmp_path, "--http", "localhost:0", "--path", "/books/mcp") as (_, text):
        assert re.search(r"URL +http://localhost:\d+/books/mcp\n", text)
        command = re.search(r"^    curl .*?(?=\n\n)", text, re.MULTILINE | re.DOTALL)[0]
        assert send(command.replace("\\\n", " "))["result"]["contents"][0]["text"] == "it's here"


def test_old_applications_are_served_where_that_is_asked_for(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    with serving(tmp_path, "--http", "0", "--path", "/books/mcp", "--sse") as (process, text):
        [url] = re.findall(r"^    old URL  (http://127\.0\.0\.1:\d+/sse) \(HTTP\+SSE\)$", text, re.MULTILINE)
        with urllib.request.urlopen(url, timeout=120) as stream:
            assert stream.readline() == b"event: endpoint\n"
            process.send_signal(signal.SIGINT)
            assert stream.read().startswith(b"data: /sse/messages?sessionId=")
        assert process.wait(timeout=120) == 0


@pytest.mark.parametrize(
    ("header", "value", "option"),
    [
        ("Host", "notes.example", "--allow-host=notes.example"),
        ("Origin", "https://app.example", "--allow-origin=https://app.example"),
    ],
)
def test_strange_hosts_and_origins_are_refused_until_they_are_allowed(tmp_path, header, value, option):
    (tmp_path / "a.txt").write_text("x")
    for options, expected in (([], 403), ([option], 200)):
        with serving(tmp_path, "--http", "0", *options) as (_, text):
            command = re.search(r"^    curl .*?(?=\n\n)", text, re.MULTILINE | re.DOTALL)[0]
            command += f" -H '{header}: {value}'"
            try:
                send(command.replace("\\\n", " "))
                status = 200
            except urllib.error.HTTPError as error:
                with error:
                    status = error.code
        assert status == expected


def test_standard_output_stays_empty_and_ctrl_c_ends_it_quietly(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    with serving(tmp_path, "--http", "0") as (process, _):
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=120)
        assert (process.returncode, out, errors) == (0, "", "")


def test_an_address_other_machines_reach_comes_with_a_warning(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    with serving(tmp_path, "--http", "0.0.0.0:0", "--insecure") as (_, text):
        assert text.startswith(
            "carrel: listening on 0.0.0.0, where other machines may reach it, without authentication\n"
        )
        assert re.search(r"URL +http://127\.0\.0\.1:\d+/mcp\n", text)


def test_ctrl_c_ends_a_server_on_stdio_without_a_traceback(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    with subprocess.Popen(
        [sys.executable, "-m", "carrel", "serve", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdin.write(json.dumps(HANDSHAKE[0]).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == "hello"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode in (0, 130)
    assert errors == b""


def test_a_port_that_is_taken_is_one_line(tmp_path, capfd):
    (tmp_path / "a.txt").write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(tmp_path), "--http", str(port)]) == 2
    assert capfd.readouterr().err == f"carrel: port {port} is in use; choose another, or --http 0 for any free one\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8000", (None, 8000)),
        (":8000", (None, 8000)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:8000", ("::1", 8000)),
    ],
)
def test_an_address_is_a_port_with_or_without_a_host(text, expected):
    assert read_address(text) == expected


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", "http://x", "::1:80", "1:2:3", "65536", "-1", "٣"])
def test_what_is_not_an_address_is_refused(text):
    with pytest.raises(ConfigError, match=r"^--http "):
        read_address(text)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--path", "/x"], "need --http"),
        (["--allow-host", "x"], "need --http"),
        (["--sse"], "need --http"),
        (["--trusted-proxy", "10.0.0.1"], "need --http"),
        (["--http", "0", "--trusted-proxy", "proxy.example"], "trusted_proxies: 'proxy.example'"),
        (["--http", "0", "--path", "/sse", "--sse"], "overlaps with /sse"),
        (["--http", "not..a.host:80"], "there is no host not..a.host"),
        (["--http", "192.0.2.1:0"], "cannot listen on 192.0.2.1 port 0"),
        (["--max-size", "huge"], "is not a size"),
    ],
)
def test_wrong_use_is_explained(tmp_path, capfd, arguments, complaint):
    (tmp_path / "a.txt").write_text("x")
    assert main(["serve", str(tmp_path), *arguments]) == 2
    errors = capfd.readouterr().err
    assert complaint in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(("missing", "options"), [("uvicorn", ["--http", "0"])])
def test_missing_packages_are_named_with_what_to_install(tmp_path, missing, options):
    (tmp_path / "a.txt").write_text("x")
    code = f"import sys; sys.modules[{missing!r}] = None; from carrel.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "serve", str(tmp_path), *options],
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 2
    assert re.fullmatch(rf"carrel: .*{missing}.*pip install 'carrel\[\w+\]'.*\n", done.stderr)


def test_the_example_library_is_complete():
    listed = {str(path.relative_to(LIBRARY)) for path in LIBRARY.rglob("*") if path.is_file()}
    assert {"medical/糖尿病.txt", "medical/心脏病.txt", "medical/高血压.txt", "logs/app.log"} <= listed
    assert sum(os.path.getsize(LIBRARY / name) for name in listed) < 300_000
    readme = (LIBRARY / "README.md").read_text(encoding="utf-8")
    assert [name for name in listed if name.rpartition("/")[2] not in readme and name != "README.md"] == []


def test_every_text_of_the_example_library_arrives_as_it_was_meant():
    paths = {
        "texts/旧书目录.txt": "旧书目录（一九九八年抄本",
        "texts/Benutzungsordnung.txt": "Öffnungszeiten",
        "texts/Tea & cake #1 🍰.md": "Lemon cake",
        "medical/高血压.txt": "毫米汞柱",
    }
    requests = [{"method": "resources/read", "params": {"uri": (LIBRARY / path).as_uri()}} for path in paths]
    replies, _, _ = converse([LIBRARY], *requests)
    for reply, expected in zip(replies, paths.values(), strict=True):
        assert expected in reply["result"]["contents"][0]["text"]
