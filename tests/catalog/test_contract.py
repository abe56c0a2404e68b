"""Whatever stands over a provider keeps its contract: a catalog, transforms, a server that is mounted."""

import pytest

from carrel import Server
from carrel.catalog.catalog import Catalog
from carrel.catalog.provider import Interest
from carrel.catalog.transforms.filter import Filter
from carrel.catalog.transforms.namespace import Namespace
from carrel.catalog.transforms.rename import Rename
from carrel.catalog.transforms.transform import Transform
from carrel.server.mount import Mounted
from support.words import TEMPLATE, Words, WordsContract


def words() -> Words:
    return Words({**{name: name * 3 for name in ("a", "b", "bb", "c", "d")}, "s": "", "t": ""})


class Over(WordsContract):
    """The contract of words under something else. ``wrap`` puts it there."""

    def wrap(self, inner: Words):
        raise NotImplementedError

    @pytest.fixture
    def provider(self):
        inner = words()
        provider = self.wrap(inner)
        provider.inner = inner
        return provider

    def again(self, provider):
        inner = Words(provider.inner.words)
        other = self.wrap(inner)
        other.inner = inner
        return other

    async def create(self, provider):
        return self.out(provider, await super().create(provider.inner))

    async def change(self, provider, uri):
        await super().change(provider.inner, self.own(provider, uri))

    async def remove(self, provider, uri):
        await super().remove(provider.inner, self.own(provider, uri))

    def missing(self, provider):
        return self.out(provider, super().missing(provider))

    async def container(self, provider):
        return self.out(provider, "word:a")

    async def unreadable(self, provider):
        return [self.out(provider, uri) for uri in ("word:", "word:../a")]

    async def searched(self, provider):
        return "b", self.out(provider, "word:b")

    async def completed(self, provider):
        return self.out(provider, TEMPLATE), "name", "", "c"

    async def called(self, provider):
        return named(provider, "tool", "x"), {"some": 1}

    async def prompted(self, provider):
        return named(provider, "prompt", "p"), {}

    def out(self, provider, uri):
        return shown(provider, uri)

    def own(self, provider, uri):
        return kept(provider, uri)


def shown(provider, uri):
    """Return a URI of the inner provider as it is seen from outside."""
    return provider.uri_out(shown(provider.provider, uri)) if isinstance(provider, Transform) else uri


def kept(provider, uri):
    """Return the URI of the inner provider for one that is seen from outside."""
    return kept(provider.provider, provider.uri_in(uri)) if isinstance(provider, Transform) else uri


def named(provider, kind, name):
    """Return the name of a tool or prompt as it is seen from outside."""
    if not isinstance(provider, Transform):
        return name
    return provider.name_out(kind, named(provider.provider, kind, name))


class TestNamespace(Over):
    def wrap(self, inner):
        return Namespace(inner, "ns")


class TestTwoNamespaces(Over):
    def wrap(self, inner):
        return Namespace(Namespace(inner, "in"), "out")


class TestFilter(Over):
    def wrap(self, inner):
        return Filter(inner, tools=["x", "y"], resources=lambda uri: uri.startswith("word:"))


class TestRename(Over):
    def wrap(self, inner):
        return Rename(inner, tools={"x": "z"}, prompts={"p": "r"})


class TestRenamedAndFilteredInANamespace(Over):
    def wrap(self, inner):
        return Namespace(Filter(Rename(inner, tools={"x": "z"}), tools="[yz]"), "ns")


class One(Catalog):
    """Catalog of one provider, started and stopped with it, and watched by itself."""

    def __init__(self, inner: Words) -> None:
        super().__init__()
        self.added = inner
        self.prefixes = inner.prefixes

    async def start(self, events):
        await self.add(self.added)

    async def stop(self):
        if self.get(self.added.name) is not None:
            await self.remove(self.added.name)

    def offers(self, method):
        return self.added.offers(method)

    async def watch(self, interest: Interest):
        async for batch in self.added.watch(interest):
            yield batch


class TestCatalog(Over):
    def wrap(self, inner):
        return One(inner)


class Mount(Mounted):
    """A server of words that is mounted on another."""

    def __init__(self, inner: Words) -> None:
        app = Server("inner")
        app.add_provider(inner)
        super().__init__(app, Server("outer"))


class TestMounted(Over):
    reports = ("changed",)  # a server notifies its clients, who are not told more

    def wrap(self, inner):
        return Mount(inner)
