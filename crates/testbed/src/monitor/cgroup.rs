//! What a control group (version 2) uses, such as a container.

use std::fs;
use std::path::{Path, PathBuf};

use super::rate;

/// A control group to watch.
#[derive(Clone, Debug, PartialEq)]
pub struct CgroupWatch {
    /// The name before its columns.
    pub name: String,
    /// Its folder, such as `/sys/fs/cgroup/system.slice/server.service`. What is not there has empty
    /// fields.
    pub folder: PathBuf,
}

impl CgroupWatch {
    /// A control group by its folder.
    pub fn new(name: &str, folder: &Path) -> Self {
        Self { name: name.to_owned(), folder: folder.to_owned() }
    }
}

/// The names of the columns behind the group's own, in the order of [`values`].
pub const COLUMNS: [&str; 7] =
    ["cpu", "cpu_user", "cpu_system", "cpu_throttled", "memory_bytes", "read_bytes_per_s", "written_bytes_per_s"];

/// What a group counts at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Processor time in microseconds: all, user, system, and the time in which it had to wait because
    /// of its quota.
    cpu_us: [Option<u64>; 4],
    memory_bytes: Option<u64>,
    /// Bytes read from and written to disks.
    io_bytes: Option<(u64, u64)>,
}

impl Counts {
    /// Reads the files of a group.
    pub fn read(folder: &Path) -> Self {
        let text = |file: &str| fs::read_to_string(folder.join(file)).ok();
        let cpu = text("cpu.stat").unwrap_or_default();
        let cpu_us = |key: &str| cpu.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok());
        Self {
            cpu_us: ["usage_usec", "user_usec", "system_usec", "throttled_usec"].map(cpu_us),
            memory_bytes: text("memory.current").and_then(|text| text.trim().parse().ok()),
            io_bytes: text("io.stat").map(|text| (sum(&text, "rbytes="), sum(&text, "wbytes="))),
        }
    }
}

/// The sum of a value over all devices.
fn sum(text: &str, key: &str) -> u64 {
    text.split_whitespace().filter_map(|word| word.strip_prefix(key)?.parse::<u64>().ok()).sum()
}

/// The values of [`COLUMNS`]; processor time in processors: 1.5 is one and a half.
pub fn values(before: &Counts, now: &Counts, elapsed_s: f64) -> [Option<f64>; 7] {
    let processors = |index: usize| rate(before.cpu_us[index]?, now.cpu_us[index]?, elapsed_s).map(|us| us / 1e6);
    let io = |part: fn((u64, u64)) -> u64| rate(part(before.io_bytes?), part(now.io_bytes?), elapsed_s);
    [
        processors(0),
        processors(1),
        processors(2),
        processors(3),
        now.memory_bytes.map(|bytes| bytes as f64),
        io(|bytes| bytes.0),
        io(|bytes| bytes.1),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rates_are_those_between_two_looks_over_all_devices() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(folder.path().join(file), text).unwrap();
        write("cpu.stat", "usage_usec 1000000\nuser_usec 700000\nsystem_usec 300000\nnr_periods 0\nthrottled_usec 0\n");
        write("memory.current", "4096\n");
        write("io.stat", "8:0 rbytes=10 wbytes=20 rios=1 wios=1 dbytes=0 dios=0\n259:0 rbytes=1 wbytes=2\n");
        let before = Counts::read(folder.path());
        write("cpu.stat", "usage_usec 4000000\nuser_usec 2700000\nsystem_usec 1300000\nthrottled_usec 500000\n");
        write("memory.current", "8192\n");
        write("io.stat", "8:0 rbytes=110 wbytes=20\n259:0 rbytes=1 wbytes=2002\n");
        let found = values(&before, &Counts::read(folder.path()), 2.0);
        assert_eq!(found, [1.5, 1.0, 0.5, 0.25, 8_192.0, 50.0, 1_000.0].map(Some));
    }

    #[test]
    fn what_a_group_does_not_count_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cpu.stat"), "usage_usec much\n").unwrap();
        let counts = Counts::read(folder.path());
        assert_eq!(counts, Counts::default());
        assert_eq!(values(&counts, &counts, 1.0), [None; 7]);
    }
}
