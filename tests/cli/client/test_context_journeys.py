"""``carrel context`` as people use it: over logs, git and a database, in two languages, and over libraries."""

from __future__ import annotations

import json
import sqlite3
import sysconfig
from pathlib import Path
from typing import Any

from support.carrel_process import carrel
from support.git import Repository


def packed(*arguments: str) -> list[dict[str, Any]]:
    """Return the items of a packed context."""
    done = carrel("context", *arguments, "--format", "json", "--timeout", "120")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["tokens"] <= found["budget"]
    return list(found["items"])


def test_why_a_deployment_failed_over_logs_git_and_a_database(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    quiet = [f"2026-11-23T{n // 60:02}:{n % 60:02}:00Z INFO web served path=/orders status=200" for n in range(1200)]
    loud = [
        "2026-11-23T14:58:03Z INFO deploy deployment 118 of shop started version=2.4.0",
        "2026-11-23T14:58:41Z ERROR deploy migration 0042_add_voucher failed: column voucher already exists",
        "2026-11-23T14:58:42Z ERROR deploy deployment 118 of shop failed, rolled back to 2.3.9",
    ]
    (logs / "shop.log").write_text("\n".join([*quiet[:899], *loud, *quiet[899:]]) + "\n")
    repository = Repository(tmp_path / "code")
    (repository.path / "deploy.py").write_text(
        "def deploy(version):\n"
        '    """Run the migrations of a version, and roll back to the version before if one fails."""\n'
    )
    (repository.path / "paint.py").write_text("def paint(colour):\n    pass\n")
    repository.run("add", ".")
    repository.run("commit", "-q", "-m", "Add vouchers to orders")
    database = sqlite3.connect(tmp_path / "ops.db")
    database.execute("CREATE TABLE deployments (id INTEGER PRIMARY KEY, service, version, status, reason)")
    database.execute("INSERT INTO deployments VALUES (118, 'shop', '2.4.0', 'failed', 'migration 0042_add_voucher')")
    database.commit()
    database.close()
    question = "why did the deployment of shop fail yesterday?"
    items = packed(str(logs), f"git:{repository.path}", f"sqlite:///{tmp_path}/ops.db", question, "--budget", "2500")
    texts = {item["uri"].rpartition("/")[2]: item for item in items}
    assert all(line in texts["shop.log"]["text"] for line in loud)
    first, last = texts["shop.log"]["lines"]
    assert first <= 900 <= 902 <= last <= first + 120  # not the whole log
    assert "roll back" in texts["deploy.py"]["text"]
    assert "0042_add_voucher" in texts["rows"]["text"]
    assert "paint.py" not in texts


def test_a_chinese_question_over_chinese_and_english_notes(tmp_path: Path) -> None:
    (tmp_path / "tea.md").write_text("# Green tea\n\nGreen tea is brewed at seventy degrees for two minutes.\n")
    green = "# 绿茶\n\n绿茶用七十度的水冲泡，两分钟即可。水太热会使茶变苦。\n"
    (tmp_path / "绿茶.md").write_text(green, encoding="utf-8")
    (tmp_path / "红茶.md").write_text("# 红茶\n\n红茶用沸水冲泡，四到五分钟。\n", encoding="utf-8")
    (tmp_path / "骑车.md").write_text("# 骑车\n\n每天骑车上班对身体好。\n", encoding="utf-8")
    items = packed(str(tmp_path), "绿茶应该用多热的水来泡？ green tea")
    assert {item["title"] for item in items[:2]} == {"绿茶.md", "tea.md"}
    assert items[0]["text"].startswith("# 绿茶") or items[1]["text"].startswith("# 绿茶")
    assert all(item["title"] != "骑车.md" for item in items)
    assert packed(str(tmp_path), "绿茶应该用多热的水来泡？")[0]["title"] == "绿茶.md"


def test_a_question_about_a_library_over_fifty_installed_packages() -> None:
    installed = Path(sysconfig.get_path("purelib"))
    sizes = {
        folder: sum(file.stat().st_size for file in folder.rglob("*.py"))
        for folder in installed.iterdir()
        if (folder / "__init__.py").is_file() and not folder.is_symlink()
    }
    wanted = installed / "iniconfig"  # of pytest
    others = sorted((folder for folder in sizes if folder != wanted), key=lambda folder: (sizes[folder], folder))
    folders = [wanted, *others[:49]]
    assert len(folders) == 50
    items = packed(*map(str, folders), "How are the sections and comments of an ini file parsed?", "--budget", "2000")
    assert items[0]["uri"].startswith(wanted.as_uri())
    assert "def parse" in "".join(item["text"] for item in items if item["uri"].startswith(wanted.as_uri()))
