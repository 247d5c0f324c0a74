//! Moments in order of time: samples of this run, and before them those of the recorded history.

use std::collections::VecDeque;
use std::time::Duration;

use gua_model::Sample;
use jiff::{SignedDuration, Timestamp};

/// A sample with its interval and its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    pub sample: Sample,
    pub interval: Duration,
    pub source: Source,
}

/// Source of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Read by this run.
    Live,
    /// Read by the collector that writes the history.
    Recorded,
}

/// Maximum number of samples of this run, as many as the replaced tool keeps.
const MAX_LIVE: usize = 600;

/// Maximum number of GPUs times moments, for live and recorded ones each: about 50 MB.
const MAX_GPU_MOMENTS: usize = 40_000;

/// Recorded time before the first sample of this run that is always kept, for the curves.
pub(crate) const PAST: SignedDuration = SignedDuration::from_mins(15);

#[derive(Debug, Default)]
pub(crate) struct Timeline {
    moments: VecDeque<Moment>,
}

impl Timeline {
    pub(crate) fn push(&mut self, moment: Moment) {
        // The clock was set back: moments after it cannot be ordered any more.
        while self.last_at().is_some_and(|last| last >= moment.sample.at) {
            self.moments.pop_back();
        }
        let most = MAX_LIVE.min(room(&moment.sample));
        self.moments.push_back(moment);
        let live = self.moments.iter().rev();
        let live = live
            .take_while(|moment| moment.source == Source::Live)
            .count();
        if live > most {
            let oldest_live = self.moments.len() - live;
            self.moments.remove(oldest_live);
        }
    }

    /// Adds recorded moments in front. Only those older than all others are taken; returns their number.
    pub(crate) fn put_before(&mut self, recorded: Vec<Moment>) -> usize {
        let first = self.moments.front().map(|moment| moment.sample.at);
        let is_older = |moment: &Moment| first.is_none_or(|first| moment.sample.at < first);
        let older: Vec<Moment> = recorded.into_iter().filter(is_older).collect();
        let count = older.len();
        for moment in older.into_iter().rev() {
            self.moments.push_front(moment);
        }
        count
    }

    /// Reports whether no more recorded moments fit.
    pub(crate) fn is_full(&self) -> bool {
        let recorded = self.moments.iter();
        let recorded = recorded.filter(|moment| moment.source == Source::Recorded);
        let first = self.moments.front();
        recorded.count() >= first.map_or(usize::MAX, |first| room(&first.sample))
    }

    /// Drops the recorded moments, which can be read again, except those just before the first sample.
    pub(crate) fn drop_recorded(&mut self) {
        let mut live = self.moments.iter();
        let first = live.find(|moment| moment.source == Source::Live);
        let from = first.and_then(|first| first.sample.at.checked_sub(PAST).ok());
        self.moments.retain(|moment| {
            moment.source == Source::Live || from.is_some_and(|from| moment.sample.at >= from)
        });
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Moment> {
        self.moments.get(index)
    }

    pub(crate) fn first_at(&self) -> Option<Timestamp> {
        self.moments.front().map(|moment| moment.sample.at)
    }

    pub(crate) fn last(&self) -> Option<&Moment> {
        self.moments.back()
    }

    pub(crate) fn last_at(&self) -> Option<Timestamp> {
        self.last().map(|moment| moment.sample.at)
    }

    pub(crate) fn last_index(&self) -> Option<usize> {
        self.moments.len().checked_sub(1)
    }

    /// Returns the last moment at or before a time, or the first one.
    pub(crate) fn index_at(&self, at: Timestamp) -> Option<usize> {
        let moments = &self.moments;
        let after = moments.partition_point(|moment| moment.sample.at <= at);
        (!self.moments.is_empty()).then(|| after.saturating_sub(1))
    }

    /// Returns the moment in each of `width` columns that end with the moment `index`. A column covers one interval of
    /// that moment, so that gaps in time are gaps on the screen.
    pub(crate) fn columns(&self, index: usize, width: usize) -> Vec<Option<usize>> {
        let mut columns = vec![None; width];
        let Some(last) = self.moments.get(index) else {
            return columns;
        };
        let length = |moment: &Moment| i128::try_from(moment.interval.as_micros()).unwrap_or(1);
        let step = length(last).max(1);
        let end = micros(last.sample.at);
        let mut place = index;
        for (back, column) in (0i128..).zip(columns.iter_mut().rev()) {
            let time = end - back * step;
            // The nearest one: a sample may come a little early or late.
            while let Some(older) = place.checked_sub(1)
                && self.distance(older, time) <= self.distance(place, time)
            {
                place = older;
            }
            let reach = self.moments.get(place).map_or(0, length).max(step);
            let nearest = (self.distance(place, time) < reach).then_some(place);
            // A recorded tick covers its interval, which may be many columns long.
            let covers = |older: &usize| {
                self.moments.get(*older).is_some_and(|moment| {
                    let passed = time - micros(moment.sample.at);
                    (0..length(moment)).contains(&passed)
                })
            };
            *column = nearest.or_else(|| place.checked_sub(1).filter(covers));
        }
        columns
    }

    fn distance(&self, index: usize, time: i128) -> i128 {
        let moment = self.moments.get(index);
        moment.map_or(i128::MAX, |moment| (micros(moment.sample.at) - time).abs())
    }
}

fn micros(at: Timestamp) -> i128 {
    i128::from(at.as_microsecond())
}

fn room(sample: &Sample) -> usize {
    (MAX_GPU_MOMENTS / sample.gpus.len().max(1)).max(60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::fixture::sample_at;

    fn moment(second: i64, source: Source) -> Moment {
        Moment {
            sample: sample_at(second),
            interval: Duration::from_secs(1),
            source,
        }
    }

    fn times(timeline: &Timeline) -> Vec<i64> {
        let seconds = |moment: &Moment| moment.sample.at.as_second();
        timeline.moments.iter().map(seconds).collect()
    }

    #[test]
    fn only_the_newest_samples_of_this_run_are_kept_and_recorded_ones_stay() {
        let mut timeline = Timeline::default();
        timeline.push(moment(1000, Source::Live));
        timeline.put_before(vec![
            moment(10, Source::Recorded),
            moment(40, Source::Recorded),
        ]);
        for second in 1001..2000 {
            timeline.push(moment(second, Source::Live));
        }
        let times = times(&timeline);
        assert_eq!(times.len(), 602);
        assert_eq!(times[..3], [10, 40, 1400]);
    }

    #[test]
    fn recorded_moments_that_overlap_are_not_taken_twice() {
        let mut timeline = Timeline::default();
        timeline.push(moment(2000, Source::Live));
        let taken = timeline.put_before(vec![
            moment(70, Source::Recorded),
            moment(1970, Source::Recorded),
            moment(2000, Source::Recorded),
        ]);
        assert_eq!((taken, times(&timeline)), (2, vec![70, 1970, 2000]));
        // The curves keep the last minutes before the first sample.
        timeline.drop_recorded();
        assert_eq!(times(&timeline), [1970, 2000]);
    }

    #[test]
    fn a_clock_that_was_set_back_takes_what_lies_ahead_with_it() {
        let mut timeline = Timeline::default();
        for second in [10, 11, 12, 11] {
            timeline.push(moment(second, Source::Live));
        }
        assert_eq!(times(&timeline), [10, 11]);
    }

    #[test]
    fn a_column_is_a_step_of_time_and_a_gap_stays_a_gap() {
        let mut timeline = Timeline::default();
        for second in [10, 11, 15, 16] {
            timeline.push(moment(second, Source::Live));
        }
        let columns = timeline.columns(3, 8);
        assert_eq!(
            columns,
            [None, Some(0), Some(1), None, None, None, Some(2), Some(3)]
        );
        assert_eq!(timeline.columns(1, 3), [None, Some(0), Some(1)]);
        assert_eq!(timeline.columns(9, 2), [None, None]);
    }
}
