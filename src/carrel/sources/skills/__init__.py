"""Agent Skills as resources (``skill:`` URIs)."""
