"""Base of the models of ``mcp`` 1, by which the models of ``mcp`` 2 know them without importing them."""

__all__ = ["EarlierModel"]


class EarlierModel:
    """Base of every model of ``mcp`` 1."""

    __slots__ = ()
