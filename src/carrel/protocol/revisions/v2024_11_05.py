"""2024-11-05, the first revision. https://modelcontextprotocol.io/specification/2024-11-05"""

from carrel.protocol.methods import (
    CALL_TOOL,
    CANCELLED,
    COMPLETE,
    GET_PROMPT,
    INITIALIZE,
    INITIALIZED,
    LIST_PROMPTS,
    LIST_RESOURCE_TEMPLATES,
    LIST_RESOURCES,
    LIST_ROOTS,
    LIST_TOOLS,
    MESSAGE,
    PING,
    PROGRESS,
    PROMPTS_LIST_CHANGED,
    READ_RESOURCE,
    RESOURCE_UPDATED,
    RESOURCES_LIST_CHANGED,
    ROOTS_LIST_CHANGED,
    SAMPLE,
    SET_LEVEL,
    SUBSCRIBE,
    TOOLS_LIST_CHANGED,
    UNSUBSCRIBE,
)
from carrel.protocol.revision import Revision

REQUESTS = (
    *(INITIALIZE, PING, LIST_RESOURCES, LIST_RESOURCE_TEMPLATES, READ_RESOURCE, SUBSCRIBE, UNSUBSCRIBE),
    *(LIST_PROMPTS, GET_PROMPT, LIST_TOOLS, CALL_TOOL, SET_LEVEL, COMPLETE),
)
CLIENT_NOTIFICATIONS = (INITIALIZED, CANCELLED, PROGRESS, ROOTS_LIST_CHANGED)
EVENTS = (
    *(CANCELLED, MESSAGE, PROGRESS, PROMPTS_LIST_CHANGED, RESOURCE_UPDATED, RESOURCES_LIST_CHANGED),
    TOOLS_LIST_CHANGED,
)

REVISION = Revision(
    name="2024-11-05",
    requests={row.method: row for row in REQUESTS},
    client_notifications={row.method: row for row in CLIENT_NOTIFICATIONS},
    server_requests={row.operation: row for row in (LIST_ROOTS, SAMPLE)},
    events={row.operation: row for row in EVENTS},
)
