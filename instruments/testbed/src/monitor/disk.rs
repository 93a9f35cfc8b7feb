//! What the disk of the data does.

use std::fs;
use std::path::{Path, PathBuf};

use procfs::DiskStat;
use rustix::fs::{StatVfs, statvfs};

use super::device::{Disk, Volume};
use super::rate;

/// The columns, in the order of [`values`].
pub const COLUMNS: [&str; 7] = [
    "disk_used",
    "disk_read_bytes_per_s",
    "disk_written_bytes_per_s",
    "disk_reads_per_s",
    "disk_writes_per_s",
    "disk_busy",
    "disk_latency_ms",
];

/// The kernel counts in units of this size, whatever the disk's sectors are.
const SECTOR_BYTES: f64 = 512.0;

/// Where the data is.
#[derive(Clone, Debug)]
pub struct Place {
    path: PathBuf,
    disk: Option<Disk>,
}

/// The state of the disk and of its file system.
#[derive(Clone, Debug, Default)]
pub struct DiskState {
    /// Bytes in use, as a share of those that programs may use, from 0 to 1.
    used: Option<f64>,
    counters: Option<DiskStat>,
}

impl Place {
    /// The place of a path, on the disk that carries it now.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), disk: Volume::of(path).and_then(|volume| volume.disk) }
    }

    /// Reads the state now.
    pub fn read(&self) -> DiskState {
        let used = statvfs(&self.path).ok().as_ref().and_then(used);
        let counters = self.disk.as_ref().and_then(|disk| find(&fs::read_to_string("/proc/diskstats").ok()?, disk));
        DiskState { used, counters }
    }
}

/// Blocks that are kept for the administrator are not part of the whole.
fn used(volume: &StatVfs) -> Option<f64> {
    let used = volume.f_blocks.saturating_sub(volume.f_bfree);
    let whole = used + volume.f_bavail;
    (whole > 0).then(|| used as f64 / whole as f64)
}

/// The line of a disk. Another disk with the same numbers has another name.
fn find(text: &str, disk: &Disk) -> Option<DiskStat> {
    let lines = text.lines().filter(|line| line.contains(&disk.name));
    let mut disks = lines.filter_map(|line| DiskStat::from_line(line).ok());
    disks.find(|it| it.name == disk.name && it.major == disk.major as i32 && it.minor == disk.minor as i32)
}

/// The values of [`COLUMNS`]: rates and shares between two states.
///
/// The latency is the mean time of reads and writes that were completed, waiting included.
pub fn values(before: &DiskState, now: &DiskState, elapsed_s: f64) -> [Option<f64>; 7] {
    let mut values = [now.used, None, None, None, None, None, None];
    if let (Some(before), Some(now)) = (&before.counters, &now.counters) {
        values[1..].copy_from_slice(&rates(before, now, elapsed_s).unwrap_or_default());
    }
    values
}

/// `None` if a counter goes back, which means that the disk was attached again.
fn rates(before: &DiskStat, now: &DiskStat, elapsed_s: f64) -> Option<[Option<f64>; 6]> {
    let reads = rate(before.reads, now.reads, elapsed_s)?;
    let writes = rate(before.writes, now.writes, elapsed_s)?;
    let sectors_read = rate(before.sectors_read, now.sectors_read, elapsed_s)?;
    let sectors_written = rate(before.sectors_written, now.sectors_written, elapsed_s)?;
    let busy_ms = milliseconds(before.time_in_progress, now.time_in_progress);
    let request_ms =
        milliseconds(before.time_reading, now.time_reading) + milliseconds(before.time_writing, now.time_writing);
    let requests = (now.reads - before.reads) + (now.writes - before.writes);
    Some([
        Some(sectors_read * SECTOR_BYTES),
        Some(sectors_written * SECTOR_BYTES),
        Some(reads),
        Some(writes),
        Some((busy_ms / 1000.0 / elapsed_s).min(1.0)),
        (requests > 0).then(|| request_ms / requests as f64),
    ])
}

/// The kernel shows times of a disk as 32 bits, which begin at 0 again after 49 days.
fn milliseconds(before: u64, now: u64) -> f64 {
    f64::from((now as u32).wrapping_sub(before as u32))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn disk() -> Disk {
        Disk { name: "sda".into(), major: 8, minor: 0, is_rotational: None }
    }

    /// A line as the kernel writes it.
    fn state(line: &str) -> DiskState {
        DiskState { used: Some(0.5), counters: Some(DiskStat::from_line(line).unwrap()) }
    }

    const BEFORE: &str = "   8       0 sda 100 7 2000 500 200 9 4000 1000 0 600 1500 0 0 0 0 4 4";

    #[test]
    fn the_line_has_the_name_and_the_numbers() {
        let text = "   8       1 sda1 1 0 0 0 0 0 0 0 0 0 0\n   8      16 sda 2 0 0 0 0 0 0 0 0 0 0\n\
            garbage sda\n   8       0 sda 3 0 0 0 0 0 0 0 0 0 0\n";
        assert_eq!(find(text, &disk()).unwrap().reads, 3);
    }

    #[test]
    fn a_disk_that_disappears_leaves_its_fields_empty() {
        assert!(find("   8      16 sdb 2 0 0 0 0 0 0 0 0 0 0\n", &disk()).is_none());
        let gone = DiskState { used: Some(0.5), counters: None };
        let wanted = [Some(0.5), None, None, None, None, None, None];
        assert_eq!(values(&state(BEFORE), &gone, 1.0), wanted);
        assert_eq!(values(&gone, &state(BEFORE), 1.0), wanted);
    }

    #[test]
    fn rates_are_per_second_and_the_latency_is_per_request() {
        let now = state("   8       0 sda 110 7 2100 540 230 9 4400 1120 0 1100 1700 0 0 0 0 4 4");
        let wanted = [Some(0.5), Some(25_600.0), Some(102_400.0), Some(5.0), Some(15.0), Some(0.25), Some(4.0)];
        assert_eq!(values(&state(BEFORE), &now, 2.0), wanted);
    }

    #[test]
    fn a_disk_without_requests_has_no_latency() {
        let wanted = [Some(0.5), Some(0.0), Some(0.0), Some(0.0), Some(0.0), Some(0.0), None];
        assert_eq!(values(&state(BEFORE), &state(BEFORE), 1.0), wanted);
    }

    #[test]
    fn a_disk_that_counts_anew_has_no_rates() {
        let anew = state("   8       0 sda 5 0 40 3 2000 0 9000 9000 0 6000 9000");
        assert_eq!(values(&state(BEFORE), &anew, 1.0), [Some(0.5), None, None, None, None, None, None]);
    }

    #[test]
    fn times_wrap_at_32_bits() {
        let before = state("   8       0 sda 100 7 2000 4294967290 200 9 4000 1000 0 4294967196 1500");
        let now = state("   8       0 sda 110 7 2000 14 200 9 4000 1000 0 400 1500");
        let values = values(&before, &now, 1.0);
        assert_eq!((values[5], values[6]), (Some(0.5), Some(2.0)));
    }
}
