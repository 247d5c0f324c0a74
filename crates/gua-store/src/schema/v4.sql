-- Mean utilisation of a session in hundredths of a percent, as `Session::util` computes it when the session is written.
ALTER TABLE session ADD COLUMN util INTEGER;
UPDATE session SET util = CASE WHEN own_known > 0 AND own_known >= observed / 2 THEN own_sum / own_known
    WHEN card_known > 0 THEN card_sum / card_known END;

-- Columns that a report needs to count a session without listing it, so that most sessions are read from this index alone. The last
-- one is the GPU, or NULL if a column that the index lacks is damaged.
DROP INDEX session_by_end;
CREATE INDEX session_outline ON session (
    ended, began, util, peak,
    CASE WHEN length(boot) = 16 AND pid BETWEEN 0 AND 4294967295 AND kind BETWEEN 0 AND 2
        AND (peak IS NULL) = (peak_missing <> 0) THEN card END
) WHERE open = 0;
