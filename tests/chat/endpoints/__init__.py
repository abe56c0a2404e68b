"""Endpoints of language model vendors: they speak the vendors' wire formats on a local port, and answer from a script.

    with anthropic_endpoint([Answer(CallTool("add", {"a": 1})), Answer(Say("2"))]) as endpoint:
        ...  # endpoint.url, endpoint.environment; afterwards endpoint.requests, endpoint.refusals

They are strict: a request that the vendor would refuse is refused, with the vendor's status and in its format.
"""

from chat.endpoints.anthropic import anthropic_endpoint
from chat.endpoints.gemini import gemini_endpoint
from chat.endpoints.openai import openai_endpoint
from chat.endpoints.party import KEY, Endpoint, Received
from chat.endpoints.script import (
    Answer,
    Break,
    CallTool,
    Decline,
    Draw,
    FailInStream,
    Failure,
    Hold,
    Say,
    Script,
    Speak,
    Think,
    Tokens,
)

__all__ = [
    "KEY",
    "Answer",
    "Break",
    "CallTool",
    "Decline",
    "Draw",
    "Endpoint",
    "FailInStream",
    "Failure",
    "Hold",
    "Received",
    "Say",
    "Script",
    "Speak",
    "Think",
    "Tokens",
    "anthropic_endpoint",
    "gemini_endpoint",
    "openai_endpoint",
]
