"""A server that asks twice before it sells something, and says in a resource how much it has sold."""

import os
import sys

from carrel import Context, Server

app = Server("vending")
sold: list[str] = []


@app.tool()
async def buy(context: Context) -> str:
    """Sell one thing."""
    number = await context.once("number", lambda: os.urandom(4).hex())
    await context.elicit("Sure?", None, key="sure")
    sold.append(number)
    return number


@app.resource("sold://all")
async def count() -> str:
    return str(len(sold))


if __name__ == "__main__":
    app.run("http", port=0, on_started=lambda url: print(url, file=sys.stderr, flush=True))
