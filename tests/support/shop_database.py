"""A shop as a database: the tables that the tests of all databases share."""

TABLES = """
CREATE TABLE customers (
    id INTEGER PRIMARY KEY,
    name VARCHAR(100) NOT NULL,
    email VARCHAR(200) UNIQUE,
    born DATE
);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    customer_id INTEGER NOT NULL REFERENCES customers (id),
    total DECIMAL(10, 2) NOT NULL DEFAULT 0,
    placed TIMESTAMP NULL,
    note TEXT
);
CREATE TABLE items (
    order_id INTEGER NOT NULL REFERENCES orders (id),
    position INTEGER NOT NULL,
    article VARCHAR(50) NOT NULL,
    PRIMARY KEY (order_id, position)
);
CREATE INDEX orders_placed ON orders (placed);
CREATE VIEW totals AS SELECT customer_id, sum(total) AS total FROM orders GROUP BY customer_id;
CREATE TABLE secrets (id INTEGER PRIMARY KEY, word VARCHAR(50));
INSERT INTO customers VALUES (1, 'Ann', 'ann@example.com', '1990-02-28'), (2, 'Björn', NULL, NULL),
    (3, '李雷', 'li@example.com', '2001-12-31');
INSERT INTO orders VALUES (10, 1, 12.50, '2024-02-29 12:30:00', 'a|b'), (11, 1, 0.10, NULL, ''),
    (12, 3, 99999999.99, NULL, NULL);
INSERT INTO items VALUES (10, 1, 'pen'), (10, 2, 'ink, blue'), (11, 1, 'pen');
INSERT INTO secrets VALUES (1, 'sesame');
"""


def statements(text: str = TABLES) -> list[str]:
    """Return the statements of a text."""
    return [statement for part in text.split(";\n") if (statement := part.strip().rstrip(";"))]
