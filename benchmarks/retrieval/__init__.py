"""Benchmark of retrieval: which passages a question brings into a budget of tokens. See docs/packed-context.md."""
