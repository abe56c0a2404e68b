"""Hostile input: malformed and huge messages, and path traversal through templates. The server has to survive it."""

from __future__ import annotations

import msgspec

from carrel.doctor.subject import Subject
from carrel.uri.template import UriTemplate, UriTemplateError

__all__ = ["check_hostile"]

DEPTH = 5000
PATHS = (
    "../../../../../../../../etc/passwd",
    "..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
    "/etc/passwd",
    "....//" * 8,
)
#: The beginning of /etc/passwd.
SECRET = "root:"  # noqa: S105
PATIENCE = 3.0


async def check_hostile(subject: Subject) -> None:
    """Send invalid and hostile messages. After each one, the server must answer a ping."""
    method = "server/discover" if subject.stateless else "ping"
    params = msgspec.json.encode(subject.with_meta({}))
    for id in ("x" * 10_000, 2**53 - 1, "\u0000\u2028\U0001f4da"):
        response = await subject.ask(method, id=id, timeout=PATIENCE)
        subject.report.check("hostile")
        shown = f"{id[:10]!r} ({len(id)} characters)" if isinstance(id, str) else str(id)
        if response.failure is not None and not await survives(subject, f"an id {shown}"):
            continue
        if response.failure is not None:
            subject.find("id", f"{shown}: {response.failure}")
    head = b'{"jsonrpc":"2.0","id":"deep","method":"' + method.encode() + b'","params":'
    malformed = {
        "JSON that is nested 5000 levels deep": head + b'{"a":' * DEPTH + b"1" + b"}" * DEPTH + b"}",
        "a message that is not JSON": b"this is not JSON",
        "bytes that are not UTF-8": head + b'{"a":"\xff\xfe"}}',
        "a message that is a number": b"42",
        "a request without a method": b'{"jsonrpc":"2.0","id":"deep"}',
        "a request with an object as its id": b'{"jsonrpc":"2.0","id":{},"method":"ping","params":' + params + b"}",
        "parameters that are a string": head + b'"x"}',
    }
    for about, data in malformed.items():
        await subject.ask(method, id="deep", data=data, timeout=PATIENCE / 3)
        subject.report.check("hostile")
        await survives(subject, about)
    await check_traversal(subject)


async def survives(subject: Subject, about: str) -> bool:
    """Return whether the server still answers on the same connection, and add a finding if not."""
    before = subject.client.session.connection
    if await subject.alive() and subject.client.session.connection is before:
        return True
    subject.find("died", about)
    return False


async def check_traversal(subject: Subject) -> None:
    for item in subject.lists.get("resourceTemplates", []):
        try:
            template = UriTemplate(str(item.get("uriTemplate")))
        except UriTemplateError:
            continue  # a finding already
        names = [variable.name for variable in template.variables]
        for name in names:
            for path in PATHS:
                uri = str(item["uriTemplate"])
                for other in names:  # as text: template expansion would escape the attack
                    uri = uri.replace(f"{{+{other}}}", f"{{{other}}}")
                    uri = uri.replace(f"{{{other}}}", path if other == name else "x")
                if "{" in uri:
                    continue
                response = await subject.ask("resources/read", {"uri": uri}, name=uri, timeout=PATIENCE)
                subject.report.check("hostile")
                if SECRET in str(response.result):
                    subject.find("traversal", uri)
