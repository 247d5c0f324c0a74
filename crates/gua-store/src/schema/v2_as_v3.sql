-- Temporary views that give a file of schema 1 or 2 the columns of schema 3. `v3_as_v4.sql` reads `session_v3`.
CREATE TEMP VIEW process AS SELECT *, NULL AS claimed_login, NULL AS container_name, NULL AS pod_name, NULL AS assigned,
    0 AS by_name FROM main.process;
CREATE TEMP VIEW session_v3 AS SELECT *, NULL AS container_name, NULL AS pod_name, NULL AS assigned, 0 AS by_name
    FROM main.session;
