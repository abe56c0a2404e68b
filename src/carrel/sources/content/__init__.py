"""Parts and types of contents, for all sources."""
