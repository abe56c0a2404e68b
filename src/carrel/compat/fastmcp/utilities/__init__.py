"""Parts of the face of ``fastmcp``."""
