"""An issuer that does what a test wants, also what no issuer should: real HTTP, keys of our own."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

__all__ = ["Issuer", "sign"]

Key = RSAKey | ECKey | OKPKey | OctKey
Page = tuple[int, dict[str, str], bytes]


def sign(key: Key, claims: Any, header: dict[str, Any] | None = None) -> str:
    """Return a JWS, whatever the key is for. ``claims`` are bytes, or what JSON can hold."""
    given = {"alg": "ES256", "typ": "at+jwt", "kid": key.kid, **(header or {})}
    given = {name: value for name, value in given.items() if value is not None}
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    registry = jws.JWSRegistry(algorithms=list(jws.JWSRegistry.algorithms), strict_check_header=False)
    private = key.as_dict(private=True)
    free = type(key).import_key({name: private[name] for name in private if name not in ("alg", "use", "key_ops")})
    return jws.serialize_compact(given, payload, free, registry=registry)


class Issuer:
    """An issuer on a port of its own, which begins with one key and proper metadata.

    ``pages`` are what it answers, by path; ``forms`` what was posted to it; ``seen`` all paths it was asked for.
    """

    def __init__(self) -> None:
        issuer = self
        self.seen: list[str] = []
        self.forms: list[tuple[dict[str, str], bytes]] = []
        self.pages: dict[str, Page | Callable[[], Page]] = {}

        class Answering(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.seen.append(self.path)
                page = issuer.pages.get(self.path, (404, {}, b""))
                status, headers, body = page() if callable(page) else page
                self.send_response(status)
                for name, value in {"content-length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                issuer.forms.append((dict(self.headers.items()), self.rfile.read(length)))
                self.do_GET()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.key = ECKey.generate_key("P-256", {"kid": "first"})
        self.publish({"issuer": self.url, "jwks_uri": f"{self.url}/jwks"}, "/.well-known/oauth-authorization-server")
        self.publish({"keys": [self.key.as_dict()]}, "/jwks")

    def publish(self, document: Any, path: str, status: int = 200, **headers: str) -> None:
        """Answer with a document from now on."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.pages[path] = (status, {"content-type": "application/json", **headers}, body)

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Return claims that are good for https://mcp.example/mcp; None leaves one out."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "sub": "alice",
            "aud": "https://mcp.example/mcp",
            "exp": now + 600,
            "iat": now,
            "client_id": "app",
            "jti": "1",
            "scope": "mcp",
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, **changes: Any) -> str:
        """Return a token with those claims."""
        return sign(self.key, self.claims(**changes))

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
