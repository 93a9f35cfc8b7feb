//! What a process has used since it started.

use std::collections::BTreeMap;

use testbed::monitor::Counters;

use crate::rig::{NODE_CPU_S, NODE_READ_BYTES, NODE_WRITTEN_BYTES};

/// Seconds of processors, and bytes from and to disks. What may not be read is left out.
pub(crate) fn used(pid: u32) -> BTreeMap<String, f64> {
    let Ok(used) = Counters::of(pid) else { return BTreeMap::new() };
    let disks = used.disks.map(|disks| [(NODE_READ_BYTES, disks.read), (NODE_WRITTEN_BYTES, disks.written)]);
    let all = [(NODE_CPU_S, used.cpu_s)].into_iter().chain(disks.into_iter().flatten());
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_has_used_processors_and_one_that_does_not_exist_nothing() {
        let own = used(std::process::id());
        assert!(own.contains_key(NODE_CPU_S) && own.values().all(|value| *value >= 0.0), "{own:?}");
        assert!(used(u32::MAX).is_empty());
    }
}
