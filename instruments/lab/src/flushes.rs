//! What is read from the disk around flushes: a flush and the compactions that follow it push pages
//! of older tables out of memory, and reads have to fetch them again.
//!
//! A flush begins between two looks at a counter of them, and its instant is the first of these. A
//! second counts for the flush that is nearest to it.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use testbed::monitor::{self, MonitorError};

use crate::load::watch::{self, Means};

/// So many seconds before a flush, and after it.
pub(crate) const WINDOW: i32 = 5;

/// The metrics: the mean of these seconds before flushes, and after them.
const BEFORE: &str = "reads_before_flushes_bytes_per_s";
const AFTER: &str = "reads_after_flushes_bytes_per_s";

/// The column of the monitor: what the disk of the data reads.
const READS: &str = "disk_read_bytes_per_s";

/// The file of a run: a line for each second around its flushes.
const FILE: &str = "flushes.csv";

/// A figure at instants, in seconds.
pub(crate) type Series = Vec<(f64, f64)>;

/// Sums and counts of a figure, by the second around a flush: 0 is the last before it, and 1 the
/// first after it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Around(BTreeMap<i32, (f64, u32)>);

impl Around {
    /// What a figure was around the flushes that a counter has counted.
    pub fn of(figure: &[(f64, f64)], flushed: &[(f64, f64)]) -> Self {
        let mut around = Self::default();
        let (Some(first), Some(last)) = (flushed.first(), flushed.last()) else { return around };
        // Short loads are sampled more often.
        let step_s = (last.0 - first.0) / (flushed.len() as f64 - 1.0).max(1.0);
        let begun = flushed.windows(2).filter(|pair| pair[1].1 > pair[0].1).map(|pair| pair[0].0);
        let begun: Vec<_> = begun.collect();
        for (at_s, value) in figure {
            let distance = |flush_s: &&f64| (at_s - **flush_s).abs();
            let nearest = begun.iter().min_by(|one, other| distance(one).total_cmp(&distance(other)));
            let second = nearest.map(|flush_s| ((at_s - flush_s) / step_s).round());
            if let Some(second) = second.filter(|second| second.is_finite()) {
                around.add(second as i32, *value);
            }
        }
        around
    }

    fn add(&mut self, second: i32, value: f64) {
        if (1 - WINDOW..=WINDOW).contains(&second) {
            let (sum, count) = self.0.entry(second).or_default();
            (*sum, *count) = (*sum + value, *count + 1);
        }
    }

    /// Adds those of another run.
    pub fn extend(&mut self, other: &Self) {
        for (second, (sum, count)) in &other.0 {
            let own = self.0.entry(*second).or_default();
            *own = (own.0 + sum, own.1 + count);
        }
    }

    /// The mean of each second.
    pub fn means(&self) -> Vec<(f64, f64)> {
        self.0.iter().map(|(second, (sum, count))| (f64::from(*second), sum / f64::from(*count))).collect()
    }

    /// The metrics; none if there was no flush, or no time before or after one.
    fn metrics(&self) -> Means {
        let mean = |is_after: bool| {
            let seconds = self.0.iter().filter(|(second, _)| (**second > 0) == is_after);
            let (sum, count) = seconds.fold((0.0, 0), |(sum, count), (_, of)| (sum + of.0, count + of.1));
            (count > 0).then(|| sum / f64::from(count))
        };
        let both = mean(false).zip(mean(true)).map(|(before, after)| [(BEFORE, before), (AFTER, after)]);
        both.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// What a run has kept; nothing if it has no such file.
    pub fn read(run: &Path) -> Self {
        let mut around = Self::default();
        let Ok(mut table) = csv::Reader::from_path(run.join(FILE)) else { return around };
        for (second, sum, count) in table.deserialize::<(i32, f64, u32)>().flatten() {
            around.0.insert(second, (sum, count));
        }
        around
    }

    fn write(&self, run: &Path) -> Result<(), csv::Error> {
        let mut table = csv::Writer::from_path(run.join(FILE))?;
        table.write_record(["second", "sum_of_bytes_per_s", "seconds"])?;
        for (second, (sum, count)) in &self.0 {
            table.serialize((second, sum, count))?;
        }
        Ok(table.flush()?)
    }
}

/// Keeps what the disk has read around flushes, by the samples of the monitor in the folder of a run
/// and a counter of flushes, and returns its metrics.
pub(crate) fn keep(run: &Path, flushed: &[(f64, f64)]) -> Result<Means, MonitorError> {
    let file = File::open(run.join(watch::FILE)).map_err(csv::Error::from)?;
    let samples = monitor::read("machine", file)?;
    let Some(column) = samples.columns.iter().position(|column| column == READS) else { return Ok(Means::new()) };
    let rows = samples.rows.iter();
    let reads: Series = rows.filter_map(|(at_s, values)| Some((*at_s, values.get(column).copied()??))).collect();
    let around = Around::of(&reads, flushed);
    if !around.0.is_empty() {
        around.write(run)?;
    }
    Ok(around.metrics())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A counter that grows behind these seconds, seen each second.
    fn flushed(behind: &[u32], seconds: u32) -> Series {
        let count = |second: u32| behind.iter().filter(|flush| **flush < second).count() as f64;
        (0..=seconds).map(|second| (f64::from(second) + 0.01, count(second))).collect()
    }

    fn at_each_second(value: impl Fn(u32) -> f64, seconds: u32) -> Series {
        (0..=seconds).map(|second| (f64::from(second), value(second))).collect()
    }

    #[test]
    fn what_is_read_behind_a_flush_is_told_from_what_was_read_before_it() {
        // Two seconds of reading behind each flush.
        let reads = at_each_second(|second| if [11, 12, 31, 32].contains(&second) { 500.0 } else { 100.0 }, 40);
        let around = Around::of(&reads, &flushed(&[10, 30], 40));
        let means = around.means();
        assert_eq!(means.len(), 10);
        assert_eq!((means[0], means[4], means[5]), ((-4.0, 100.0), (0.0, 100.0), (1.0, 500.0)));
        assert_eq!((means[6], means[7]), ((2.0, 500.0), (3.0, 100.0)));
        let metrics = around.metrics();
        assert_eq!((metrics[BEFORE], metrics[AFTER]), (100.0, 260.0));
    }

    #[test]
    fn a_second_between_two_flushes_counts_for_the_nearer_one() {
        let reads = at_each_second(f64::from, 20);
        let around = Around::of(&reads, &flushed(&[10, 14], 20));
        // The second 12 is nearer to the first flush, and 13 to the second.
        assert_eq!(around.0[&2], (12.0 + 16.0, 2));
        assert_eq!(around.0[&-1], (9.0 + 13.0, 2));
        assert_eq!(around.0[&3], (17.0, 1));
    }

    #[test]
    fn without_a_flush_there_are_no_figures() {
        let reads = at_each_second(f64::from, 20);
        for counter in [flushed(&[], 20), Series::new(), vec![(1.0, 3.0)]] {
            let around = Around::of(&reads, &counter);
            assert!(around.0.is_empty() && around.metrics().is_empty(), "{around:?}");
        }
        // A flush in the first second has no time before it.
        assert!(Around::of(&reads[1..], &flushed(&[0], 20)).metrics().is_empty());
    }

    #[test]
    fn a_run_keeps_them_for_the_report() {
        let run = tempfile::tempdir().unwrap();
        assert_eq!(Around::read(run.path()), Around::default());
        let rows: String = (0..=20).map(|second| format!("{second},{}\n", second * 10)).collect();
        std::fs::write(run.path().join(watch::FILE), format!("at_s,{READS}\n{rows}")).unwrap();
        let metrics = keep(run.path(), &flushed(&[10], 20)).unwrap();
        assert_eq!((metrics[BEFORE], metrics[AFTER]), (80.0, 130.0));
        let mut twice = Around::read(run.path());
        assert_eq!(twice.means()[5], (1.0, 110.0));
        twice.extend(&Around::read(run.path()));
        assert_eq!((twice.means()[5], twice.0[&1].1), ((1.0, 110.0), 2));
    }
}
