"""Web pages and an API shared by ``carrel serve``, used by the official Python client and the Inspector."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from fastapi.responses import HTMLResponse

from carrel import Server, sources
from interop.test_inspector import read_each
from support.carrel_process import command
from support.http_server import over_http
from support.pets_api import pets_api
from support.sdk_session import sdk_session

pytestmark = pytest.mark.slow

PAGE = "<title>Care</title><nav>menu</nav><main><h1>Care</h1><p>Feed your pet twice a day, and walk it.</p></main>"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Run the API, with a page, in a thread, and return its port."""
    app = pets_api()

    @app.get("/guide/", include_in_schema=False)
    async def guide() -> HTMLResponse:
        return HTMLResponse(PAGE)

    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", log_config=None))
    ready = threading.Event()

    async def run() -> None:
        task = asyncio.ensure_future(server._serve())
        while not server.started:
            await asyncio.sleep(0.01)
        ready.set()
        await task

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert ready.wait(60)
    yield int(server.servers[0].sockets[0].getsockname()[1])
    server.should_exit = True
    thread.join()


def test_the_official_client_uses_pages_and_an_api_over_stdio(port: int) -> None:
    page, api = f"web+http://127.0.0.1:{port}/guide/", f"openapi+http://127.0.0.1:{port}/openapi.json"
    options = ("--private-hosts", "127.0.0.1", "--write")
    with sdk_session(*command("serve", page, api, *options)) as session:
        listed = [resource["uri"] for resource in session.call("list_resources")["resources"]]
        assert page in listed
        assert f"openapi://127.0.0.1:{port}/overview" in listed
        [found] = session.call("read_resource", page)["contents"]
        assert (found["mimeType"], found["text"].splitlines()[0]) == ("text/markdown", "# Care")
        [found] = session.call("read_resource", f"openapi://127.0.0.1:{port}/api/pets?kind=cat")["contents"]
        assert [pet["name"] for pet in json.loads(found["text"])] == ["Ada", "Bo"]
        templates = [one["uriTemplate"] for one in session.call("list_resource_templates")["resourceTemplates"]]
        assert f"openapi://127.0.0.1:{port}/api/pets/{{number}}" in templates
        assert json.loads(session.tool("create_pet", body={"name": "Di"})) == {"number": 4}


def test_the_official_client_and_the_inspector_use_them_over_http(port: int) -> None:
    app = Server("pets")
    app.add_provider(sources.open(f"web+http://127.0.0.1:{port}/guide/", private_hosts=("127.0.0.1",)))
    app.add_provider(sources.open(f"openapi+http://127.0.0.1:{port}/openapi.json"))
    with over_http(app) as origin:
        with sdk_session(f"{origin}/mcp") as session:
            [found] = session.call("read_resource", f"openapi://127.0.0.1:{port}/api/pets/1")["contents"]
            assert json.loads(found["text"])["name"] == "Ada"
            assert session.tools() == []
        check_with_inspector([f"{origin}/mcp"], port)


@pytest.mark.exhaustive
def test_the_inspector_reads_them_over_stdio(port: int) -> None:
    page, api = f"web+http://127.0.0.1:{port}/guide/", f"openapi+http://127.0.0.1:{port}/openapi.json"
    check_with_inspector(command("serve", page, api, "--private-hosts", "127.0.0.1"), port)


def check_with_inspector(whom: list[str], port: int) -> None:
    uris = (f"web+http://127.0.0.1:{port}/guide/", f"openapi://127.0.0.1:{port}/api/pets/1")
    page, pet = read_each([(whom, uri) for uri in uris])
    assert page["text"].startswith("# Care")
    assert json.loads(pet["text"])["name"] == "Ada"
