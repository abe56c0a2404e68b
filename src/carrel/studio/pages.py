"""Static files of the page. Every other path is the page itself, whose URLs are paths."""

from __future__ import annotations

from pathlib import Path

from carrel.media_types import BINARY, is_textual, type_of_name
from carrel.studio.gate import Receive, Scope, Send

__all__ = ["STATIC", "Pages"]

#: Folder of the built page.
STATIC = Path(__file__).with_name("static")
NOT_BUILT = "the page is not built: run `make ui`\n"
#: Files with a hash of their contents in their name.
HASHED = "/assets/"


class Pages:
    """ASGI application of the built files in a folder. Files outside the folder, and links, are never sent."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder
        self._known: dict[str, Path] = {}
        self._built: int | None = None

    @property
    def _files(self) -> dict[str, Path]:
        """The files by path. A page that is built again has another index, so the folder is read again."""
        index = self._known.get("/index.html")
        if index is None or self._built != _time_of(index):
            files = (file for file in self._folder.rglob("*") if file.is_file() and not file.is_symlink())
            self._known = {f"/{file.relative_to(self._folder).as_posix()}": file for file in files}
            self._built = _time_of(self._folder / "index.html")
        return self._known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        files = self._files
        path = scope["path"]
        if path.startswith(HASHED) and path not in files:
            await _send(scope, send, 404, b"there is no such file\n", "text/plain; charset=utf-8")
            return
        file = files.get(path) or files.get("/index.html")
        if file is None:
            await _send(scope, send, 503, NOT_BUILT.encode(), "text/plain; charset=utf-8")
            return
        mime_type = type_of_name(file.name) or BINARY
        if is_textual(mime_type):
            mime_type += "; charset=utf-8"
        if path.startswith(HASHED):
            cached = b"max-age=31536000, immutable"
        else:  # browsers ask for the icon at each change of the address
            cached = b"no-cache" if file.suffix == ".html" else b"max-age=3600"
        await _send(scope, send, 200, file.read_bytes(), mime_type, cached)


def _time_of(file: Path) -> int | None:
    """Return the time at which a file was written in nanoseconds, or None if it does not exist."""
    return file.stat().st_mtime_ns if file.is_file() else None


async def _send(
    scope: Scope, send: Send, status: int, body: bytes, mime_type: str, cached: bytes = b"no-store"
) -> None:
    headers = [
        (b"content-type", mime_type.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", cached),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
