"""``carrel context``: packing what folders, repositories and servers say about a question."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from support.carrel_process import carrel
from support.git import run

SERVER = """
from carrel import Server

app = Server("shop")
app.resources.add("shop://teas", "Our green tea costs seven euros a bag.")
app.run()
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "tea.md").write_text("# Tea\n\nGreen tea is brewed at seventy degrees.\n")
    return tmp_path / "notes"
