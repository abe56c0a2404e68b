"""Files as resources (``file:`` URIs)."""
