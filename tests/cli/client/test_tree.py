"""``carrel tree``: resources as a tree."""

import json
import os

from support.carrel_process import BOOKS, carrel


def test_a_folder_is_shown_by_its_directories(tmp_path):
    (tmp_path / "notes/deep").mkdir(parents=True)
    (tmp_path / "a.md").write_text("# A")
    (tmp_path / "notes/deep/b.txt").write_text("b")
    environment = {**os.environ, "PYTHONUTF8": "1"}
    assert carrel("tree", str(tmp_path), env=environment).stdout.decode() == (
        f"└── file://{tmp_path}/\n"
        "    ├── a.md  (3 B, text/markdown)\n"
        "    └── notes/\n"
        "        └── deep/\n"
        "            └── b.txt  (1 B, text/plain)\n"
    )
    shallow = carrel("tree", str(tmp_path), "--depth", "2", env=environment).stdout.decode()
    assert shallow.splitlines()[-1] == "    └── notes/ …"


def test_other_uris_are_shown_by_their_paths_in_ascii_where_needed():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    assert carrel("tree", BOOKS, env=environment).stdout == b"`-- book://cover  (5 B, image/png)\n"
    tree = json.loads(carrel("tree", BOOKS, "--json").stdout)
    assert tree["book://cover"]["resource"]["mimeType"] == "image/png"


def test_names_are_shown_without_percent_encoding_and_control_nothing(tmp_path):
    (tmp_path / "资料 🎉.md").write_text("x")
    (tmp_path / "\x1b[31mred.md").write_text("x")
    shown = carrel("tree", str(tmp_path), env={**os.environ, "PYTHONUTF8": "1"}).stdout.decode()
    assert "── 资料 🎉.md  (1 B, text/markdown)\n" in shown
    assert "── \\x1b[31mred.md  (1 B, text/markdown)\n" in shown
