"""A soak: every attack at once against one server, beside honest clients. `python -m benchmarks.soak`."""
