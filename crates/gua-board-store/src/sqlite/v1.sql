-- Schema 1 of a board's data. Times are UTC microseconds. Secrets are SHA-256 hashes.
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO meta (key, value) VALUES ('revision', 0);

CREATE TABLE workspace (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE account (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE COLLATE NOCASE,
  password TEXT
) STRICT;
-- A person whom a provider or proxy knows. Accounts are never matched by name.
CREATE TABLE identity (
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  account TEXT NOT NULL REFERENCES account (id),
  PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;
CREATE TABLE member (
  workspace TEXT NOT NULL REFERENCES workspace (id),
  account TEXT NOT NULL REFERENCES account (id),
  role TEXT NOT NULL,
  PRIMARY KEY (workspace, account)
) STRICT, WITHOUT ROWID;
CREATE INDEX member_by_account ON member (account);
CREATE TABLE session (
  hash BLOB PRIMARY KEY,
  account TEXT NOT NULL REFERENCES account (id),
  expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE api_token (
  id TEXT PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE,
  prefix TEXT NOT NULL,
  workspace TEXT NOT NULL REFERENCES workspace (id),
  account TEXT NOT NULL REFERENCES account (id),
  scope TEXT NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER
) STRICT;
CREATE TABLE link (
  hash BLOB PRIMARY KEY,
  workspace TEXT REFERENCES workspace (id),
  role TEXT,
  account TEXT REFERENCES account (id),
  expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE enrolment_key (
  id TEXT PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE,
  prefix TEXT NOT NULL,
  workspace TEXT NOT NULL REFERENCES workspace (id),
  name TEXT,
  -- Names of hosts that may enrol, with `*` for any text; NULL for all.
  host_names TEXT,
  -- Separated by line feeds.
  tags TEXT NOT NULL,
  needs_approval INTEGER NOT NULL,
  uses_left INTEGER NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER
) STRICT;
-- A revoked host has no token and keeps its row, because the ledger refers to it.
CREATE TABLE host (
  id TEXT PRIMARY KEY,
  workspace TEXT NOT NULL REFERENCES workspace (id),
  display_name TEXT NOT NULL,
  hostname TEXT,
  agent_version TEXT,
  driver_version TEXT,
  tags TEXT NOT NULL,
  is_approved INTEGER NOT NULL,
  token BLOB UNIQUE,
  token_prefix TEXT NOT NULL,
  token_since INTEGER NOT NULL,
  -- Replaces the token when the agent first uses it.
  next_token BLOB UNIQUE,
  next_token_prefix TEXT,
  enrolled INTEGER NOT NULL,
  -- Set while people must not use the host.
  maintenance_note TEXT,
  maintenance_until INTEGER
) STRICT;
CREATE TABLE audit (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  address TEXT,
  workspace TEXT,
  action TEXT NOT NULL,
  object TEXT NOT NULL
) STRICT;

-- Names under which members use hosts. An empty host stands for all hosts of the workspace.
CREATE TABLE user_name (
  workspace TEXT NOT NULL REFERENCES workspace (id),
  host TEXT NOT NULL,
  name TEXT NOT NULL,
  account TEXT NOT NULL REFERENCES account (id),
  since INTEGER NOT NULL,
  PRIMARY KEY (workspace, host, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE name_code (
  hash BLOB PRIMARY KEY,
  workspace TEXT NOT NULL REFERENCES workspace (id),
  account TEXT NOT NULL REFERENCES account (id),
  expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Bodies are JSON, compressed with zlib. Keys start with the time, so that a batch appends to both trees.
CREATE TABLE snapshot (
  observed_at INTEGER NOT NULL,
  host TEXT NOT NULL,
  received_at INTEGER NOT NULL,
  body BLOB NOT NULL,
  UNIQUE (observed_at, host)
) STRICT;
CREATE TABLE latest (
  host TEXT NOT NULL,
  form TEXT NOT NULL,
  observed_at INTEGER NOT NULL,
  received_at INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (host, form)
) STRICT;
-- What the GPUs of a host did in the last day, in a form that only the server reads.
CREATE TABLE day (host TEXT PRIMARY KEY, body BLOB NOT NULL) STRICT;
CREATE TABLE archive (
  host TEXT NOT NULL,
  -- `_full` for a file that covers all days.
  day TEXT NOT NULL,
  name TEXT NOT NULL,
  stored INTEGER NOT NULL,
  content BLOB NOT NULL,
  PRIMARY KEY (host, day, name)
) STRICT;
