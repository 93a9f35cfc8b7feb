//! How busy the processors of the machine are.

use procfs::{CurrentSI, KernelStats};

/// The columns, in the order of [`shares`].
pub const COLUMNS: [&str; 5] = ["cpu", "cpu_user", "cpu_system", "cpu_iowait", "cpu_steal"];

/// Time that all processors together spent since the machine started, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTimes {
    /// In programs.
    pub user: u64,
    /// In the kernel, interrupts included.
    pub system: u64,
    /// Of that, in interrupts: for packets and disks, and for no process.
    pub interrupts: u64,
    /// Idle.
    pub idle: u64,
    /// Idle while a request to a disk was open.
    pub iowait: u64,
    /// Used by other virtual machines while this one wanted to run.
    pub steal: u64,
}

impl CpuTimes {
    /// Reads them now.
    pub fn read() -> Option<Self> {
        KernelStats::current().ok().as_ref().map(Self::from)
    }

    /// What was added since `before`. A time that goes back, as idle times sometimes do, adds nothing.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            interrupts: self.interrupts.saturating_sub(before.interrupts),
            idle: self.idle.saturating_sub(before.idle),
            iowait: self.iowait.saturating_sub(before.iowait),
            steal: self.steal.saturating_sub(before.steal),
        }
    }

    /// In use by this machine, as a share of all; `None` if no time passed.
    pub fn busy_share(&self) -> Option<f64> {
        self.share(self.user + self.system)
    }

    fn share(&self, ticks: u64) -> Option<f64> {
        let total = self.user + self.system + self.idle + self.iowait + self.steal;
        (total > 0).then(|| ticks as f64 / total as f64)
    }
}

impl From<&KernelStats> for CpuTimes {
    /// The kernel counts the time of guests as user time too, so that it is not added again.
    fn from(stats: &KernelStats) -> Self {
        let all = &stats.total;
        let interrupts = all.irq.unwrap_or(0) + all.softirq.unwrap_or(0);
        Self {
            user: all.user + all.nice,
            system: all.system + interrupts,
            interrupts,
            idle: all.idle,
            iowait: all.iowait.unwrap_or(0),
            steal: all.steal.unwrap_or(0),
        }
    }
}

/// The values of [`COLUMNS`]: shares of the time of all processors, from 0 to 1.
pub fn shares(before: Option<CpuTimes>, now: Option<CpuTimes>) -> [Option<f64>; 5] {
    let (Some(before), Some(now)) = (before, now) else { return [None; 5] };
    let spent = now.since(&before);
    let share = |ticks| spent.share(ticks);
    [spent.busy_share(), share(spent.user), share(spent.system), share(spent.iowait), share(spent.steal)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use procfs::FromBufReadSI;

    use super::*;

    fn times(text: &str) -> CpuTimes {
        CpuTimes::from(&KernelStats::from_buf_read(text.as_bytes(), procfs::current_system_info()).unwrap())
    }

    const TEXT: &str = "cpu  5125050 390540 843051 1297477 46768 7 52043 8697 100 20\n\
        cpu0 2489133 200161 402395 752454 14358 3 19202 4187 100 20\n\
        intr 1 2 3\nctxt 1\nbtime 1700000000\nprocesses 5\nprocs_running 1\n";

    #[test]
    fn the_line_of_all_processors_counts() {
        let found = times(TEXT);
        assert_eq!((found.user, found.system, found.interrupts), (5_515_590, 895_101, 52_050));
        assert_eq!((found.idle, found.iowait, found.steal), (1_297_477, 46_768, 8697));
    }

    #[test]
    fn a_kernel_that_counts_only_four_times_is_read() {
        let old = times("cpu 10 20 30 40\nctxt 1\nbtime 2\nprocesses 3\n");
        assert_eq!(old, CpuTimes { user: 30, system: 30, idle: 40, ..CpuTimes::default() });
    }

    #[test]
    fn shares_are_of_the_time_that_passed() {
        let before = CpuTimes { user: 100, system: 100, interrupts: 0, idle: 100, iowait: 100, steal: 100 };
        let now = CpuTimes { user: 140, system: 120, interrupts: 0, idle: 110, iowait: 120, steal: 110 };
        let wanted = [Some(0.6), Some(0.4), Some(0.2), Some(0.2), Some(0.1)];
        assert_eq!(shares(Some(before), Some(now)), wanted);
    }

    #[test]
    fn a_waiting_time_that_goes_back_adds_nothing() {
        let before = CpuTimes { iowait: 500, ..CpuTimes::default() };
        let now = CpuTimes { user: 50, idle: 50, iowait: 499, ..CpuTimes::default() };
        assert_eq!(shares(Some(before), Some(now)), [Some(0.5), Some(0.5), Some(0.0), Some(0.0), Some(0.0)]);
    }

    #[test]
    fn no_time_and_no_reading_give_no_shares() {
        let now = Some(CpuTimes { user: 1, ..CpuTimes::default() });
        assert_eq!(shares(now, now), [None; 5]);
        assert_eq!(shares(None, now), [None; 5]);
        assert_eq!(shares(now, None), [None; 5]);
    }
}
