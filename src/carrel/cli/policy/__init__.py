"""Commands for access policies and tokens."""
