-- What a reader puts over a file of schema 1, in its own memory: the names of schema 2.
PRAGMA temp_store = MEMORY;
CREATE TEMP VIEW owner AS SELECT id, 0 AS kind, uid, name, NULL AS since FROM main.person;
CREATE TEMP VIEW card AS SELECT *, NULL AS compute_slices, NULL AS parent_slices FROM main.card;
CREATE TEMP VIEW quarter_total AS SELECT quarter, body, 0 AS revision FROM main.quarter_total;
CREATE TEMP TABLE day_total (day INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TEMP VIEW old_source AS SELECT *,
    (SELECT min(at_us) FROM (SELECT min(at_us) AS at_us FROM main.old_card_block WHERE source = id
        UNION ALL SELECT min(at_us) FROM main.old_process_block WHERE source = id)) AS first_us,
    (SELECT max(at_us) FROM (SELECT max(at_us) AS at_us FROM main.old_card_block WHERE source = id
        UNION ALL SELECT max(at_us) FROM main.old_process_block WHERE source = id)) AS last_us
    FROM main.old_source;
-- There are no totals of imported rows.
CREATE TEMP VIEW meta AS SELECT key, value FROM main.meta UNION ALL SELECT 'imported_stale_from', 0;
