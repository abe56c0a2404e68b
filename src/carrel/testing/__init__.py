"""Contract tests for providers, as a pytest class to inherit.

    from carrel.testing import ProviderContract

    class TestNotes(ProviderContract):
        @pytest.fixture
        def provider(self, tmp_path):
            return Notes(tmp_path)              # with some resources in it, not started

        def again(self, provider): ...          # a second instance, not started
        async def create(self, provider): ...   # create a resource, and return its URI
        async def change(self, provider, uri): ...
        async def remove(self, provider, uri): ...
        async def shown_in(self, provider, uri): ...    # URIs of each kind that change with this resource
        async def lists_with_new(self, provider): ...   # URIs of each kind that change when a resource is created
        def missing(self, provider): ...        # a URI of the provider without a resource

Tests of methods that a provider does not offer are skipped, with a reason. The tests are asynchronous and need
pytest-asyncio; ``connect`` and ``Caller`` need neither. ``docs/writing-a-provider.md`` explains the requirements and
their reasons.
"""

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from carrel.late import late

if TYPE_CHECKING:
    from carrel.state.contract import StateContract
    from carrel.testing.caller import Caller, Listener, belongs, running
    from carrel.testing.changes import count_descriptors
    from carrel.testing.contract import ProviderContract
    from carrel.transports.memory import connect

__all__ = [
    "Caller",
    "Listener",
    "ProviderContract",
    "StateContract",
    "belongs",
    "connect",
    "count_descriptors",
    "running",
]

#: Modules that are imported when their names are first used.
MODULES = {
    "carrel.state.contract": ("StateContract",),
    "carrel.testing.caller": ("Caller", "Listener", "belongs", "running"),
    "carrel.testing.changes": ("count_descriptors",),
    "carrel.testing.contract": ("ProviderContract",),
    "carrel.transports.memory": ("connect",),
}
#: Names whose modules need pytest.
OF_PYTEST = ("ProviderContract", "StateContract", "count_descriptors")
REWRITTEN = ("caller", "changes", "hooks", "lists", "offers", "reading", "subscribing")

if sys.modules.get("pytest"):
    sys.modules["pytest"].register_assert_rewrite(*(f"{__name__}.{name}" for name in REWRITTEN))

if not TYPE_CHECKING:
    _find = late(__name__, MODULES)

    def __getattr__(name: str) -> Any:
        if name in OF_PYTEST:
            missing = [package for package in ("pytest", "pytest_asyncio") if find_spec(package) is None]
            if missing:
                needed = f"{__name__}.{name} needs {' and '.join(missing)}: pip install pytest pytest-asyncio"
                raise ModuleNotFoundError(needed, name=missing[0])
        return _find(name)
