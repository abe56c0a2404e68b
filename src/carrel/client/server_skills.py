"""Skills of the server of one client: ``client.skills``.

https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar

from carrel.client.handlers import ClientCall
from carrel.client.results import PagedList, Results
from carrel.client.session import ClientSession
from carrel.client.skills import SkillSnapshot, get_skill, list_directory, list_skills
from carrel.protocol.methods import RequestType
from carrel.wire.base import Params, Result
from carrel.wire.resources import Resource

__all__ = ["ServerSkills"]

R = TypeVar("R", bound=Result)
P = TypeVar("P", bound=Params)


class ServerSkills:
    """Skills of one server. Implements ``carrel.client.skills.SkillServer``."""

    def __init__(self, session: ClientSession, results: Results) -> None:
        self._session = session
        self._results = results

    def list_skills(self) -> PagedList[SkillSnapshot]:
        """List the skills that the server lists, without reading their files.

        Raises:
            MethodNotFound: the server does not support skills.
        """
        return list_skills(self)

    async def get_skill(self, uri: str) -> SkillSnapshot:
        """Return the skill whose SKILL.md has this URI. Its files are read on demand and verified.

        Raises:
            MethodNotFound: the server does not support skills.
            ResourceNotFound: there is no such skill.
        """
        return await get_skill(self, uri)

    def list_directory(self, uri: str) -> PagedList[Resource]:
        """List the direct children of a directory. See ``Client.list_directory``."""
        return list_directory(self, uri)

    # Interface of skills

    @property
    def name(self) -> str:
        """The host's name for the server."""
        return self._session.server_name

    async def declared(self) -> Mapping[str, Any]:
        """Return the settings of the extensions that the server has declared."""
        await self._session.connect()
        return self._session.server_extensions

    async def request(self, call: ClientCall[R]) -> R:
        """Send a request to the server, bypassing the cache, and return its result."""
        return await self._session.request(call)

    def pages(self, request: RequestType[P, R], params: P) -> AsyncIterator[R]:
        """Iterate over the pages of a list, possibly from the cache."""
        return self._results.pages(request, params)
