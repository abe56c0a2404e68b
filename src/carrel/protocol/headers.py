"""Headers of an HTTP request, for handlers and middleware: text by name in any case, without credentials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

__all__ = ["RequestHeaders"]

#: Headers that handlers do not get.
CREDENTIALS = frozenset((b"authorization", b"cookie", b"proxy-authorization"))


class RequestHeaders(Mapping[str, str]):
    """Headers of an HTTP request without credentials: ``headers["X-Team"]``, in any case. Iterated in lower case.

    They are decoded (ISO 8859-1) when they are read. ``raw`` are the headers by lower-case name.
    """

    __slots__ = ("_raw",)

    def __init__(self, raw: Mapping[bytes, bytes]) -> None:
        self._raw = raw

    def __getitem__(self, name: str) -> str:
        try:
            key = name.lower().encode("latin-1")
        except UnicodeEncodeError:
            raise KeyError(name) from None
        if key in CREDENTIALS or key not in self._raw:
            raise KeyError(name)
        return self._raw[key].decode("latin-1")

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self._raw if name not in CREDENTIALS)

    def __len__(self) -> int:
        return sum(name not in CREDENTIALS for name in self._raw)

    def __repr__(self) -> str:
        return f"RequestHeaders({dict(self)!r})"
