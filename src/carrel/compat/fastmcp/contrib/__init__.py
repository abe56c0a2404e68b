"""Additions to servers."""
