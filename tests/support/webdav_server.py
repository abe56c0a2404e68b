"""WebDAV server for tests: WsgiDAV on cheroot, in a process of its own, on a free port."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["PASSWORD", "USER", "WebDAVServer", "webdav_server"]

USER, PASSWORD = "ann", "a-password-of-the-tests"

PROGRAM = f"""
import sys, threading
from cheroot.wsgi import Server
from support.folding import folded
from wsgidav.fs_dav_provider import FilesystemProvider
from wsgidav.wsgidav_app import WsgiDAVApp
class Folding(FilesystemProvider):
    def _loc_to_file_path(self, path, environ=None):
        return folded(super()._loc_to_file_path(path, environ), sys.argv[1])
app = WsgiDAVApp({{
    "provider_mapping": {{"/open": sys.argv[1], "/locked": sys.argv[1], "/folding": Folding(sys.argv[1])}},
    "http_authenticator": {{"accept_basic": True, "accept_digest": False, "default_to_digest": False}},
    "simple_dc": {{"user_mapping": {{"/locked": {{"{USER}": {{"password": sys.argv[2]}}}}, "*": True}}}},
    "verbose": 1,
    "logging": {{"enable": False}},
}})
server = Server(("127.0.0.1", 0), app, numthreads=4)
server.prepare()
print(server.bind_addr[1], flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), server.stop())).start()
server.serve()
"""


class WebDAVServer:
    """Server of ``folder``: as /open/ and /locked/, which is for one user, and as /folding/, which ignores case."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port


@contextmanager
def webdav_server() -> Iterator[WebDAVServer]:
    """Run a server until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="carrel-webdav-") as folder:
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM, folder, PASSWORD]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        ) as process:
            try:
                assert process.stdout is not None
                port = process.stdout.readline()
                assert port, "WsgiDAV did not start: pip install wsgidav cheroot"
                yield WebDAVServer(Path(folder), int(port))
            finally:
                process.kill()
