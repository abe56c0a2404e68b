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
Relative: TypeAlias = Callable[[str, str], str]
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
    relative: Relative | None = None

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
        relative: Relative | None = getattr(self.load(), "relative", None)
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


def own(source: str, options: str, *rows: tuple[str, str, str], relative: Relative | None = None) -> dict[str, Source]:
    """Return the rows of a source of Carrel, by scheme: each a scheme, an extra of the package, and a summary."""
    package = source.partition(".")[0]
    return {
        scheme: Source(
            scheme,
            summary,
            f"carrel.sources.{source}",
            f"pip install 'carrel[{extra}]'" if extra else "pip install carrel",
            f"carrel.sources.{package}.options:{options}",
            relative,
        )
        for scheme, extra, summary in rows
    }


SOURCES = {
    **own(
        "files.source:FilesSource",
        "FilesOptions",
        ("file", "files", "a folder or a file, by its path or as file:///path"),
    ),
    **own(
        "skills.source:SkillsSource",
        "SkillsOptions",
        ("skills", "skills", "a folder of Agent Skills, as skills:PATH"),
    ),
    **own(
        "git.source:GitSource",
        "GitOptions",
        ("git", "git", "a git repository, as git:PATH or git+file:///path"),
        relative=plain_path,
    ),
    **own(
        "logs.source:LogsSource",
        "LogsOptions",
        (
            "logs",
            "logs",
            "log files by a pattern or a folder, as logs:/var/log/app/*.log, or the journal, as logs:journal",
        ),
        relative=log_files,
    ),
    **own(
        "openapi.source:OpenAPISource",
        "OpenAPIOptions",
        (
            "openapi",
            "openapi",
            "an API by its OpenAPI description, as openapi+https://host/openapi.json or openapi+file:PATH",
        ),
        relative=plain_path,
    ),
    **own(
        "web.source:WebSource",
        "WebOptions",
        ("https", "web", "pages of a site, for clients to fetch themselves, as https://host/path/"),
        ("web", "web", "pages of a site, a sitemap or a feed, fetched and cached here, as web+https://host/path/"),
    ),
    **own(
        "screen.source:ScreenSource",
        "ScreenOptions",
        (
            "screen",
            "screen",
            "pictures of a display or its windows, as screen:, screen://localhost/windows, or screen::1 (X display :1)",
        ),
    ),
    **own(
        "databases.source:DatabaseSource",
        "DatabaseOptions",
        ("sqlite", "databases", "a SQLite database, as sqlite:///FILE"),
        relative=database_file,
    ),
    **own(
        "databases.source:DatabaseSource",
        "DatabaseOptions",
        ("postgres", "postgres", "a PostgreSQL database, as postgres://USER@HOST/DATABASE"),
        ("postgresql", "postgres", "the same, as postgresql://USER@HOST/DATABASE"),
        ("mysql", "mysql", "a MySQL database, as mysql://USER@HOST/DATABASE"),
        ("mariadb", "mysql", "a MariaDB database, as mariadb://USER@HOST/DATABASE"),
        relative=driver_files,
    ),
    **own(
        "databases.source:DatabaseSource",
        "DatabaseOptions",
        ("duckdb", "duckdb", "a DuckDB database, as duckdb:///FILE"),
        relative=database_file,
    ),
    **own(
        "stores.s3:S3Source",
        "S3Options",
        ("s3", "s3", "objects in Amazon S3 or a compatible store, as s3://BUCKET/PREFIX"),
    ),
    **own(
        "stores.cloud:CloudSource",
        "CloudOptions",
        ("az", "cloud", "blobs in Azure Blob Storage, as az://CONTAINER/PREFIX"),
        ("gs", "cloud", "objects in Google Cloud Storage, as gs://BUCKET/PREFIX"),
    ),
    **own(
        "stores.sftp:SFTPSource",
        "SFTPOptions",
        ("sftp", "sftp", "files of an SSH server, as sftp://USER@HOST/PATH"),
    ),
    **own(
        "stores.webdav:WebDAVSource",
        "WebDAVOptions",
        ("webdav", "webdav", "files of a WebDAV server, as webdav://HOST/PATH"),
        ("webdavs", "webdav", "the same over TLS, as webdavs://HOST/PATH"),
    ),
    **own(
        "stores.zip_archive:ZipSource",
        "StoreOptions",
        ("zip", "", "the members of a ZIP archive, as zip:PATH"),
        relative=plain_path,
    ),
    **own(
        "stores.memory:MemorySource",
        "StoreOptions",
        ("memory", "", "objects that a Python program keeps in memory, as memory://NAME"),
    ),
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
