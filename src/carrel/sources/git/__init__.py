"""Git repositories as resources (``git:`` URIs)."""
