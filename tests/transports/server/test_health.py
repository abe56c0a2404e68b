"""The health check, and the Host that it needs."""

import httpx2
import pytest

from carrel import Server
from support.http_server import over_http


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(("host", "status"), [("127.0.0.1", 200), ("probe.example", 200), ("evil.example", 403)])
async def test_health_is_told_at_the_hosts_of_the_server_only(method: str, host: str, status: int) -> None:
    with over_http(Server("healthy"), allowed_hosts="probe.example") as origin:
        async with httpx2.AsyncClient() as client:
            answer = await client.request(method, f"{origin}/healthz", headers={"host": host})
            assert answer.status_code == status
            if status == 200:
                assert answer.headers["cache-control"] == "no-store"
                assert method == "HEAD" or answer.json() == {"status": "ok"}
            assert (await client.post(f"{origin}/healthz")).status_code == 404
