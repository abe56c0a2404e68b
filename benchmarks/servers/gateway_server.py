"""A Carrel server on stdio before one other: gateway_server.py stdio (URL | name of a script in this folder)."""

import sys

import content
from gateway_target import command

from carrel import Server
from carrel.host import RemoteProvider

if __name__ == "__main__":
    target = sys.argv[2]
    app = Server(content.NAME, version=content.VERSION, page_size=content.RESOURCES)
    app.add_provider(RemoteProvider(target if target.startswith("http:") else command(target), name="upstream"))
    app.run()
