"""``python tests/parties``: install every outside party ahead of the tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from parties import prepare

prepare()
