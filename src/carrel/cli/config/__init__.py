"""``carrel.toml``: reading, checking and writing it."""
