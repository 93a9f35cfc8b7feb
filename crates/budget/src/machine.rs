//! How much memory there is, and parts of it for budgets.

use std::sync::OnceLock;

use sysinfo::{MemoryRefreshKind, Process, ProcessRefreshKind, ProcessesToUpdate, System, get_current_pid};

/// Bytes of memory that this process may use: those of the machine, or fewer if a control group (of
/// a container or a service, for example) limits the process. `None`: the system does not say.
///
/// A process keeps the answer that it got first, so that all its budgets are made of one number.
pub fn usable_memory() -> Option<u64> {
    static USABLE: OnceLock<Option<u64>> = OnceLock::new();
    *USABLE.get_or_init(find)
}

fn find() -> Option<u64> {
    let mut system = System::new().ok()?;
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    let of_process = get_current_pid().ok().and_then(|own| {
        let nothing_else = ProcessRefreshKind::nothing().without_tasks();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[own]), false, nothing_else);
        system.process(own).and_then(Process::cgroup_limits)
    });
    // Where the group of the process is not visible, the topmost one that is visible counts.
    let groups = [of_process, system.cgroup_limits()].into_iter().flatten();
    let least = groups.map(|group| group.total_memory).fold(system.total_memory(), u64::min);
    (least > 0).then_some(least)
}

/// A budget of `usual` bytes where there is enough memory: at most one part in `one_of` of the
/// memory that the process may use (`None`: nobody knows how much that is), and at least `least`.
pub fn part_of_memory(usable: Option<u64>, one_of: u64, usual: u64, least: u64) -> u64 {
    usable.map_or(usual, |usable| usual.min(usable / one_of).max(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn this_process_has_some_memory() {
        assert!(usable_memory().is_some_and(|bytes| bytes >= 64 * MIB));
    }

    #[test]
    fn a_budget_is_a_part_of_the_memory_within_its_bounds() {
        let budget = |usable| part_of_memory(usable, 4, 512 * MIB, 32 * MIB);
        assert_eq!(budget(None), 512 * MIB);
        assert_eq!(budget(Some(1 << 40)), 512 * MIB);
        assert_eq!(budget(Some(1 << 30)), 256 * MIB);
        assert_eq!(budget(Some(100 * MIB)), 32 * MIB);
        assert_eq!(budget(Some(0)), 32 * MIB);
    }
}
