"""Files as resources."""
