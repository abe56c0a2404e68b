"""ContextIndex: a search index that packs contexts: it gathers passages and pinned resources, and packs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial

import msgspec

from carrel.catalog.provider import Request
from carrel.context.by_model import ModelChoice
from carrel.context.documents import Document, document_of
from carrel.context.options import BUDGET, MODEL_TOKENS, Ask, check_options, uris_of
from carrel.context.pack import ContextPack
from carrel.context.packer import Packer
from carrel.context.results import NEAREST, UNMATCHED, UNREADABLE, Format, LeftOut, PackedContext
from carrel.context.tokenizer import tokenizer_of
from carrel.near_names import near_uri
from carrel.search.index import MAX_LIMIT, SearchIndex
from carrel.search.results import PassageResults, SearchPassage
from carrel.uri.parse import normal_form
from carrel.wire.resources import Resource

__all__ = ["ContextIndex"]

#: Tokens of the budget for each passage that is looked for, and passages at least.
PER_PASSAGE, LEAST = 100, 20
#: Factor for the scores of passages of resources that the user has open.
OPEN = 1.25
#: Bytes up to which the whole text of a resource is read; of larger ones, only passages are packed.
MAX_WHOLE = 256 * 1024


class ContextQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Question with the options of its context."""

    question: str
    budget: int
    pin: tuple[str, ...]
    open: frozenset[str]
    without: tuple[str, ...]
    format: Format
    tokenizer: str | Callable[[str], int] | None
    model: Ask | None
    model_tokens: int

    def excludes(self, uri: str) -> bool:
        """Return whether a resource is excluded."""
        return any(matches(uri, each) for each in self.without)

    def has_open(self, resource: Resource) -> bool:
        """Return whether the user has a resource open."""
        return bool(self.open) and normal_form(resource.uri) in self.open

    def open_first(self, passages: Sequence[SearchPassage]) -> Sequence[SearchPassage]:
        """If a resource is open, return passages with lower scores for resources that are not open."""
        if not any(self.has_open(each.resource) for each in passages):
            return passages
        return [
            each if self.has_open(each.resource) else msgspec.structs.replace(each, score=round(each.score / OPEN, 4))
            for each in passages
        ]


class Packing:
    """Question of one caller, packed again after changes. Implements ``carrel.context.pack.Repacking``."""

    def __init__(self, index: ContextIndex, options: ContextQuery, request: Request) -> None:
        self._index = index
        self._options = options
        self._request = request
        self._version = 0

    async def pack(self) -> PackedContext:
        """Pack the question."""
        self._version = self._index.version
        return await self._index.pack(self._options, self._request)

    async def look(self) -> None:
        """Look for changed resources now, and wait until they are indexed."""
        await self._index.look()

    async def changed(self, uris: Collection[str]) -> None:
        """Wait until changes were indexed that the last pack does not have. ``uris`` are the packed resources."""
        self._index.follow(self, uris)
        await self._index.after(self._version)

    def end(self) -> None:
        """Stop waiting for changes."""
        self._index.follow(self, ())


class ContextIndex(SearchIndex):
    """Full-text index that also packs contexts. See ``SearchIndex``."""

    async def context(
        self,
        question: str,
        *,
        budget: int = BUDGET,
        pin: Iterable[str] = (),
        open: Iterable[str] = (),
        without: Iterable[str] = (),
        format: Format = "markdown",
        tokenizer: str | Callable[[str], int] | None = None,
        model: Ask | None = None,
        model_tokens: int = MODEL_TOKENS,
        request: Request | None = None,
    ) -> ContextPack:
        """Pack what matters for a question into a budget of tokens, and return it with reasons.

        ``pin`` are URIs of resources that come first. ``open`` are URIs of resources that the user has open: their
        passages count a quarter more. ``without`` are URIs to leave out, or patterns such as ``*.log``.
        ``tokenizer`` counts the tokens of a text, or is the name of a model for tiktoken; by default, tokens are
        estimated. Only resources that the caller of ``request`` may read are packed.

        ``model`` sends a prompt to a language model and returns its answer. The model then gives more search words for
        the question, and ranks the results of the search; it reads and writes at most ``model_tokens``, by estimate.

        Raises:
            ConfigError: the server is not running.
            TypeError: an option has the wrong type, such as a single string for ``pin``, ``open`` or ``without``.
            ValueError: the budget is less than 1, or there is no such format.
        """
        check_options(question, budget=budget, format=format, model_tokens=model_tokens)
        pins, opened, left_out = (uris_of(*each) for each in (("pin", pin), ("open", open), ("without", without)))
        options = ContextQuery(
            question=question,
            budget=budget,
            pin=pins,
            open=frozenset(map(normal_form, opened)),
            without=left_out,
            format=format,
            tokenizer=tokenizer,
            model=model,
            model_tokens=model_tokens,
        )
        packing = Packing(self, options, request or Request())
        return ContextPack(await packing.pack(), packing)

    def follow(self, packing: Packing, uris: Collection[str]) -> None:
        """Request changes of the resources of a pack. An index of a server gets all changes anyway."""

    async def look(self) -> None:
        """Look for changed resources now, and wait until they are indexed."""
        self.on_changes((), {"resources_list_changed": None})
        await self.settled()

    async def pack(self, options: ContextQuery, request: Request) -> PackedContext:
        """Pack the context of a question, as the index is now."""
        documents, left_out, complete = await self._gather(options, request)
        packer = Packer(options.question, options.budget, tokenizer_of(options.tokenizer), options.format)
        packed = await self.in_thread(request, partial(packer.pack, documents, left_out, complete=complete))
        return msgspec.structs.replace(packed, unread=self.unread)

    async def found(self, question: str, limit: int, request: Request) -> PassageResults:
        """Return the passages for a question, best first."""
        return await self.passages(question, limit=limit, request=request)

    async def _candidates(self, options: ContextQuery, limit: int, request: Request) -> PassageResults:
        """Return the passages for a question, in the order of the search, or of the model if there is one."""
        results = await self.found(options.question, limit, request)
        if options.model is None:
            return results
        passages = results.passages
        choice = ModelChoice(options.question, options.model, options.model_tokens)
        words = await choice.words()
        if words:
            more = await self.found(words, limit, request)
            known = {(each.source, each.link) for each in passages}
            passages = [*passages, *(each for each in more.passages if (each.source, each.link) not in known)]
            passages.sort(key=lambda each: -each.score)
        return msgspec.structs.replace(results, passages=await choice.ranked(passages))

    async def _gather(self, options: ContextQuery, request: Request) -> tuple[list[Document], list[LeftOut], bool]:
        """Return the documents that may be packed, the resources that may not, and whether all were searched."""
        limit = min(MAX_LIMIT, max(LEAST, options.budget // PER_PASSAGE))
        results = await self._candidates(options, limit, request)
        passages = options.open_first(results.passages)
        groups: dict[tuple[str, str], list[SearchPassage]] = {}
        for passage in passages:
            groups.setdefault((passage.source, passage.resource.uri), []).append(passage)
        left_out: dict[str, str] = {}
        documents = await self._pinned(options, groups, left_out, request)
        wanted: list[tuple[str, Sequence[SearchPassage]]] = []
        for (source, uri), found in groups.items():
            if options.excludes(uri):
                left_out[uri] = "excluded"
            elif _is_for_users(found[0].resource):
                left_out[uri] = "for the user only, not for models"
            else:
                wanted.append((source, found))
        made_of = await asyncio.gather(*(self._document(source, found, request) for source, found in wanted))
        for made, (_, (first, *_)) in zip(made_of, wanted, strict=True):
            if made is None:
                left_out[first.resource.uri] = "cannot be read as text"
            else:
                made.is_open = options.has_open(made.resource)
                documents.append(made)
        if results.complete:
            await self._explain_unused(options, [uri for _, uri in groups], left_out, request)
        packed = {document.resource.uri for document in documents}
        for near in results.nearest if not results.passages else ():
            if near.resource.uri not in packed and not options.excludes(near.resource.uri):
                left_out.setdefault(near.resource.uri, NEAREST)
        return documents, [LeftOut(uri, reason) for uri, reason in left_out.items()], results.complete

    async def _explain_unused(
        self, options: ContextQuery, found: Iterable[str], left_out: dict[str, str], request: Request
    ) -> None:
        """Add what ``without`` has and no resource matches, and which URIs are near to these and to unreadable pins."""
        unused = [each for each in options.without if not any(matches(uri, each) for uri in found)]
        unread = [uri for uri in options.pin if left_out.get(uri) == UNREADABLE]
        if not unused and not unread:
            return
        uris = await self.uris(request)
        for each in unused:
            if not any(matches(uri, each) for uri in uris):
                left_out.setdefault(each, UNMATCHED + near_uri(each, uris))
        for uri in unread:
            left_out[uri] = UNREADABLE + near_uri(uri, uris)

    async def _pinned(
        self,
        options: ContextQuery,
        groups: dict[tuple[str, str], list[SearchPassage]],
        left_out: dict[str, str],
        request: Request,
    ) -> list[Document]:
        """Return the documents of the pinned resources, and remove these from the groups of passages."""
        texts = await asyncio.gather(*(self.text(uri, request=request) for uri in options.pin))
        documents: list[Document] = []
        for place, (uri, found) in enumerate(zip(options.pin, texts, strict=True)):
            if found is None:
                left_out[uri] = UNREADABLE
                continue
            passages = groups.pop((found.source, found.resource.uri), [])
            document = document_of(found.resource, found.source, found.text, passages, place)
            if document is None:
                left_out[uri] = "pinned, but has no text"
            elif all(document.key != each.key for each in documents):
                documents.append(document)
        return documents

    async def _document(self, source: str, passages: Sequence[SearchPassage], request: Request) -> Document | None:
        resource = passages[0].resource
        text = None
        if resource.size is None or resource.size <= MAX_WHOLE:
            whole = await self.text(resource.uri, source, request)
            text = None if whole is None else whole.text
        return document_of(resource, source, text, passages)


def matches(uri: str, given: str) -> bool:
    """Return whether a URI equals or matches a given URI or pattern."""
    return uri == given or fnmatchcase(uri, given)


def _is_for_users(resource: Resource) -> bool:
    annotations = resource.annotations
    return annotations is not None and annotations.audience == ["user"]
