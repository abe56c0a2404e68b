"""Exceptions of user functions: logged, and turned into errors that may be sent to the client.

An exception that is hidden from the client has a reference, which is in the response and in the log.
"""

from __future__ import annotations

import os
import signal

from carrel.errors import INTERNAL_ERROR, ConfigError, MCPError, ProtocolError, ResourceError, ToolError
from carrel.log import Log
from carrel.wire.content import TextContent
from carrel.wire.tools import CallToolResult

__all__ = ["MaskedError", "is_interrupt", "log_failure", "message_of", "public_error", "tool_error"]

log = Log("carrel")


class MaskedError(ProtocolError):
    """Internal error sent to a client in place of one that is hidden from it."""

    code = INTERNAL_ERROR

    def __init__(self, reference: str) -> None:
        super().__init__(f"Internal error, reference {reference}")


def is_interrupt(error: BaseException) -> bool:
    """Return whether this is Ctrl-C, where nothing else handles the signal, rather than raised by a function."""
    return isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def log_failure(name: str, error: BaseException) -> str:
    """Log an error, with its traceback unless Carrel raised it on purpose, and return its reference in the log."""
    reference = os.urandom(4).hex()
    if isinstance(error, MCPError) and not isinstance(error, ConfigError):  # raised on purpose: no traceback is needed
        log.warning("%s failed, reference %s: %s", name, reference, message_of(error))
    else:
        log.error("%s failed, reference %s", name, reference, exc_info=error)
    return reference


def public_error(name: str, error: BaseException) -> BaseException:
    """Return the error to send to a client: one of the protocol or of a resource as it is, else a logged reference."""
    return error if isinstance(error, ProtocolError | ResourceError) else MaskedError(log_failure(name, error))


def message_of(error: BaseException) -> str:
    """Return the message of an error as text that can be sent, or else its type."""
    try:
        words = str(error)
    except BaseException:
        words = ""
    name = type(error).__name__
    if words and not isinstance(error, Exception):
        words = f"{name}: {words}"  # the message of a SystemExit is a number
    return (words or name).encode("utf-8", "backslashreplace").decode()


def tool_error(name: str, error: ToolError) -> CallToolResult:
    """Return the result of a tool call that ended with a ``ToolError`` of a provider or of middleware."""
    log.info("tool %s failed: %s", name, words := message_of(error))
    return CallToolResult(content=[TextContent(words)], is_error=True)
