"""Endpoint that speaks the wire format of OpenAI's ``/v1/embeddings``, with vectors of hashed words.

Words of one row of ``MEANINGS`` have one meaning, so that texts without a common word can be alike.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

DIMENSIONS = 64
MEANINGS = (
    ("car", "automobile", "vehicle", "autos"),
    ("physician", "doctor", "surgeon"),
    ("purchase", "buy", "acquire"),
)
_MEANING = {word: row[0] for row in MEANINGS for word in row}


def vector_of(text: str) -> list[float]:
    """Return the sum of one-hot vectors of the meanings of words."""
    vector = [0.0] * DIMENSIONS
    for word in re.findall(r"\w{3,}", text.lower()):
        digest = hashlib.blake2b(_MEANING.get(word, word).encode(), digest_size=4).digest()
        vector[int.from_bytes(digest, "big") % DIMENSIONS] += 1.0
    return vector


class EmbeddingsEndpoint:
    """Endpoint on a free port of this machine.

    ``texts`` are those it was sent, ``failures`` statuses that it answers first, and texts with ``refused`` in them it
    does not take.
    """

    def __init__(self) -> None:
        self.url = ""
        self.key = "secret-key"
        self.refused = "\0"
        self.down = False
        self.texts: list[str] = []
        self.batches: list[int] = []
        self.failures: list[int] = []

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[EmbeddingsEndpoint]:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/embeddings", self._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({"error": {"message": "Incorrect API key provided"}}, status=401)
        if self.failures:
            return web.json_response({"error": {}}, status=self.failures.pop(), headers={"Retry-After": "0"})
        if self.down:
            return web.json_response({"error": {}}, status=503)
        body = await request.json()
        texts = body["input"]
        if any(self.refused in text for text in texts):
            return web.json_response({"error": {"message": "maximum context length"}}, status=400)
        self.texts += texts
        self.batches.append(len(texts))
        data = [
            {"object": "embedding", "index": index, "embedding": vector_of(text)} for index, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return web.json_response({"object": "list", "data": data[::-1], "model": body["model"], "usage": usage})
