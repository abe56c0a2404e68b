"""Protocol extensions that Carrel implements, one table each. See ``carrel.protocol.extension``."""
