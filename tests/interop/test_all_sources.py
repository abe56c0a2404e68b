"""Three of each kind of source in one ``carrel serve``, used by the official Python client and the Inspector."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from datetime import UTC, datetime

import pytest

from interop.test_inspector import inspect, read_each
from support.carrel_process import command, serving
from support.git import Repository
from support.sdk_session import SDKSession, sdk_session

pytestmark = pytest.mark.slow

NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[str, str]]:
    """Make three of each kind; return what is served, and a word of each resource."""
    folder = tmp_path_factory.mktemp("sources")
    targets: list[str] = []
    words: dict[str, str] = {}
    for name in NAMES:
        notes = folder / f"notes-{name}"
        notes.mkdir()
        (notes / "note.md").write_text(f"notes of {name}")
        words[(notes / "note.md").as_uri()] = f"notes of {name}"

        repository = Repository(folder / f"code-{name}")
        (repository.path / "main.py").write_text(f"print('code of {name}')\n")
        repository.run("add", ".")
        repository.run("commit", "-q", "-m", f"First of {name}")
        words[f"git://code-{name}/file/HEAD/main.py"] = f"code of {name}"

        with sqlite3.connect(folder / f"shop-{name}.db") as database:
            database.execute("CREATE TABLE goods (id INTEGER PRIMARY KEY, title TEXT)")
            database.execute("INSERT INTO goods (title) VALUES (?)", [f"goods of {name}"])
        database.close()
        words[f"sqlite:///shop-{name}.db/tables/goods/rows"] = f"goods of {name}"

        logs = folder / f"logs-{name}"
        logs.mkdir()
        (logs / "app.log").write_text(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} INFO log of {name}\n")
        words[f"logs://logs-{name}/app.log"] = f"log of {name}"

        with zipfile.ZipFile(folder / f"pack-{name}.zip", "w") as archive:
            archive.writestr("page.txt", f"archive of {name}")
        words[f"zip://pack-{name}.zip/page.txt"] = f"archive of {name}"

        targets += [str(notes), f"git:{repository.path}", f"sqlite:///{folder}/shop-{name}.db", f"logs:{logs}"]
        targets.append(f"zip:{folder}/pack-{name}.zip")
    return targets, words


def all_of(session: SDKSession) -> set[str]:
    """Return the URIs of all pages of the list."""
    uris: set[str] = set()
    cursor = None
    while True:
        page = session.call("list_resources", *([] if cursor is None else [cursor]))
        uris |= {resource["uri"] for resource in page["resources"]}
        cursor = page["nextCursor"]
        if cursor is None:
            return uris


def check(session: SDKSession, words: dict[str, str]) -> None:
    listed = all_of(session)
    assert {uri for uri in words if not uri.startswith("git:")} <= listed
    assert {f"git://code-{name}" for name in NAMES} <= listed
    for uri, text in words.items():
        [contents] = session.call("read_resource", uri)["contents"]
        assert text in contents["text"], uri


def test_the_official_client_reads_all_of_them_over_stdio(served: tuple[list[str], dict[str, str]]) -> None:
    targets, words = served
    with sdk_session(*command("serve", *targets)) as session:
        check(session, words)
        found = json.loads(session.tool("search_resources", query="goods"))["resources"]
        assert {f"sqlite:///shop-{name}.db" for name in NAMES} == {one["uri"].partition("/tables/")[0] for one in found}


def test_the_official_client_and_the_inspector_read_all_of_them_over_http(
    served: tuple[list[str], dict[str, str]],
) -> None:
    targets, words = served
    with serving("serve", *targets, patience=280.0) as (url, _):
        with sdk_session(url) as session:
            check(session, words)
        resources = inspect([url], "auto", "--method", "resources/list")["resources"]
        assert {uri for uri in words if not uri.startswith("git:")} <= {resource["uri"] for resource in resources}
        uris = [uri for uri in words if "-b" in uri][:2]  # the official client has read one of each kind
        for uri, contents in zip(uris, read_each([([url], uri) for uri in uris]), strict=True):
            assert words[uri] in contents["text"]


@pytest.mark.exhaustive
def test_the_inspector_reads_them_over_stdio(served: tuple[list[str], dict[str, str]]) -> None:
    targets, words = served
    mine = [target for target in targets if target.removesuffix(".db").removesuffix(".zip").endswith("-b")]
    uris = [uri for uri in words if "-b" in uri]
    assert len(mine) == len(uris) == 5
    uris = uris[:2]  # each starts a server of all five, which the official client has read over stdio
    for uri, contents in zip(uris, read_each([(command("serve", *mine), uri) for uri in uris]), strict=True):
        assert words[uri] in contents["text"]
