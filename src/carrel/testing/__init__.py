"""Contract tests for providers, as a pytest class to inherit.

    from carrel.testing import ProviderContract

    class TestNotes(ProviderContract):
        @pytest.fixture
        def provider(self, tmp_path):
            return Notes(tmp_path)              # with some resources in it, not started

        def again(self, provider): ...          # a second instance of it, not started
        async def create(self, provider): ...   # make one more resource, and return its URI
        async def change(self, provider, uri): ...
        async def remove(self, provider, uri): ...
        def missing(self, provider): ...        # a URI of the provider where there is nothing

What a provider does not offer is skipped, with a reason. The tests are asynchronous and need pytest-asyncio.
``docs/writing-a-provider.md`` explains what they require, and why.
"""

import pytest

for _name in ("caller", "changes", "hooks", "lists", "offers", "reading"):
    pytest.register_assert_rewrite(f"{__name__}.{_name}")

from carrel.testing.caller import Caller, Listener, belongs, running  # noqa: E402
from carrel.testing.changes import count_descriptors  # noqa: E402
from carrel.testing.contract import ProviderContract  # noqa: E402

__all__ = ["Caller", "Listener", "ProviderContract", "belongs", "count_descriptors", "running"]
