"""The command: ``python -m benchmarks.retrieval``. See docs/packed-context.md."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

from carrel import Server
from carrel.context.index import ContextIndex
from carrel.search.options import SearchOptions

from .corpus import build
from .measure import BUDGETS, Score, mean, score
from .peers import PEERS, answers_of
from .questions import LANGUAGES, Question, load
from .rivals import RIVALS, Found, texts_of

Ask: TypeAlias = Callable[[str, int], Awaitable[list[Found]]]
"""Function that returns what a method finds for a question and a budget of tokens."""

#: Passages that are asked for.
LIMIT = 60


@asynccontextmanager
async def carrel(corpus: Path, language: str, **settings: str | None) -> AsyncIterator[ContextIndex]:
    """Yield the index of a language, in memory of a server. ``settings`` are of the search."""
    folder = (corpus / language).resolve()
    app = Server("retrieval")
    app.add_provider(str(folder))
    with TemporaryDirectory() as cache:
        # The vectors of a model are kept, as they take minutes.
        kept = str(corpus.parent / "indexes") if settings.get("embeddings") else cache
        index = app.add_search(SearchOptions(folder=kept, **settings))
        begin, used = time.perf_counter(), time.process_time()
        await app.endpoint.start()
        await index.ready()
        seconds, cpu = time.perf_counter() - begin, time.process_time() - used
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        share = await index.size() / size
        print(f"{language}: {size / 1e6:.0f} MB indexed, {size / 1e6 / cpu:.1f} MB/s of a core, in {seconds:.1f} s; "
              f"index {share:.2f} of the text")  # fmt: skip
        begin = time.perf_counter()
        await index.embedded()
        if settings.get("embeddings"):
            print(f"{language}: embedded in {time.perf_counter() - begin:.0f} s")
        yield index
        await app.endpoint.stop()


def passages(index: ContextIndex, corpus: Path) -> Ask:
    """Return the method that takes passages in the order of their rank."""

    async def ask(question: str, budget: int) -> list[Found]:
        found = (await index.passages(question, limit=LIMIT)).passages
        return [
            Found(file_of(each.resource.uri, corpus), each.first_line or 0, each.last_line or 0, each.text)
            for each in found
        ]

    return ask


def contexts(index: ContextIndex, corpus: Path) -> Ask:
    """Return the method that packs a context."""

    async def ask(question: str, budget: int) -> list[Found]:
        items = (await index.context(question, budget=budget)).items
        return [
            Found(file_of(each.uri, corpus), *(each.lines or (1, each.text.count("\n") + 1)), each.text)
            for each in items
        ]

    return ask


@cache
def file_of(uri: str, corpus: Path) -> str:
    """Return the file of a URI, by its path in the corpus."""
    return Path(unquote(urlsplit(uri).path)).relative_to(corpus.resolve()).as_posix()


class Scores(NamedTuple):
    """Scores of a method by the kinds of questions, and of questions without an answer, whether it finds nothing."""

    by_kind: dict[str, list[Score]]
    nothing: list[bool]


async def measured(ask: Ask, questions: list[Question], corpus: Path, *, misses: bool, packs: bool) -> Scores:
    """Return the scores of a method for questions."""
    scores: dict[str, list[Score]] = defaultdict(list)
    nothing = []
    for each in questions:
        needed = each.lines(corpus)
        if each.kind == "none":
            nothing.append(not any(found.text for found in await ask(each.question, BUDGETS[1])))
        elif needed:
            large = await ask(each.question, BUDGETS[1])
            small = await ask(each.question, BUDGETS[0]) if packs else large
            result = score(small, large, needed)
            scores[each.kind].append(result)
            if misses and result.large < 1:
                print(f"    {each.kind}: {each.question}  {each.needed[0].file}  {each.needed[0].quote}")
    return Scores(scores, nothing)


def report(name: str, language: str, scores: Scores, times: list[float]) -> None:
    """Print the figures of a method."""
    every = [each for part in scores.by_kind.values() for each in part]
    columns = [(kind, mean(part)) for kind, part in sorted(scores.by_kind.items())]
    by_kind = ", ".join(f"{kind} {100 * each.small:.0f}/{100 * each.large:.0f}" for kind, each in columns)
    whole = mean(every)
    times.sort()
    print(
        f"{language:5}{name:28}{100 * whole.small:5.1f} /{100 * whole.large:5.1f}  nDCG {whole.ndcg:.2f}  "
        f"p50 {1000 * times[len(times) // 2]:.0f} p95 {1000 * times[int(len(times) * 0.95)]:.0f} ms  {by_kind}, "
        f"nothing {sum(scores.nothing)} of {len(scores.nothing)}",
        flush=True,
    )


def awaited(ask: Callable[[str], list[Found]]) -> Ask:
    """Return a method that is not async as one that is."""

    async def found(question: str, budget: int) -> list[Found]:
        return ask(question)

    return found


async def run(
    name: str,
    language: str,
    ask: Ask,
    questions: list[Question],
    options: argparse.Namespace,
    *,
    packs: bool = False,
) -> None:
    """Measure a method, and print its figures. ``packs``: the method finds other lines within another budget."""
    times: list[float] = []

    async def timed(question: str, budget: int) -> list[Found]:
        begin = time.perf_counter()
        found = await ask(question, budget)
        times.append(time.perf_counter() - begin)
        return found

    scores = await measured(timed, questions, options.folder, misses=options.misses, packs=packs)
    report(name, language, scores, times)


async def run_rivals(language: str, questions: list[Question], options: argparse.Namespace) -> None:
    """Measure the plain ways, and the peers if they are wanted."""
    files = list(texts_of(options.folder, language))
    size = sum(len(text.encode()) for _, text in files) / 1e6
    for name, make in RIVALS.items():
        rival, begin = make(), time.process_time()
        rival.build(files)
        print(f"{language}: {name}: {size / max(time.process_time() - begin, 0.001):.1f} MB/s of a core")
        await run(name, language, awaited(rival.ask), questions, options)
    for name in PEERS if options.peers else ():
        texts = [each.question for each in questions]
        answers = answers_of(options.folder.parent / "peers", name, files, texts)
        print(f"{language}: {name}: {size / answers.index:.1f} MB/s of a core")
        found = dict(zip(texts, answers.found, strict=True))
        scores = await measured(awaited(found.__getitem__), questions, options.folder, misses=False, packs=False)
        report(name, language, scores, answers.seconds)


async def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("languages", nargs="*", default=LANGUAGES, help=f"of {', '.join(LANGUAGES)} (default: all)")
    parser.add_argument("--split", choices=("tune", "test"), help="only the questions of one half")
    parser.add_argument("--only", action="store_true", help="Carrel only")
    parser.add_argument("--peers", action="store_true", help="LlamaIndex and LangChain too, which are installed first")
    parser.add_argument("--misses", action="store_true", help="print the questions whose line is not in 8,000 tokens")
    parser.add_argument(
        "--embeddings",
        metavar="MODEL",
        help="rank by a model too: onnx:FOLDER, or minilm or static, which are made first",
    )
    parser.add_argument("--reranker", metavar="MODEL", help="rank the first passages again: onnx:FOLDER")
    parser.add_argument("--folder", type=Path, default=Path("build/retrieval/corpus"))
    options = parser.parse_args()
    build(options.folder)
    if options.embeddings in ("minilm", "static"):
        from .models import MODELS  # its packages are large

        options.embeddings = MODELS[options.embeddings](options.folder.parent / "models")
    for language in options.languages:
        questions = load(language, options.split)
        async with carrel(options.folder, language, embeddings=options.embeddings, reranker=options.reranker) as index:
            await run("Carrel, passages", language, passages(index, options.folder), questions, options)
            await run("Carrel, context", language, contexts(index, options.folder), questions, options, packs=True)
        if not options.only:
            await run_rivals(language, questions, options)


if __name__ == "__main__":
    asyncio.run(main())
