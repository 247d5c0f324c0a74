-- Owners: whoever can be answerable for a process. `kind` is 0 for a person, 1 for a container, 2 for a pod; only persons
-- have a uid. `since` is when the name was first seen, in microseconds; NULL for owners of files of schema 1.
CREATE TABLE new_owner (
    id    INTEGER PRIMARY KEY,
    kind  INTEGER NOT NULL,
    uid   INTEGER,
    name  TEXT,
    since INTEGER
) STRICT;
INSERT INTO new_owner (id, kind, uid, name) SELECT id, 0, uid, name FROM person;
-- The first rename makes every reference name `owner`, the second puts the new table in its place.
ALTER TABLE person RENAME TO owner;
DROP TABLE owner;
ALTER TABLE new_owner RENAME TO owner;
CREATE UNIQUE INDEX owner_once ON owner (kind, ifnull(uid, -1), ifnull(name, ''), name IS NULL);
CREATE INDEX owner_by_uid ON owner (uid);

-- Weight of a MIG instance: its compute slices, and those of the whole GPU. NULL for whole GPUs and where unknown.
ALTER TABLE card ADD COLUMN compute_slices INTEGER;
ALTER TABLE card ADD COLUMN parent_slices INTEGER;

-- Change number: grows with every quarter that is written, so that whoever copies quarters knows which are new.
ALTER TABLE quarter_total ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
CREATE INDEX quarter_by_revision ON quarter_total (revision);

-- Sums by day (whole days since 1970 in UTC), made of the quarters of days that are over. They answer long windows; a day
-- without a row is answered from its quarters.
CREATE TABLE day_total (
    day  INTEGER PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;

-- Times of the first and the last row of each imported file, so that a day is found without asking every file.
ALTER TABLE old_source ADD COLUMN first_us INTEGER;
ALTER TABLE old_source ADD COLUMN last_us INTEGER;
UPDATE old_source SET
    first_us = (SELECT min(at_us) FROM (SELECT min(at_us) AS at_us FROM old_card_block WHERE source = id
        UNION ALL SELECT min(at_us) FROM old_process_block WHERE source = id)),
    last_us = (SELECT max(at_us) FROM (SELECT max(at_us) AS at_us FROM old_card_block WHERE source = id
        UNION ALL SELECT max(at_us) FROM old_process_block WHERE source = id));

-- Totals of imported rows by quarter hour and by day, as gua-model folds them; `imported::totals` packs them. They can be
-- made anew from the blocks. `meta.imported_stale_from` and `imported_stale_to` are the first and the last day whose totals
-- do not match the blocks; where they are set, readers fold the blocks.
CREATE TABLE old_quarter (
    quarter  INTEGER PRIMARY KEY,
    body     BLOB NOT NULL,
    revision INTEGER NOT NULL
) STRICT;
CREATE TABLE old_day (
    day  INTEGER PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;
