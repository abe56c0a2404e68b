"""Sans-I/O implementation of the Model Context Protocol: no event loop, no sockets, no clock.

``connection`` is the base of both ends of a connection, with its states as a table; ``server`` and ``client`` are the
two roles on top of it. ``methods`` is the table of all methods, ``results`` decodes responses for the client,
``revision`` defines a protocol revision and ``revisions`` the five of them, ``extension`` and ``extensions`` do the
same for extensions, ``http`` has the rules of Streamable HTTP, ``sse`` parses server-sent events, and ``json_schema``
validates values.
"""

#: The version of Carrel, which is sent to the peer.
VERSION = "0.1.0"
