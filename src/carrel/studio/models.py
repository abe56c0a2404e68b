"""Language models of the studio: the current one, the ones that are configured, and their connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from carrel.chat.model import Model, ModelEvent, ModelRequest
from carrel.chat.models.open import configured_vendors, list_models, open_model
from carrel.errors import ConfigError, MCPError
from carrel.studio.chat_api import ModelList

__all__ = ["Models", "NamedModel"]

Opener = Callable[[str], Awaitable[Model]]


class Models:
    """Models by name. They are opened when they are first used, and stay open.

    Args:
        name: the current model, or None.
        model: the current model, if it is open already. It is not closed.
        opener: opens a model by its name.
    """

    def __init__(self, name: str | None = None, *, model: Model | None = None, opener: Opener = open_model) -> None:
        self.current = name if model is None else model.name
        """Name of the model for new conversations and for requests of servers."""
        self._given = model
        self._opener = opener
        self._opened: dict[str, Model] = {}
        self._opening = asyncio.Lock()

    async def open(self, name: str) -> Model:
        """Return an open model.

        Raises:
            ConfigError: there is no such model, or its key or package is missing.
            TransportError: the server of the model cannot be reached.
        """
        if self._given is not None and name == self._given.name:
            return self._given
        async with self._opening:
            if name not in self._opened:
                self._opened[name] = await self._opener(name)
            return self._opened[name]

    def get(self, name: str) -> NamedModel:
        """Return a model that is opened when it is used."""
        return NamedModel(self, name)

    async def named(self, name: str) -> Model:
        """Return a model under its whole name, after it was opened. See ``open``."""
        return NamedModel(self, name, (await self.open(name)).name)

    async def list(self) -> ModelList:
        """Return the models of the vendors that have a key, and of local servers that run."""
        vendors = {vendor.name: vendor.local for vendor in await configured_vendors()}
        if "://" in (self.current or ""):
            vendors[(self.current or "").partition("#")[0]] = False
        answers = await asyncio.gather(*map(list_models, vendors), return_exceptions=True)
        names = dict.fromkeys([self.current] if self.current else [])
        problems = []
        for (vendor, local), answer in zip(vendors.items(), answers, strict=True):
            if isinstance(answer, MCPError):
                problems += [] if local else [f"{vendor}: {answer}"]  # a local server that does not run is no problem
            elif isinstance(answer, BaseException):
                raise answer
            else:
                names.update(dict.fromkeys(answer))
        return ModelList(current=self.current, models=tuple(names), problems=tuple(problems))

    async def close(self) -> None:
        """Close the models."""
        for model in self._opened.values():
            await model.close()


class NamedModel:
    """Model of ``Models``. Closing it does nothing."""

    def __init__(self, models: Models, key: str, name: str | None = None) -> None:
        self.name = name or key
        self._models = models
        self._key = key

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the next message; see ``Model``."""
        if not self._key:
            raise ConfigError("Choose a model first")
        model = await self._models.open(self._key)
        async with aclosing(model.stream(request)) as events:  # type: ignore[type-var]
            async for event in events:
                yield event

    async def close(self) -> None:
        """Leave the model open for other conversations."""
