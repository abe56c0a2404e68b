"""Each fuzz target with a few inputs, the same in every run; ``run.py`` finds more in minutes."""

from __future__ import annotations

from random import Random

import pytest

from fuzz.cleanup import cleanup
from fuzz.mutation import inputs
from fuzz.run import SEEDS, TARGETS

pytestmark = pytest.mark.slow

#: Inputs after the seeds, fewer where one takes longer. All of them take about 5 seconds.
COUNTS = {"statements": 250, "git-objects": 100, "feeds": 150}


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_finds_nothing_in_a_few_inputs(name: str) -> None:
    with cleanup:
        target = TARGETS[name]()
        for data in inputs(SEEDS[name], len(SEEDS[name]) + COUNTS.get(name, 300), Random(name)):
            try:
                target(data)
            except Exception as error:
                error.add_note(f"The input was {data!r}")
                raise
