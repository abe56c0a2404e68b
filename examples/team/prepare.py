"""Makes the database, the log and the git repository of the team, and a token for each person: python prepare.py"""

import sqlite3
import subprocess
from pathlib import Path

HERE = Path(__file__).parent

with sqlite3.connect(HERE / "shop.db") as database:
    database.executescript("""
        CREATE TABLE orders (id INTEGER PRIMARY KEY, title TEXT, price REAL, refunded INTEGER DEFAULT 0);
        CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, card TEXT);
        INSERT INTO orders (title, price) VALUES ('Solaris', 12.5), ('Fiasco', 14), ('Eden', 9.9);
        INSERT INTO customers (name, card) VALUES ('Ijon Tichy', '4000 0000 0000 0002');
    """)
(HERE / "logs").mkdir(exist_ok=True)
(HERE / "logs/shop.log").write_text("2026-11-02 09:14:03 ERROR payment of order 2 failed: card declined\n")
code = HERE / "code"
code.mkdir(exist_ok=True)
(code / "shop.py").write_text("def price(order):\n    return order.total\n")
git = ["git", "-C", str(code), "-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
for arguments in (["init", "-q", "-b", "main"], ["add", "shop.py"], ["commit", "-q", "-m", "Add prices"]):
    subprocess.run([*git, *arguments], check=True)
