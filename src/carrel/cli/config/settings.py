"""Settings of ``carrel.toml``: one struct for each section, with types, defaults and descriptions.

The validation of the file, the environment variables, the JSON schema, ``carrel config show`` and the tables of
docs/configuration.md are generated from these structs. ``[[sources]]`` use the options structs of the sources.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec
from msgspec import Meta

from carrel.limits import Limits
from carrel.redaction import RedactedStruct, Secret
from carrel.search.options import SearchOptions
from carrel.sources.options import Count

__all__ = [
    "HOST_SECTIONS",
    "SECTIONS",
    "AppSettings",
    "AuditSettings",
    "AuthSettings",
    "Field",
    "GatewaySettings",
    "HTTPSettings",
    "IntrospectionSettings",
    "LoggingSettings",
    "MetricsSettings",
    "SearchSettings",
    "ServerSection",
    "SettingOrigin",
    "Settings",
    "SkillsSettings",
    "SourceEntry",
    "StateSettings",
    "fields",
    "fields_of",
    "table",
]

Texts = tuple[str, ...]
Rules = dict[str, str | Texts]
Seconds = Annotated[float, Meta(ge=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]
FilePath = Annotated[str, Meta(extra={"path": True})]


class ServerSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Name and other information about the server, and its list options."""

    name: Annotated[str | None, Meta(description="the name of the server (default: the name of the first source)")] = (
        None
    )
    title: Annotated[str | None, Meta(description="the display name")] = None
    description: Annotated[str | None, Meta(description="the purpose of the server, in one sentence")] = None
    version: Annotated[str | None, Meta(description="the version of the server (default: the version of Carrel)")] = (
        None
    )
    instructions: Annotated[str | None, Meta(description="how a model should use the server")] = None
    website_url: Annotated[str | None, Meta(description="a page about the server")] = None
    page_size: Annotated[Count, Meta(description="the number of resources per page of a list")] = 100
    tools: Annotated[bool, Meta(description="offer list, read and search as read-only tools too")] = True


class AppSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server in Python, for ``carrel run``."""

    file: Annotated[
        str | None,
        Meta(description="the Python file or module with the server: server.py, server.py:app or package.module:app"),
    ] = None


class SkillsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Folders of skills. Skills with options are ``[[sources]]`` with a URL ``skills:FOLDER``."""

    folders: Annotated[tuple[FilePath, ...], Meta(description="folders of skills (directories with a SKILL.md)")] = ()


class SearchSettings(SearchOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Full-text search over everything that is shared."""

    enabled: Annotated[bool, Meta(description="index everything that is shared, and offer search")] = False


class HTTPSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The HTTP transport. Without a port, the server speaks on stdio."""

    port: Annotated[Port | None, Meta(description="the port to listen on, 0 for any free one (default: stdio)")] = None
    host: Annotated[
        str, Meta(description="the address to listen on; 0.0.0.0 or :: for all addresses of this machine")
    ] = "127.0.0.1"
    path: Annotated[str, Meta(description="the path of the URL")] = "/mcp"
    allowed_hosts: Annotated[
        Texts, Meta(description="host names that requests may use, in addition to the names of this machine")
    ] = ()
    allowed_origins: Annotated[Texts, Meta(description="origins of web pages whose requests are accepted")] = ()
    trusted_proxies: Annotated[
        Texts, Meta(description="reverse proxies, or networks of them, that name the client")
    ] = ()
    certificate: Annotated[
        FilePath | None, Meta(description="serve HTTPS: a PEM file with the certificate chain, and perhaps the key")
    ] = None
    key: Annotated[FilePath | None, Meta(description="the PEM file of the private key")] = None
    client_ca: Annotated[
        FilePath | None,
        Meta(description="accept only clients with a certificate of these authorities, in PEM (mutual TLS)"),
    ] = None
    behind_proxy: Annotated[
        bool, Meta(description="a reverse proxy has TLS, and only it reaches the address, which need not be local")
    ] = False
    insecure: Annotated[
        bool, Meta(description="listen on an address that other machines reach without TLS or authorization")
    ] = False
    sse: Annotated[bool, Meta(description="serve the deprecated HTTP+SSE transport at /sse too")] = False
    workers: Annotated[
        int, Meta(ge=0, le=256, description="the number of processes that serve, 0 for one for each core")
    ] = 1
    worker_timeout: Annotated[
        Seconds, Meta(description="seconds after which a worker whose event loop does not run is replaced; 0: never")
    ] = 30.0
    grace: Annotated[Seconds, Meta(description="seconds that requests and tasks get to finish after SIGTERM")] = 5.0
    keep_alive: Annotated[float, Meta(gt=0, description="seconds after which a comment is sent on a silent stream")] = (
        15.0
    )
    patience: Annotated[Seconds, Meta(description="seconds after which a slow response becomes a stream")] = 0.5


class IntrospectionSettings(RedactedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Introspection of opaque tokens at the authorization server (RFC 7662)."""

    client_id: Annotated[str, Meta(description="the client identifier of this server at the issuer")]
    client_secret: Annotated[Secret, Meta(description="the client secret")]
    url: Annotated[str | None, Meta(description="the introspection endpoint (default: from the issuer's metadata)")] = (
        None
    )
    method: Annotated[
        Literal["basic", "post"], Meta(description="how id and secret are sent: in a header, or in the form")
    ] = "basic"


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Authentication of clients over HTTP: a file of tokens, or an authorization server (an issuer)."""

    tokens: Annotated[FilePath | None, Meta(description="a file with the hashes of accepted tokens")] = None
    issuer: Annotated[str | Texts | None, Meta(description="the URL of the authorization server; or several")] = None
    resource: Annotated[
        str | None, Meta(description="the URL that clients use (default: the first audience, else local callers only)")
    ] = None
    audience: Annotated[
        str | Texts | None, Meta(description="the accepted audiences of tokens (default: resource)")
    ] = None
    scopes: Annotated[Rules, Meta(description="the scopes that requests need")] = {}
    implies: Annotated[Rules, Meta(description="scopes that include other scopes")] = {}
    jwks_uri: Annotated[str | None, Meta(description="the URL of the keys, if the issuer has no metadata")] = None
    algorithms: Annotated[Texts, Meta(description="accepted signature algorithms (default: all secure ones)")] = ()
    leeway: Annotated[Seconds, Meta(description="seconds by which the issuer's clock may differ")] = 10.0
    remember: Annotated[
        Seconds | None, Meta(description="seconds for which a verified token is cached (default: 60, introspected 10)")
    ] = None
    keys_ttl: Annotated[Seconds, Meta(description="seconds after which keys are fetched again")] = 3600.0
    keys_pause: Annotated[Seconds, Meta(description="seconds between two fetches for unknown keys")] = 5.0
    name: Annotated[str | None, Meta(description="the name of the server in its metadata document")] = None
    documentation: Annotated[str | None, Meta(description="a page for developers, in the metadata document")] = None
    introspection: Annotated[
        IntrospectionSettings | None, Meta(description="ask the issuer about each token (opaque tokens)")
    ] = None


class GatewaySettings(RedactedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Upstream sessions and logins of ``carrel gateway``."""

    public_url: Annotated[
        str | None, Meta(description="the URL at which browsers reach the gateway (default: the URL of --http)")
    ] = None
    logins: Annotated[bool, Meta(description="let each user log in at servers that require a login")] = True
    client_id: Annotated[
        str | None,
        Meta(description="the client identifier of the gateway at the issuer of [auth], for logins in the browser"),
    ] = None
    client_secret: Annotated[Secret | None, Meta(description="the client secret")] = None
    keys: Annotated[
        Secret | None,
        Meta(description="64 hexadecimal digits, with which grants are encrypted; older keys follow after commas"),
    ] = None
    max_sessions: Annotated[
        Count, Meta(description="the maximum number of sessions with each server, and so of its processes")
    ] = 100
    max_sessions_per_principal: Annotated[
        Count, Meta(description="the maximum number of sessions of one authenticated caller")
    ] = 20
    idle_seconds: Annotated[Seconds, Meta(description="seconds for which a session without requests is kept")] = 1800.0


class StateSettings(RedactedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """State that several servers share, so that they are one server to clients."""

    url: Annotated[
        str | None,
        Meta(
            description="URL of Redis or Valkey: redis://, rediss://, unix://, redis+sentinel:// or redis+cluster:// "
            "(default: memory)"
        ),
    ] = None
    keys: Annotated[
        Secret | None,
        Meta(
            description="the key that encrypts the state: 64 hexadecimal digits, the same for all servers; older keys "
            "follow after commas"
        ),
    ] = None
    prefix: Annotated[
        str, Meta(description="the prefix of the keys in Redis; servers that share nothing need different prefixes")
    ] = "carrel"


class AuditSettings(RedactedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Audit log: a JSON line for each request."""

    file: Annotated[FilePath | None, Meta(description="the file of the audit log (default: no file)")] = None
    stderr: Annotated[bool, Meta(description="write the audit log to standard error")] = False
    syslog: Annotated[
        str | None,
        Meta(
            description="send the audit log to a syslog server (RFC 5424): udp://HOST, tcp://HOST, tls://HOST or "
            "unix:///dev/log (default: none)"
        ),
    ] = None
    otel: Annotated[bool, Meta(description="send the audit log to the log exporter of OpenTelemetry")] = False
    max_size: Annotated[Count, Meta(title="SIZE", description="the size at which the file is renamed to FILE.1")] = (
        104857600
    )
    keep: Annotated[Count, Meta(description="how many older files are kept")] = 10
    on_full: Annotated[
        Literal["refuse", "count"],
        Meta(description="while nothing can be written, refuse requests, or leave out their lines and count them"),
    ] = "refuse"
    chain: Annotated[bool, Meta(description="add a hash to each line, for carrel audit verify")] = False
    key: Annotated[Secret | None, Meta(description="a key: without it, the hashes cannot be made")] = None
    arguments: Annotated[Texts, Meta(description="tools whose arguments are recorded, for example search_*")] = ()


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Metrics for Prometheus, health and readiness, on a separate listener."""

    port: Annotated[
        Port | None, Meta(description="the port of /metrics, /healthz and /readyz, 0 for any free one (default: none)")
    ] = None
    host: Annotated[str, Meta(description="the address to listen on; everyone who reaches it may read the metrics")] = (
        "127.0.0.1"
    )
    allowed_hosts: Annotated[
        Texts, Meta(description="host names that requests may use, in addition to addresses and localhost; * for any")
    ] = ()


class LoggingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Logs, on standard error."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="the minimum level of messages")
    ] = "warning"
    format: Annotated[Literal["text", "json"], Meta(description="text for people, or JSON lines")] = "text"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings besides ``[[sources]]``."""

    server: ServerSection = ServerSection()
    app: AppSettings = AppSettings()
    skills: SkillsSettings = SkillsSettings()
    search: SearchSettings = SearchSettings()
    http: HTTPSettings = HTTPSettings()
    auth: AuthSettings = AuthSettings()
    gateway: GatewaySettings = GatewaySettings()
    state: StateSettings = StateSettings()
    audit: AuditSettings = AuditSettings()
    metrics: MetricsSettings = MetricsSettings()
    limits: Limits = Limits()
    logging: LoggingSettings = LoggingSettings()


#: Structs of the sections, by their names in the file.
SECTIONS: dict[str, type[msgspec.Struct]] = {
    "server": ServerSection,
    "app": AppSettings,
    "skills": SkillsSettings,
    "search": SearchSettings,
    "http": HTTPSettings,
    "auth": AuthSettings,
    "auth.introspection": IntrospectionSettings,
    "gateway": GatewaySettings,
    "state": StateSettings,
    "audit": AuditSettings,
    "metrics": MetricsSettings,
    "limits": Limits,
    "logging": LoggingSettings,
}
#: Sections with the servers of a host or gateway. ``carrel.host.config`` reads them.
HOST_SECTIONS = ("servers", "inputs")


class SettingOrigin(NamedTuple):
    """Origin of a value, and whether the value is a secret."""

    text: str
    is_secret: bool = False


class SourceEntry(NamedTuple):
    """Table of ``[[sources]]``: its path or URL, the options of its source, and its origin.

    ``shown`` is the path or URL as written in the file, with unresolved references. ``origins`` maps options to their
    origins. If an ``optional`` source cannot be opened, it is skipped with a warning.
    """

    location: str
    options: dict[str, Any]
    where: str
    shown: str
    origins: dict[str, SettingOrigin]
    optional: bool = False


class Field(NamedTuple):
    """One setting. ``kind`` is the type of its value, ``marks`` the metadata from ``Meta``."""

    section: str
    name: str
    kind: Any
    default: object
    marks: dict[str, Any]

    @property
    def path(self) -> str:
        """The name with its section, such as ``http.port``."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable, such as ``CARREL_HTTP_PORT``."""
        return f"CARREL_{self.path.replace('.', '_').upper()}"

    @property
    def description(self) -> str:
        """The description."""
        return str(self.marks.get("description", ""))

    @property
    def is_size(self) -> bool:
        """Whether the value may be written as 20MiB."""
        return self.marks.get("title") == "SIZE" or (self.section == "limits" and "_bytes" in self.name)

    @property
    def is_secret(self) -> bool:
        """Whether the value is a secret: not allowed in the file, and never printed."""
        return bool(self.marks.get("secret"))

    @property
    def is_path(self) -> bool:
        """Whether the value is a path, or a list of paths, relative to the file."""
        return bool(self.marks.get("path"))

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed values, if they are enumerated."""
        inner = getattr(self.kind, "__origin__", self.kind)
        return get_args(inner) if getattr(inner, "__origin__", None) is Literal else ()

    @property
    def values(self) -> str:
        """The allowed values as text."""
        if self.choices:
            return ", ".join(f"`{choice}`" for choice in self.choices)
        if self.is_secret:
            return "a secret"
        names: dict[object, str] = {
            str: "a path" if self.is_path else "text",
            tuple: f"list of {'paths' if self.is_path else 'texts'}",
        }
        names |= {int: "whole number", float: "number", bool: "true, false", dict: "table"}
        return " or ".join(name for kind, name in names.items() if kind in self.types)

    @property
    def fallback(self) -> str:
        """The default as TOML, or an empty string without a default."""
        if self.default in (None, (), msgspec.NODEFAULT) or self.default == {}:
            return ""
        return f"`{msgspec.json.encode(self.default).decode()}`"

    @property
    def types(self) -> set[object]:
        """The types that the value may have, without ``None``."""
        return alternatives(self.kind) - {type(None)}


@cache
def fields() -> dict[str, Field]:
    """Return all settings except source options, by path."""
    every = (field for name, section in SECTIONS.items() for field in fields_of(section, name).values())
    return {field.path: field for field in every if field.path not in SECTIONS}


def table(section: str) -> str:
    """Return the settings of a section as a table in Markdown, for the documentation."""
    rows = [
        f"| `{field.name}` | {field.values} | {field.description} | {field.fallback} |"
        for field in fields().values()
        if field.section == section
    ]
    return "\n".join(["| setting | values | | default |", "| --- | --- | --- | --- |", *rows])


def fields_of(struct: type[msgspec.Struct], section: str) -> dict[str, Field]:
    """Return the fields of a struct by name."""
    return {
        info.name: Field(section, info.name, info.type, default_of(info), marks_of(info.type))
        for info in msgspec.structs.fields(struct)
    }


def default_of(info: msgspec.structs.FieldInfo) -> object:
    """Return the default of a field, or ``msgspec.NODEFAULT``."""
    return info.default if info.default_factory is msgspec.NODEFAULT else info.default_factory()


def marks_of(kind: Any) -> dict[str, Any]:
    """Merge the ``Meta`` annotations of a type and its type arguments. Outer annotations take precedence."""
    found: dict[str, Any] = {}
    for inner in get_args(kind):
        found |= marks_of(inner)
    for meta in getattr(kind, "__metadata__", ()):
        if isinstance(meta, Meta):
            some = {"description": meta.description, "title": meta.title, **(meta.extra or {})}
            found |= {name: value for name, value in some.items() if value is not None}
    return found


def alternatives(kind: Any) -> set[object]:
    """Return the types of a union, without ``Annotated`` and parameters: ``{str, tuple}``."""
    if hasattr(kind, "__metadata__"):
        return alternatives(kind.__origin__)
    if isinstance(kind, type) and not get_args(kind):
        return {kind}
    origin = getattr(kind, "__origin__", None)
    if isinstance(origin, type):
        return {origin}
    if origin is Literal:
        return {str}
    return set().union(*map(alternatives, get_args(kind)))
