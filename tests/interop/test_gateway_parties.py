"""Gateways among parties that others wrote: clients see through one what they see alone, of many servers at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from carrel import Server
from carrel.host.remote import RemoteProvider
from golden.app import build
from interop.test_clients import CANCELLED, CLIENTS, MODERN, PAGES, PROGRESS, SEEN, URIS, client, tour
from interop.test_servers_reference import npm, pypi
from support.http_server import over_http
from support.parties import node_environment, node_modules, node_program, python_program

SERVERS = CLIENTS.parent / "servers"
GATEWAY = SERVERS / "gateway_of.py"
#: How many parties run at the same time.
AT_ONCE = 4
SESSION = {"revision": "2025-11-25"}

#: Clients on their tour of the golden application, and what they see there.
TOURS: Mapping[str, tuple[list[str], dict[str, Any]]] = {
    "python 1": (["python_sdk_1.py"], {**SEEN, **PAGES, **PROGRESS, **SESSION}),
    "python 2": (["python_sdk_2.py", "legacy"], {**SEEN, **PAGES, **PROGRESS, **SESSION}),
    "python 2, 2026-07-28": (["python_sdk_2.py", "auto"], {**SEEN, **PAGES, **PROGRESS, **MODERN}),
    "typescript 2": (
        ["typescript_sdk_2.cjs", "legacy"],
        {**SEEN, **CANCELLED, "uris": URIS, **SESSION, "errors": MODERN["errors"]},
    ),
    "typescript 2, 2026-07-28": (
        ["typescript_sdk_2.cjs", "auto"],
        {**SEEN, **CANCELLED, "uris": URIS, **MODERN},
    ),
}
FARS = ["2025-11-25", "2026-07-28"]
#: Revision of the application and client; without make exhaustive, each client once, most with one of another era.
PAIRS = [
    pytest.param(far, name, marks=[] if (far < "2026") == (row % 2 == 0) else pytest.mark.exhaustive)
    for far in FARS
    for row, name in enumerate(TOURS)
]

#: Tools that server-everything has for clients that can be asked, which the gateway is and the client alone is not.
FOR_ABLE_CLIENTS = {
    *("get-roots-list", "trigger-elicitation-request", "trigger-sampling-request", "trigger-url-elicitation"),
}
#: What is used of each server behind one gateway: tools and prompts with their arguments, and resources.
SHELF: dict[str, list[Any]] = {
    "tools": [("add", {"a": 1, "b": 2}), ("echo", {"text": "x"}), ("fail", {})],
    "resources": ["memo://text", "memo://blob", "book://lem/solaris"],
    "prompts": [("greet", {"name": "Ada"})],
}
WANTED: Mapping[str, dict[str, list[Any]]] = {
    "everything": {
        "tools": [("echo", {"message": "日本"}), ("get-structured-content", {"location": "New York"})],
        "resources": ["demo://resource/static/document/features.md"],
        "prompts": [("simple-prompt", {}), ("args-prompt", {"city": "Ulm"})],
    },
    "files": {
        "tools": [("list_allowed_directories", {}), ("read_text_file", {"path": "{folder}/a.txt"})],
        "resources": [],
        "prompts": [],
    },
    "git": {
        "tools": [("git_branch", {"repo_path": "{folder}", "branch_type": "local"})],
        "resources": [],
        "prompts": [],
    },
    **dict.fromkeys(("fastmcp", "python1", "python2", "typescript2"), SHELF),
}
#: Clients of the gateway over HTTP.
CLIENTS_OF_MANY: Mapping[str, list[str]] = {
    "python 1": ["python_sdk_1_lists.py"],
    "python 2": ["python_sdk_2_lists.py", "legacy"],
    "python 2, 2026-07-28": ["python_sdk_2_lists.py", "auto"],
    "typescript 2": ["typescript_sdk_2_lists.cjs", "legacy"],
    "typescript 2, 2026-07-28": ["typescript_sdk_2_lists.cjs", "auto"],
}


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield pool


def needed(request: pytest.FixtureRequest, test: Callable[..., None], *names: str) -> list[tuple[str, ...]]:
    """Return the values of parameters with which a test runs."""
    return [
        tuple(item.callspec.params[name] for name in names)
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is test
    ]


@pytest.fixture(scope="module")
def tours(
    request: pytest.FixtureRequest, pool: ThreadPoolExecutor
) -> Iterator[Mapping[tuple[str, str], Future[dict[str, Any]]]]:
    """The tours of clients through gateways to the application, in either era, under way."""
    with ExitStack() as stack:
        running = {}
        for far, name in needed(request, test_a_client_sees_through_a_gateway_what_it_sees_alone, "far", "name"):
            script, *mode = TOURS[name][0]
            # Each has a session of its own: log messages of a session do not say which call they are about,
            # and reach no client while calls of several clients are in flight.
            gateway: Server[Any] = Server("golden", instructions="Say please.", page_size=3)
            gateway.add_provider(RemoteProvider(build(), name="far", revision=far))
            url = stack.enter_context(over_http(gateway)) + "/mcp"
            running[far, name] = pool.submit(tour, *client(script, *mode, url), env=node_environment())
        yield running


@pytest.mark.parametrize(("far", "name"), PAIRS)
def test_a_client_sees_through_a_gateway_what_it_sees_alone(
    far: str, name: str, tours: Mapping[tuple[str, str], Future[dict[str, Any]]]
) -> None:
    assert tours[far, name].result() == TOURS[name][1]


# Many servers behind one gateway


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the programs behind the gateway."""
    return {
        "everything": npm("server-everything"),
        "files": npm("server-filesystem", str(folder)),
        "git": pypi("mcp_server_git", "--repository", str(folder)),
        "fastmcp": python_program("2", str(SERVERS / "fastmcp_4.py"), "stdio"),
        "python1": python_program("1", str(SERVERS / "python_sdk_1.py"), "stdio"),
        "python2": python_program("2", str(SERVERS / "python_sdk_2.py"), "stdio"),
        "typescript2": [
            "env",
            f"NODE_PATH={node_environment()['NODE_PATH']}",
            node_program(),
            str(SERVERS / "typescript_sdk_2.cjs"),
            "stdio",
        ],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shelf").resolve()
    (folder / "a.txt").write_text("Plain text: 糖尿病", encoding="utf-8")
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    return folder


def lists(program: list[str], wanted: Any, *target: str) -> dict[str, Any]:
    """Run a client, and return what it saw."""
    script, *mode = program
    return tour(*client(script, *mode, json.dumps(wanted), *target), env=node_environment())


def wanted_of(server: str, folder: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = json.loads(json.dumps(WANTED[server]).replace("{folder}", str(folder)))
    return found


@pytest.fixture(scope="module")
def alone(pool: ThreadPoolExecutor, folder: Path) -> dict[str, Future[dict[str, Any]]]:
    """What the official client sees of each server alone."""
    programs, client = commands(folder), CLIENTS_OF_MANY["python 2, 2026-07-28"]
    return {name: pool.submit(lists, client, wanted_of(name, folder), *programs[name]) for name in programs}


@pytest.fixture(scope="module")
def gateway(folder: Path) -> list[str]:
    """The command of a gateway to all of the servers, each of them with one session for all clients."""
    file = folder.parent / "servers.json"
    programs = {
        name: {"command": first, "args": rest, "isolation": "shared"}
        for name, (first, *rest) in commands(folder).items()
    }
    file.write_text(json.dumps({"mcpServers": programs}), encoding="utf-8")
    return [sys.executable, str(GATEWAY), str(file)]


@pytest.fixture(scope="module")
def url(gateway: list[str], folder: Path) -> Iterator[str]:
    """The URL of the gateway, for all clients over HTTP."""
    with (
        (folder.parent / "gateway.log").open("w", encoding="utf-8") as log,
        subprocess.Popen([*gateway, "http"], stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def shared_names(alone: Mapping[str, dict[str, Any]], kind: str, key: str) -> set[str]:
    """Return the names that several servers have."""
    names = [name for seen in alone.values() for name in {item[key] for item in seen[kind]}]
    return {name for name in names if names.count(name) > 1}


def plain(value: Any) -> Any:
    """Return entries or results without their names, what belongs to one connection or revision, and defaults."""
    left_out = {"_meta", "resultType", "ttlMs", "cacheScope", "execution", "name", "uri", "uriTemplate"}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    usual = {"isError": False}
    return {
        name: plain(each) for name, each in value.items() if name not in left_out and usual.get(name, value) is not each
    }


KINDS = (("tools", "name"), ("prompts", "name"), ("resources", "uri"), ("templates", "uriTemplate"))


@pytest.fixture(scope="module")
def expected(alone: Mapping[str, Future[dict[str, Any]]], folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is to be used through the gateway, by the names there, and what a client is to see."""
    seen_alone = {name: future.result() for name, future in alone.items()}
    wanted: dict[str, Any] = {kind: [] for kind in SHELF}
    expected: dict[str, Any] = {"called": [], "read": [], "got": []}
    many = {kind: shared_names(seen_alone, kind, key) for kind, key in KINDS}
    assert "add" in many["tools"]
    assert "memo://text" in many["resources"]
    for kind, key in KINDS:
        mark = "_" if key == "name" else "+"
        expected[kind] = {
            f"{server}{mark}{item[key]}" if item[key] in many[kind] else item[key]: plain(item)
            for server, each in seen_alone.items()
            for item in each[kind]
        }
    for server, seen in seen_alone.items():
        own = wanted_of(server, folder)
        for kind in ("tools", "prompts"):
            wanted[kind] += [(f"{server}_{name}" if name in many[kind] else name, given) for name, given in own[kind]]
        wanted["resources"] += [uri if server == "everything" else f"{server}+{uri}" for uri in own["resources"]]
        for kind in ("called", "read", "got"):
            expected[kind] += plain(seen[kind])
    return wanted, expected


def check(seen: dict[str, Any], expected: dict[str, Any]) -> None:
    """Check what a client has seen through the gateway."""
    for kind, key in KINDS:
        found = {item[key]: plain(item) for item in seen[kind] if item[key] != "carrel://gateway/servers"}
        if kind == "tools":
            assert found.keys() - expected[kind].keys() == FOR_ABLE_CLIENTS
            found = {name: item for name, item in found.items() if name not in FOR_ABLE_CLIENTS}
        assert found == expected[kind]
    for kind in ("called", "read", "got"):
        assert plain(seen[kind]) == expected[kind]


@pytest.fixture(scope="module")
def through(
    request: pytest.FixtureRequest,
    pool: ThreadPoolExecutor,
    expected: tuple[dict[str, Any], Any],
    gateway: list[str],
    url: str,
) -> dict[str, Future[dict[str, Any]]]:
    """What clients see through the gateway, under way."""
    targets = {**{name: [url] for name in CLIENTS_OF_MANY}, "python 2": gateway}
    return {
        name: pool.submit(lists, CLIENTS_OF_MANY[name], expected[0], *targets[name])
        for (name,) in needed(request, test_one_gateway_has_all_that_its_servers_have, "name")
    }


# Left out are clients that differ from another one by their era alone; one of them starts a gateway on stdio.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.exhaustive if name in ("python 2", "typescript 2") else [])
        for name in CLIENTS_OF_MANY
    ],
)
def test_one_gateway_has_all_that_its_servers_have(
    name: str, expected: tuple[Any, dict[str, Any]], through: Mapping[str, Future[dict[str, Any]]]
) -> None:
    check(through[name].result(), expected[1])


#: What the Inspector does: its era and arguments, and which result of that kind other clients have had for the same.
INSPECTED: Mapping[str, tuple[str, list[str], str, int]] = {
    "a tool": (
        "legacy",
        ["--method", "tools/call", "--tool-name", "get-structured-content", "--tool-arg", "location=New York"],
        *("called", 1),
    ),
    "a resource": (
        "modern",
        ["--method", "resources/read", "--uri", "demo://resource/static/document/features.md"],
        *("read", 0),
    ),
    "a prompt": ("legacy", ["--method", "prompts/get", "--prompt-name", "simple-prompt"], "got", 0),
}


def inspect(url: str, era: str, *arguments: str) -> dict[str, Any]:
    """Return what the Inspector's command line prints."""
    program = node_modules() / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    command = [node_program(), str(program), "--cli", url, "--protocol-era", era, "--format", "json", "--quiet"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120, env=node_environment())
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)["result"]
    return result


@pytest.fixture(scope="module")
def inspected(request: pytest.FixtureRequest, pool: ThreadPoolExecutor, url: str) -> dict[str, Future[dict[str, Any]]]:
    """What the Inspector's command line sees through the gateway, under way."""
    names = [name for (name,) in needed(request, test_the_inspector_uses_what_servers_have, "name")]
    return {name: pool.submit(inspect, url, INSPECTED[name][0], *INSPECTED[name][1]) for name in names}


@pytest.mark.parametrize("era", ["legacy", pytest.param("modern", marks=pytest.mark.exhaustive)])
def test_the_inspector_sees_the_tools_of_all_servers(
    era: str, url: str, folder: Path, expected: tuple[Any, dict[str, Any]]
) -> None:
    listed = inspect(url, era, "--method", "tools/list")["tools"]
    missing = expected[1]["tools"].keys() - {tool["name"] for tool in listed}
    assert not missing, (folder.parent / "gateway.log").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["a tool", "a resource", pytest.param("a prompt", marks=pytest.mark.exhaustive)])
def test_the_inspector_uses_what_servers_have(
    name: str, expected: tuple[Any, dict[str, Any]], inspected: Mapping[str, Future[dict[str, Any]]]
) -> None:
    *_, kind, index = INSPECTED[name]
    assert plain(inspected[name].result()) == expected[1][kind][index]
