"""What travels: one struct per JSON object of the protocol, one module per page of the specification.

The structs are a superset of all revisions. A field that is UNSET is not on the wire; which fields and methods a
revision has is written in ``carrel.protocol.revisions`` and applied when a message is encoded.
"""
