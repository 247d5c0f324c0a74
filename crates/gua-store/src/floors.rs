//! Idle power floor of each GPU (its power draw when truly idle), stored per day.

use std::collections::{BTreeMap, HashMap};

use gua_model::{FloorRow, Floors, GpuUuid, IdleFloor, Micros, Span, UtcDay};
use rusqlite::{Connection, params};

use crate::error::ReadError;
use crate::sql;

/// Floors that apply on a day. They are learned from the seven days before it.
pub(crate) fn as_of(connection: &Connection, day: UtcDay) -> Result<Floors, ReadError> {
    let yesterday = UtcDay(day.0.saturating_sub(1));
    let sql =
        "SELECT uuid, day, watts, micros FROM idle_power JOIN card ON card.id = idle_power.card
         WHERE day BETWEEN ?1 - 6 AND ?1";
    let mut gpus: BTreeMap<GpuUuid, Vec<FloorRow>> = BTreeMap::new();
    sql::each(connection, sql, [yesterday.0], |row| {
        let uuid: String = row.get(0)?;
        // `gua db check` reports a GPU without a readable name.
        if let Ok(uuid) = uuid.parse() {
            gpus.entry(uuid).or_default().push(FloorRow {
                day: UtcDay(row.get(1)?),
                watts: row.get::<_, i64>(2)?.unsigned_abs(),
                micros: Micros(row.get::<_, i64>(3)?.unsigned_abs()),
            });
        }
        Ok::<_, ReadError>(())
    })?;
    let floor = |(uuid, rows)| Some((uuid, IdleFloor::restore(rows).floor(yesterday)?));
    Ok(gpus.into_iter().filter_map(floor).collect())
}

/// Contribution of the spans of a quarter hour to later floors.
#[derive(Debug, Default)]
pub(crate) struct Learned(HashMap<GpuUuid, IdleFloor>);

impl Learned {
    pub(crate) fn push(&mut self, span: &Span) {
        self.0.entry(span.gpu.clone()).or_default().push(span);
    }

    pub(crate) fn save(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut insert = connection.prepare_cached(
            "INSERT INTO idle_power (card, day, watts, micros)
             VALUES ((SELECT id FROM card WHERE uuid = ?1), ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET micros = micros + excluded.micros",
        )?;
        for (uuid, floor) in &self.0 {
            for row in floor.rows() {
                let watts = i64::try_from(row.watts).unwrap_or(i64::MAX);
                let micros = i64::try_from(row.micros.0).unwrap_or(i64::MAX);
                insert.execute(params![uuid.as_str(), row.day.0, watts, micros])?;
            }
        }
        Ok(())
    }
}
