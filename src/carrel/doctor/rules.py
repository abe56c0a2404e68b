"""Rules for servers: severity, requirement and page of the specification, and advice."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

__all__ = ["PENALTIES", "RULES", "DoctorRule", "Severity", "link"]

#: "error" breaks a MUST, or clients fail; "warning" breaks a SHOULD, or surprises clients; "advice" makes it better.
Severity: TypeAlias = Literal["error", "warning", "advice"]

#: Points that a finding takes from the score of 100, once however often it occurs.
PENALTIES: dict[Severity, int] = {"error": 15, "warning": 5, "advice": 1}
SITE = "https://modelcontextprotocol.io/specification"
#: Pages of the newest revision that older ones have under another name.
OLDER = {
    "basic/transports/stdio": "basic/transports",
    "basic/transports/streamable-http": "basic/transports",
    "basic/patterns/subscriptions": "server/resources",
    "basic/versioning": "basic/lifecycle",
}


class DoctorRule(msgspec.Struct, frozen=True):
    """Rule for servers: the title of its finding, the page of the specification, and what to do."""

    severity: Severity
    title: str
    page: str
    advice: str


RULES: dict[str, DoctorRule] = {
    "schema": DoctorRule(
        "error",
        "A message does not match the JSON schema of the revision",
        "basic",
        "Send the fields that the schema requires, with their types; clients may reject the whole message.",
    ),
    "noise": DoctorRule(
        "error",
        "Standard output has lines that are not messages",
        "basic/transports/stdio",
        "Print to standard error; on stdio, standard output belongs to the protocol alone.",
    ),
    "stderr": DoctorRule(
        "advice",
        "Much is written to standard error",
        "basic/transports/stdio",
        "Log less by default; clients keep or show these lines.",
    ),
    "refused": DoctorRule(
        "error",
        "A request for a declared capability fails",
        "basic/versioning",
        "Answer the request, or do not declare the capability.",
    ),
    "silent": DoctorRule(
        "error",
        "A request is not answered",
        "basic",
        "Send a response to every request: a result, or an error with the id of the request.",
    ),
    "cursor-loop": DoctorRule(
        "error",
        "The pages of a list do not end",
        "server/utilities/pagination",
        "Leave out nextCursor on the last page, and never return the same cursor twice.",
    ),
    "bad-cursor": DoctorRule(
        "warning",
        "An invalid cursor is not refused with -32602",
        "server/utilities/pagination",
        "Check cursors, and answer invalid ones with the error -32602 (invalid params).",
    ),
    "plain-cursor": DoctorRule(
        "advice",
        "A cursor is a plain number",
        "server/utilities/pagination",
        "Make cursors opaque, so that clients do not compute their own.",
    ),
    "unstable-list": DoctorRule(
        "warning",
        "A list has another order, or other items, in the second request",
        "server/utilities/pagination",
        "Sort lists, so that pages neither repeat nor lose items.",
    ),
    "long-page": DoctorRule(
        "advice",
        "A page has more than 1000 items",
        "server/utilities/pagination",
        "Return the list in pages, with nextCursor.",
    ),
    "duplicate": DoctorRule(
        "error",
        "Several items of a list have the same name or URI",
        "server/tools",
        "Give each item its own name or URI: a client can reach only one of them.",
    ),
    "undescribed": DoctorRule(
        "advice",
        "Something has no description",
        "server/tools",
        "Describe it: a model chooses by descriptions, a user by titles.",
    ),
    "undescribed-argument": DoctorRule(
        "advice",
        "Arguments of tools or prompts have no description",
        "server/tools",
        "Describe each argument in the schema, with its format and an example.",
    ),
    "tool-name": DoctorRule(
        "warning",
        "The name of a tool has characters that applications refuse",
        "server/tools",
        "Use 1 to 128 letters, digits, underscores, hyphens and dots.",
    ),
    "bad-uri": DoctorRule(
        "error",
        "A URI or URI template is not valid",
        "server/resources",
        "Escape what RFC 3986 and RFC 6570 do not allow.",
    ),
    "tool-schema": DoctorRule(
        "error",
        "The schema of a tool is not valid JSON Schema",
        "server/tools",
        "Correct the schema; clients and models cannot use the tool.",
    ),
    "unstructured": DoctorRule(
        "error",
        "A tool with an output schema returns no structured content",
        "server/tools",
        "Return structuredContent that conforms to the outputSchema, or leave the schema out.",
    ),
    "mismatch": DoctorRule(
        "error",
        "Structured content does not match the tool's output schema",
        "server/tools",
        "Return a result that conforms to the outputSchema; clients validate it.",
    ),
    "unreadable": DoctorRule(
        "error",
        "A listed resource cannot be read",
        "server/resources",
        "List only resources that can be read, or answer with the right error while they are gone.",
    ),
    "wrong-code": DoctorRule(
        "warning",
        "A wrong request is answered with another error code than the specification has for it",
        "basic",
        "Use -32601 for unknown methods, -32602 for invalid parameters.",
    ),
    "no-error": DoctorRule(
        "error",
        "A wrong request is not answered with an error",
        "basic",
        "Validate the parameters, and answer with an error.",
    ),
    "subscription": DoctorRule(
        "error",
        "Subscriptions are declared, and do not work",
        "basic/patterns/subscriptions",
        "Acknowledge the subscription, or do not declare it.",
    ),
    "unannounced": DoctorRule(
        "warning",
        "A resource or list has changed, and subscribers were not notified",
        "basic/patterns/subscriptions",
        "Send the notification after each change, or do not declare listChanged and subscribe.",
    ),
    "undeclared": DoctorRule(
        "warning",
        "Notifications arrive that are not declared, or not subscribed to",
        "basic/patterns/subscriptions",
        "Declare listChanged, and send updates only to subscribers.",
    ),
    "ping": DoctorRule("error", "A ping is not answered", "basic", "Answer ping with an empty result, at any time."),
    "slow": DoctorRule(
        "warning",
        "Answers take long",
        "basic",
        "Keep the event loop free: a ping should take milliseconds, a list less than a second.",
    ),
    "died": DoctorRule(
        "error",
        "The server does not survive a malformed message",
        "basic",
        "Answer with an error, or ignore the message; limit sizes and depths.",
    ),
    "id": DoctorRule(
        "error",
        "A response does not have the id of its request",
        "basic",
        "Copy the id as it is, be it a string or a number.",
    ),
    "traversal": DoctorRule(
        "error",
        "A resource template reads files outside of its folder",
        "server/resources",
        "Resolve paths and check that they stay inside; refuse '..' and its encodings.",
    ),
}


def link(rule: DoctorRule, revision: str) -> str:
    """Return the address of the page about a rule, in the specification of a revision."""
    page = rule.page if revision >= "2026" else OLDER.get(rule.page, rule.page)
    return f"{SITE}/{revision}/{page}"
