"""Texts of the warnings about deprecated parts of the protocol."""

__all__ = ["LOGGING", "PING", "PROGRESS", "ROOTS", "SAMPLING", "SUBSCRIBE", "UNSUBSCRIBE"]

LOGGING = "The logging capability is deprecated as of 2026-07-28 (SEP-2577)."
SAMPLING = "The sampling capability is deprecated as of 2026-07-28 (SEP-2577)."
ROOTS = "The roots capability is deprecated as of 2026-07-28 (SEP-2577)."
PING = "ping is removed as of 2026-07-28; the method only works under mode='legacy'."
PROGRESS = "Client-to-server progress is deprecated as of 2026-07-28; progress is server-to-client only."
SUBSCRIBE = "resources/subscribe is removed as of 2026-07-28; use Client.listen() instead."
UNSUBSCRIBE = "resources/unsubscribe is removed as of 2026-07-28; use Client.listen() instead."
