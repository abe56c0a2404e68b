"""Engine of the index: tantivy. Passages and names of resources are its documents, which it indexes but does not store.

A number identifies a resource here. A document is a passage (its terms, headings and lines) or a resource (the terms of
name, path, title, description and all headings, and of its whole text). Words of a text in another language than
English are stemmed in that language first; a word of a query is looked for with the stem of each language.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from carrel.errors import ConfigError
from carrel.search.stems import Stems
from carrel.search.stop_words import LANGUAGES, language_of
from carrel.search.terms import Word, all_parted, parted, prepared

if TYPE_CHECKING:
    import tantivy

__all__ = ["Damaged", "Engine", "Match", "engine_version"]

HEAP = 96 * 1024 * 1024  # bytes of terms in memory before they are written: the more, the smaller the index is
#: A passage has fewer lines, so that the first and the last one are one number.
MAX_LINES = 4096
#: Shortest word that others may begin with, and that may be misspelled by one letter or by two.
SHORTEST_BEGINNING, SHORTEST_MISSPELLED, LONG_WORD = 3, 4, 8

#: Fields of text, and the tokenizer of each. A passage has the first two, and a resource the others.
FIELDS = {"text": "text", "heading": "text", "name": "name", "headings": "text", "whole": "text"}
#: Words whose stems are kept.
STEMS = 256
#: Weights of headings, relative to the text of a passage.
HEADING = 0.3
#: Score of a passage for having a word at all, as a share of the weight of the word, as in BM25+: a passage with many
#: words of a question counts more than a passage that has a few of them often.
DELTA = 1.0

#: Fields that have a word which is not absent, and how much less the weight of a word depends on few documents.
NAMED_IN, SMOOTHED = ("text", "heading", "name"), 3

#: Mark between Japanese words, which is no part of a term.
DOT = "・"

T = TypeVar("T")


class Damaged(Exception):
    """The index cannot be read: it is damaged, or incomplete."""


class Match(NamedTuple):
    """Document that matches: its resource, its lines (0 of a name) and its score."""

    number: int
    first: int
    last: int
    score: float


def load() -> Any:
    """Import tantivy.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import tantivy
    except ModuleNotFoundError as error:
        if error.name != "tantivy":
            raise
        raise ConfigError("search needs the package tantivy: pip install 'carrel[search]'") from error
    return tantivy


def engine_version() -> str:
    """Return the version of the engine and of its files."""
    return str(load().__version__)


class Engine:
    """Index of terms in a folder. ``write``: this process changes it; else it reads what another one writes.

    Its methods block, and only one thread may change it.

    Raises:
        Damaged: the index in the folder cannot be read.
        ConfigError: tantivy is not installed.
    """

    def __init__(self, folder: str, *, write: bool) -> None:
        self._tantivy = load()
        self._folder = folder
        self._writer: Any = None
        if os.path.exists(os.path.join(folder, "meta.json")):  # noqa: PTH110, PTH118
            check(folder)
        elif not write:
            raise Damaged("there is no index yet")
        self._index: tantivy.Index = _safely(lambda: self._tantivy.Index(self._schema(), path=folder))
        separate = self._tantivy.TextAnalyzerBuilder(self._tantivy.Tokenizer.whitespace()).build()
        self._index.register_tokenizer("text", separate)  # of texts that are stemmed already
        self._index.register_tokenizer("name", self._analyzer(None))
        self._stemmers = {language: self._analyzer(language).analyze for language in LANGUAGES}
        split = self._analyzer(None).analyze
        self._texts = {language: Stems(split, partial(self._stem, language)) for language in LANGUAGES}
        self._stems = lru_cache(STEMS)(self._stems_of)  # a query needs the stems of a word for each field
        self._schema_now = self._index.schema
        if write:
            self._writer = _safely(lambda: self._index.writer(heap_size=HEAP, num_threads=1))
        self._searcher: tantivy.Searcher = _safely(self._index.searcher)

    def _schema(self) -> Any:
        builder = self._tantivy.SchemaBuilder()
        for field, tokenizer in FIELDS.items():
            builder.add_text_field(field, stored=False, tokenizer_name=tokenizer, index_option="freq")
        builder.add_integer_field("number", stored=False, indexed=True, fast=True)
        builder.add_integer_field("lines", stored=False, indexed=False, fast=True)
        return builder.build()

    def _analyzer(self, language: str | None) -> Any:
        kinds = self._tantivy.Filter
        builder = self._tantivy.TextAnalyzerBuilder(self._tantivy.Tokenizer.simple())
        builder = builder.filter(kinds.remove_long(48)).filter(kinds.lowercase()).filter(kinds.ascii_fold())
        return (builder if language is None else builder.filter(kinds.stemmer(language))).build()

    # Writing

    def put(
        self, number: int, names: str, headings: str, passages: Iterable[tuple[str, str, int, int]], *, known: bool
    ) -> None:
        """Add a resource: its names, its headings, and passages as text, heading, first and last line.

        ``known``: it may be here already, and is replaced.
        """
        if known:
            self.remove(number)
        parts = list(passages)
        language = language_of("\n".join([text for text, *_ in parts[:4]]))
        texts = self._stemmed(all_parted([text for text, *_ in parts]), language)
        above = self._stemmed(all_parted([heading for _, heading, *_ in parts]), language)
        new, add = self._tantivy.Document, self._writer.add_document
        for (_, _, first, last), text, heading in zip(parts, texts, above, strict=True):
            document = new()
            document.add_text("text", text)
            if heading:
                document.add_text("heading", heading)
            document.add_integer("number", number)
            document.add_integer("lines", first * MAX_LINES + min(last - first, MAX_LINES - 1))
            add(document)
        document = new()
        document.add_text("name", prepared(names))
        if headings:
            document.add_text("headings", *self._stemmed([parted(headings)], "english"))
        for text in texts:
            document.add_text("whole", text)
        document.add_integer("number", number)
        document.add_integer("lines", 0)
        add(document)

    def _stemmed(self, texts: Iterable[tuple[str, str]], language: str) -> list[str]:
        """Return the terms of parted texts in a language, separated by spaces."""
        terms = self._texts[language].of
        return [f"{terms(latin)} {cjk.replace(DOT, ' ')}" if cjk else terms(latin) for latin, cjk in texts]

    def _stem(self, language: str, word: str) -> list[str]:
        """Return the terms of a word: stemmed in its language, and then in English."""
        english = self._stemmers["english"]
        terms: list[str] = english(word if language == "english" else " ".join(self._stemmers[language](word)))
        return terms

    def remove(self, number: int) -> None:
        """Remove a resource."""
        self._writer.delete_documents_by_term("number", number)

    def commit(self) -> None:
        """Commit additions and removals, and reload the searcher."""
        _safely(self._writer.commit)
        self.reload()

    def reload(self) -> None:
        """Reload the searcher to see the last commit."""
        _safely(self._index.reload)
        self._searcher = _safely(self._index.searcher)

    def close(self) -> None:
        """Close the writer; uncommitted changes are lost."""
        writer, self._writer = self._writer, None
        if writer is not None:
            _safely(writer.rollback)
            _safely(writer.wait_merging_threads)

    # Searching

    @property
    def documents(self) -> int:
        """Number of passages and resources."""
        return int(self._searcher.num_docs)

    @property
    def has_documents(self) -> bool:
        """Whether there is anything in the index."""
        return bool(self.documents)

    def terms(self, text: str) -> set[str]:
        """Return the terms of a text, as they are in the index."""
        return set(self._stemmers["english"](prepared(text)))

    def passages(
        self,
        words: Sequence[Word],
        limit: int,
        offset: int = 0,
        *,
        even: bool = False,
        resources: Sequence[int] | None = None,
        required: Sequence[Word] = (),
    ) -> list[Match]:
        """Return the passages with any of the words, the best first.

        With ``resources``, only passages of these resources; all have the ``required`` words in text or headings.

        ``even``: rare words count no more than others, so that the order does not tell how many have a word.
        """
        occur, kind, fields = self._tantivy.Occur, self._tantivy.Query, {"text": 1.0, "heading": HEADING}
        query = self._any(words, fields, even)
        among = [self._any([word], fields, even) for word in required]
        if resources is not None:
            # Terms take half of the time of a set of terms, for which the engine looks through all numbers.
            one = partial(kind.term_query, self._schema_now, "number", index_option="basic")
            among.append(self._boolean([(occur.Should, one(number)) for number in resources]))
        if among:
            parts = [(occur.Must, kind.const_score_query(each, 0.0)) for each in among]
            query = self._boolean([(occur.Must, query), *parts])
        return self._search(query, limit, offset)

    def resources(self, words: Sequence[Word], limit: int, offset: int = 0, *, even: bool = False) -> list[Match]:
        """Return the resources with any of the words in their text, the best first. ``even``: see ``passages``."""
        return self._search(self._any(words, {"whole": 1.0}, even), limit, offset)

    def names(
        self, words: Sequence[Word], limit: int, offset: int = 0, *, misspelled: bool = False, even: bool = False
    ) -> list[Match]:
        """Return the resources with any of the words in their names and headings, the best first.

        With ``misspelled``, every word must match a name, with at most one typing error each. ``even``: see
        ``passages``.
        """
        occur = self._tantivy.Occur.Must if misspelled else self._tantivy.Occur.Should
        query = self._boolean([(occur, self._in_name(word, even, misspelled=misspelled)) for word in words])
        return self._search(query, limit, offset)

    def _search(self, query: Any, limit: int, offset: int) -> list[Match]:
        searcher = self._searcher

        def find() -> list[Match]:
            hits = searcher.search(query, limit=limit, count=False, offset=offset).hits
            documents = [document for _, document in hits]
            columns = [searcher.fast_field_values(field, documents) for field in ("number", "lines")]
            return [
                Match(number, lines // MAX_LINES, lines // MAX_LINES + lines % MAX_LINES, score)
                for (score, _), number, lines in zip(hits, *columns, strict=True)
            ]

        return _safely(find)

    def _boolean(self, parts: Sequence[tuple[Any, Any]]) -> Any:
        return self._tantivy.Query.boolean_query(parts)

    def _term(self, field: str, term: str, boost: float, even: bool) -> Any:
        query = self._tantivy.Query
        rarity = self._rarity(field, term) if even or field == "text" else 1.0
        if even:
            boost, rarity = boost / rarity, 1.0
        found = query.term_query(self._schema_now, field, term, "freq")
        weighed = found if boost == 1.0 else query.boost_query(found, boost)
        if field != "text":
            return weighed
        should = self._tantivy.Occur.Should
        return self._boolean([(should, weighed), (should, query.const_score_query(found, DELTA * rarity))])

    def _beginning(self, field: str, text: str) -> Any:
        """Return the query for terms that begin with a text."""
        return self._tantivy.Query.fuzzy_term_query(self._schema_now, field, text, 0, True, True)

    def _rarity(self, field: str, term: str) -> float:
        """Return the inverse document frequency of a term, as the engine weighs it."""
        searcher = self._searcher
        having = searcher.doc_freq(field, term)
        return math.log(1 + (max(searcher.num_docs, having) - having + 0.5) / (having + 0.5))

    def _stems_of(self, text: str) -> list[str]:
        """Return the stems of a word, one for each language in which it differs."""
        english = self._stemmers["english"]
        others = [stem(text) for language, stem in self._stemmers.items() if language != "english"]
        stems = [english(text), *(english(" ".join(each)) for each in others)]
        return list(dict.fromkeys(each[0] for each in stems if each)) or [text]

    def absent(self, words: Sequence[Word]) -> tuple[float, list[str]]:
        """Return the share of words, by their weight, that no document has, and these words.

        Rare words weigh more. Of a word in Chinese, Japanese or Korean, each pair of characters counts, except absent
        pairs beside a pair that a document has: they may be the end of one word and the beginning of the next one.
        """
        searcher = self._searcher
        every = absent = 0.0
        found: list[str] = []
        for word in words:
            if word.cjk and len(word.text) == 1:
                continue  # begins words, which are too many to count
            forms = [(each,) for each in word.terms] if word.cjk else [(word.text, *self._stems(word.text))]
            having = [max(searcher.doc_freq(field, form) for form in each for field in NAMED_IN) for each in forms]
            for at, count in enumerate(having):
                weight = math.log(1 + (searcher.num_docs + 0.5) / (count + 0.5 + SMOOTHED))
                if count:
                    every += weight
                elif not any(having[max(at - 1, 0) : at + 2]):
                    every += weight
                    absent += weight
            if not any(having):
                found.append(word.text)
        return (absent / every if every else 0.0), found

    def _any(self, words: Sequence[Word], fields: Mapping[str, float], even: bool) -> Any:
        """Return the query for any of the words in fields, which have weights."""
        should = self._tantivy.Occur.Should
        return self._boolean(
            [(should, self._in_field(field, word, boost, even)) for word in words for field, boost in fields.items()]
        )

    def _in_field(self, field: str, word: Word, boost: float, even: bool) -> Any:
        occur = self._tantivy.Occur
        if word.cjk:
            if len(word.text) == 1:
                return self._tantivy.Query.boost_query(self._beginning(field, word.text), boost)
            # Several words without spaces between them: not every pair of characters is in one word.
            return self._boolean([(occur.Should, self._term(field, term, boost, even)) for term in word.terms])
        terms = [self._term(field, stem, boost, even) for stem in self._stems(word.text)]
        return terms[0] if len(terms) == 1 else self._tantivy.Query.disjunction_max_query(terms)

    def _in_name(self, word: Word, even: bool, *, misspelled: bool) -> Any:
        occur, query = self._tantivy.Occur, self._tantivy.Query
        if word.cjk:
            return self._boolean(
                [(occur.Should, self._in_field(field, word, 1.0, even)) for field in ("name", "headings")]
            )
        parts = [self._term("name", word.text, 3.0, even)]
        if not misspelled:
            parts.append(self._in_field("headings", word, 1.0, even))
        if len(word.text) >= SHORTEST_BEGINNING:
            parts.append(query.boost_query(self._beginning("name", word.text), 0.7))
        if misspelled and len(word.text) >= SHORTEST_MISSPELLED:
            distance = 2 if len(word.text) >= LONG_WORD else 1
            parts.append(query.fuzzy_term_query(self._schema_now, "name", word.text, distance))
        return self._boolean([(occur.Should, part) for part in parts])


def _safely(function: Callable[[], T]) -> T:
    """Call a function of the engine, and return its result.

    Raises:
        Damaged: the engine fails, or panics.
    """
    try:
        return function()
    except (OSError, ValueError) as error:
        raise Damaged(str(error)) from error
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # of PyO3, which is no Exception
            raise Damaged(str(error)) from error
        raise


#: Bytes of a file that are in memory at a time when it is checked.
PIECE = 1024 * 1024
#: The number that ends each file of tantivy, after its footer in JSON and the footer's length.
MAGIC = 1337


def check(folder: str) -> None:
    """Check the files of the committed segments of an index against the checksums in them.

    Other files are of segments that are being written, or were when their process died.

    Raises:
        Damaged: one is damaged, or gone since the folder was listed.
    """
    try:
        with open(os.path.join(folder, "meta.json"), "rb") as file:  # noqa: PTH118, PTH123
            committed = {each["segment_id"].replace("-", "") for each in json.load(file)["segments"]}
        with os.scandir(folder) as entries:
            files = list(entries)
        for entry in files:
            segment, _, kind = entry.name.partition(".")
            if segment in committed and kind in ("term", "idx", "fast", "fieldnorm", "store", "pos"):
                _check_file(entry.path, entry.name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"the index cannot be read: {error}") from error


def _check_file(path: str, name: str) -> None:
    with open(path, "rb") as file:  # noqa: PTH123
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        end = file.read()
        footer = int.from_bytes(end[:4], "little")
        rest = size - 8 - footer
        if rest < 0 or int.from_bytes(end[4:], "little") != MAGIC:
            raise Damaged(f"{name} is cut off")
        file.seek(rest)
        try:
            crc = json.loads(file.read(footer))["crc"]
        except (ValueError, KeyError, TypeError) as error:
            raise Damaged(f"{name} has no checksum") from error
        file.seek(0)
        found = 0
        while rest > 0:
            piece = file.read(min(rest, PIECE))
            if not piece:
                raise Damaged(f"{name} is cut off")
            found = zlib.crc32(piece, found)
            rest -= len(piece)
    if found != crc:
        raise Damaged(f"{name} is damaged")
