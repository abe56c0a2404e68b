"""Ordinary queries of people who analyze the shop, which the check of functions must let through."""

EVERYWHERE = [
    "SELECT count(*), count(DISTINCT customer_id), sum(total), avg(total), min(placed), max(placed) FROM orders",
    "SELECT c.name, count(o.id) AS n FROM customers AS c LEFT JOIN orders AS o ON o.customer_id = c.id GROUP BY c.name"
    " HAVING count(o.id) >= 0 ORDER BY n DESC, c.name LIMIT 2",
    "WITH big AS (SELECT * FROM orders WHERE total > 1) SELECT big.id, big.total FROM big WHERE big.id IN (10, 12)",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(n.i) FROM n",
    "WITH a AS (SELECT id FROM orders), b AS (SELECT id FROM a) SELECT * FROM b UNION SELECT id FROM customers",
    "SELECT id, row_number() OVER (PARTITION BY customer_id ORDER BY total) AS r, rank() OVER w, dense_rank() OVER w,"
    " lag(total) OVER w, lead(total, 1) OVER w, first_value(total) OVER w, ntile(2) OVER w,"
    " sum(total) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s"
    " FROM orders WINDOW w AS (ORDER BY total)",
    "SELECT upper(name), lower(name), length(name), trim(name), replace(name, 'n', 'm'), substr(name, 1, 2),"
    " coalesce(email, 'none'), nullif(name, 'Ann') FROM customers",
    "SELECT CASE WHEN total > 10 THEN 'big' WHEN total BETWEEN 1 AND 10 THEN 'middle' ELSE 'small' END FROM orders",
    "SELECT abs(-1), round(1.25, 1), ceil(1.5), floor(1.5), power(2, 3), sqrt(4), mod(7, 3), sign(-2), exp(1), ln(2)",
    "SELECT CAST(total AS INTEGER), CAST(id AS CHAR(5)), CAST('2024-02-29' AS DATE) FROM orders",
    "SELECT name FROM customers WHERE name LIKE 'A%' AND NOT EXISTS (SELECT 1 FROM items WHERE order_id ="
    " customers.id)",
    "SELECT * FROM totals ORDER BY total DESC",
    "SELECT x.id FROM (SELECT id FROM orders) AS x JOIN items AS i ON i.order_id = x.id",
    "SELECT article, count(*) FROM items GROUP BY article",
    "SELECT customers.name, orders.total FROM customers JOIN orders ON customers.id = orders.customer_id",
    "SELECT name || '!' FROM customers",
]

SQLITE = [
    "SELECT strftime('%Y', placed), date(placed), datetime('now'), julianday(placed), unixepoch('now') FROM orders",
    "SELECT json_extract('{\"a\": 1}', '$.a'), '{\"a\": 1}' -> '$.a', '{\"a\": 1}' ->> 'a', json_array(1, 2)",
    "SELECT key, value FROM json_each('[1, 2]')",
    "SELECT group_concat(name, ';'), total(id), iif(id > 1, 'a', 'b'), typeof(id), printf('%d', id) FROM customers",
    "SELECT instr(name, 'n'), hex(name), quote(name), unicode(name), name GLOB 'A*' FROM customers",
    "SELECT count(*) FILTER (WHERE total > 1) FROM orders",
    "SELECT id FROM orders WHERE id IN orders_of_ann",
]

DUCKDB = [
    "SELECT date_trunc('month', placed), extract(year FROM placed), year(placed), strftime(placed, '%Y') FROM orders",
    "SELECT placed + INTERVAL 1 DAY, date_diff('day', placed, now()::TIMESTAMP), current_date FROM orders",
    "SELECT list(name ORDER BY name), string_agg(name, ','), median(id), quantile_cont(id, 0.5), mode(id) FROM"
    " customers",
    "SELECT unnest([1, 2]), list_transform([1, 2], lambda x: x + 1), [1, 2][1], {'a': 1}.a, map {'k': 1}['k']",
    "SELECT * FROM range(3) AS t(i)",
    "SELECT * FROM generate_series(1, 3)",
    "SELECT regexp_extract(name, '[A-Z]'), regexp_matches(name, 'n+'), name.upper(), levenshtein(name, 'x')"
    " FROM customers",
    "SELECT * EXCLUDE (email) REPLACE (upper(name) AS name) FROM customers",
    "SELECT COLUMNS('id|name') FROM customers",
    "SELECT json_extract('{\"a\": 1}', '$.a'), '{\"a\": 1}'::JSON ->> 'a'",
    "FROM customers SELECT name WHERE id = 1",
    "SELECT * FROM (PIVOT orders ON customer_id USING sum(total) GROUP BY placed)",
    "WITH o AS (SELECT * FROM orders) SELECT * FROM o PIVOT (sum(total) FOR customer_id IN (1, 3))",
    "SELECT customer_id, total FROM orders QUALIFY row_number() OVER (PARTITION BY customer_id ORDER BY total) = 1",
    "SELECT customer_id, sum(total) FROM orders GROUP BY ALL ORDER BY ALL",
    "FROM (SUMMARIZE customers)",
    "SELECT c.id, o.total FROM customers AS c, LATERAL (SELECT total FROM orders WHERE customer_id = c.id) AS o",
]

POSTGRES = [
    "SELECT date_trunc('month', placed), extract(year FROM placed), to_char(placed, 'YYYY-MM'), age(now(), placed),"
    " placed + interval '1 day', placed::date, placed AT TIME ZONE 'UTC', date_part('dow', placed) FROM orders",
    "SELECT d::date, count(o.id) FROM generate_series(date '2024-02-01', date '2024-03-01', interval '1 day') AS g(d)"
    " LEFT JOIN orders AS o ON o.placed::date = g.d::date GROUP BY 1",
    "SELECT string_agg(name, ',' ORDER BY name), array_agg(id), json_agg(name), bool_or(id > 1) FROM customers",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total), stddev(total), corr(id, total) FROM orders",
    "SELECT regexp_replace(name, '[aeiou]', '', 'g'), name ~* 'a', split_part(email, '@', 2), position('n' IN name),"
    " substring(name FROM 1 FOR 2), left(name, 1), initcap(name), format('%s!', name), md5(name) FROM customers",
    "SELECT '{\"a\": [1]}'::jsonb -> 'a' ->> 0, jsonb_array_length('[1]'), to_jsonb(name) FROM customers",
    "SELECT x FROM jsonb_array_elements('[1, 2]'::jsonb) AS t(x)",
    "SELECT * FROM jsonb_to_recordset('[{\"a\": 1}]') AS t(a int, b text)",
    "SELECT unnest(ARRAY[1, 2]), array_length(ARRAY[1, 2], 1), 1 = ANY(ARRAY[1, 2]), (ARRAY[1, 2])[1]",
    "SELECT a, n FROM unnest(ARRAY['x', 'y']) WITH ORDINALITY AS t(a, n)",
    "SELECT DISTINCT ON (customer_id) customer_id, total FROM orders ORDER BY customer_id, total DESC",
    "SELECT count(*) FILTER (WHERE total > 1) FROM orders",
    "SELECT customer_id, sum(total) FROM orders GROUP BY ROLLUP (customer_id)",
    "SELECT customer_id, sum(total) FROM orders GROUP BY GROUPING SETS ((customer_id), ())",
    "SELECT c.id, o.total FROM customers c CROSS JOIN LATERAL (SELECT total FROM orders WHERE customer_id = c.id) AS o",
    "SELECT to_tsvector('english', note) @@ to_tsquery('a') FROM orders",
    "SELECT '[1,5)'::int4range @> 3, '10.0.0.1'::inet << '10.0.0.0/8'::cidr, gen_random_uuid(), random()",
    'SELECT name COLLATE "C" FROM public.customers ORDER BY name COLLATE "C"',
    "SELECT greatest(1, 2), least(1, 2), width_bucket(5, 0, 10, 5), coalesce(NULL, 1), num_nulls(1, NULL)",
    "SELECT row_to_json(c) FROM customers AS c",
    "SELECT 'x'::varchar(10), 1::numeric(10, 2), '1'::double precision, now()::timestamp with time zone",
]

MYSQL = [
    "SELECT date_format(placed, '%Y-%m'), year(placed), datediff(now(), placed), date_add(placed, INTERVAL 1 DAY),"
    " timestampdiff(DAY, placed, now()), str_to_date('2024-02-29', '%Y-%m-%d'), curdate() FROM orders",
    "SELECT group_concat(name ORDER BY name SEPARATOR ';'), std(id), if(count(*) > 1, 'a', 'b') FROM customers",
    "SELECT json_extract('{\"a\": 1}', '$.a'), json_unquote('\"x\"'), json_arrayagg(id) FROM customers",
    "SELECT ifnull(email, ''), concat_ws('-', id, name), substring_index(email, '@', 1), lpad(id, 5, '0'),"
    " regexp_replace(name, 'n', 'm'), locate('n', name), char_length(name) FROM customers",
    "SELECT format(total, 2), truncate(total, 1), rand(), greatest(1, 2) FROM orders",
    "SELECT * FROM json_table('[1, 2]', '$[*]' COLUMNS (x INT PATH '$')) AS t",
]
