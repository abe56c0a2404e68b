"""Registry of sources: URL scheme -> class, options struct and install hint, open to other packages.

A package adds a source with one entry point in the group ``carrel.sources``, whose name is the scheme:

    [project.entry-points."carrel.sources"]
    mbox = "carrel_mbox:MailboxSource"

The class is a ``Provider`` that is called with a URL and an instance of its attribute ``options``, a msgspec struct. A
source is imported only when it is opened, and the list of installed packages is read only for a scheme that Carrel
itself does not have.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeAlias, TypeVar

import msgspec

from carrel.catalog.provider import Provider
from carrel.errors import ConfigError
from carrel.redaction import without_secrets
from carrel.sources.options import NoOptions
from carrel.sources.relative import database_file, driver_files, log_files, plain_path

__all__ = ["GROUP", "SOURCES", "Source", "find", "installed", "no_source", "open", "scheme_of"]

GROUP = "carrel.sources"
"""Name of the entry point group."""

Options: TypeAlias = type[msgspec.Struct]
T = TypeVar("T")


class Source(msgspec.Struct, frozen=True):
    """Row of the registry. Classes are named as ``module:name``, and imported by its methods.

    ``install`` is the command that installs the packages of the source. ``options`` is set if the struct can be
    imported without the source, which makes the command line start faster. ``relative`` makes relative paths in its
    URLs absolute; the class of another package may have such a function too.
    """

    scheme: str
    summary: str
    source: str
    install: str
    options: str | None = None
    relative: Callable[[str, str], str] | None = None

    def load(self) -> Callable[[str, Any], Provider]:
        """Import the class.

        Raises:
            ConfigError: a package that it needs is missing.
        """
        found: Callable[[str, Any], Provider] = self._import(self.source)
        return found

    def load_options(self) -> Options:
        """Import the options struct.

        Raises:
            ConfigError: a package that it needs is missing.
        """
        loaded = getattr(self.load(), "options", NoOptions) if self.options is None else self._import(self.options)
        found: Options = loaded
        return found

    def absolute(self, target: str, folder: str = "") -> str:
        """Return a URL whose paths are absolute; relative ones are relative to a folder, or to the current one.

        Raises:
            ConfigError: a package that it needs is missing.
        """
        if self.scheme in SOURCES:
            return target if self.relative is None else self.relative(target, folder)
        relative: Callable[[str, str], str] | None = getattr(self.load(), "relative", None)
        return target if relative is None else relative(target, folder)

    def _import(self, name: str) -> Any:
        module, _, attribute = name.partition(":")
        try:
            return getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name is not None and error.name.split(".")[0] == "carrel":
                raise
            raise ConfigError(f"{self.scheme}: URLs need the package {error.name}: {self.install}") from error
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"the source for {self.scheme}: URLs cannot be loaded from {name}: {error}") from error


SOURCES = {
    row.scheme: row
    for row in (
        Source(
            "file",
            "a folder or a file, by its path or as file:///path",
            "carrel.sources.files.source:FilesSource",
            "pip install 'carrel[files]'",
            "carrel.sources.files.options:FilesOptions",
        ),
        Source(
            "skills",
            "a folder of Agent Skills, as skills:PATH",
            "carrel.sources.skills.source:SkillsSource",
            "pip install 'carrel[skills]'",
            "carrel.sources.skills.options:SkillsOptions",
        ),
        Source(
            "git",
            "a git repository, as git:PATH or git+file:///path",
            "carrel.sources.git.source:GitSource",
            "pip install 'carrel[git]'",
            "carrel.sources.git.options:GitOptions",
            relative=plain_path,
        ),
        Source(
            "logs",
            "log files by a pattern or a folder, as logs:/var/log/app/*.log, or the journal, as logs:journal",
            "carrel.sources.logs.source:LogsSource",
            "pip install 'carrel[logs]'",
            "carrel.sources.logs.options:LogsOptions",
            relative=log_files,
        ),
        Source(
            "openapi",
            "an API by its OpenAPI description, as openapi+https://host/openapi.json or openapi+file:PATH",
            "carrel.sources.openapi.source:OpenAPISource",
            "pip install 'carrel[openapi]'",
            "carrel.sources.openapi.options:OpenAPIOptions",
            relative=plain_path,
        ),
        Source(
            "https",
            "pages of a site, for clients to fetch themselves, as https://host/path/",
            "carrel.sources.web.source:WebSource",
            "pip install 'carrel[web]'",
            "carrel.sources.web.options:WebOptions",
        ),
        Source(
            "web",
            "pages of a site, a sitemap or a feed, fetched and cached here, as web+https://host/path/",
            "carrel.sources.web.source:WebSource",
            "pip install 'carrel[web]'",
            "carrel.sources.web.options:WebOptions",
        ),
        Source(
            "screen",
            "pictures of a display or its windows, as screen:, screen://localhost/windows, or screen::1 (X display :1)",
            "carrel.sources.screen.source:ScreenSource",
            "pip install 'carrel[screen]'",
            "carrel.sources.screen.options:ScreenOptions",
        ),
        Source(
            "sqlite",
            "a SQLite database, as sqlite:///FILE",
            "carrel.sources.databases.source:DatabaseSource",
            "pip install 'carrel[databases]'",
            "carrel.sources.databases.options:DatabaseOptions",
            relative=database_file,
        ),
        Source(
            "postgres",
            "a PostgreSQL database, as postgres://USER@HOST/DATABASE",
            "carrel.sources.databases.source:DatabaseSource",
            "pip install 'carrel[postgres]'",
            "carrel.sources.databases.options:DatabaseOptions",
            relative=driver_files,
        ),
        Source(
            "postgresql",
            "the same, as postgresql://USER@HOST/DATABASE",
            "carrel.sources.databases.source:DatabaseSource",
            "pip install 'carrel[postgres]'",
            "carrel.sources.databases.options:DatabaseOptions",
            relative=driver_files,
        ),
        Source(
            "mysql",
            "a MySQL database, as mysql://USER@HOST/DATABASE",
            "carrel.sources.databases.source:DatabaseSource",
            "pip install 'carrel[mysql]'",
            "carrel.sources.databases.options:DatabaseOptions",
            relative=driver_files,
        ),
        Source(
            "mariadb",
            "a MariaDB database, as mariadb://USER@HOST/DATABASE",
            "carrel.sources.databases.source:DatabaseSource",
            "pip install 'carrel[mysql]'",
            "carrel.sources.databases.options:DatabaseOptions",
            relative=driver_files,
        ),
        Source(
            "duckdb",
            "a DuckDB database, as duckdb:///FILE",
            "carrel.sources.databases.source:DatabaseSource",
            "pip install 'carrel[duckdb]'",
            "carrel.sources.databases.options:DatabaseOptions",
            relative=database_file,
        ),
        Source(
            "s3",
            "objects in Amazon S3 and what is compatible with it, as s3://BUCKET/PREFIX",
            "carrel.sources.stores.s3:S3Source",
            "pip install 'carrel[s3]'",
            "carrel.sources.stores.options:S3Options",
        ),
        Source(
            "az",
            "blobs in Azure Blob Storage, as az://CONTAINER/PREFIX",
            "carrel.sources.stores.cloud:AzureSource",
            "pip install 'carrel[cloud]'",
            "carrel.sources.stores.options:CloudOptions",
        ),
        Source(
            "gs",
            "objects in Google Cloud Storage, as gs://BUCKET/PREFIX",
            "carrel.sources.stores.cloud:GoogleSource",
            "pip install 'carrel[cloud]'",
            "carrel.sources.stores.options:CloudOptions",
        ),
        Source(
            "sftp",
            "files of an SSH server, as sftp://USER@HOST/PATH",
            "carrel.sources.stores.sftp:SFTPSource",
            "pip install 'carrel[sftp]'",
            "carrel.sources.stores.options:SFTPOptions",
        ),
        Source(
            "webdav",
            "files of a WebDAV server, as webdav://HOST/PATH",
            "carrel.sources.stores.webdav:WebDAVSource",
            "pip install 'carrel[webdav]'",
            "carrel.sources.stores.options:WebDAVOptions",
        ),
        Source(
            "webdavs",
            "the same over TLS, as webdavs://HOST/PATH",
            "carrel.sources.stores.webdav:WebDAVSource",
            "pip install 'carrel[webdav]'",
            "carrel.sources.stores.options:WebDAVOptions",
        ),
        Source(
            "zip",
            "the members of a ZIP archive, as zip:PATH",
            "carrel.sources.stores.zip_archive:ZipSource",
            "pip install carrel",
            "carrel.sources.stores.options:StoreOptions",
            relative=plain_path,
        ),
        Source(
            "memory",
            "objects that a Python program keeps in memory, as memory://NAME",
            "carrel.sources.stores.memory:MemorySource",
            "pip install carrel",
            "carrel.sources.stores.options:StoreOptions",
        ),
    )
}
"""Sources that come with Carrel, by scheme."""


def installed() -> dict[str, Source]:
    """Return the sources of other packages, by scheme, in order. They are found, and not imported."""
    from importlib.metadata import entry_points  # it takes 20 ms to load

    found: dict[str, Source] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        package = point.dist.name if point.dist is not None else point.module.partition(".")[0]
        source = Source(point.name, f"from the package {package}", point.value, f"pip install --upgrade {package}")
        found.setdefault(point.name, source)
    return found


def find(scheme: str) -> Source | None:
    """Return the source of a scheme, or None. One such as ``git+file`` belongs to the source of ``git``."""
    first = scheme.partition("+")[0]
    return SOURCES.get(scheme) or SOURCES.get(first) or (others := installed()).get(scheme) or others.get(first)


def open(target: str | os.PathLike[str], options: msgspec.Struct | None = None, **named: object) -> Provider:
    """Return the provider for a path or a URL, not started yet.

    Options are an instance of the source's options struct, or its fields by name.

    Raises:
        ConfigError: there is no source for such URLs, an option is wrong, or a package is missing.
    """
    target = os.fspath(target)
    if "\0" in target:
        raise ConfigError(f"a path or URL ({target.partition(':')[0][:20]!r}…) contains a NUL character")
    scheme = scheme_of(target)
    source = find(scheme)
    if source is None:
        raise no_source(target)
    kind = source.load_options()
    if options is None:
        options = read_options(kind, named, f"{scheme}:")
    elif named or not isinstance(options, kind):
        raise ConfigError(f"the options of {target} are a {kind.__name__}, or given by name")
    return source.load()(target, options)


def no_source(target: str) -> ConfigError:
    """Return the error that there is no source for a URL."""
    known = ", ".join(f"{name}:" for name in dict.fromkeys((*SOURCES, *installed())))
    return ConfigError(
        f"There is no source for {scheme_of(target)}: URLs; there are paths, and URLs that begin with {known} "
        f"(a path with a colon in it can be written ./{without_secrets(target)})"
    )


def read_options(kind: type[T], values: Mapping[str, object], owner: str) -> T:
    """Return the options struct with these values.

    Raises:
        ConfigError: there is no such option, or its value is of the wrong type; ``owner`` says whose options they are.
    """
    try:
        return msgspec.convert(dict(values), kind)
    except msgspec.ValidationError as error:
        text = str(error).replace("Object contains unknown field", "there is no option").replace("- at `$.", "for `")
        raise ConfigError(f"{owner} {text}") from None


def scheme_of(target: str) -> str:
    """Return the scheme of a URL in lower case; ``file`` for a path."""
    scheme, colon, _ = target.partition(":")
    letters = scheme.replace("+", "").replace("-", "").replace(".", "")
    if not colon or not letters.isalnum() or not letters.isascii() or not scheme[0].isalpha():
        return "file"
    # One letter is a Windows drive.
    return "file" if len(scheme) == 1 or os.path.lexists(target) else scheme.lower()
