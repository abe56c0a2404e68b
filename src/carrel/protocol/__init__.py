"""The protocol without I/O: bytes to events, events to bytes. No event loop, no sockets, no clock.

``server`` is the state machine of one connection, ``revision`` says what a revision is and ``revisions`` holds the five
of them, ``http`` has the header rules and the event-stream format, ``uri`` and ``uri_template`` RFC 3986 and RFC 6570.
"""
