"""Wire types of the protocol: one struct per JSON object, one module per page of the specification.

The structs are a superset of all revisions. A field that may be absent is None by default. The fields and methods of
each revision are defined in ``carrel.protocol.revisions`` and applied when a message is encoded.
"""
