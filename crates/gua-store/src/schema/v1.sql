CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One start of a collector to its end.
CREATE TABLE collector_run (
    id       INTEGER PRIMARY KEY,
    started  INTEGER NOT NULL,
    ended    INTEGER,
    interval INTEGER NOT NULL,
    host     TEXT NOT NULL,
    version  TEXT NOT NULL,
    boot     BLOB
) STRICT;

-- What cards are called. The facts are those of the last key tick that had the card.
CREATE TABLE card (
    id           INTEGER PRIMARY KEY,
    uuid         TEXT NOT NULL UNIQUE,
    first_seen   INTEGER NOT NULL,
    number       INTEGER,
    name         TEXT,
    memory_total INTEGER,
    parent       TEXT
) STRICT;

-- Texts that are no names of persons: drivers, models, errors.
CREATE TABLE text (
    id   INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE person (
    id   INTEGER PRIMARY KEY,
    uid  INTEGER NOT NULL,
    name TEXT
) STRICT;
CREATE UNIQUE INDEX person_once ON person (uid, ifnull(name, ''), name IS NULL);

-- One identity of one process; another when it changes its user or its name. A reading that is missing has its reason
-- beside it (1 unsupported, 2 denied, 3 gone, 4 failed) and 0 where it is there.
CREATE TABLE process (
    id            INTEGER PRIMARY KEY,
    boot          BLOB NOT NULL,
    pid           INTEGER NOT NULL,
    start         INTEGER NOT NULL,
    login         INTEGER REFERENCES person (id),
    login_missing INTEGER NOT NULL,
    own           INTEGER REFERENCES person (id),
    own_missing   INTEGER NOT NULL,
    comm          TEXT,
    comm_missing  INTEGER NOT NULL,
    container     TEXT,
    pod           TEXT,
    job           TEXT,
    job_user      INTEGER REFERENCES person (id)
) STRICT;
CREATE INDEX process_by_start ON process (start, pid);

-- One tick, as `codec` packs it.
CREATE TABLE tick (
    at   INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL REFERENCES collector_run (id),
    body BLOB NOT NULL
) STRICT;

-- Sums by quarter hour (whole quarters since 1970), as gua-model folds them and `totals` packs them.
CREATE TABLE quarter_total (
    quarter INTEGER PRIMARY KEY,
    body    BLOB NOT NULL
) STRICT;

CREATE TABLE outage (
    id         INTEGER PRIMARY KEY,
    began      INTEGER NOT NULL,
    ended      INTEGER NOT NULL,
    reason     TEXT NOT NULL,
    detail     TEXT NOT NULL,
    ticks_lost INTEGER NOT NULL
) STRICT;
CREATE INDEX outage_by_end ON outage (ended);

-- One process on one card. Rows stand for all ticks before `meta.totals_until`; what came later is folded when asked.
-- `part` is 0 for rows that the kept ticks can make anew, 1 for those that ended in ticks that retention took, and 2 for
-- what was open where retention stopped (`meta.sessions_from`): nobody is shown those, the fold begins anew with them.
CREATE TABLE session (
    id            INTEGER PRIMARY KEY,
    card          INTEGER NOT NULL REFERENCES card (id),
    parent        INTEGER REFERENCES card (id),
    boot          BLOB NOT NULL,
    pid           INTEGER NOT NULL,
    start         INTEGER NOT NULL,
    owner         INTEGER REFERENCES person (id),
    owner_source  TEXT,
    comm          TEXT,
    comm_missing  INTEGER NOT NULL,
    container     TEXT,
    pod           TEXT,
    job           TEXT,
    job_user      INTEGER REFERENCES person (id),
    kind          INTEGER NOT NULL,
    began         INTEGER NOT NULL,
    ended         INTEGER NOT NULL,
    ticks         INTEGER NOT NULL,
    observed      INTEGER NOT NULL,
    active        INTEGER NOT NULL,
    idle_held     INTEGER NOT NULL,
    own_sum       INTEGER NOT NULL,
    own_known     INTEGER NOT NULL,
    card_sum      INTEGER NOT NULL,
    card_known    INTEGER NOT NULL,
    peak          INTEGER,
    peak_missing  INTEGER NOT NULL,
    shared        INTEGER NOT NULL,
    open          INTEGER NOT NULL,
    part          INTEGER NOT NULL
) STRICT;
CREATE INDEX session_by_end ON session (ended);
CREATE INDEX session_open ON session (id) WHERE open = 1;

-- How long each card drew how much while truly idle, by day (whole days since 1970 in UTC).
CREATE TABLE idle_power (
    card   INTEGER NOT NULL REFERENCES card (id),
    day    INTEGER NOT NULL,
    watts  INTEGER NOT NULL,
    micros INTEGER NOT NULL,
    PRIMARY KEY (card, day, watts)
) STRICT, WITHOUT ROWID;

-- Somebody asked for cards and did not get them at once, as their own program told; `event` is what it called that.
CREATE TABLE refusal (
    id      INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    asker   INTEGER NOT NULL REFERENCES person (id),
    event   TEXT NOT NULL,
    wanted  INTEGER NOT NULL,
    had     INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    waited  INTEGER NOT NULL
) STRICT;
CREATE INDEX refusal_by_time ON refusal (at);

-- Who held which card at that time, as the collector's own ticks saw it; `idle` is 1 where it was idle-held.
CREATE TABLE refusal_card (
    refusal INTEGER NOT NULL REFERENCES refusal (id),
    card    INTEGER NOT NULL REFERENCES card (id),
    holder  INTEGER NOT NULL REFERENCES person (id),
    idle    INTEGER NOT NULL,
    PRIMARY KEY (refusal, card, holder)
) STRICT, WITHOUT ROWID;

-- A watched job, as its user's own program told; `run` is what that called it, `cards` are UUIDs with blanks between them,
-- `summary` is JSON.
CREATE TABLE watched_run (
    id        INTEGER PRIMARY KEY,
    owner     INTEGER NOT NULL REFERENCES person (id),
    run       TEXT NOT NULL,
    name      TEXT NOT NULL,
    started   INTEGER NOT NULL,
    ended     INTEGER,
    exit_code INTEGER,
    cards     TEXT NOT NULL,
    summary   TEXT NOT NULL
) STRICT;
CREATE INDEX watched_run_by_start ON watched_run (started);
