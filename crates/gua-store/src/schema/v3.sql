-- More about owners. `claimed_login` is a login uid that does not count. `assigned` is the owner that a rule of the
-- configuration names. `by_name` is 1 where a container or pod owns its processes, and 0 where their uid does, as in files of
-- schema 1 and 2.
ALTER TABLE process ADD COLUMN claimed_login INTEGER REFERENCES owner (id);
ALTER TABLE process ADD COLUMN container_name TEXT;
ALTER TABLE process ADD COLUMN pod_name TEXT;
ALTER TABLE process ADD COLUMN assigned TEXT;
ALTER TABLE process ADD COLUMN by_name INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN container_name TEXT;
ALTER TABLE session ADD COLUMN pod_name TEXT;
ALTER TABLE session ADD COLUMN assigned TEXT;
ALTER TABLE session ADD COLUMN by_name INTEGER NOT NULL DEFAULT 0;
