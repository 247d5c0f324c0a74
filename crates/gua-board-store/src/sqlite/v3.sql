-- Schema 3: groups of members, and the groups that may use a host, each on a line of its own. A host without groups is for everyone.
ALTER TABLE member ADD COLUMN groups TEXT NOT NULL DEFAULT '';
ALTER TABLE host ADD COLUMN groups TEXT NOT NULL DEFAULT '';
