"""How many examples the tests with generated input try."""

import os

__all__ = ["examples"]


def examples(number: int) -> int:
    """Return the number of examples, times ``CARREL_EXAMPLES``, for a search that takes longer than ``make test``."""
    return round(number * float(os.environ.get("CARREL_EXAMPLES", "1")))
