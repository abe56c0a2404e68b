"""What snippets of the documentation assume to be there, by page: their surroundings, as Python code.

``import carrel`` rather than names from it: what a page uses of Carrel, the page has to import.
"""

from __future__ import annotations

SERVER = """
import carrel
app = carrel.Server("snippets")
"""

CLIENT = """
import asyncio, contextlib, math, sys
import carrel
app = carrel.Server("snippets")
client = carrel.Client(app)
"""

DATA = """
import dataclasses
@dataclasses.dataclass
class Forecast:
    degrees: float
"""

FILES = """
class File:
    name = "a.txt"
files: list[File] = []
"""

PREAMBLES: dict[str, str] = {
    "docs/agents.md": CLIENT
    + """
import carrel.host, typing
host = carrel.host.Host()
model: typing.Any = object()
llm: typing.Any = object()
pydantic_model: typing.Any = object()
""",
    "docs/apps.md": DATA,
    "docs/elicitation.md": """
import typing, carrel
class shop:
    @staticmethod
    def new_order() -> int: return 7
""",
    "docs/authorization.md": """
import hashlib, os
client_id = client_secret = "books"
async def issues_of(token: str) -> list[str]: return []
class people:
    @staticmethod
    async def find(digest: str) -> dict[str, str] | None: return None
client_id = client_secret = "registered upstream"
async def issues_of(token: str) -> list[str]: return []
""",
    "docs/client.md": CLIENT,
    "docs/client-elicitation.md": SERVER
    + """
async def ask_my_model(system: str, said: list[str], limit: int) -> str: return "42"
""",
    "docs/http.md": SERVER
    + """
from typing import Any
async def starlette_application(scope: Any, receive: Any, send: Any) -> None: ...
""",
    "docs/middleware.md": "def is_open() -> bool: return True\n",
    "docs/observability.md": SERVER,
    "docs/providers.md": """
import carrel, carrel.sources
class Mailbox(carrel.sources.Provider):
    name = "mailbox"
shop = carrel.Server("shop")
""",
    "docs/scale.md": """
import carrel.state.interfaces, typing
key = bytes(32)
MyState: typing.Any = object
""",
    "docs/context.md": SERVER + FILES,
    "docs/lifespan.md": SERVER
    + """
import contextlib
def connect_database() -> contextlib.AbstractAsyncContextManager[object]: return contextlib.nullcontext()
""",
    "docs/resources.md": SERVER
    + """
class Shelf:
    async def read(self, author: str, title: str) -> str: return title
    async def titles(self, by: str | None, beginning: str) -> list[str]: return []
shelf = Shelf()
""",
    "docs/results.md": SERVER,
    "docs/server.md": """
from typing import Literal
notes: dict[str, str] = {}
""",
    "docs/tools.md": SERVER + DATA,
    "docs/visibility.md": SERVER
    + """
app.resources.add("memo://today", "Buy milk.")
@app.resource("book://{author}/{title}")
def book(author: str, title: str) -> str: return title
""",
    "docs/tasks.md": SERVER
    + FILES
    + """
async def prepare(order: str) -> str: return order
""",
    "docs/uri-templates.md": SERVER,
    "docs/writing-a-provider.md": SERVER,
}

#: What the code in docstrings assumes to be there.
DOCSTRINGS = """
import typing, msgspec, pytest
from carrel import Client, Server, sources
from carrel.catalog.provider import Provider
from carrel.catalog.transforms.filter import Filter
from carrel.catalog.transforms.namespace import Namespace
from carrel.catalog.transforms.rename import Rename
from carrel.host import Host, RemoteProvider
from carrel.transports import memory
from carrel.wire.resources import ReadResourceResult, Resource, TextResourceContents

class Database: ...
class Notes(Provider):
    def __init__(self, folder: object = None) -> None: ...

app = Server("snippets")
host = Host()
provider = Notes("notes")
"""

#: The same of single modules.
DOCSTRINGS_OF = {
    "carrel.sources.documents.documents": "documents: Documents\n"
    "context = load = options = read = request = resource = self = template = title = uri = value "
    "= typing.cast(typing.Any, 0)\n"
}
