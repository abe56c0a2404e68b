"""The extensions of the protocol that Carrel knows, one table each. See ``carrel.protocol.extension``."""
