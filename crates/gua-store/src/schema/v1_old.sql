-- Rows of gpu-usage-audit, imported: every row of its five tables. Owned by `legacy`, which also erases persons here.
--
-- A block holds consecutive rows of one table that carry the same time and run, as the old tool wrote them in one tick.
-- Clustered by time, blocks answer a window with one range scan, however disordered the old file was; with the number of
-- their first row they can be written back in the old order. Texts of the small tables stay as they stood. `at_us` is
-- the time of a block, `written_as` its text where that is not the form that the old tool writes; `legacy::block` packs
-- the cells, and the texts that they name are in `old_text`.
CREATE TABLE old_source (
    id                INTEGER PRIMARY KEY,
    path              TEXT    NOT NULL,
    imported_us       INTEGER NOT NULL,
    columns           TEXT    NOT NULL,
    last_card_row     INTEGER NOT NULL,
    last_process_row  INTEGER NOT NULL,
    complete          INTEGER NOT NULL,
    erased            INTEGER NOT NULL
) STRICT;
-- What a file is known by, wherever it lies and however it grows.
CREATE TABLE old_source_fact (
    fact   TEXT    PRIMARY KEY,
    source INTEGER NOT NULL REFERENCES old_source (id)
) STRICT, WITHOUT ROWID;
CREATE TABLE old_text (
    id   INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE old_host (
    source         INTEGER NOT NULL REFERENCES old_source (id),
    row            INTEGER NOT NULL,
    hostname       TEXT    NOT NULL,
    env_kind       TEXT    NOT NULL,
    driver_version TEXT,
    first_seen     TEXT    NOT NULL,
    last_seen      TEXT    NOT NULL,
    PRIMARY KEY (source, row)
) STRICT, WITHOUT ROWID;
CREATE TABLE old_run (
    source           INTEGER NOT NULL REFERENCES old_source (id),
    row              INTEGER NOT NULL,
    started_at       TEXT    NOT NULL,
    interval_seconds REAL    NOT NULL,
    PRIMARY KEY (source, row)
) STRICT, WITHOUT ROWID;
CREATE TABLE old_device (
    source          INTEGER NOT NULL REFERENCES old_source (id),
    row             INTEGER NOT NULL,
    gpu_uuid        TEXT    NOT NULL,
    name            TEXT    NOT NULL,
    memory_total_mb INTEGER NOT NULL,
    first_seen      TEXT    NOT NULL,
    last_seen       TEXT    NOT NULL,
    PRIMARY KEY (source, row)
) STRICT, WITHOUT ROWID;
CREATE TABLE old_card_block (
    source     INTEGER NOT NULL REFERENCES old_source (id),
    at_us      INTEGER NOT NULL,
    first_row  INTEGER NOT NULL,
    run        INTEGER,
    written_as TEXT,
    rows       INTEGER NOT NULL,
    cells      BLOB    NOT NULL,
    PRIMARY KEY (source, at_us, first_row)
) STRICT, WITHOUT ROWID;
CREATE TABLE old_process_block (
    source     INTEGER NOT NULL REFERENCES old_source (id),
    at_us      INTEGER NOT NULL,
    first_row  INTEGER NOT NULL,
    run        INTEGER,
    written_as TEXT,
    rows       INTEGER NOT NULL,
    cells      BLOB    NOT NULL,
    PRIMARY KEY (source, at_us, first_row)
) STRICT, WITHOUT ROWID;
