"""JSON Schema from function signatures, and decoding of arguments by them."""
