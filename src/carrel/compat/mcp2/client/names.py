"""Names of the package that have another name in its types."""

from carrel.compat.mcp2.types.base import Role as SamplingRole

__all__ = ["SamplingRole"]
