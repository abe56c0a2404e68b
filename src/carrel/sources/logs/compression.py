"""Compressed logs: gzip, bzip2, xz and zstd as files to read from, with a limit to the memory that xz may ask for."""

from __future__ import annotations

import io
from typing import IO, Any

from carrel.errors import ConfigError

__all__ = ["damages", "opened"]

MEMORY = 128 * 1024 * 1024  # bytes that unpacking xz may take: ``xz -9`` needs 65 MiB
STEP = 65_536  # compressed bytes read at a time

ZSTD_ERRORS: list[type[Exception]] = []


def damages() -> tuple[type[Exception], ...]:
    """Return the exceptions that damaged compressed data raises."""
    import lzma
    import zlib

    return (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, *ZSTD_ERRORS)


def opened(raw: IO[bytes], compression: str) -> IO[bytes]:
    """Open a compressed file for reading, by the ending of its name.

    Raises:
        ConfigError: the package for it is missing.
    """
    found: Any
    if compression == ".gz":
        import gzip

        found = gzip.GzipFile(fileobj=raw)
    elif compression == ".bz2":
        import bz2

        found = bz2.BZ2File(raw)
    elif compression == ".xz":
        found = io.BufferedReader(XzFile(raw))
    else:
        zstd = import_zstd()
        if zstd.ZstdError not in ZSTD_ERRORS:
            ZSTD_ERRORS.append(zstd.ZstdError)
        found = zstd.ZstdFile(raw)
    file: IO[bytes] = found
    return file


class XzFile(io.RawIOBase):
    """xz file that is read with limited memory."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._unpacker = self._new()
        self._left = b""

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Unpack into a buffer; 0 at the end.

        Raises:
            LZMAError: it is damaged, or needs too much memory.
            EOFError: it ends too early.
        """
        while True:
            if self._unpacker.eof:
                self._left = (self._unpacker.unused_data or self._raw.read(STEP)).lstrip(b"\0")  # padding
                if not self._left:
                    return 0
                self._unpacker = self._new()
            if self._unpacker.needs_input:
                self._left = self._left or self._raw.read(STEP)
                if not self._left:
                    raise EOFError("the file ends too early")
            data = self._unpacker.decompress(self._left, len(buffer))
            self._left = b""
            if data:
                buffer[: len(data)] = data
                return len(data)

    @staticmethod
    def _new() -> Any:
        import lzma

        return lzma.LZMADecompressor(memlimit=MEMORY)


def import_zstd() -> Any:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        try:
            from backports import zstd  # type: ignore[import-not-found,no-redef,unused-ignore]
        except ImportError:
            raise ConfigError(".zst files need the package backports.zstd: pip install 'carrel[logs]'") from None
    return zstd
