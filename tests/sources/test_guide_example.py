"""The example of the documentation, held to the contract as the documentation says."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "writing-a-provider.md"

blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
example = next(block for block in blocks if "class Notes(Provider):" in block)
checks = next(block for block in blocks if "class TestNotes(ProviderContract):" in block)
exec(compile(f"{example}\n{checks}", str(GUIDE), "exec"))


def test_the_guide_has_one_example_with_its_tests() -> None:
    assert sum("class Notes(Provider):" in block for block in blocks) == 1
    assert sum("class TestNotes(ProviderContract):" in block for block in blocks) == 1
