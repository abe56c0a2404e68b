"""``carrel chat``."""
