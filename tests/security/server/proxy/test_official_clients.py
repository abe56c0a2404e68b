"""Official clients log in through the OAuth proxy: registration, consent, tokens, refresh."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.covering import covering
from support.login_site import site
from support.parties import python_program

CLIENTS = Path(__file__).parents[1] / "clients"
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("style", "major"), covering(["github", "keycloak"], ["1", "2"]))
def test_an_official_client_logs_in_and_refreshes_its_token(style: str, major: str) -> None:
    with site(style, scopes={"*": "books:read"}) as place:
        command = python_program(major, str(CLIENTS / f"user_{major}.py"), place.url)
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline() or "null")
            assert url is not None, process.stderr and process.stderr.read()
            with place.browser() as browser:
                back = browser.login(url)
            assert back.startswith("http://localhost:3030/callback?")
            out, err = process.communicate(json.dumps(back) + "\n", timeout=60)
    assert process.returncode == 0, err
    found = json.loads(out)
    assert found["tokens"] == 2
    assert found["seen"][0] == found["seen"][1]
