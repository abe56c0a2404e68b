"""Text of checked statements for MySQL and MariaDB."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.dialects.mysql import MySQL

__all__ = ["MySQLText"]


def regexp(generator: Any, node: exp.RegexpLike) -> str:
    """Return ``x RLIKE y``, in place of the function REGEXP_LIKE, which MariaDB does not have."""
    if node.args.get("flag") is not None:
        return str(generator.function_fallback_sql(node))
    sides = []
    for side in (node.this, node.expression):
        text = generator.sql(side)
        sides.append(text if isinstance(side, (exp.Column, exp.Literal, exp.Paren)) else f"({text})")
    text = " RLIKE ".join(sides)
    return text if isinstance(node.parent, exp.Paren) else f"({text})"


class MySQLText(MySQL.Generator):  # type: ignore[misc, valid-type]
    """Generator of statements that both MySQL and MariaDB read."""

    TRANSFORMS = {**MySQL.Generator.TRANSFORMS, exp.RegexpLike: regexp}  # noqa: RUF012
