"""The five protocol revisions, newest first.

A method or field that a revision does not list does not exist for its peers.
"""

from collections.abc import Mapping

import msgspec

from carrel.protocol.methods import NotificationType, RequestType
from carrel.protocol.projection import Projections
from carrel.protocol.revision import Revision
from carrel.protocol.revisions import v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28

__all__ = ["CLIENT_NOTIFICATIONS", "LATEST", "LATEST_HANDSHAKE", "REQUESTS", "REVISIONS", "SERVER_REQUESTS"]

WRITTEN = [module.REVISION for module in (v2026_07_28, v2025_11_25, v2025_06_18, v2025_03_26, v2024_11_05)]

#: Every revision by its name, newest first.
REVISIONS: Mapping[str, Revision] = {
    revision.name: msgspec.structs.replace(
        revision, projections=Projections([*(newer.before for newer in WRITTEN[:age]), revision.drops])
    )
    for age, revision in enumerate(WRITTEN)
}

LATEST = next(iter(REVISIONS.values()))
LATEST_HANDSHAKE = next(revision for revision in REVISIONS.values() if not revision.stateless)

#: Requests of all revisions: a request has to be decoded before its revision is known.
REQUESTS: Mapping[str, RequestType] = {
    method: row for revision in reversed(list(REVISIONS.values())) for method, row in revision.requests.items()
}
CLIENT_NOTIFICATIONS: Mapping[str, NotificationType] = {
    method: row
    for revision in reversed(list(REVISIONS.values()))
    for method, row in revision.client_notifications.items()
}
#: Requests that servers may send to clients.
SERVER_REQUESTS: Mapping[str, RequestType] = {
    row.method: row for revision in REVISIONS.values() for row in revision.server_requests.values()
}
