"""Logs as resources (``logs:`` URIs): recent entries by time, level and pattern."""
