"""The clients of the comparison: scripts that run in environments of their own."""
