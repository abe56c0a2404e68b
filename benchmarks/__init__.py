"""Carrel next to its peers: one command, one run, ratios to a bare server. See docs/benchmarks.md."""
