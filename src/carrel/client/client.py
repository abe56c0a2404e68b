"""MCP client for servers of every protocol revision: resources, tools, tasks, skills, prompts, completion and logging.

https://modelcontextprotocol.io/specification/2026-07-28
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import UNSET, Raw

from carrel.client.cached_session import CachedSession
from carrel.client.connection import Progress
from carrel.client.endpoints import Target, find_endpoint
from carrel.client.handlers import ClientHandlers, FormHandler, PageHandler, RootsSource, SampleHandler
from carrel.client.known_tools import KnownTools
from carrel.client.retry import Retries
from carrel.client.session import LogReceiver, Wait
from carrel.client.watch import Watch
from carrel.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    ConfigError,
    PeerError,
    RequestTimeout,
    ResourceError,
    ResourceNotFound,
)
from carrel.log import Log
from carrel.protocol import VERSION
from carrel.protocol.client import Notification
from carrel.protocol.encoding import encode
from carrel.protocol.extension import Extension
from carrel.protocol.extensions.tasks import GET_TASK, TASKS
from carrel.protocol.methods import (
    CALL_TOOL,
    COMPLETE,
    DISCOVER,
    FETCH_TASK_RESULT,
    GET_PROMPT,
    LIST_PROMPTS,
    LIST_RESOURCE_TEMPLATES,
    LIST_RESOURCES,
    LIST_TASKS,
    LIST_TOOLS,
    PING,
    READ_RESOURCE,
    ROOTS_LIST_CHANGED,
    SET_LEVEL,
    Request,
)
from carrel.protocol.revisions import REVISIONS
from carrel.transports.client.transport import Credentials
from carrel.wire.base import Implementation, LoggingLevel, PageParams, Params
from carrel.wire.completion import (
    CompleteParams,
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)
from carrel.wire.prompts import GetPromptParams, GetPromptResult, Prompt
from carrel.wire.resources import (
    BlobResourceContents,
    ReadResourceParams,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)
from carrel.wire.tasks import CreateTaskResult, DetailedTask, ListTasksParams, TaskParams
from carrel.wire.tools import CallToolParams, CallToolResult, TaskRequest, Tool
from carrel.wire.utilities import SEVERITY, SetLevelParams

if TYPE_CHECKING:
    from carrel.client.cache import Cache
    from carrel.client.skills import Skill
    from carrel.client.tasks import ToolTask

__all__ = ["Client"]

logger = Log("carrel.client")

Contents: TypeAlias = TextResourceContents | BlobResourceContents


class Client(CachedSession):
    """MCP client of one server, which reconnects when the connection is lost.

        async with Client("https://example.org/mcp") as client:
            async for resource in client.resources(): ...
            contents = await client.read("book://lem/solaris")

    Use it as an async context manager. Concurrent use by several asyncio tasks is safe.

    Args:
        target: a URL, a command as a list, a ``carrel.Server`` in this process, or a function that returns a transport.
        name: name of this client in its client info; with ``version`` and ``title``.
        revision: the only revision to speak, instead of the newest that both sides support.
        timeout: seconds until a request times out, restarted by every progress notification. None: no limit.
        patience: seconds without a response to the first request until the initialize handshake is tried.
        retries: retry policy.
        elicit_form: handler of form elicitation, not declared without it. See ``carrel.client.handlers.Form``.
        elicit_url: handler of URL elicitation. See ``carrel.client.handlers.Page``.
        sample: handler of sampling; ``sample_tools`` declares that it supports tools.
        roots: the directories and files that servers may work on, or a function that returns them.
        log: receives the log messages of the server, from ``log_level`` up.
        extensions: settings of further extensions to declare, by identifier.
        cache: response cache. See ``carrel.client.cache``.
        fetch_web: fetch resources with https: URIs directly from the web, without the server.
        headers, auth: for URLs: headers of every request; a bearer token, or credentials such as those of
            ``carrel.security.client``.
        env, cwd, stderr: for commands: environment variables, working directory, and a callback for each line that the
            server writes to its standard error.

    Raises:
        ConfigError: an option is invalid.
    """

    def __init__(
        self,
        target: Target,
        *,
        name: str = "carrel",
        version: str | None = None,
        title: str | None = None,
        revision: str | None = None,
        timeout: float | None = 60.0,
        patience: float = 5.0,
        retries: Retries | None = None,
        elicit_form: FormHandler | None = None,
        elicit_url: PageHandler | None = None,
        sample: SampleHandler | None = None,
        sample_tools: bool = False,
        roots: RootsSource | None = None,
        log: LogReceiver | None = None,
        log_level: LoggingLevel | None = None,
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
        cache: Cache | None = None,
        fetch_web: bool = False,
        headers: Mapping[str, str] | None = None,
        auth: Credentials | str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stderr: Callable[[str], None] | None = None,
    ) -> None:
        if revision is not None and revision not in REVISIONS:
            raise ConfigError(f"there is no revision {revision!r}; they are {', '.join(REVISIONS)}")
        check_level(log_level)
        for identifier in extensions or ():
            Extension(name=identifier)  # validates the identifier
        super().__init__(
            find_endpoint(target, headers=headers, auth=auth, env=env, cwd=cwd, stderr=stderr),
            Implementation(name, VERSION if version is None else version, title=UNSET if title is None else title),
            ClientHandlers(
                elicit_form=elicit_form, elicit_url=elicit_url, sample=sample, sample_tools=sample_tools, roots=roots
            ),
            {
                TASKS.name: {},
                **({} if auth is None or isinstance(auth, str) else auth.extensions),
                **(extensions or {}),
            },
            wanted=None if revision is None else REVISIONS[revision],
            timeout=timeout,
            patience=patience,
            retries=Retries() if retries is None else retries,
            log=log,
            log_level=log_level,
            cache=cache,
        )
        self._fetch_web = fetch_web
        self._tools = KnownTools()

    async def __aenter__(self) -> Client:
        self._open = True
        try:
            await self.connect()
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Close every watch, fail pending requests, and close the connection. May be called more than once."""
        await super().close()
        if self._way.credentials is not None:
            await self._way.credentials.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Resources

    async def resources(self) -> AsyncIterator[Resource]:
        """Iterate over the resources. Pages are fetched on demand."""
        async for page in self.pages(LIST_RESOURCES, PageParams()):
            for resource in page.resources:
                yield resource

    async def resource_templates(self) -> AsyncIterator[ResourceTemplate]:
        """Iterate over the resource templates."""
        async for page in self.pages(LIST_RESOURCE_TEMPLATES, PageParams()):
            for template in page.resource_templates:
                yield template

    async def directory(self, uri: str) -> AsyncIterator[Resource]:
        """Iterate over the direct children of a directory resource.

        https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx

        Raises:
            MethodNotFound: the server does not support reading directories.
            PeerError: there is no such directory.
        """
        from carrel.client.skills import read_directory

        async for resource in read_directory(self, uri):
            yield resource

    async def read(
        self,
        uri: str,
        *,
        timeout: Wait = UNSET,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> list[Contents]:
        """Read a resource: text contents are str, blobs are bytes.

        https://modelcontextprotocol.io/specification/2026-07-28/server/resources#reading-resources

        Raises:
            ResourceNotFound: there is no such resource.
            PeerError: the server responded with another error.
        """
        if self._fetch_web and uri[:8].lower() == "https://":
            from carrel.client.web_resources import fetch

            try:
                return await fetch(uri)
            except (ResourceError, RequestTimeout) as error:
                logger.info("asked of the server: %s", error)
        params = ReadResourceParams(uri=uri)
        try:
            if self._cache is None or progress is not None or meta is not None:
                result = await self.request(READ_RESOURCE, params, timeout=timeout, progress=progress, meta=meta)
            else:
                result = await self._cached(READ_RESOURCE, params, timeout=timeout)
        except PeerError as error:
            if is_not_found(error, uri, self._facts.revision.not_found):
                raise ResourceNotFound(uri) from error
            raise
        contents: list[Contents] = result.contents
        return contents

    def watch(self, *uris: str, lists: Iterable[Literal["resources", "tools", "prompts"]] = ()) -> Watch:
        """Subscribe to changes of resources, and of lists.

            async with client.watch("book://lem/solaris", lists=["resources"]) as changes:
                async for change in changes: ...

        https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions

        Raises:
            MethodNotFound: the server does not support subscriptions (when the watch is entered).
        """
        return Watch(self, uris, tuple(lists))

    # Tools

    async def tools(self) -> AsyncIterator[Tool]:
        """Iterate over the tools. Their annotations are untrusted hints, not permissions."""
        mirrored = (await self.connect()).transport.mirrors and self.stateless
        async for page in self.pages(LIST_TOOLS, PageParams()):
            for tool in self._tools.take(page.tools, mirrored=mirrored):
                yield tool
        self._tools.complete = True

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: Wait = UNSET,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
        repeatable: bool = False,
    ) -> CallToolResult:
        """Call a tool and return its result; ``is_error`` is set if the tool failed.

        If the server creates a task, its result is awaited. ``repeatable``: retry the call after a lost connection.

        https://modelcontextprotocol.io/specification/2026-07-28/server/tools#calling-tools

        Raises:
            PeerError: there is no such tool, or the arguments are invalid.
            InvalidMessage: the result does not match the tool's output schema.
        """
        if self._has_tasks and await self.may_be_task(name, required=True):
            result: Any = await (await self.start_tool(name, arguments, meta=meta)).result()
        else:
            params = CallToolParams(name=name, arguments=UNSET if arguments is None else Raw(encode(arguments)))
            result = await self.send_call(
                params, arguments, timeout=timeout, progress=progress, meta=meta, repeatable=repeatable
            )
            if type(result) is DetailedTask:
                from carrel.client.tasks import ToolTask

                result = await ToolTask(self, result).result()
        self._tools.check(name, result)
        return result  # type: ignore[no-any-return]

    async def send_call(self, params: CallToolParams, arguments: Mapping[str, Any] | None, **options: Any) -> Any:
        """Send ``tools/call``; over stateless HTTP with the custom headers that the tool's input schema asks for."""
        link = self._link
        if link is None or link.error is not None:
            link = await self.connect()
        if not (link.transport.mirrors and self.stateless):
            return await self.request(CALL_TOOL, params, **options)
        if not self._tools.complete and params.name not in self._tools:
            await self._list_tools()
        return await self.request(
            CALL_TOOL, params, headers=lambda: self._tools.headers(params.name, arguments or {}), **options
        )

    async def start_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        ttl: float | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ToolTask:
        """Call a tool as a task, if the server supports it, and return a handle to poll, await or cancel it.

        ``ttl`` is the requested lifetime of the task in seconds (2025-11-25; later the server decides).

        https://modelcontextprotocol.io/extensions/tasks/overview
        """
        from carrel.client.tasks import ToolTask

        params = CallToolParams(name=name, arguments=UNSET if arguments is None else Raw(encode(arguments)))
        wanted = await self.may_be_task(name)
        if wanted:
            params.task = TaskRequest(ttl=UNSET if ttl is None else int(ttl * 1000))
        answer = await self.send_call(params, arguments, meta=meta, result=CreateTaskResult if wanted else None)
        return ToolTask(self, answer.task if isinstance(answer, CreateTaskResult) else answer)

    async def task(self, id: str) -> ToolTask:
        """Return a task that was started earlier, for example by another process.

        Raises:
            PeerError: there is no such task, or it belongs to another client.
        """
        from carrel.client.tasks import ToolTask

        return ToolTask(self, await self.request(GET_TASK, TaskParams(task_id=id)))

    async def tasks(self) -> AsyncIterator[ToolTask]:
        """Iterate over this client's tasks on the server (2025-11-25).

        Raises:
            MethodNotFound: the server's revision has no ``tasks/list``.
        """
        from carrel.client.tasks import ToolTask

        async for page in self.pages(LIST_TASKS, ListTasksParams()):
            for task in page.tasks:
                yield ToolTask(self, task)

    async def may_be_task(self, name: str, *, required: bool = False) -> bool:
        """Return whether calls of a tool may be tasks of 2025-11-25; with ``required``, whether they must be.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#tool-level-negotiation
        """
        link = await self.connect()
        tasks = self.capabilities.tasks
        if self.stateless or tasks is UNSET or not link.connection.knows(FETCH_TASK_RESULT):
            return False
        if "call" not in tasks.get("requests", {}).get("tools", {}):
            return False
        if name not in self._tools and not self._tools.complete:
            await self._list_tools()
        return self._tools.tasks(name) in (("required",) if required else ("required", "optional"))

    async def _list_tools(self) -> None:
        async for _ in self.tools():
            pass

    # Skills

    async def skills(self) -> AsyncIterator[Skill]:
        """Iterate over the skills that the server lists, without reading their files.

        https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx

        Raises:
            MethodNotFound: the server does not support skills.
        """
        from carrel.client.skills import list_skills

        async for skill in list_skills(self):
            yield skill

    async def skill(self, uri: str) -> Skill:
        """Return the skill whose SKILL.md has this URI. Its files are read on demand and verified.

        Raises:
            MethodNotFound: the server does not support skills.
            ResourceNotFound: there is no such skill.
        """
        from carrel.client.skills import get_skill

        return await get_skill(self, uri)

    async def declared(self) -> Mapping[str, Any]:
        """Return the settings of the extensions that the server has declared."""
        await self.connect()
        return {} if self.capabilities.extensions is UNSET else self.capabilities.extensions

    # Prompts

    async def prompts(self) -> AsyncIterator[Prompt]:
        """Iterate over the prompts."""
        async for page in self.pages(LIST_PROMPTS, PageParams()):
            for prompt in page.prompts:
                yield prompt

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, timeout: Wait = UNSET
    ) -> GetPromptResult:
        """Get a prompt: its messages, rendered with the arguments.

        Raises:
            PeerError: there is no such prompt, or an argument is missing.
        """
        params = GetPromptParams(name=name, arguments=UNSET if arguments is None else dict(arguments))
        return await self.request(GET_PROMPT, params, timeout=timeout)

    async def complete(
        self,
        reference: Prompt | ResourceTemplate | PromptReference | ResourceTemplateReference,
        argument: str,
        value: str = "",
        context: Mapping[str, str] | None = None,
    ) -> Completion:
        """Return completions of ``value`` for an argument of a prompt or a variable of a resource template.

        ``context`` holds the arguments that are already known.

        https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
        """
        if isinstance(reference, Prompt):
            reference = PromptReference(name=reference.name)
        elif isinstance(reference, ResourceTemplate):
            reference = ResourceTemplateReference(uri=reference.uri_template)
        params = CompleteParams(
            ref=reference,
            argument=CompletionArgument(name=argument, value=value),
            context=CompletionContext(arguments=dict(context)) if context else UNSET,
        )
        result = await self.request(COMPLETE, params)
        return result.completion

    # Ping, logging and roots

    async def ping(self, *, timeout: Wait = UNSET) -> None:
        """Ping the server: ``ping``, or ``server/discover`` in stateless revisions."""
        await self.connect()
        await self.request(DISCOVER if self.stateless else PING, Params(), timeout=timeout)

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Set the minimum level of the server's log messages.

        Raises:
            MethodNotFound: the server does not support logging.
            ConfigError: there is no such level.
        """
        check_level(level)
        link = await self.connect()
        self._log_level = level
        if self.stateless:
            link.connection.set_log_level(level)
        else:
            await self.request(SET_LEVEL, SetLevelParams(level=level))

    async def change_roots(self, roots: RootsSource) -> None:
        """Replace the roots, and notify the server in revisions with sessions.

        Raises:
            ConfigError: the client was created without roots, or a root is invalid.
        """
        self._answers.change_roots(roots)
        link = await self.connect()
        if not self.stateless:
            link.announce(ROOTS_LIST_CHANGED)

    # Change notifications
    def changed(self, notice: Notification) -> None:
        """Invalidate the known tools and cached results that a change notification concerns."""
        if notice.event == "tools_list_changed":
            self._tools.forget()
        super().changed(notice)

    def _renewed(self) -> None:
        self._tools.forget()
        super()._renewed()

    async def _mend(self, error: PeerError, request: Request[Any, Any]) -> bool:
        if error.code == HEADER_MISMATCH and request is CALL_TOOL:
            self._tools.forget()
            await self._list_tools()
            return True
        return await super()._mend(error, request)


def check_level(level: LoggingLevel | None) -> None:
    if level is not None and level not in SEVERITY:
        raise ConfigError(f"there is no log level {level!r}; they are {', '.join(SEVERITY)}")


def is_not_found(error: PeerError, uri: str, code: int) -> bool:
    """Return whether an error means that the resource ``uri`` was not found.

    https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling
    """
    if error.code == -32002:
        return True
    about = error.data.get("uri") if isinstance(error.data, dict) else None
    return error.code == code == INVALID_PARAMS and about == uri
