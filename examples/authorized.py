"""A server that requires access tokens of an authorization server, and scopes for tools and resources.

    python examples/authorized.py

serves on stdio like the other examples, where the user who starts the process is trusted. With ``--http`` and the URL
of an authorization server, it requires tokens.
"""

import sys

from carrel import Context, Server

app = Server("vault", version="1.0")
app.resources.add("vault://notice", "Knock first.")


@app.tool()
async def whoami(context: Context) -> str:
    """Say who calls."""
    return "somebody on this machine" if context.principal is None else context.principal.subject


def serve(issuer: str, port: int = 8000) -> None:
    """Serve over HTTP, accepting tokens of ``issuer``."""
    from carrel.security import Authorization

    url = f"http://127.0.0.1:{port}/mcp"
    app.run("http", port=port, authorization=Authorization(issuer=issuer, audience=url, scopes=["vault"]))


if __name__ == "__main__":
    if "--http" in sys.argv:
        serve(sys.argv[-1])
    else:
        app.run()
