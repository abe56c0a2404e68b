"""Embeddings of texts: by an endpoint with the API of OpenAI's ``/v1/embeddings``, or by a function in Python.

``carrel.search.local_models`` has models in local folders.

https://platform.openai.com/docs/api-reference/embeddings
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

import msgspec

from carrel.errors import ConfigError, RequestTimeout, ResourceError
from carrel.transports.client.fetch import Fetch
from carrel.transports.client.http_errors import read_retry_after

__all__ = ["Embed", "Embedder", "EmbeddingsEndpoint", "EmbeddingsFunction", "Rejected", "Unavailable"]

Embed: TypeAlias = Callable[[list[str]], Any]
"""Function that returns a vector for each text, or an awaitable of that. Any sequence of numbers is a vector."""

#: Seconds for a request, bytes of a response, and of one vector in it: about 20,000 numbers, each 32 bytes in memory.
TIMEOUT, MAX_RESPONSE, MAX_VECTOR = 60.0, 32 * 1024 * 1024, 512 * 1024
#: Statuses with which an endpoint says that the texts themselves are wrong, for example too long.
REJECTED = (400, 413, 422)


class Unavailable(Exception):
    """Embeddings are not available now. ``retry_after`` is the delay in seconds before a retry, if known."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Rejected(Exception):
    """The endpoint rejects these texts."""


class Embedder(Protocol):
    """Source of embeddings."""

    def identity(self) -> str:
        """Return the name of the model. Blocks. Vectors of models with other names are not compared."""
        ...

    async def embed(self, texts: list[str], *, query: bool = False) -> Sequence[Any]:
        """Return a vector for each text. ``query``: these are queries, which some models embed in another way.

        Raises:
            Unavailable: the embedder cannot be used now.
            Rejected: the embedder rejects these texts.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class _Vector(msgspec.Struct, gc=False):
    embedding: msgspec.Raw
    index: int


class _EmbeddingsResponse(msgspec.Struct, gc=False):
    data: list[_Vector]


_decoder = msgspec.json.Decoder(_EmbeddingsResponse)
_numbers = msgspec.json.Decoder(list[float])


class EmbeddingsEndpoint:
    """Endpoint at a URL such as ``http://localhost:11434/v1``, to which ``/embeddings`` is added if it is not there.

    Raises:
        ConfigError: it is not an http: or https: URL, or aiohttp is not installed.
    """

    def __init__(self, url: str, model: str, key: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ConfigError("The URL for embeddings must look like http://localhost:11434/v1, without a password")
        path = parts.path.rstrip("/")
        path = path if path.endswith("/embeddings") else f"{path}/embeddings"
        self._url = parts._replace(path=path, fragment="").geturl()
        self._endpoint = parts._replace(path=path, query="", fragment="").geturl()
        self._model = model
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        try:
            import aiohttp  # noqa: F401
        except ImportError:
            raise ConfigError("embeddings need the package aiohttp: pip install 'carrel[embeddings]'") from None
        self._fetch = Fetch(
            timeout=TIMEOUT, max_bytes=MAX_RESPONSE, hosts=None, accept="application/json", proxies=True
        )

    def identity(self) -> str:
        """Return the name of the model."""
        return self._model

    async def embed(self, texts: list[str], *, query: bool = False) -> list[list[float]]:
        """Return a vector for each text."""
        body = msgspec.json.encode({"model": self._model, "input": texts})
        endpoint = self._endpoint
        try:
            async with self._fetch.request("POST", self._url, data=body, headers=self._headers) as response:
                data, status = await response.read(), response.status
                retry_after = read_retry_after(response.headers.get("Retry-After"))
        except (ResourceError, RequestTimeout) as error:
            raise Unavailable(str(error).replace(self._url, endpoint)) from None
        if status in REJECTED:
            raise Rejected(f"{endpoint} answered {status}")
        if status != 200:
            raise Unavailable(f"{endpoint} answered {status}", retry_after)
        try:
            found = _decoder.decode(data).data
            found.sort(key=lambda each: each.index)
            if [each.index for each in found] != list(range(len(texts))):
                raise Unavailable(f"{endpoint} did not answer with one vector for each text")
            if any(len(each.embedding) > MAX_VECTOR for each in found):
                raise Unavailable(f"{endpoint} answered with a vector of more than {MAX_VECTOR:,} bytes")
            return [_numbers.decode(each.embedding) for each in found]
        except (msgspec.MsgspecError, RecursionError) as error:
            raise Unavailable(f"{endpoint} did not return embeddings: {error}") from None

    async def close(self) -> None:
        """Close the connections."""
        await self._fetch.close()


class EmbeddingsFunction:
    """Function in Python for a model; one that is not ``async`` is called in a thread."""

    def __init__(self, function: Embed, model: str = "") -> None:
        self._function = function
        self._model = model

    def identity(self) -> str:
        """Return the name of the model."""
        return self._model

    async def embed(self, texts: list[str], *, query: bool = False) -> Sequence[Any]:
        """Return a vector for each text."""
        try:
            found = await asyncio.to_thread(self._function, texts)
            if isinstance(found, Awaitable):
                found = await found
            found = list(found)
        except Exception as error:
            raise Unavailable(f"the function for embeddings fails: {type(error).__name__}: {error}") from error
        if len(found) != len(texts):
            raise Unavailable("the function for embeddings did not return one vector for each text")
        return found

    async def close(self) -> None:
        """Do nothing."""
