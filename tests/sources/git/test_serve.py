"""A repository through ``carrel serve``, with the official client on stdio and the Inspector over HTTP."""

import json

import pytest

from interop.test_inspector import inspect
from support.carrel_process import command, serving
from support.git import Repository
from support.sdk_session import sdk_session

pytestmark = pytest.mark.slow


def test_the_official_client_reads_a_repository_beside_a_folder_on_stdio(repository: Repository) -> None:
    first = repository.commit("The first commit", **{"src/main.py": "print('one')\n"})
    repository.commit("The second", **{"src/main.py": "print('two')\n"})
    folder = str(repository.path)
    with sdk_session(*command("serve", folder, f"git+file:{folder}", "--max-seconds", "5")) as client:
        uris = {resource["uri"] for resource in client.call("list_resources")["resources"]}
        assert {"git://shop", "git://shop/branch/main", f"file://{folder}/src/main.py"} <= uris
        [now] = client.call("read_resource", "git://shop/file/main/src/main.py")["contents"]
        [then] = client.call("read_resource", f"git://shop/file/{first[:9]}/src/main.py")["contents"]
        assert (now["text"], then["text"]) == ("print('two')\n", "print('one')\n")
        assert "The first commit" in client.tool("read_resource", uri="git://shop/log/HEAD")
        assert "git://shop/file/HEAD/src/main.py" in client.tool("search_resources", query="two")
        assert "main.py" in client.tool("list_resources", directory="git://shop/tree/HEAD/src")


@pytest.mark.exhaustive  # tests/interop/test_all_sources.py
def test_the_inspector_reads_repositories_of_a_configuration_file_over_http(repository: Repository) -> None:
    repository.commit("one", **{"src/a.txt": "one\n"})
    other = Repository(repository.path.parent / "other")
    other.commit("two", **{"b.txt": "two\n"})
    file = repository.path.parent / "carrel.toml"
    file.write_text('[[sources]]\nurl = "git:shop"\n\n[[sources]]\nurl = "git+file:other"\nrepository = "second"\n')
    with serving("serve", "--config", str(file)) as (url, _):
        found = inspect([url], "auto", "--method", "resources/read", "--uri", "git://shop/file/HEAD/src/a.txt")
        assert found["contents"] == [
            {"uri": "git://shop/file/HEAD/src/a.txt", "mimeType": "text/plain", "text": "one\n"}
        ]
        found = inspect([url], "legacy", "--method", "resources/read", "--uri", "git://second/log/HEAD")
        assert json.loads(found["contents"][0]["text"])["commits"][0]["subject"] == "two"
