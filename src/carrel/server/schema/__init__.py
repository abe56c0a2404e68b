"""Signatures of functions as JSON Schema, and arguments read by them."""
