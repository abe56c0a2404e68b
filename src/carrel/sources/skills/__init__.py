"""Agent Skills as resources."""
