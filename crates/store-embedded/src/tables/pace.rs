//! How large a merge of all files of a table may be.
//!
//! New files pile up while it goes on, and the engine delays writes when there are too many. So it
//! may be as large as what is written meanwhile permits. Much of a table is deleted when its rows
//! expire all at once, and then little is written.

use std::time::Duration;

/// So much is merged whatever is written: a slow disk needs half a minute for it.
const BYTES_MIN: u64 = 2 << 30;

/// What a slow disk merges per second, which counts until a merge has shown how fast this one is.
const SLOW_BYTES_PER_S: f64 = (64 << 20) as f64;

/// A merge of fewer bytes does not show how fast the disk is.
const SHOWING_BYTES: u64 = 128 << 20;

/// So much may be written per second at any moment, even if little is written now: some two
/// thousand records of 400 bytes.
const WRITTEN_PER_S_MIN: f64 = (1 << 20) as f64;

/// A table has at most so many new files when a merge ends, if the rate of writes no more than
/// doubles meanwhile. Twenty delay writes, and thirty halt them.
const NEW_FILES_MAX: usize = 18;

/// No merge should take longer: a server that stops waits for it for a while, and then it ends with
/// the process.
const TIME_MAX: Duration = Duration::from_mins(5);

/// A merge beside much else is slow. It counts for this time only, since it shows nothing of later.
const SLOW_COUNTS_FOR: Duration = Duration::from_hours(1);

/// A look sooner than this after another one shows nothing.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What is known of writes and merges.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// When this was last looked at, since some instant, and what had been written until then.
    looked: Option<(Duration, u64)>,
    /// Bytes that were written per second between the last looks, the newest first; `None`: not
    /// known.
    written_per_s: [Option<f64>; 2],
    /// Bytes that the last merge merged per second, and when it ended.
    merged_per_s: Option<(f64, Duration)>,
}

impl Pace {
    /// So many bytes have been written until `now`. Both begin anywhere.
    pub(super) fn look(&mut self, now: Duration, written: u64) {
        if let Some((then, before)) = self.looked {
            let passed = now.saturating_sub(then);
            if passed < LOOK_INTERVAL {
                return;
            }
            let per_s = written.saturating_sub(before) as f64 / passed.as_secs_f64();
            self.written_per_s = [Some(per_s), self.written_per_s[0]];
        }
        self.looked = Some((now, written));
    }

    /// A merge of so many bytes took so long, and ended `now`.
    pub(super) fn merged(&mut self, bytes: u64, took: Duration, now: Duration) {
        if bytes >= SHOWING_BYTES && !took.is_zero() {
            self.merged_per_s = Some((bytes as f64 / took.as_secs_f64(), now));
        }
    }

    /// Bytes that a merge merges per second, as far as it is known.
    fn merged_per_s(&self) -> f64 {
        let Some((per_s, ended)) = self.merged_per_s else { return SLOW_BYTES_PER_S };
        let counts = self.looked.is_none_or(|(now, _)| now.saturating_sub(ended) < SLOW_COUNTS_FOR);
        if counts { per_s } else { per_s.max(SLOW_BYTES_PER_S) }
    }

    /// The most bytes that may be merged at once, of a table with so many new files, each of which
    /// holds a memtable of `file_bytes`.
    pub(super) fn bytes_max(&self, new_files: usize, file_bytes: u64) -> u64 {
        let [Some(newest), Some(earlier)] = self.written_per_s else { return BYTES_MIN };
        // Half of it, because the rate may double.
        let may_come = NEW_FILES_MAX.saturating_sub(new_files) as f64 * file_bytes as f64 / 2.0;
        let per_s = newest.max(earlier).max(WRITTEN_PER_S_MIN);
        let time_s = (may_come / per_s).min(TIME_MAX.as_secs_f64());
        BYTES_MIN.max((self.merged_per_s() * time_s) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// What is known after three looks at ten seconds each, with these bytes written in between.
    fn after(written: [u64; 2]) -> Pace {
        let mut pace = Pace::default();
        let (mut now, mut all) = (Duration::from_secs(7), 5);
        pace.look(now, all);
        for written in written {
            (now, all) = (now + Duration::from_secs(10), all + written);
            pace.look(now, all);
        }
        pace
    }

    #[test]
    fn a_merge_may_be_larger_the_less_is_written_and_the_faster_merges_are() {
        // 2 MiB/s: 72 MiB may come in 36 s.
        let mut pace = after([20 * MIB, 20 * MIB]);
        assert_eq!(pace.bytes_max(0, 8 * MIB), 36 * 64 * MIB);
        assert_eq!(pace.bytes_max(0, 16 * MIB), 72 * 64 * MIB, "new files are larger");
        let seconds = Duration::from_secs;
        pace.merged(1_000 * MIB, seconds(5), seconds(27));
        assert_eq!(pace.bytes_max(0, 8 * MIB), 36 * 200 * MIB);
        assert_eq!(pace.bytes_max(9, 8 * MIB), 18 * 200 * MIB, "half of the files are there");
        pace.merged(100 * MIB, seconds(100), seconds(27));
        assert_eq!(pace.bytes_max(0, 8 * MIB), 36 * 200 * MIB, "a small one shows nothing");
        assert_eq!(after([MIB, 20 * MIB]).bytes_max(0, 8 * MIB), 36 * 64 * MIB);
        assert_eq!(after([20 * MIB, MIB]).bytes_max(0, 8 * MIB), 36 * 64 * MIB, "the higher rate counts");
    }

    #[test]
    fn a_slow_merge_counts_for_an_hour_and_a_fast_one_until_the_next() {
        let [mut slow, mut fast] = [after([0, 0]), after([0, 0])];
        slow.merged(3_200 * MIB, Duration::from_secs(100), Duration::from_secs(27));
        fast.merged(10_000 * MIB, Duration::from_secs(100), Duration::from_secs(27));
        assert_eq!([slow, fast].map(|pace| pace.bytes_max(0, 8 * MIB)), [72 * 32 * MIB, 72 * 100 * MIB]);
        for pace in [&mut slow, &mut fast] {
            pace.look(Duration::from_secs(27 + 3_600), 5);
        }
        assert_eq!([slow, fast].map(|pace| pace.bytes_max(0, 8 * MIB)), [72 * 64 * MIB, 72 * 100 * MIB]);
    }

    #[test]
    fn more_may_be_written_soon_and_no_merge_takes_longer_than_it_may() {
        assert_eq!(after([0, 0]).bytes_max(0, 8 * MIB), 72 * 64 * MIB, "as if 1 MiB were written per second");
        assert_eq!(after([0, 0]).bytes_max(0, 64 * MIB), 300 * 64 * MIB);
    }

    #[test]
    fn two_gibibytes_are_merged_whatever_is_written_and_before_that_is_known() {
        assert_eq!(after([10_000 * MIB, 10_000 * MIB]).bytes_max(0, 8 * MIB), 2_048 * MIB);
        assert_eq!(after([0, 0]).bytes_max(30, 8 * MIB), 2_048 * MIB);
        let mut pace = Pace::default();
        assert_eq!(pace.bytes_max(0, 8 * MIB), 2_048 * MIB);
        for now in [0, 900] {
            pace.look(Duration::from_millis(now), 0);
        }
        pace.look(Duration::from_secs(1), 0);
        assert_eq!(pace.bytes_max(0, 8 * MIB), 2_048 * MIB, "that is one rate");
        pace.look(Duration::from_secs(2), 0);
        assert!(pace.bytes_max(0, 8 * MIB) > 2_048 * MIB);
    }
}
