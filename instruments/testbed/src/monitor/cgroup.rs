//! What a control group uses, such as a container, in both versions.

use std::fs;
use std::path::{Path, PathBuf};

use super::{pressure, rate};

/// A control group to watch.
#[derive(Clone, Debug, PartialEq)]
pub struct CgroupWatch {
    /// The name before its columns.
    pub name: String,
    /// Its folder, such as `/sys/fs/cgroup/system.slice/server.service`. In version 1 a group has one
    /// for each controller. What is not there has empty fields.
    pub folders: Vec<PathBuf>,
}

impl CgroupWatch {
    /// A control group by its folder.
    pub fn new(name: &str, folder: &Path) -> Self {
        Self { name: name.to_owned(), folders: vec![folder.to_owned()] }
    }
}

/// The names of the columns behind the group's own, in the order of [`values`].
pub const COLUMNS: [&str; 12] = [
    "cpu",
    "cpu_user",
    "cpu_system",
    "cpu_throttled",
    "memory_bytes",
    "memory_used_bytes",
    "memory_limit_bytes",
    "read_bytes_per_s",
    "written_bytes_per_s",
    "pressure_cpu",
    "pressure_memory",
    "pressure_io",
];

/// Version 1 shows no limit of memory as about this many bytes.
const NO_LIMIT_BYTES: u64 = 1 << 62;

/// What a group counts at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Processor time in microseconds: all, user, system, and the time in which it had to wait because
    /// of its quota.
    cpu_us: [Option<u64>; 4],
    memory_bytes: Option<u64>,
    /// Of that, pages of files, which the kernel drops when the group needs their memory.
    cached_bytes: Option<u64>,
    /// The most bytes of memory that it may have, if there is a limit.
    memory_limit_bytes: Option<u64>,
    /// Bytes read from and written to disks.
    io_bytes: Option<(u64, u64)>,
    /// How long it waited for resources. Version 1 does not say.
    waits: pressure::Waits,
}

impl Counts {
    /// Reads the files of a group: those of version 2, or else of version 1.
    pub fn read(folders: &[PathBuf]) -> Self {
        let text = |file: &str| folders.iter().find_map(|folder| fs::read_to_string(folder.join(file)).ok());
        let all = |file: &str| text(file).and_then(|text| text.trim().parse::<u64>().ok());
        let (cpu, account) = (text("cpu.stat").unwrap_or_default(), text("cpuacct.stat").unwrap_or_default());
        // Version 1 has nanoseconds, and ticks of the kernel.
        let ticks_us = |ticks: u64| ticks * 1_000_000 / procfs::ticks_per_second();
        let cpu_us = [
            line(&cpu, "usage_usec").or_else(|| all("cpuacct.usage").map(|ns| ns / 1_000)),
            line(&cpu, "user_usec").or_else(|| line(&account, "user").map(ticks_us)),
            line(&cpu, "system_usec").or_else(|| line(&account, "system").map(ticks_us)),
            line(&cpu, "throttled_usec").or_else(|| line(&cpu, "throttled_time").map(|ns| ns / 1_000)),
        ];
        let memory = text("memory.stat").unwrap_or_default();
        // In version 1 those of groups in it are in other lines.
        let pages = |name: &str| line(&memory, &format!("total_{name}")).or_else(|| line(&memory, name));
        let cached = pages("inactive_file").zip(pages("active_file"));
        let limit = all("memory.max").or_else(|| all("memory.limit_in_bytes"));
        let io = text("io.stat").map(|text| (sum(&text, "rbytes="), sum(&text, "wbytes=")));
        let of_first = || text("blkio.throttle.io_service_bytes").map(|text| (by(&text, "Read"), by(&text, "Write")));
        Self {
            cpu_us,
            memory_bytes: all("memory.current").or_else(|| all("memory.usage_in_bytes")),
            cached_bytes: cached.map(|(inactive, active)| inactive.saturating_add(active)),
            memory_limit_bytes: limit.filter(|bytes| *bytes < NO_LIMIT_BYTES),
            io_bytes: io.or_else(of_first),
            waits: pressure::of_group(folders),
        }
    }
}

/// The value of a line that begins with this key.
fn line(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok())
}

/// The sum of a value over all devices.
fn sum(text: &str, key: &str) -> u64 {
    text.split_whitespace().filter_map(|word| word.strip_prefix(key)?.parse::<u64>().ok()).sum()
}

/// The same in version 1: a line has a device, a kind and a value.
fn by(text: &str, kind: &str) -> u64 {
    let value = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        words.next().filter(|word| *word == kind)?;
        words.next()?.parse::<u64>().ok()
    };
    text.lines().filter_map(value).sum()
}

/// The values of [`COLUMNS`]; processor time in processors: 1.5 is one and a half. The memory that is
/// used is without pages of files.
pub fn values(before: &Counts, now: &Counts, elapsed_s: f64) -> [Option<f64>; 12] {
    let processors = |index: usize| rate(before.cpu_us[index]?, now.cpu_us[index]?, elapsed_s).map(|us| us / 1e6);
    let used_bytes = now.memory_bytes.zip(now.cached_bytes).map(|(all, cached)| all.saturating_sub(cached) as f64);
    let [waits_cpu, waits_memory, waits_io] = pressure::shares(before.waits, now.waits, elapsed_s);
    let io = |part: fn((u64, u64)) -> u64| rate(part(before.io_bytes?), part(now.io_bytes?), elapsed_s);
    [
        processors(0),
        processors(1),
        processors(2),
        processors(3),
        now.memory_bytes.map(|bytes| bytes as f64),
        used_bytes,
        now.memory_limit_bytes.map(|bytes| bytes as f64),
        io(|bytes| bytes.0),
        io(|bytes| bytes.1),
        waits_cpu,
        waits_memory,
        waits_io,
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
        let waited = |us: u64| format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\n");
        write("cpu.pressure", &waited(1_000_000));
        write("io.pressure", &waited(7));
        let folders = [folder.path().to_owned()];
        let before = Counts::read(&folders);
        write("cpu.stat", "usage_usec 4000000\nuser_usec 2700000\nsystem_usec 1300000\nthrottled_usec 500000\n");
        write("memory.current", "8192\n");
        write("memory.max", "16384\n");
        write("memory.stat", "anon 4096\nfile 4096\ninactive_file 3072\nactive_file 1024\n");
        write("io.stat", "8:0 rbytes=110 wbytes=20\n259:0 rbytes=1 wbytes=2002\n");
        write("cpu.pressure", &waited(2_500_000));
        let found = values(&before, &Counts::read(&folders), 2.0);
        assert_eq!(found[..9], [1.5, 1.0, 0.5, 0.25, 8_192.0, 4_096.0, 16_384.0, 50.0, 1_000.0].map(Some));
        assert_eq!(found[9..], [Some(0.75), None, Some(0.0)], "pressures; the kernel counts none of memory");
        write("memory.max", "max\n");
        assert_eq!(Counts::read(&folders).memory_limit_bytes, None, "nothing limits it");
    }

    #[test]
    fn a_group_of_version_1_has_a_folder_for_each_controller() {
        let root = tempfile::tempdir().unwrap();
        let folders = ["cpu", "cpuacct", "memory", "blkio"].map(|controller| root.path().join(controller));
        folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        write("cpu/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n");
        write("cpuacct/cpuacct.usage", "1000000000\n");
        write("cpuacct/cpuacct.stat", "user 0\nsystem 0\n");
        write("memory/memory.usage_in_bytes", "4096\n");
        write("blkio/blkio.throttle.io_service_bytes", "8:0 Read 10\n8:0 Write 20\n8:0 Total 30\nTotal 30\n");
        let before = Counts::read(&folders);
        let second = procfs::ticks_per_second();
        write("cpu/cpu.stat", "nr_periods 9\nnr_throttled 5\nthrottled_time 500000000\n");
        write("cpuacct/cpuacct.usage", "4000000000\n");
        write("cpuacct/cpuacct.stat", &format!("user {}\nsystem {second}\n", 2 * second));
        write("memory/memory.usage_in_bytes", "8192\n");
        write("memory/memory.limit_in_bytes", "16384\n");
        let pages = "inactive_file 1\nactive_file 1\ntotal_inactive_file 3072\ntotal_active_file 1024\n";
        write("memory/memory.stat", pages);
        write(
            "blkio/blkio.throttle.io_service_bytes",
            "8:0 Read 110\n8:0 Write 20\n8:16 Write 2000\n8:0 Total 130\nTotal 2130\n",
        );
        let found = values(&before, &Counts::read(&folders), 2.0);
        assert_eq!(found[..9], [1.5, 1.0, 0.5, 0.25, 8_192.0, 4_096.0, 16_384.0, 50.0, 1_000.0].map(Some));
        assert_eq!(found[9..], [None; 3], "version 1 has no pressures");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(Counts::read(&folders).memory_limit_bytes, None, "nothing limits it");
    }

    #[test]
    fn what_a_group_does_not_count_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cpu.stat"), "usage_usec much\n").unwrap();
        let counts = Counts::read(&[folder.path().to_owned()]);
        assert_eq!(counts, Counts::default());
        assert_eq!(values(&counts, &counts, 1.0), [None; 12]);
    }
}
