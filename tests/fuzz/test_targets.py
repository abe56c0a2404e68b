"""Each fuzz target with a few inputs, the same in every run; ``run.py`` finds more in minutes."""

from __future__ import annotations

import os
from random import Random

import pytest

from fuzz.cleanup import cleanup
from fuzz.mutation import inputs
from fuzz.run import SEEDS, TARGETS

pytestmark = pytest.mark.slow

#: Inputs after the seeds, fewer where one takes longer; ``make exhaustive`` gives five times as many. All of them take
#: about a second.
COUNTS = {"statements": 50, "git-objects": 20, "feeds": 30}
MANY = 5 if "CARREL_EXHAUSTIVE" in os.environ else 1


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_finds_nothing_in_a_few_inputs(name: str) -> None:
    with cleanup:
        target = TARGETS[name]()
        for data in inputs(SEEDS[name], len(SEEDS[name]) + MANY * COUNTS.get(name, 60), Random(name)):
            try:
                target(data)
            except Exception as error:
                error.add_note(f"The input was {data!r}")
                raise
