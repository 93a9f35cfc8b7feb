//! What a watched process and its descendants use, as rates.

use std::collections::HashMap;

use procfs::process::Stat;

use super::rate;

/// The names of the columns behind the watch's own, in the order of [`values`].
pub const COLUMNS: [&str; 8] = [
    "cpu",
    "cpu_user",
    "cpu_system",
    "memory_bytes",
    "read_bytes_per_s",
    "written_bytes_per_s",
    "threads",
    "open_files",
];

/// Sums over the process and its descendants at one instant.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// Processor time of each, by process id and start time.
    pub cpu: HashMap<(i32, u64), CpuTicks>,
    /// Resident memory. Pages that several processes share count for each.
    pub memory_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Bytes read from and written to disks; `None` where they may not be read.
    pub bytes_io: Option<(u64, u64)>,
    /// Open files; `None` where they may not be read.
    pub open_files: Option<u64>,
}

/// Processor time of one process since its start, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTicks {
    /// In programs.
    pub user: u64,
    /// In the kernel.
    pub system: u64,
    /// Of children that ended and were reaped, in programs.
    pub reaped_user: u64,
    /// Of children that ended and were reaped, in the kernel.
    pub reaped_system: u64,
}

impl From<&Stat> for CpuTicks {
    fn from(stat: &Stat) -> Self {
        let reaped = |ticks: i64| u64::try_from(ticks).unwrap_or(0);
        Self {
            user: stat.utime,
            system: stat.stime,
            reaped_user: reaped(stat.cutime),
            reaped_system: reaped(stat.cstime),
        }
    }
}

/// Time of itself and of its reaped children.
type Parts = (u64, u64);

impl Usage {
    /// Ticks that the tree used since `before`, in programs and in the kernel.
    pub fn all_ticks_since(&self, before: &Self) -> u64 {
        self.ticks_since(before, |it| (it.user + it.system, it.reaped_user + it.reaped_system))
    }

    /// Ticks that the tree used since `before`.
    ///
    /// The time of a child that ended moves to its parent, unless the parent does not wait for
    /// its children. Only the part that was not counted before is new.
    fn ticks_since(&self, before: &Self, parts: fn(&CpuTicks) -> Parts) -> u64 {
        let (mut own, mut reaped) = (0, 0);
        for (process, now) in &self.cpu {
            let now = parts(now);
            let before = before.cpu.get(process).map_or((0, 0), parts);
            own += now.0.saturating_sub(before.0);
            reaped += now.1.saturating_sub(before.1);
        }
        let ended = before.cpu.iter().filter(|(process, _)| !self.cpu.contains_key(process));
        let counted: u64 = ended.map(|(_, ticks)| parts(ticks)).map(|(own, reaped)| own + reaped).sum();
        own + reaped.saturating_sub(counted)
    }
}

/// The values of [`COLUMNS`]; processor time in processors: 1.5 is one and a half.
pub fn values(before: Option<&Usage>, now: Option<&Usage>, elapsed_s: f64) -> [Option<f64>; 8] {
    let Some(now) = now else { return [None; 8] };
    let ticks_per_s = procfs::ticks_per_second() as f64;
    let processors = |parts| {
        let ticks = now.ticks_since(before?, parts);
        (elapsed_s > 0.0).then(|| ticks as f64 / ticks_per_s / elapsed_s)
    };
    let bytes = |part: fn((u64, u64)) -> u64| rate(part(before?.bytes_io?), part(now.bytes_io?), elapsed_s);
    [
        processors(|it| (it.user + it.system, it.reaped_user + it.reaped_system)),
        processors(|it| (it.user, it.reaped_user)),
        processors(|it| (it.system, it.reaped_system)),
        Some(now.memory_bytes as f64),
        bytes(|it| it.0),
        bytes(|it| it.1),
        Some(now.threads as f64),
        now.open_files.map(|files| files as f64),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A usage of processes with a process id, user time and user time of reaped children.
    fn usage(processes: &[(i32, u64, u64)]) -> Usage {
        let ticks = |user, reaped_user| CpuTicks { user, reaped_user, ..CpuTicks::default() };
        let cpu = processes.iter().map(|&(pid, user, reaped)| ((pid, 1), ticks(user, reaped))).collect();
        Usage { cpu, ..Usage::default() }
    }

    fn ticks(before: &[(i32, u64, u64)], now: &[(i32, u64, u64)]) -> u64 {
        usage(now).ticks_since(&usage(before), |it| (it.user, it.reaped_user))
    }

    #[test]
    fn a_new_child_counts_whole() {
        assert_eq!(ticks(&[(1, 100, 0)], &[(1, 150, 0), (2, 30, 0)]), 80);
    }

    #[test]
    fn a_child_that_ends_counts_once() {
        assert_eq!(ticks(&[(1, 100, 0), (2, 5000, 7)], &[(1, 110, 5047)]), 50);
    }

    #[test]
    fn a_child_that_comes_and_ends_in_between_counts() {
        assert_eq!(ticks(&[(1, 100, 0)], &[(1, 110, 25)]), 35);
    }

    #[test]
    fn a_child_that_nobody_waits_for_takes_nothing_from_the_others() {
        assert_eq!(ticks(&[(1, 100, 0), (2, 5000, 0)], &[(1, 110, 0)]), 10);
    }

    #[test]
    fn values_are_processors_and_rates() {
        let per_s = procfs::ticks_per_second();
        let cpu = |user, system| HashMap::from([((1, 1), CpuTicks { user, system, reaped_user: 0, reaped_system: 0 })]);
        let before = Usage { cpu: cpu(0, 0), bytes_io: Some((100, 900)), ..Usage::default() };
        let now = Usage {
            cpu: cpu(2 * per_s, per_s),
            memory_bytes: 4096,
            threads: 7,
            bytes_io: Some((300, 900)),
            open_files: Some(11),
        };
        let wanted = [1.5, 1.0, 0.5, 4096.0, 100.0, 0.0, 7.0, 11.0].map(Some);
        assert_eq!(values(Some(&before), Some(&now), 2.0), wanted);
    }

    #[test]
    fn a_process_that_ended_has_no_values_and_a_first_look_has_no_rates() {
        let now = Usage { threads: 2, ..usage(&[(1, 5, 0)]) };
        assert_eq!(values(Some(&now), None, 1.0), [None; 8]);
        let first = [None, None, None, Some(0.0), None, None, Some(2.0), None];
        assert_eq!(values(None, Some(&now), 1.0), first);
    }

    #[test]
    fn bytes_that_go_back_or_may_not_be_read_have_no_rate() {
        let before = Usage { bytes_io: Some((100, 100)), ..Usage::default() };
        let now = Usage { bytes_io: Some((50, 300)), ..Usage::default() };
        let hidden = Usage::default();
        assert_eq!(values(Some(&before), Some(&now), 1.0)[4..6], [None, Some(200.0)]);
        assert_eq!(values(Some(&before), Some(&hidden), 1.0)[4..6], [None, None]);
    }
}
