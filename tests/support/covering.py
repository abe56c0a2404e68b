"""Choices of combinations in which each value of each parameter is at least once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

__all__ = ["covering"]


def covering(*values: Sequence[Any]) -> list[Any]:
    """Return each combination as the values of several parameters of a test, most of them for ``make exhaustive`` only.

    ``make test`` runs as many as the longest sequence has values. The last values of all sequences are one of them.
    """
    longest = max(map(len, values))
    chosen = {tuple(number % len(each) for each in values) for number in range(-longest, 0)}
    return [
        pytest.param(
            *(each[index] for each, index in zip(values, indexes, strict=True)),
            marks=() if indexes in chosen else pytest.mark.exhaustive,
        )
        for indexes in itertools.product(*(range(len(each)) for each in values))
    ]
