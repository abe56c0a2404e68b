"""A server mounted in a web application: the endpoint is at /mcp, all other paths belong to the application.

    python examples/mounted.py

serves on stdio like the other examples. ``uvicorn examples.mounted:site`` serves the web application (requires
starlette).
"""

from typing import Any

from carrel import Server

app = Server("mounted", version="1.0")
app.resources.add("greeting://hello", "Hello from within a web application.")


def make_site() -> Any:
    """Return the web application."""
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Mount, Route

    mcp = app.asgi(path="/")
    routes = [Route("/", lambda request: PlainTextResponse("The endpoint is /mcp")), Mount("/mcp", mcp)]
    return Starlette(routes=routes, lifespan=mcp.lifespan)


def __getattr__(name: str) -> Any:
    if name == "site":
        return make_site()
    raise AttributeError(name)


if __name__ == "__main__":
    app.run()
