"""Whether the server runs, for whatever watches over it."""

import httpx2
import pytest

from carrel import Server
from serving import over_http


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3:8080", "probe.example"])
async def test_health_is_told_to_everybody_whatever_they_call_the_host(host: str) -> None:
    with over_http(Server("healthy")) as origin:
        url = f"{origin}/healthz"
        async with httpx2.AsyncClient() as client:
            answer = await client.get(url, headers={"host": host})
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
            assert answer.headers["cache-control"] == "no-store"
            assert (await client.head(url)).status_code == 200
            assert (await client.post(url)).status_code == 404
