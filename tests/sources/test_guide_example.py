"""The example of the documentation, held to the contract as the documentation says."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "writing-a-provider.md"

blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
exec(compile("\n".join(blocks[1:3]), str(GUIDE), "exec"))


def test_the_guide_has_an_example_and_its_tests() -> None:
    assert "class Notes(Provider):" in blocks[1]
    assert "class TestNotes(ProviderContract):" in blocks[2]
