"""Contract of tools, prompts and skills."""

from __future__ import annotations

from hashlib import sha256

import msgspec
import pytest

from carrel.catalog.provider import Provider
from carrel.errors import InvalidParams, ResourceForbidden, ResourceNotFound
from carrel.testing.caller import Caller, belongs, running
from carrel.testing.hooks import Hooks, skip
from carrel.wire.resources import BlobResourceContents

__all__ = ["OfferTests"]

UNKNOWN = ("", "no such thing, surely", "\0", "../..", "x" * 10_000)


class OfferTests(Hooks):
    """Tools that can be called, prompts that can be got, skills whose manifests are true."""

    async def test_tools_are_described_as_the_protocol_wants(self, provider: Provider) -> None:
        async with running(provider):
            for tool in await self.listed(provider, "tools"):
                assert tool.name
                schema = msgspec.json.decode(msgspec.json.encode(tool.input_schema))
                assert schema["type"] == "object"

    async def test_an_unknown_tool_is_refused(self, provider: Provider) -> None:
        async with running(provider):
            await self.listed(provider, "tools")
            for name in UNKNOWN:
                with pytest.raises(InvalidParams):
                    await Caller(provider).call_tool(name, {})

    async def test_a_tool_can_be_called(self, provider: Provider) -> None:
        async with running(provider):
            wanted = await self.called(provider)
            if wanted is None:
                skip(provider, "no tools", "called")
            name, arguments = wanted
            assert name in [tool.name for tool in await Caller(provider).tools()]
            assert msgspec.json.encode(await Caller(provider).call_tool(name, arguments))

    async def test_an_unknown_prompt_is_refused(self, provider: Provider) -> None:
        async with running(provider):
            await self.listed(provider, "prompts")
            for name in UNKNOWN:
                with pytest.raises(InvalidParams):
                    await Caller(provider).get_prompt(name, {})

    async def test_a_prompt_can_be_got(self, provider: Provider) -> None:
        async with running(provider):
            wanted = await self.prompted(provider)
            if wanted is None:
                skip(provider, "no prompts", "prompted")
            name, arguments = wanted
            assert name in [prompt.name for prompt in await Caller(provider).prompts()]
            assert msgspec.json.encode(await Caller(provider).get_prompt(name, arguments))

    async def test_a_skill_is_the_same_by_itself_as_in_the_list(self, provider: Provider) -> None:
        async with running(provider):
            templates = await Caller(provider).templates()
            for skill in await self.listed(provider, "skills"):
                assert belongs(provider, skill.uri, templates)
                assert await Caller(provider).get_skill(skill.uri) == skill

    async def test_the_manifest_of_a_skill_is_true_to_the_byte(self, provider: Provider) -> None:
        async with running(provider):
            for skill in await self.listed(provider, "skills"):
                for file in () if isinstance(skill.resources, str) else skill.resources:
                    [part] = await Caller(provider).read_resource(file.uri)
                    data = part.blob if isinstance(part, BlobResourceContents) else part.text.encode()
                    assert file.size == len(data)
                    assert file.digest == f"sha256:{sha256(data).hexdigest()}"

    async def test_a_uri_that_is_no_skill_is_not_found(self, provider: Provider) -> None:
        async with running(provider):
            await self.listed(provider, "skills")
            for uri in (self.nothing(provider), self.foreign):
                with pytest.raises((ResourceNotFound, ResourceForbidden, InvalidParams)):
                    await Caller(provider).get_skill(uri)
