"""Optional packages: which extra of Carrel installs a package, by the name of its module."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["MODULES", "PACKAGES", "explain_missing", "find_missing"]

#: Modules of each extra. A module that several extras install is under the one that is most likely meant.
MODULES = {
    "anthropic": ("anthropic",),
    "ask": ("cryptography",),
    "auth": ("joserfc",),
    "chat": ("genai_prices", "prompt_toolkit", "rich"),
    "client": ("aiohttp", "yaml"),
    "cloud": ("obstore",),
    "compat": ("anyio", "httpx", "jsonschema", "pydantic", "starlette", "typing_extensions"),
    "completion": ("shtab",),
    "databases": ("sqlalchemy", "sqlglot"),
    "documents": ("PIL", "html_to_markdown", "mammoth", "pptx", "pypdfium2", "python_calamine", "striprtf"),
    "duckdb": ("duckdb", "duckdb_engine"),
    "embeddings": ("numpy",),
    "files": ("chardet", "puremagic", "watchfiles"),
    "gemini": ("google.genai",),
    "http": ("httptools", "uvicorn", "uvloop"),
    "keyring": ("keyring",),
    "logs": ("backports.zstd", "re2"),
    "metrics": ("prometheus_client",),
    "model2vec": ("model2vec",),
    "mysql": ("pymysql",),
    "onnx": ("onnxruntime", "tokenizers"),
    "openai": ("openai",),
    "postgres": ("asyncpg", "greenlet"),
    "redis": ("hiredis", "redis"),
    "s3": ("botocore",),
    "screen": ("mss", "xcffib"),
    "search": ("tantivy",),
    "sftp": ("asyncssh",),
    "studio": ("starlette",),
    "web": ("feedparser", "lxml", "protego", "trafilatura"),
}
#: Packages that have another name than their module.
PACKAGES = {
    "PIL": "pillow",
    "backports.zstd": "backports.zstd",
    "google.genai": "google-genai",
    "pptx": "python-pptx",
    "re2": "google-re2",
    "yaml": "pyyaml",
}


def explain_missing(error: ModuleNotFoundError, extra: str | None = None) -> str | None:
    """Return which package is missing and the extra that installs it; None for a package that no extra installs.

    ``extra`` is the extra to name, if several install the package.
    """
    missing = error.name or ""
    for name, modules in MODULES.items():
        for module in modules:
            if missing == module or missing.startswith(f"{module}.") or missing == module.partition(".")[0]:
                package = PACKAGES.get(module, module.replace("_", "-"))
                return f"the package {package} is missing: pip install 'carrel[{extra or name}]'"
    return None


def find_missing(extra: str) -> ModuleNotFoundError | None:
    """Return the error for the first module of an extra that is not installed; None if all are installed."""
    for module in MODULES[extra]:
        try:
            found = find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            return ModuleNotFoundError(f"No module named {module!r}", name=module)
    return None
