"""Serves resources, tools and prompts over stdio, of which a gate hides those with "secret" in their names."""

from __future__ import annotations

from carrel import Context, Server
from carrel.catalog.access import UNRESTRICTED, View
from carrel.protocol.methods import Verb
from carrel.protocol.principal import Principal

__all__ = ["build"]


class Open(View):
    """View of what has no "secret" in its name."""

    key = "open"

    def allows(self, verb: Verb, target: str) -> bool:
        return "secret" not in target


class Gate:
    """Gate that lets alice use everything, and others what is open."""

    def view(self, principal: Principal | None) -> View:
        return UNRESTRICTED if principal is not None and principal.subject == "alice" else Open()


def fill(app: Server) -> Server:
    for area in ("open", "secret"):
        app.resources.add(f"memo://{area}/1", area)
        app.resource(f"note://{area}/{{name}}", name=area)(lambda name: name).complete("name")(lambda typed: ["a", "b"])
        app.tool(f"{area}_tool")(lambda: "done")
        app.prompt(f"{area}_prompt")(lambda topic="": topic)

    @app.tool(structured=False)
    async def open_it(uri: str, context: Context) -> str:
        [contents] = (await context.read_resource(uri)).contents
        return str(context.allows("read", uri)) + contents.text  # type: ignore[union-attr]

    return app


def build() -> Server:
    app = fill(Server("gated", gate=Gate(), scope="public", ttl=60))
    app.add_provider(fill(Server("inner")), namespace="lib")
    app.add_resource_tools()
    return app


if __name__ == "__main__":
    build().run()
