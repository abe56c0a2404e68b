"""Embeddings: embeds the passages of an index in the background, and queries on demand.

If the endpoint is down or slow, searches use words only, and a warning is logged once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any

from carrel.log import Log
from carrel.search.embedder import Embedder, Rejected, Unavailable
from carrel.search.engine import Damaged
from carrel.search.vectors import Vectors
from carrel.transports.client.backoff import Backoff

__all__ = ["Embeddings"]

log = Log("carrel.search")

#: Texts in a request, and requests at a time.
BATCH, REQUESTS = 32, 4
#: Seconds to wait for the vector of a query, and seconds without attempts after a failure.
PATIENCE, PAUSE = 3.0, 30.0
#: Queries whose vectors are kept, and characters of one that are embedded.
KEPT, MAX_QUERY = 256, 1000
#: Seconds between two commits, and two reports, while there is much to embed.
COMMIT = 5.0


class Embeddings:
    """Vectors of passages and queries by an embedder. ``report`` is called with the number of waiting passages."""

    def __init__(self, embedder: Embedder, report: Callable[[int], object]) -> None:
        self._embedder = embedder
        self._report = report
        self._queries: OrderedDict[str, Any] = OrderedDict()
        self._down_until = 0.0
        self._warned = False
        self._accepted = False
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()

    async def close(self) -> None:
        """Close the connections."""
        await self._embedder.close()

    def identity(self) -> str:
        """Return the name of the model. Blocks."""
        return self._embedder.identity()

    def wake(self) -> None:
        """Check for passages without vectors."""
        self._settled.clear()
        self._wake.set()

    async def settled(self) -> None:
        """Wait until all passages have been embedded."""
        await self._settled.wait()

    # Passages

    async def follow(self, current: Callable[[], Vectors | None], run: Callable[..., Awaitable[Any]]) -> None:
        """Embed new passages until cancelled.

        ``current`` returns the store of vectors, and ``run`` calls a function in the thread that writes the index.
        """
        backoff = Backoff()
        committed = monotonic()
        while True:
            self._wake.clear()
            vectors = current()
            if vectors is None:
                return
            try:
                texts: dict[bytes, str] = await run(vectors.waiting, BATCH * REQUESTS)
                if texts:
                    await self._embed_all(vectors, run, texts)
                    backoff.failures = 0
                    self._log_status(None)
                if monotonic() - committed > COMMIT or not texts:
                    await run(vectors.commit)
                    committed = monotonic()
                    self._report(await run(vectors.count))
            except (Unavailable, ValueError, Damaged) as error:  # damaged, or closed to be made anew
                self._log_status(str(error))
                delay = backoff.delay(error.retry_after if isinstance(error, Unavailable) else None)
                backoff.failures += 1
                await asyncio.sleep(delay)
                continue
            if not texts:
                if not self._wake.is_set():
                    self._settled.set()
                await self._wake.wait()

    async def _embed_all(self, vectors: Vectors, run: Callable[..., Awaitable[Any]], texts: dict[bytes, str]) -> None:
        """Embed texts in concurrent requests. Successful results are kept even if other requests fail."""
        keys = list(texts)
        parts = [keys[at : at + BATCH] for at in range(0, len(keys), BATCH)]
        asked = (self._embed([texts[key] for key in part]) for part in parts)
        failed: BaseException | None = None
        for part, found in zip(parts, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            if isinstance(found, BaseException):
                failed = found
            else:
                await run(vectors.add, list(zip(part, found, strict=True)))
        if failed is not None:
            raise failed

    async def _embed(self, texts: list[str]) -> Sequence[Any]:
        """Return the vectors of texts, with None for texts that the endpoint rejects.

        Raises:
            Unavailable: the endpoint cannot be used now, or has rejected all texts so far.
        """
        try:
            found = await self._embedder.embed(texts)
        except Rejected as error:
            if len(texts) > 1:
                half = len(texts) // 2
                return [*await self._embed(texts[:half]), *await self._embed(texts[half:])]
            if not self._accepted:
                raise Unavailable(str(error)) from None
            log.debug("a passage is not embedded: %s", error)
            return [None]
        self._accepted = True
        return found

    # Queries

    async def of_query(self, query: str) -> Any:
        """Return the vector of a query, or None if embeddings are unavailable now."""
        query = query[:MAX_QUERY]
        if query in self._queries:
            self._queries.move_to_end(query)
            return self._queries[query]
        if monotonic() < self._down_until:
            return None
        try:
            async with asyncio.timeout(PATIENCE):
                (vector,) = await self._embedder.embed([query], query=True)
        except Rejected as error:  # only this query; others still use embeddings
            log.debug("a query is not embedded: %s", error)
            vector = None
        except (Unavailable, TimeoutError) as error:
            self._down_until = monotonic() + PAUSE
            self._log_status(str(error) or "a query has to wait too long")
            return None
        else:
            self._log_status(None)
        self._queries[query] = vector
        if len(self._queries) > KEPT:
            self._queries.popitem(last=False)
        return vector

    def _log_status(self, failure: str | None) -> None:
        """Log once that embeddings are unavailable, and once that they are available again."""
        if failure is not None and not self._warned:
            log.warning("embeddings are unavailable, so searches use words only: %s", failure)
        elif failure is None and self._warned:
            log.info("embeddings are available again")
        self._warned = failure is not None
