-- Temporary view that gives a file of schema 1 to 3 the columns of schema 4.
CREATE TEMP VIEW session AS SELECT *, CASE WHEN own_known > 0 AND own_known >= observed / 2 THEN own_sum / own_known
    WHEN card_known > 0 THEN card_sum / card_known END AS util FROM session_v3;
