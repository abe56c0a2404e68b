"""The clients of the comparison: scripts that run in separate environments."""
