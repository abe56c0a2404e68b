"""Which addresses are of the public Internet: see ``carrel.addresses``."""

from carrel.addresses import PublicResolver, is_public, public_connector, read_address

__all__ = ["PublicResolver", "is_public", "public_connector", "read_address"]
