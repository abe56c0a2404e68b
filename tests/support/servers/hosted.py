"""A server on stdio for tests of hosts. Its first argument says what kind of server it is, and its second its name.

plain NAME                   resources, a template, a tool and a prompt
together NAME FOLDER COUNT   the same, once so many servers have begun, which make a file each in the folder
empty NAME                   nothing at all
dying                        writes on standard error, and ends
flooding NAME                writes on standard error without end
"""

import os
import sys
import threading
import time
from pathlib import Path

from carrel import Annotations, Server
from carrel.errors import ConfigError


def plain(name: str) -> Server:
    app = Server(name)
    app.resources.add("note://same", f"of {name}", name="same", mime_type="text/plain")
    app.resources.add(
        f"note://{name}/big",
        "x" * 100,
        name=f"{name} big",
        mime_type="text/markdown",
        size=100,
        annotations=Annotations(audience=["user"], priority=0.9, last_modified="2026-01-02T00:00:00Z"),
    )
    app.resources.add(
        f"note://{name}/old",
        "y",
        name=f"{name} old",
        mime_type="application/json",
        size=1,
        annotations=Annotations(audience=["assistant"], priority=0.1, last_modified="2025-01-02T00:00:00Z"),
    )

    @app.resource("page://{title}")
    def page(title: str) -> str:
        return title

    @app.tool
    def whoami() -> str:
        return f"{name} {os.getpid()} {os.environ.get('SETTING', '')}"

    @app.tool
    async def grow(title: str) -> str:
        app.resources.add(f"note://{name}/{title}", "new", name=title)
        return "grown"

    @app.tool
    def die() -> str:
        sys.stderr.write("killed by a tool\n")
        sys.stderr.flush()
        os._exit(3)

    @app.prompt
    def greet(who: str) -> str:
        return f"Hello {who}"

    return app


def flood() -> None:
    line = "flood " * 20 + "\n"
    while True:
        sys.stderr.write(line)


def meet(folder: Path, name: str, count: int) -> None:
    (folder / name).touch()
    while len(list(folder.iterdir())) < count:
        time.sleep(0.05)


def main(kind: str, name: str = "server", folder: str = "", count: str = "") -> None:
    match kind:
        case "plain":
            plain(name).run()
        case "together":
            meet(Path(folder), name, int(count))
            plain(name).run()
        case "empty":
            Server(name).run()
        case "dying":
            sys.stderr.write("no database\n")
            sys.exit(1)
        case "flooding":
            threading.Thread(target=flood, daemon=True).start()
            plain(name).run()
        case _:
            raise ConfigError(kind)


if __name__ == "__main__":
    main(*sys.argv[1:])
