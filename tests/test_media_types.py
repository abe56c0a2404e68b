"""MIME types by file name and by content."""

import pytest

from carrel.media_types import is_textual, type_of_bytes, type_of_name, type_of_text

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def test_types_of_names() -> None:
    assert type_of_name("a.MD") == "text/markdown"
    assert type_of_name("archive.tar.gz") == "application/gzip"
    assert type_of_name("Dockerfile") == "text/x-dockerfile"
    assert type_of_name(".json") is None  # a hidden file without a suffix
    assert type_of_name("no-suffix") is None
    assert type_of_name("x.") is None
    assert type_of_name("README") == "text/plain"
    assert type_of_text("a.png") == type_of_text("none") == "text/plain"
    assert is_textual("application/ld+json")
    assert not is_textual("image/png")


@pytest.mark.parametrize(
    ("head", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"GIF89a\1\0\1\0", "image/gif"),
        (b"%PDF-1.7\n", "application/pdf"),
        (b"OggS\0\2", "audio/ogg"),
        (b"SQLite format 3\0" + bytes(20), "application/vnd.sqlite3"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
        (b"", "application/octet-stream"),
        (b"MZ", "application/octet-stream"),
        (bytes(100), "application/octet-stream"),
    ],
)
def test_types_of_bytes(head: bytes, mime_type: str) -> None:
    assert type_of_bytes(head, "no-suffix") == mime_type
    assert type_of_bytes(head, "name.docx").endswith("wordprocessingml.document")
