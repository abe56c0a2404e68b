"""MIME types of files: the one table of them, by file name first, by content where the name does not decide.

There is a table here because ``mimetypes`` in the standard library depends on the machine it runs on, and takes longer
to load than a server may take to start.
"""

from __future__ import annotations

__all__ = ["BINARY", "DIRECTORY", "TEXT", "is_textual", "type_of_bytes", "type_of_name", "type_of_text"]

DIRECTORY = "inode/directory"
TEXT = "text/plain"
BINARY = "application/octet-stream"

BY_SUFFIX = {
    # documents and data
    "adoc": "text/asciidoc",
    "bib": "text/x-bibtex",
    "cfg": "text/plain",
    "conf": "text/plain",
    "css": "text/css",
    "csv": "text/csv",
    "diff": "text/x-diff",
    "eml": "message/rfc822",
    "env": "text/plain",
    "geojson": "application/geo+json",
    "htm": "text/html",
    "html": "text/html",
    "ics": "text/calendar",
    "ini": "text/plain",
    "ipynb": "application/x-ipynb+json",
    "json": "application/json",
    "json5": "application/json5",
    "jsonc": "application/json",
    "jsonl": "application/jsonl",
    "ldif": "text/plain",
    "less": "text/x-less",
    "lock": "text/plain",
    "log": "text/plain",
    "markdown": "text/markdown",
    "mbox": "application/mbox",
    "md": "text/markdown",
    "mdx": "text/mdx",
    "ndjson": "application/x-ndjson",
    "org": "text/org",
    "patch": "text/x-diff",
    "po": "text/x-gettext-translation",
    "properties": "text/x-java-properties",
    "rst": "text/x-rst",
    "rtf": "application/rtf",
    "sass": "text/x-sass",
    "scss": "text/x-scss",
    "srt": "application/x-subrip",
    "svg": "image/svg+xml",
    "tex": "text/x-tex",
    "text": "text/plain",
    "toml": "application/toml",
    "tsv": "text/tab-separated-values",
    "txt": "text/plain",
    "vcf": "text/vcard",
    "vtt": "text/vtt",
    "xhtml": "application/xhtml+xml",
    "xml": "application/xml",
    "xsd": "application/xml",
    "xsl": "application/xslt+xml",
    "xslt": "application/xslt+xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    # source code
    "astro": "text/x-astro",
    "awk": "text/x-awk",
    "bash": "application/x-sh",
    "bat": "text/x-bat",
    "c": "text/x-c",
    "cc": "text/x-c++",
    "cjs": "text/javascript",
    "clj": "text/x-clojure",
    "cmake": "text/x-cmake",
    "cpp": "text/x-c++",
    "cs": "text/x-csharp",
    "cts": "text/typescript",
    "cxx": "text/x-c++",
    "dart": "text/x-dart",
    "el": "text/x-emacs-lisp",
    "erl": "text/x-erlang",
    "ex": "text/x-elixir",
    "exs": "text/x-elixir",
    "f90": "text/x-fortran",
    "fish": "application/x-fish",
    "fs": "text/x-fsharp",
    "go": "text/x-go",
    "gql": "application/graphql",
    "gradle": "text/x-gradle",
    "graphql": "application/graphql",
    "groovy": "text/x-groovy",
    "h": "text/x-c",
    "hcl": "text/x-hcl",
    "hh": "text/x-c++",
    "hpp": "text/x-c++",
    "hs": "text/x-haskell",
    "java": "text/x-java",
    "jl": "text/x-julia",
    "js": "text/javascript",
    "jsx": "text/jsx",
    "kt": "text/x-kotlin",
    "kts": "text/x-kotlin",
    "lisp": "text/x-common-lisp",
    "lua": "text/x-lua",
    "m": "text/x-objectivec",
    "mjs": "text/javascript",
    "ml": "text/x-ocaml",
    "mts": "text/typescript",
    "nim": "text/x-nim",
    "nix": "text/x-nix",
    "php": "text/x-php",
    "pl": "text/x-perl",
    "pm": "text/x-perl",
    "proto": "text/x-protobuf",
    "ps1": "text/x-powershell",
    "py": "text/x-python",
    "pyi": "text/x-python",
    "r": "text/x-r",
    "rb": "text/x-ruby",
    "rs": "text/x-rust",
    "s": "text/x-asm",
    "scala": "text/x-scala",
    "sh": "application/x-sh",
    "sol": "text/x-solidity",
    "sql": "application/sql",
    "svelte": "text/x-svelte",
    "swift": "text/x-swift",
    "tcl": "text/x-tcl",
    "tf": "text/x-terraform",
    "ts": "text/typescript",
    "tsx": "text/tsx",
    "vb": "text/x-vb",
    "vim": "text/x-vim",
    "vue": "text/x-vue",
    "zig": "text/x-zig",
    "zsh": "application/x-sh",
    # pictures, sound, film, fonts
    "aac": "audio/aac",
    "aiff": "audio/aiff",
    "avi": "video/x-msvideo",
    "avif": "image/avif",
    "bmp": "image/bmp",
    "flac": "audio/flac",
    "gif": "image/gif",
    "heic": "image/heic",
    "ico": "image/vnd.microsoft.icon",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "jxl": "image/jxl",
    "m4a": "audio/mp4",
    "mid": "audio/midi",
    "mkv": "video/matroska",
    "mov": "video/quicktime",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "mpeg": "video/mpeg",
    "mpg": "video/mpeg",
    "oga": "audio/ogg",
    "ogg": "audio/ogg",
    "ogv": "video/ogg",
    "opus": "audio/opus",
    "otf": "font/otf",
    "png": "image/png",
    "psd": "image/vnd.adobe.photoshop",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "ttf": "font/ttf",
    "wav": "audio/wav",
    "weba": "audio/webm",
    "webm": "video/webm",
    "webp": "image/webp",
    "woff": "font/woff",
    "woff2": "font/woff2",
    # documents and archives that are not text
    "7z": "application/x-7z-compressed",
    "bin": "application/octet-stream",
    "bz2": "application/x-bzip2",
    "class": "application/java-vm",
    "db": "application/octet-stream",
    "dll": "application/vnd.microsoft.portable-executable",
    "doc": "application/msword",
    "docm": "application/vnd.ms-word.document.macroenabled.12",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "epub": "application/epub+zip",
    "exe": "application/vnd.microsoft.portable-executable",
    "gz": "application/gzip",
    "jar": "application/java-archive",
    "o": "application/x-object",
    "odp": "application/vnd.oasis.opendocument.presentation",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "odt": "application/vnd.oasis.opendocument.text",
    "parquet": "application/vnd.apache.parquet",
    "pdf": "application/pdf",
    "ppt": "application/vnd.ms-powerpoint",
    "pptm": "application/vnd.ms-powerpoint.presentation.macroenabled.12",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "pyc": "application/x-python-bytecode",
    "rar": "application/vnd.rar",
    "so": "application/x-sharedlib",
    "sqlite": "application/vnd.sqlite3",
    "sqlite3": "application/vnd.sqlite3",
    "tar": "application/x-tar",
    "tgz": "application/gzip",
    "wasm": "application/wasm",
    "whl": "application/zip",
    "xls": "application/vnd.ms-excel",
    "xlsm": "application/vnd.ms-excel.sheet.macroenabled.12",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xz": "application/x-xz",
    "zip": "application/zip",
    "zst": "application/zstd",
}

BY_NAME = {
    "authors": TEXT,
    "changelog": TEXT,
    "cmakelists.txt": "text/x-cmake",
    "codeowners": TEXT,
    "containerfile": "text/x-dockerfile",
    "contributing": TEXT,
    "copying": TEXT,
    "dockerfile": "text/x-dockerfile",
    "gemfile": "text/x-ruby",
    "gnumakefile": "text/x-makefile",
    "jenkinsfile": "text/x-groovy",
    "justfile": TEXT,
    "license": TEXT,
    "makefile": "text/x-makefile",
    "news": TEXT,
    "notice": TEXT,
    "procfile": TEXT,
    "rakefile": "text/x-ruby",
    "readme": TEXT,
    "todo": TEXT,
    "version": TEXT,
}

# Earlier names of types.
TODAY = {
    "application/x-gzip": "application/gzip",
    "application/x-sqlite3": "application/vnd.sqlite3",
    "audio/wave": "audio/wav",
    "audio/x-wav": "audio/wav",
    "image/x-ms-bmp": "image/bmp",
}

TEXTUAL = frozenset(
    {
        "application/graphql",
        "application/json",
        "application/json5",
        "application/jsonl",
        "application/mbox",
        "application/rtf",
        "application/sql",
        "application/toml",
        "application/x-fish",
        "application/x-ndjson",
        "application/x-sh",
        "application/x-subrip",
        "application/xml",
        "application/yaml",
        "message/rfc822",
    }
)


def type_of_name(name: str) -> str | None:
    """Return the MIME type for a file name, or None if it is not known."""
    name = name.lower()
    stem, _, suffix = name.rpartition(".")
    return BY_NAME.get(name) or (BY_SUFFIX.get(suffix) if stem else None)


def is_textual(mime_type: str) -> bool:
    """Return whether a MIME type is a text format."""
    return mime_type.startswith("text/") or mime_type in TEXTUAL or mime_type.endswith(("+json", "+xml"))


def type_of_text(name: str) -> str:
    """Return the MIME type of text by its file name; ``text/plain`` if the name has none, or one that is not text."""
    named = type_of_name(name)
    return named if named is not None and is_textual(named) else TEXT


def type_of_bytes(head: bytes, name: str) -> str:
    """Return the MIME type of binary data, by its file name or the signature in its first bytes.

    ``application/octet-stream`` if neither is known.
    """
    named = type_of_name(name)
    if named is not None and not is_textual(named) and named != BINARY:
        return named
    try:
        import puremagic  # only for file names without a known type: it takes 20 ms to load
    except ImportError:
        return BINARY
    try:
        found = puremagic.magic_string(head)
    except (LookupError, ValueError):
        return BINARY
    for match in found:
        # A signature of two bytes, or further on, turns up by chance.
        if match.mime_type and len(match.byte_match) > 2 and head.startswith(match.byte_match):
            if match.byte_match == b"PK\x03\x04":
                return BY_SUFFIX["zip"]  # the bytes further on tell which archive it is, if any do
            return TODAY.get(match.mime_type) or str(match.mime_type)
    return BINARY
