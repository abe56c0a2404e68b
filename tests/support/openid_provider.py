"""A real OpenID provider, which we did not write, and the flows by which clients get their tokens from it."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import json
import re
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlencode, urljoin, urlsplit

import httpx2

from support.parties import node_environment, node_program

__all__ = ["Provider", "provider"]

CALLBACK = "http://127.0.0.1/callback"
#: Clients by themselves, whose names and secrets need escaping; one for people; and the server that asks about tokens.
CLIENTS: list[dict[str, Any]] = [
    {
        "client_id": name,
        "client_secret": f"{name}'s s%&+ecret",
        "grant_types": ["client_credentials"],
        "redirect_uris": [],
        "response_types": [],
    }
    for name in ("robot", "other robot", "resource-server")
] + [
    {
        "client_id": "app",
        "token_endpoint_auth_method": "none",
        "application_type": "native",
        "redirect_uris": [CALLBACK],
        "grant_types": ["authorization_code", "refresh_token"],
    }
]


class Provider:
    """One running provider. ``issuer`` is its URL."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.issuer: str = self._hear()["issuer"]

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the provider has ended"
        return json.loads(line)

    def tell(self, order: str, **details: Any) -> dict[str, Any]:
        """Have the provider do something."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": order, **details}) + "\n")
        self._process.stdin.flush()
        return self._hear()

    def protect(self, uri: str, scope: str, **details: Any) -> None:
        """Have the provider issue tokens for a server. ``details``: alg, ttl (seconds), opaque, audience."""
        self.tell("add", uri=uri, resource={"scope": scope, **details})

    def asked(self, path: str) -> int:
        """Return how often somebody has asked for a path."""
        return int(self.tell("asked").get(path, 0))

    def robot(self, resource: str, scope: str = "", name: str = "robot") -> str:
        """Get a token by client credentials, with a resource indicator."""
        form = {"grant_type": "client_credentials", "resource": resource, "scope": scope}
        pair = tuple(map(quote_plus, (name, f"{name}'s s%&+ecret")))
        response = httpx2.post(f"{self.issuer}/token", data=form, auth=pair)  # type: ignore[arg-type]
        assert response.status_code == 200, response.text
        return str(response.json()["access_token"])

    def revoke(self, token: str, name: str = "robot") -> None:
        """Take back a token."""
        pair = tuple(map(quote_plus, (name, f"{name}'s s%&+ecret")))
        response = httpx2.post(f"{self.issuer}/token/revocation", data={"token": token}, auth=pair)  # type: ignore[arg-type]
        assert response.status_code == 200, response.text

    def person(self, login: str, resource: str, scope: str) -> dict[str, Any]:
        """Get tokens for a person, who logs in and agrees: authorization code with PKCE, page by page."""
        verifier = secrets.token_urlsafe(48)
        digest = hashlib.sha256(verifier.encode()).digest()
        state = secrets.token_urlsafe(8)
        query = {
            "client_id": "app",
            "response_type": "code",
            "redirect_uri": CALLBACK,
            "scope": f"openid offline_access {scope}",
            "resource": resource,
            "state": state,
            "prompt": "consent",
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        answer = parse_qs(urlsplit(self.browse(f"{self.issuer}/auth?{urlencode(query)}", login)).query)
        assert answer["state"] == [state]
        assert answer["iss"] == [self.issuer]
        return self._redeem(answer["code"][0], verifier, resource)

    def browse(self, url: str, login: str) -> str:
        """Log in and agree, page by page, and return where the browser is sent in the end."""
        with httpx2.Client() as browser:
            response = browser.get(url)
            while True:
                while response.is_redirect:
                    target = urljoin(str(response.url), response.headers["location"])
                    if not target.startswith(self.issuer):
                        return target
                    response = browser.get(target)
                assert response.status_code == 200, response.text
                response = self._fill_in(browser, response.text, login)

    @staticmethod
    def _fill_in(browser: httpx2.Client, page: str, login: str) -> httpx2.Response:
        action = re.search(r'action="([^"]+)"', page)
        prompt = re.search(r'name="prompt" value="([^"]+)"', page)
        assert action is not None, page
        assert prompt is not None, page
        who = {"login": login, "password": "any"} if prompt[1] == "login" else {}
        return browser.post(html.unescape(action[1]), data={"prompt": prompt[1], **who})

    def _redeem(self, code: str, verifier: str, resource: str) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "client_id": "app",
            "code": code,
            "code_verifier": verifier,
            "redirect_uri": CALLBACK,
            "resource": resource,
        }
        response = httpx2.post(f"{self.issuer}/token", data=form)
        assert response.status_code == 200, response.text
        return dict(response.json())

    def refresh(self, token: str, resource: str) -> dict[str, Any]:
        """Get new tokens for a refresh token."""
        form = {"grant_type": "refresh_token", "client_id": "app", "refresh_token": token, "resource": resource}
        response = httpx2.post(f"{self.issuer}/token", data=form)
        assert response.status_code == 200, response.text
        return dict(response.json())


@contextlib.contextmanager
def provider(path: str = "") -> Iterator[Provider]:
    """Run a provider whose issuer has ``path``."""
    script = Path(__file__).with_suffix(".mjs")
    arguments = json.dumps({"clients": CLIENTS, "path": path})
    with subprocess.Popen(
        [node_program(), str(script), arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=node_environment(),
    ) as process:
        try:
            yield Provider(process)
        finally:
            process.kill()
