"""Print the loans of data/loans.json as a bar chart of text: python loans.py"""

import json
from pathlib import Path

LOANS = Path(__file__).parent.parent / "data" / "loans.json"


def bars(loans: dict[str, int], width: int = 50) -> list[str]:
    """Return one line per month, the longest bar ``width`` characters long."""
    most = max(loans.values(), default=0) or 1
    return [f"{month}  {'#' * round(width * count / most)} {count}" for month, count in loans.items()]


if __name__ == "__main__":
    print(*bars(json.loads(LOANS.read_text(encoding="utf-8"))["loans"]), sep="\n")
