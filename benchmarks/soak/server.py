"""The server of the soak: a folder with traps in it, and tools that misbehave. `server.py FOLDER PORT`"""

import os
import sys
import time
from pathlib import Path

from carrel import Context, Server
from carrel.sources.files.source import FilesSource

IGNORE_PATTERNS = 140_000
LINKS = 1_500
LEVELS = 100
SPARSE_BYTES = 200 * 1024**3


def fill(folder: Path) -> None:
    """Write a small file to read, and everything that a hostile author of files could leave."""
    (folder / "small.txt").write_text("a small text\n")
    (folder / "docs").mkdir()
    for number in range(200):
        (folder / "docs" / f"{number:03}.md").write_text(f"# Page {number}\n")
    (folder / "huge.log").touch()
    os.truncate(folder / "huge.log", SPARSE_BYTES)
    hostile = folder / "ignored"
    hostile.mkdir()
    (hostile / ".gitignore").write_text("".join(f"**/a*{number}*b/**/c\n" for number in range(IGNORE_PATTERNS)))
    for number in range(300):
        (hostile / f"{'a' * 60}{number}").touch()
    deep = folder / "links"
    deep.mkdir()
    bottom = deep
    for _ in range(LEVELS):
        bottom = bottom / "d"
        bottom.mkdir()
    (bottom / "end.txt").write_text("the end\n")
    (deep / "chain").symlink_to(bottom.relative_to(deep) / "end.txt")
    for number in range(LINKS):
        (deep / f"link{number:04}").symlink_to("chain")


def build(folder: Path) -> Server:
    """Return the server."""
    app = Server("soak", page_size=100)
    app.add_provider(FilesSource(str(folder)))

    @app.tool()
    async def add(a: int, b: int) -> int:
        return a + b

    @app.tool()
    async def large(size: int) -> str:
        return "x" * size

    @app.tool()
    async def chatter(context: Context, size: int) -> str:
        for step in range(50):
            await context.log("info", f"{step} {'y' * size}")
        return "done"

    @app.tool()
    def block(seconds: float) -> str:
        time.sleep(seconds)
        return "slept"

    @app.tool()
    def leave() -> str:
        raise SystemExit(3)

    @app.tool()
    async def break_out() -> str:
        raise KeyboardInterrupt

    @app.tool(task="optional")
    async def idle(context: Context) -> str:
        await context.report_progress(0)
        return "idle"

    @app.tool(
        input_schema={"type": "object", "properties": {"word": {"type": "string", "pattern": "^[a-z]+( [a-z]+)*$"}}}
    )
    async def words(word: str = "a") -> str:
        return word

    return app


if __name__ == "__main__":
    build(Path(sys.argv[1])).run("http", port=int(sys.argv[2]))
