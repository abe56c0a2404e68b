"""Visibility: which components of a server clients see, by rules of which the last one that fits decides."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from carrel.compat.fastmcp.utilities.components import FastMCPComponent

__all__ = ["Visibility"]


@dataclass(frozen=True)
class Rule:
    """Components that are shown or hidden: all that fit everything that is given."""

    shown: bool
    names: frozenset[str] | None = None
    keys: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    components: frozenset[str] | None = None

    def fits(self, component: FastMCPComponent) -> bool:
        """Return whether the rule is about a component."""
        names = {component.name, component.identifier}
        return (
            (self.names is None or bool(self.names & names))
            and (self.keys is None or bool(self.keys & {component.key, component.key.partition("@")[0]}))
            and (self.tags is None or bool(self.tags & component.tags))
            and (self.components is None or component.kind in self.components)
        )


def _set(given: Collection[str] | None) -> frozenset[str] | None:
    return None if given is None else frozenset(given)


class Visibility:
    """Rules of a server."""

    def __init__(
        self, include_tags: Collection[str] | None = None, exclude_tags: Collection[str] | None = None
    ) -> None:
        self.rules: list[Rule] = []
        if include_tags is not None:
            self.rules += [Rule(False), Rule(True, tags=_set(include_tags))]
        if exclude_tags is not None:
            self.rules.append(Rule(False, tags=_set(exclude_tags)))

    def add(
        self,
        shown: bool,
        names: Collection[str] | None = None,
        keys: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        components: Collection[str] | None = None,
        only: bool = False,
    ) -> None:
        """Add a rule; with ``only``, everything else is hidden."""
        if only:
            self.rules.append(Rule(False))
        self.rules.append(Rule(shown, _set(names), _set(keys), _set(tags), _set(components)))

    def verdict(self, component: FastMCPComponent) -> bool | None:
        """Return the verdict of the last rule that matches a component, or None."""
        return next((rule.shown for rule in reversed(self.rules) if rule.fits(component)), None)
