"""Recorded sessions: ``record`` and ``replay``."""
