"""Transform that gives tools and prompts other names."""

from __future__ import annotations

from collections.abc import Mapping

from carrel.catalog.provider import Provider
from carrel.catalog.transforms.transform import Kind, Transform
from carrel.errors import ConfigError

__all__ = ["Rename"]


class Rename(Transform):
    """Transform that gives tools and prompts other names: from the provider's name to the one seen from outside.

    Raises:
        ConfigError: two of them would have the same name.
    """

    def __init__(
        self, provider: Provider, *, tools: Mapping[str, str] | None = None, prompts: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(provider)
        self._out: Mapping[str, Mapping[str, str]] = {"tool": tools or {}, "prompt": prompts or {}}
        self._in: dict[str, dict[str, str]] = {}
        for kind, names in self._out.items():
            back = {new: old for old, new in names.items()}
            if len(back) < len(names):
                raise ConfigError(f"Two {kind}s of {provider.name} would have the same name")
            self._in[kind] = back

    def name_out(self, kind: Kind, name: str) -> str:
        """Return the new name."""
        return self._out[kind].get(name, name)

    def name_in(self, kind: Kind, name: str) -> str | None:
        """Return the provider's name; None for one that was given another."""
        old = self._in[kind].get(name)
        if old is None and name in self._out[kind]:
            return None
        return old or name
