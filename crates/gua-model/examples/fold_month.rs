//! Folds the simulated month of `gua demo` into quarter totals and adds them up, as the history and a report do. For measuring
//! the model alone: `valgrind --tool=callgrind target/release/examples/fold_month` (docs/speed.md).

use std::hint::black_box;

use gua_model::demo::month::Month;
use gua_model::{Floors, Spans, Thresholds, Tick, Totals};
use jiff::Timestamp;

fn main() {
    let end = Timestamp::from_second(1_790_000_000).expect("the time is in range");
    let ticks: Vec<Tick> = Month::before(end).ticks().collect();
    let totals = fold(&ticks);
    assert!(totals.iter().count() > 1000, "the month has many quarters");
    let mut sum = Totals::default();
    sum.merge(&totals);
    black_box(sum);
}

#[inline(never)]
fn fold(ticks: &[Tick]) -> Totals {
    let mut spans = Spans::new(Thresholds::default(), Floors::new());
    let mut totals = Totals::default();
    for tick in ticks {
        for span in spans.push(tick) {
            totals.add(&span);
        }
    }
    for span in spans.finish(Timestamp::MAX) {
        totals.add(&span);
    }
    totals
}
