-- Schema 2: settings of a workspace, which its admins change.
ALTER TABLE workspace ADD COLUMN title TEXT;
ALTER TABLE workspace ADD COLUMN names_from TEXT NOT NULL DEFAULT 'member';
ALTER TABLE workspace ADD COLUMN session_days INTEGER NOT NULL DEFAULT 14;
