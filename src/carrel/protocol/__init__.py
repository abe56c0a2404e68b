"""The protocol without I/O: bytes to events, events to bytes. No event loop, no sockets, no clock.

``server`` and ``client`` are the state machines of the two ends of a connection, ``results`` is what a client reads
of an answer, ``revision`` says what a revision is and ``revisions`` holds the five of them, ``http`` has the header
rules, ``event_stream`` reads event streams, ``uri`` is RFC 3986, and ``uri_template`` is RFC 6570, on top of
``uri_expression`` and ``uri_tokens``; ``uri_matching``, with ``uri_graph`` and ``uri_values``, reads values back.
"""

#: The version of Carrel, which the other side is told.
VERSION = "0.1.0"
