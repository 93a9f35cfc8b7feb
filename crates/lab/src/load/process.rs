//! What a process has used since it started.

use std::collections::BTreeMap;

use procfs::process::Process;

use crate::rig::{NODE_CPU_S, NODE_READ_BYTES, NODE_WRITTEN_BYTES};

/// Seconds of processors, and bytes from and to disks. What may not be read is left out.
pub(crate) fn used(pid: u32) -> BTreeMap<String, f64> {
    let Some(process) = i32::try_from(pid).ok().and_then(|pid| Process::new(pid).ok()) else {
        return BTreeMap::new();
    };
    let ticks_per_s = procfs::ticks_per_second() as f64;
    let cpu = process.stat().ok().map(|stat| (NODE_CPU_S, (stat.utime + stat.stime) as f64 / ticks_per_s));
    let io = process
        .io()
        .ok()
        .map(|io| [(NODE_READ_BYTES, io.read_bytes as f64), (NODE_WRITTEN_BYTES, io.write_bytes as f64)]);
    cpu.into_iter().chain(io.into_iter().flatten()).map(|(name, value)| (name.to_owned(), value)).collect()
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
