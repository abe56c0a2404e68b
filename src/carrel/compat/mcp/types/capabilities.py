"""Capabilities of clients and servers."""

from typing import Any

from carrel.compat.mcp.types.base import Model


class RootsCapability(Model):
    """Capability of roots."""

    listChanged: bool | None = None


class SamplingContextCapability(Model):
    """Capability of sampling context."""


class SamplingToolsCapability(Model):
    """Capability of sampling tools."""


class FormElicitationCapability(Model):
    """Capability of form elicitation."""


class UrlElicitationCapability(Model):
    """Capability of url elicitation."""


class ElicitationCapability(Model):
    """Capability of elicitation."""

    form: FormElicitationCapability | None = None
    url: UrlElicitationCapability | None = None


class SamplingCapability(Model):
    """Capability of sampling."""

    context: SamplingContextCapability | None = None
    tools: SamplingToolsCapability | None = None


class TasksListCapability(Model):
    """Capability of tasks list."""


class TasksCancelCapability(Model):
    """Capability of tasks cancel."""


class TasksCreateMessageCapability(Model):
    """Capability of tasks create message."""


class TasksSamplingCapability(Model):
    """Capability of tasks sampling."""

    createMessage: TasksCreateMessageCapability | None = None


class TasksCreateElicitationCapability(Model):
    """Capability of tasks create elicitation."""


class TasksElicitationCapability(Model):
    """Capability of tasks elicitation."""

    create: TasksCreateElicitationCapability | None = None


class ClientTasksRequestsCapability(Model):
    """Capability of client tasks requests."""

    sampling: TasksSamplingCapability | None = None
    elicitation: TasksElicitationCapability | None = None


class ClientTasksCapability(Model):
    """Capability of client tasks."""

    list: TasksListCapability | None = None
    cancel: TasksCancelCapability | None = None
    requests: ClientTasksRequestsCapability | None = None


class ClientCapabilities(Model):
    """Capabilities of a client."""

    experimental: dict[str, dict[str, Any]] | None = None
    sampling: SamplingCapability | None = None
    elicitation: ElicitationCapability | None = None
    roots: RootsCapability | None = None
    tasks: ClientTasksCapability | None = None


class PromptsCapability(Model):
    """Capability of prompts."""

    listChanged: bool | None = None


class ResourcesCapability(Model):
    """Capability of resources."""

    subscribe: bool | None = None
    listChanged: bool | None = None


class ToolsCapability(Model):
    """Capability of tools."""

    listChanged: bool | None = None


class LoggingCapability(Model):
    """Capability of logging."""


class CompletionsCapability(Model):
    """Capability of completions."""


class TasksCallCapability(Model):
    """Capability of tasks call."""


class TasksToolsCapability(Model):
    """Capability of tasks tools."""

    call: TasksCallCapability | None = None


class ServerTasksRequestsCapability(Model):
    """Capability of server tasks requests."""

    tools: TasksToolsCapability | None = None


class ServerTasksCapability(Model):
    """Capability of server tasks."""

    list: TasksListCapability | None = None
    cancel: TasksCancelCapability | None = None
    requests: ServerTasksRequestsCapability | None = None


class ServerCapabilities(Model):
    """Capabilities of a server."""

    experimental: dict[str, dict[str, Any]] | None = None
    logging: LoggingCapability | None = None
    prompts: PromptsCapability | None = None
    resources: ResourcesCapability | None = None
    tools: ToolsCapability | None = None
    completions: CompletionsCapability | None = None
    tasks: ServerTasksCapability | None = None
