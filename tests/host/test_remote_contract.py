"""A remote server keeps the contract of providers, whatever revision is spoken to it."""

import pytest

from carrel import Client, Server
from carrel.host.remote import RemoteProvider
from carrel.protocol.revisions import REVISIONS
from support.words import Words, WordsContract


def serving(words: Words) -> Server:
    """Return a server of a provider of words."""
    app = Server("words", page_size=3)
    app.skills()
    app.add_provider(words)
    return app


class Far(RemoteProvider):
    """Remote provider of words, whose server runs while the client is connected."""

    def __init__(self, words: Words, revision: str) -> None:
        self.app = serving(words)
        super().__init__(Client(self.app, revision=revision), name="far")
        self.words_there = words
        self.words = words.words
        self.revision = revision

    def report(self, kind, name):
        self.words_there.report(kind, name)


@pytest.mark.parametrize("revision", REVISIONS)
class TestRemote(WordsContract):
    reports = ("changed",)

    @pytest.fixture
    def provider(self, revision):
        words = Words({**{name: name * 3 for name in ("a", "b", "bb", "c", "d")}, "s": "", "t": ""})
        return Far(words, revision)

    def again(self, provider):
        return Far(Words(provider.words), provider.revision)

    async def container(self, provider):
        return "word:a" if REVISIONS[provider.revision].stateless else None  # the others do not have directories
