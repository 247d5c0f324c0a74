//! Time that own ticks cover, as far as imported rows may overlap it.

use gua_model::legacy::OwnCoverage;
use gua_model::{GpuDay, GpuQuarter, GpuTotal, Period, Quarter, UtcDay};
use gua_query::records::QuarterVisitor;
use rusqlite::Connection;

use crate::error::ReadError;
use crate::fold::{Step, walk};
use crate::history::History;
use crate::maintain::TOTALS_UNTIL;
use crate::store::{meta, quarter};
use crate::totals::{self, Source};
use crate::{history, rule};

/// Upper bound of the time that an imported row covers.
const LONGEST: i64 = 86_400_000_000;

impl History {
    /// Time of each GPU that own ticks cover in a window, as far as there are imported rows. A quarter hour is covered from
    /// the first to the last tick.
    pub fn own_coverage(&self, window: Period) -> Result<OwnCoverage, ReadError> {
        self.read(|connection| {
            let mut own = Own(OwnCoverage::default());
            let Some((first, last)) = rows(connection)? else {
                return Ok(own.0);
            };
            let from = window.from().as_microsecond().max(first);
            let to = window.to().as_microsecond().min(last);
            let to = to.saturating_add(LONGEST);
            let until = meta(connection, TOTALS_UNTIL)?.unwrap_or(i64::MIN);
            let ends = (quarter(from), quarter(to.min(until)).saturating_add(1));
            let ends = (ends.0, ends.1.min(quarter(until)));
            totals::each_day(connection, Source::Own, ends, &mut own)?;
            let raw = (from.max(until), to);
            walk(connection, rule::load(connection)?, raw, |step| {
                let (Step::Tick { closed, .. } | Step::End { closed }) = step;
                for span in closed {
                    if let Some(part) = span.period().overlap(history::period(raw)) {
                        own.0.add(&span.gpu, part);
                    }
                }
                Ok(())
            })?;
            Ok(own.0)
        })
    }
}

/// Times of the first and the last imported row of a GPU.
fn rows(connection: &Connection) -> rusqlite::Result<Option<(i64, i64)>> {
    let end = |which: &str| {
        format!(
            "(SELECT {which}(at) FROM (SELECT (SELECT {which}(at_us) FROM old_card_block WHERE source = id) AS at FROM old_source
             UNION ALL SELECT (SELECT {which}(at_us) FROM old_process_block WHERE source = id) FROM old_source))"
        )
    };
    let mut query = connection.prepare_cached(&format!("SELECT {}, {}", end("min"), end("max")))?;
    let ends = query.query_row([], |row| Ok((row.get(0)?, row.get(1)?)));
    ends.map(|(first, last): (Option<i64>, Option<i64>)| first.zip(last))
}

/// Collects the time of each GPU from the first to the last tick of each quarter hour.
struct Own(OwnCoverage);

impl Own {
    fn add(&mut self, gpu: &gua_model::GpuUuid, total: &GpuTotal) {
        if let (Some(first), Some(last)) = (total.first, total.last) {
            self.0.add(gpu, Period::new(first, last));
        }
    }
}

impl QuarterVisitor for Own {
    fn begin(&mut self, _: Period) {}

    fn quarter(&mut self, _: Quarter, gpus: &[GpuQuarter]) {
        for gpu in gpus {
            self.add(&gpu.gpu, &gpu.total.card);
        }
    }

    fn day(&mut self, _: UtcDay, gpus: &[GpuDay]) -> bool {
        let is_plain = gpus.iter().all(GpuDay::is_plain);
        for gpu in gpus.iter().filter(|_| is_plain) {
            self.add(&gpu.gpu, &gpu.total.card);
        }
        is_plain
    }
}
