"""Measures of retrieval: recall within a budget of tokens, nDCG@10, and times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from carrel.vendors.token_estimate import estimate_tokens

from .questions import Line
from .rivals import Found

__all__ = ["BUDGETS", "Score", "mean", "score"]

BUDGETS = (2000, 8000)
#: Tokens of the heading of a passage: its file and lines.
HEADING = 15


class Score(NamedTuple):
    """Shares from 0 to 1: of the needed lines within each budget, and nDCG@10 of the list."""

    small: float
    large: float
    ndcg: float


def score(small: Sequence[Found], found: Sequence[Found], needed: Sequence[Line]) -> Score:
    """Return the scores of what a method found for a question within the small and the large budget, best first."""
    gains = [any(covers(each, line) for line in needed) for each in found[:10]]
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(needed))))
    seen: set[Line] = set()
    gained = 0.0
    for rank, (each, gain) in enumerate(zip(found, gains, strict=False)):
        lines = {line for line in needed if covers(each, line)} - seen
        if gain and lines:
            gained += 1 / math.log2(rank + 2)
            seen |= lines
    within = recall(small, needed, BUDGETS[0]), recall(found, needed, BUDGETS[1])
    return Score(*within, gained / ideal)


def recall(found: Sequence[Found], needed: Sequence[Line], budget: int) -> float:
    """Return the share of needed lines in the passages that fit into a budget, in their order.

    The passage that does not fit as a whole is cut at a line, and is the last one.
    """
    seen: set[Line] = set()
    for each in found:
        tokens = estimate_tokens(each.text) + HEADING
        if tokens > budget:
            lines = each.text.split("\n")
            kept, used = 0, HEADING
            while kept < len(lines) and (used := used + estimate_tokens(lines[kept] + "\n")) <= budget:
                kept += 1
            each = each._replace(last=each.first + kept - 1)
        seen |= {line for line in needed if covers(each, line)}
        budget -= tokens
        if budget <= HEADING:
            break
    return len(seen) / len(needed)


def covers(found: Found, line: Line) -> bool:
    """Return whether a passage has a line."""
    return found.file == line[0] and found.first <= line[1] <= found.last


def mean(scores: Sequence[Score]) -> Score:
    """Return the means of scores."""
    return Score(*(sum(column) / len(scores) for column in zip(*scores, strict=True)))
