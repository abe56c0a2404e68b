"""The OpenAPI source, held to the contract of all providers, with a FastAPI application in memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from carrel.catalog.provider import Provider
from carrel.sources.openapi import from_asgi
from carrel.testing import ProviderContract
from support.pets_api import pets_api


class TestOpenAPISource(ProviderContract):
    """Pets."""

    @pytest.fixture
    def provider(self) -> Provider:
        self.app = pets_api()
        return from_asgi(self.app, write=True, read_tools=True)

    def again(self, provider: Provider) -> Provider:
        return from_asgi(self.app, write=True, read_tools=True)

    def missing(self, provider: Provider) -> str:
        return "openapi://app/operations/missing"

    async def container(self, provider: Provider) -> str:
        return "openapi://app/operations"

    async def unreadable(self, provider: Provider) -> Collection[str]:
        here = "openapi://app/api"
        return [
            *(f"{here}/pets/99", f"{here}/pets/x", f"{here}/pets?limit=x", f"{here}/pets?nothing=1", f"{here}/private"),
            *(f"{here}/private-admin", f"{here}/files/%2e%2e", f"{here}/files/..%2Fpets", f"{here}/moved"),
            *(f"{here}/pets/1#x", f"{here}/pets?kind=cow", f"{here}/headed", "openapi://app/api/"),
        ]

    async def searched(self, provider: Provider) -> tuple[str, str]:
        return "delete_pet", "openapi://app/operations/delete_pet"

    async def completed(self, provider: Provider) -> tuple[str, str, str, str]:
        return "openapi://app/api/pets{?kind*,limit,after}", "kind", "d", "dog"

    async def called(self, provider: Provider) -> tuple[str, dict[str, Any]]:
        return "create_pet", {"body": {"name": "Di"}}
