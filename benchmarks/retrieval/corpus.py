"""Corpus: documentation in six languages from Debian's packages, and the code of Python's standard library.

Debian's packages are downloaded with ``apt-get download`` and unpacked, not installed.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from carrel.sources.documents.formats.html import html_text, markdown_of

#: Of each language, the packages and patterns of the files that are taken from each.
PACKAGES = {
    "en": {
        "python3.11-doc": "usr/share/doc/python3.11/html/_sources/**/*.txt",
        "git-doc": "usr/share/doc/git/**/*.txt",
        "debian-handbook": "usr/share/doc/debian-handbook/html/en-US/*.html",
        "debian-policy": "usr/share/doc/debian-policy/policy.html/*.html",
    },
    "de": {
        "manpages-de": "usr/share/man/de/man*/*.gz",
        "gimp-help-de": "usr/share/gimp/2.0/help/de/*.html",
        "debian-reference-de": "usr/share/debian-reference/*.de.html",
        "debian-handbook": "usr/share/doc/debian-handbook/html/de-DE/*.html",
    },
    "zh": {
        "manpages-zh": "usr/share/man/zh_CN/man*/*.gz",
        "gimp-help-zh-cn": "usr/share/gimp/2.0/help/zh_CN/*.html",
        "debian-reference-zh-cn": "usr/share/debian-reference/*.zh-cn.html",
        "debian-handbook": "usr/share/doc/debian-handbook/html/zh-CN/*.html",
    },
    "ja": {
        "manpages-ja": "usr/share/man/ja/man*/*.gz",
        "gimp-help-ja": "usr/share/gimp/2.0/help/ja/*.html",
        "debian-reference-ja": "usr/share/debian-reference/*.ja.html",
        "debian-handbook": "usr/share/doc/debian-handbook/html/ja-JP/*.html",
    },
    "ko": {
        "gimp-help-ko": "usr/share/gimp/2.0/help/ko/*.html",
        "installation-guide-amd64": "usr/share/doc/installation-guide-amd64/ko/*.html",
        "debian-handbook": "usr/share/doc/debian-handbook/html/ko-KR/*.html",
    },
}
#: Program that turns manual pages into HTML.
MANDOC = "mandoc"
#: Tests in the standard library are left out, as are files that a text of ``LARGEST`` characters is more than.
LARGEST = 400_000


def build(folder: Path) -> None:
    """Write the corpus into a folder, one subfolder for each language and one for code; files that exist are kept."""
    packages = folder.parent / "packages"
    for language, patterns in PACKAGES.items():
        target = folder / language
        if target.exists():
            continue
        print(f"corpus: {language}", file=sys.stderr)
        sources = [
            (package, path)
            for package, pattern in patterns.items()
            for path in sorted(unpack(packages, package).glob(pattern))
            if path.is_file()
        ]
        mandoc = unpack(packages, MANDOC) / "usr/bin/mandoc"
        write(target, sources, mandoc)
    code = folder / "code"
    if not code.exists():
        library = Path(sysconfig.get_paths()["stdlib"])
        for path in sorted(library.rglob("*.py")):
            name = path.relative_to(library)
            if not {"test", "tests", "site-packages", "idlelib", "lib2to3"} & set(name.parts):
                keep(code / name, path.read_text(errors="replace"))


def unpack(packages: Path, name: str) -> Path:
    """Download a package of Debian, if it is not there, and return the folder with its files."""
    target = packages / name
    if not target.exists():
        packages.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "-qq", name], cwd=packages, check=True, stderr=subprocess.DEVNULL)
        (archive,) = packages.glob(f"{name}_*.deb")
        subprocess.run(["dpkg-deb", "-x", str(archive), str(target)], check=True)
        archive.unlink()
    return target


def write(target: Path, sources: list[tuple[str, Path]], mandoc: Path) -> None:
    """Convert files of packages to text."""
    with ProcessPoolExecutor() as pool:
        texts = pool.map(text_of, [path for _, path in sources], [mandoc] * len(sources), chunksize=20)
        for (package, path), text in zip(sources, texts, strict=True):
            name = path.name.removesuffix(".gz").removesuffix(".html").removesuffix(".txt")
            name = name if path.suffix == ".txt" else name + ".md"
            keep(target / package / (path.parent.name if "_sources" in path.parts else "") / name, text)


def text_of(path: Path, mandoc: Path) -> str:
    """Return a file as text: HTML and manual pages as Markdown."""
    if path.suffix == ".gz":
        if os.path.islink(path) or gzip.decompress(path.read_bytes()).startswith(b".so "):
            return ""
        made = subprocess.run([mandoc, "-T", "html", path], capture_output=True, check=False)
        return markdown_of(made.stdout.decode(errors="replace"))
    if path.suffix == ".html":
        return markdown_of(html_text(path.read_bytes()))
    return path.read_text(errors="replace")


def keep(path: Path, text: str) -> None:
    """Write a text, unless it is too short or too large."""
    if 300 < len(text) < LARGEST:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
