"""A shop that takes an order every few seconds: a SQLite database and a log that change continuously.

    python examples/shop.py FOLDER                     # until Ctrl-C
    python examples/shop.py FOLDER COMMAND ARGUMENT…   # while the command runs

`make run` starts it with `carrel serve --config examples/carrel.toml`, which shares both. Subscribe to
`sqlite:///shop.db/tables/orders/rows` or `logs://shop/shop.log` to be notified of each order.
"""

import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

SECONDS = 5.0
TABLES = """
CREATE TABLE books (
    id INTEGER PRIMARY KEY,
    title TEXT NOT NULL UNIQUE,
    author TEXT NOT NULL,
    price NUMERIC NOT NULL CHECK (price > 0),
    stock INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE customers (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    city TEXT
);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    customer_id INTEGER NOT NULL REFERENCES customers,
    book_id INTEGER NOT NULL REFERENCES books,
    placed TEXT NOT NULL
);
CREATE INDEX orders_by_customer ON orders (customer_id, placed);
CREATE VIEW best_sellers AS
    SELECT title, count(*) AS sold FROM orders JOIN books ON books.id = book_id GROUP BY title ORDER BY sold DESC;
"""
BOOKS = [
    ("Effi Briest", "Theodor Fontane", 9.8, 400),
    ("红楼梦", "曹雪芹", 32.5, 250),
    ("Middlemarch", "George Eliot", 14.0, 300),
    ("こころ", "夏目漱石", 11.2, 120),
    ("Die Verwandlung", "Franz Kafka", 5.4, 500),
]
CUSTOMERS = [("Ada", "London"), ("李雷", "北京"), ("Grete", "Köln"), ("Naoko", "京都")]


def open_shop(folder: Path) -> sqlite3.Connection:
    """Open the shop database, and fill it if it is new."""
    folder.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(folder / "shop.db")
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'orders'").fetchone():
        database.executescript(TABLES)
        database.executemany("INSERT INTO books (title, author, price, stock) VALUES (?, ?, ?, ?)", BOOKS)
        database.executemany("INSERT INTO customers (name, city) VALUES (?, ?)", CUSTOMERS)
        database.commit()
    return database


def sell(database: sqlite3.Connection, log: Path) -> None:
    """Take an order: a row in the database, and a line in the log."""
    customer, name = random.choice(database.execute("SELECT id, name FROM customers").fetchall())
    book, title, stock = random.choice(database.execute("SELECT id, title, stock FROM books").fetchall())
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if stock > 0:
        with database:
            database.execute("UPDATE books SET stock = stock - 1 WHERE id = ?", [book])
            row = "INSERT INTO orders (customer_id, book_id, placed) VALUES (?, ?, ?)"
            number = database.execute(row, [customer, book, now]).lastrowid
        line = f"{now} INFO order {number}: {name} bought {title}"
    else:
        line = f"{now} WARNING {title} is sold out, {name} left without it"
    with log.open("a", encoding="utf-8") as stream:
        stream.write(line + "\n")


def main(folder: Path, command: list[str]) -> int:
    """Run the shop while a command runs, or until Ctrl-C. Return the exit code of the command."""
    with closing(open_shop(folder)) as database:
        sell(database, folder / "shop.log")
        process = subprocess.Popen(command) if command else None
        while True:
            try:
                if process is None:
                    time.sleep(SECONDS)
                else:
                    return process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                pass
            except KeyboardInterrupt:
                return 0 if process is None else process.wait()  # Ctrl-C also reaches the command
            sell(database, folder / "shop.log")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
