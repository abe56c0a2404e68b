"""Every revision on either side of a gateway: what each pair has, as the table in docs/gateway-revisions.md says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from carrel.protocol.revisions import LATEST, REVISIONS
from gateway.features import PROBES, behind, directly, probed

pytestmark = pytest.mark.usefixtures("frequent_polls")

PAGE = Path(__file__).parents[2] / "docs" / "gateway-revisions.md"
ROW = re.compile(r"^\| \*\*(.+?)\*\* \| (.+) \|$", re.MULTILINE)
GROUP = re.compile(r"^\| ([a-d]) \| (\S+) \| (.+?) \|", re.MULTILINE)


def groups() -> dict[str, set[str]]:
    """Return the features of each letter."""
    return {found[1]: set(found[3].split(", ")) for found in GROUP.finditer(PAGE.read_text(encoding="utf-8"))}


def cells() -> dict[tuple[str, str], str]:
    """Return what each pair lacks, as letters, by the revisions of the server and of the client."""
    text = PAGE.read_text(encoding="utf-8")
    heads = re.search(r"^\| server \\ client \| (.+) \|$", text, re.MULTILINE)
    assert heads is not None
    clients = heads[1].split(" | ")
    return {
        (found[1], client): cell
        for found in ROW.finditer(text)
        for client, cell in zip(clients, found[2].split(" | "), strict=True)
    }


def lacking(letters: str) -> set[str]:
    named = groups()
    return {feature for letter in letters.split() if letter != "–" for feature in named[letter]}


def test_the_table_has_every_pair() -> None:
    assert set(cells()) == {(far, near) for far in REVISIONS for near in REVISIONS}


@pytest.mark.parametrize("revision", REVISIONS)
async def test_alone_a_client_has_what_its_revision_has(revision: str) -> None:
    async with directly(revision) as client:
        assert await probed(client) == set(PROBES) - lacking(cells()[revision, revision])


@pytest.mark.parametrize(
    ("far", "near"),
    [
        pytest.param(far, near, marks=() if far == near or LATEST.name in (far, near) else pytest.mark.exhaustive)
        for far in REVISIONS
        for near in REVISIONS
    ],
)
async def test_through_a_gateway_a_pair_has_what_both_revisions_have(far: str, near: str) -> None:
    async with behind(far, near) as client:
        assert await probed(client) == set(PROBES) - lacking(cells()[far, near])
