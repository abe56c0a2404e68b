"""``python tests/support/parties``: install every outside party ahead of the tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.parties import prepare

prepare()
