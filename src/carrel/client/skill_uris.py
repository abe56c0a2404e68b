"""URIs and relative paths of the files of a skill."""

from __future__ import annotations

from carrel.uri.parse import UriError, encode_path, normalize, parse, percent_decode

__all__ = ["decode", "encode_name", "is_same", "path_of", "resolve"]


def path_of(uri: str, root: str) -> tuple[str, ...]:
    """Return the decoded path segments of a URI below ``root``; empty if it is not below, or not a valid file path."""
    if not uri.startswith(f"{root}/"):
        return ()
    try:
        parts = parse(uri)
        segments = tuple(map(percent_decode, uri[len(root) + 1 :].split("/")))
    except UriError:
        return ()
    if parts.query is not None or parts.fragment is not None:
        return ()
    return segments if all(map(is_name, segments)) else ()


def resolve(path: str) -> tuple[str, ...]:
    """Return the segments of a relative path without "." and ".."; empty if it is invalid or leads out of its root."""
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == ".":
            continue
        if segment == ".." and segments:
            segments.pop()
        elif is_name(segment):
            segments.append(segment)
        else:
            return ()
    return tuple(segments)


def is_name(segment: str) -> bool:
    """Return whether a path segment is a valid file or directory name on any platform."""
    return segment not in ("", ".", "..") and not any(
        character in "/\\\x7f" or character < " " for character in segment
    )


def decode(path: str) -> str:
    """Return a path with its percent-encoding decoded; as it is, if it is not valid."""
    try:
        return percent_decode(path)
    except UriError:
        return path


def encode_name(name: str) -> str:
    """Return a file name as a segment of a URI."""
    return encode_path((name,))


def is_same(one: str, other: str) -> bool:
    """Return whether two URIs are equivalent after normalization."""
    try:
        return normalize(one) == normalize(other)
    except UriError:
        return one == other
