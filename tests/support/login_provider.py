"""Providers without client registration, set up like GitHub, Google, Entra ID, Auth0 and Keycloak, and a browser."""

from __future__ import annotations

import contextlib
import html
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2

from carrel.security import OAuthProxy
from carrel.security.server.proxy import providers
from support.parties import node_environment, node_program

__all__ = ["SECRET", "STYLES", "TENANT", "Browser", "LoginProvider", "login_provider", "proxy_of"]

STYLES = ("github", "google", "entra", "entra-many", "auth0", "keycloak")
TENANT = "11111111-2222-3333-4444-555555555555"
SECRET = "upstream secret"


class LoginProvider:
    """A running provider with one client."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.origin: str = self._hear()["origin"]

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the provider has ended"
        return json.loads(line)

    def tell(self, order: str, **details: Any) -> Any:
        """Have the provider do something."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": order, **details}) + "\n")
        self._process.stdin.flush()
        return self._hear()

    def stop(self) -> None:
        """End the provider: connections to it are refused."""
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def login_provider(style: str) -> Iterator[LoginProvider]:
    """Run a provider of a style."""
    script = Path(__file__).with_suffix(".mjs")
    arguments = json.dumps({"style": style.partition("-")[0]})
    with subprocess.Popen(
        [node_program(), str(script), arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=node_environment(),
    ) as process:
        try:
            yield LoginProvider(process)
        finally:
            process.kill()


def proxy_of(style: str, provider: LoginProvider, **options: Any) -> OAuthProxy:
    """Return a proxy for a provider, and register it there."""
    who = ("carrel", SECRET)
    options.setdefault("admit", lambda user: True)
    origin = provider.origin
    if style == "github":
        proxy = OAuthProxy.github(*who, url=origin, api=origin, **options)
    elif style == "google":
        proxy = OAuthProxy(providers.google(*who, issuer=origin), **options)
    elif style == "entra":
        proxy = OAuthProxy.entra(*who, tenant=TENANT, authority=origin, **options)
    elif style == "entra-many":
        proxy = OAuthProxy.entra(*who, tenant="common", authority=origin, **options)
    elif style == "auth0":
        proxy = OAuthProxy.auth0(*who, domain=origin, **options)
    else:
        proxy = OAuthProxy.keycloak(*who, realm_url=f"{origin}/realms/main", **options)
    provider.tell("client", redirect_uri=f"{proxy.issuer}/callback")
    return proxy


class Browser:
    """A browser that stays on the pages of a server and of its provider, and fills in their forms."""

    def __init__(self, *origins: str) -> None:
        self._origins = origins
        self.client = httpx2.Client(timeout=60)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def open(self, url: str) -> httpx2.Response:
        """Return the page at a URL, after redirects that stay on the known origins."""
        return self.follow(self.client.get(url))

    def follow(self, response: httpx2.Response) -> httpx2.Response:
        """Follow redirects as long as they stay."""
        while response.is_redirect:
            target = urljoin(str(response.url), response.headers["location"])
            if not target.startswith(self._origins):
                return response
            response = self.client.get(target)
        return response

    def submit(self, page: httpx2.Response, **fields: str) -> httpx2.Response:
        """Send the form of a page as it is, with further fields; return the response itself."""
        action = re.search(r'action="([^"]+)"', page.text)
        assert action is not None, page.text
        hidden = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page.text)
        target = urljoin(str(page.url), html.unescape(action[1]))
        form = {name: html.unescape(value) for name, value in hidden} | fields
        parts = urlsplit(target)
        return self.client.post(target, data=form, headers={"origin": f"{parts.scheme}://{parts.netloc}"})

    def login(self, url: str, login: str = "alice", decision: str = "allow") -> str:
        """Agree to everything, and return where the browser is sent in the end."""
        response = self.open(url)
        while not response.is_redirect:
            assert response.status_code == 200, response.text
            if 'name="request"' in response.text:
                response = self.follow(self.submit(response, decision=decision))
            else:
                asks = 'name="prompt" value="login"' in response.text
                response = self.follow(self.submit(response, **({"login": login, "password": "x"} if asks else {})))
        return str(response.headers["location"])
