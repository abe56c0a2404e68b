"""RemoteNames: names and URIs in the lists of a remote server."""

from __future__ import annotations

from collections.abc import Container, Iterable

from carrel.awaitables import resolved
from carrel.catalog.paging import all_of
from carrel.catalog.provider import Provider, Request
from carrel.errors import MCPError
from carrel.host.remote_pages import MAX_LISTED
from carrel.uri.parse import UriError, normalize
from carrel.wire.resources import Resource
from carrel.wire.skills import Skill

__all__ = ["RemoteNames", "has_others"]

#: Maximum number of resources to read after connecting, before a client lists them.
LEARNED = 1000


class RemoteNames:
    """Names and URIs in the lists of a remote server. False if all lists that were read are empty."""

    def __init__(self) -> None:
        self.tools: Container[str] = ()
        self.prompts: Container[str] = ()
        self.uris: dict[str, str] = {}
        """The server's spelling of each URI, by its normal form."""
        self._counts: dict[str, int] = {}

    def __bool__(self) -> bool:
        return any(self._counts.values())

    async def learn(self, provider: Provider, kind: str) -> None:
        """Read a list of the provider for the server. Read at most ``LEARNED`` resources.

        Raises:
            MCPError: the list cannot be read.
        """
        count = 0
        if kind == "tools" and provider.offers("list_tools"):
            self.tools = names = frozenset([tool.name async for tool in all_of(provider.list_tools, limit=MAX_LISTED)])
            count = len(names)
        elif kind == "prompts" and provider.offers("list_prompts"):
            prompts = all_of(provider.list_prompts, limit=MAX_LISTED)
            self.prompts = names = frozenset([prompt.name async for prompt in prompts])
            count = len(names)
        elif kind == "resources" and provider.offers("list_resources"):
            self.uris.clear()
            async for _ in all_of(provider.list_resources):
                count += 1
                if count >= LEARNED:
                    break
        self._counts[kind] = count

    def spell(self, uri: str) -> str:
        """Return the server's spelling of a normalized URI."""
        return self.uris.get(uri, uri)

    def note(self, resources: Iterable[Resource]) -> None:
        """Remember the spelling of the URIs of resources."""
        self._note(resource.uri for resource in resources)

    def note_skills(self, skills: Iterable[Skill]) -> None:
        """Remember the spelling of the URIs of skills and their files."""
        for skill in skills:
            files = () if isinstance(skill.resources, str) else skill.resources
            self._note([skill.uri, *(file.uri for file in files)])

    def _note(self, uris: Iterable[str]) -> None:
        for uri in uris:
            if len(self.uris) < MAX_LISTED:
                try:
                    self.uris[normalize(uri)] = uri
                except UriError:
                    continue


async def has_others(provider: Provider) -> bool:
    """Return whether a server has templates or skills, or listing them fails."""
    try:
        if provider.offers("list_templates") and (await resolved(provider.list_templates(Request(limit=1)))).items:
            return True
        return provider.offers("list_skills") and bool((await resolved(provider.list_skills(Request(limit=1)))).items)
    except MCPError:
        return True
