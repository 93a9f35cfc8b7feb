//! How long work of the machine, or of a control group, had to wait for processors, memory and disks.

use std::path::{Path, PathBuf};

use super::rate;

/// The columns, in the order of [`shares`].
pub const COLUMNS: [&str; 3] = ["pressure_cpu", "pressure_memory", "pressure_io"];

const RESOURCES: [&str; 3] = ["cpu", "memory", "io"];

/// Time since its start in which some work waited for each resource, in microseconds.
pub type Waits = [Option<u64>; 3];

/// Those of the machine now. Kernels may be built without them.
pub fn read() -> Waits {
    RESOURCES.map(|resource| waited(&Path::new("/proc/pressure").join(resource)))
}

/// Those of a control group of version 2 now.
pub fn of_group(folders: &[PathBuf]) -> Waits {
    RESOURCES.map(|resource| folders.iter().find_map(|folder| waited(&folder.join(format!("{resource}.pressure")))))
}

fn waited(file: &Path) -> Option<u64> {
    parse(&std::fs::read_to_string(file).ok()?)
}

/// The wait of the line `some`. The line `full` is not read: older kernels have none for
/// processors.
fn parse(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    procfs::parse_pressure_record(line).ok().map(|record| record.total)
}

/// The values of [`COLUMNS`]: shares of the elapsed time, from 0 to 1.
pub fn shares(before: Waits, now: Waits, elapsed_s: f64) -> [Option<f64>; 3] {
    std::array::from_fn(|resource| {
        let microseconds_per_s = rate(before[resource]?, now[resource]?, elapsed_s)?;
        Some((microseconds_per_s / 1e6).min(1.0))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_line_some_counts() {
        let text = "some avg10=33.60 avg60=17.82 avg300=17.09 total=19338709254\n\
            full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse(text), Some(19_338_709_254));
        assert_eq!(parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=12\n"), Some(12));
    }

    #[test]
    fn an_empty_file_and_an_unknown_line_give_nothing() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"), None);
        assert_eq!(parse("some total=\n"), None);
    }

    #[test]
    fn a_share_is_at_most_one_and_a_total_that_goes_back_gives_none() {
        let before = [Some(1_000_000), Some(0), Some(500)];
        let now = [Some(1_250_000), Some(1_000_900), Some(400)];
        assert_eq!(shares(before, now, 1.0), [Some(0.25), Some(1.0), None]);
        assert_eq!(shares([None; 3], now, 1.0), [None; 3]);
    }
}
