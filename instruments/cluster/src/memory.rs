//! The memory of a node.

use crate::error::{ClusterError, Result};

/// The heap below which a node does not run well.
const HEAP_MIN_MIB: u64 = 256;

/// The heap above which a node in a trial gains nothing.
const HEAP_MAX_MIB: u64 = 1024;

/// The memory of a node beyond its heap (measured: 650 MiB in all with a heap of 256, 950 with 512,
/// 1.5 GiB with 1,024).
const BESIDE_HEAP_MIB: u64 = 450;

/// The share of the available memory that nodes may take. The rest is for the programs that use
/// them, and for the page cache.
const SHARE_PERCENT: u64 = 60;

/// The size of the heap in MiB of a cluster of one node that says none: what fits into the memory
/// that is available now, 256 to 1,024.
///
/// # Errors
/// There is too little memory for a node.
pub fn fitting_heap_mib() -> Result<u32> {
    heap_mib(1)
}

/// The heap's size with which this many nodes fit into the available memory.
pub(crate) fn heap_mib(nodes: usize) -> Result<u32> {
    // If the operating system does not report it, nodes may fail to start.
    available_mib().map_or(Ok(HEAP_MIN_MIB as u32), |available_mib| fitting(nodes, available_mib))
}

fn fitting(nodes: usize, available_mib: u64) -> Result<u32> {
    let needed_mib = nodes as u64 * (HEAP_MIN_MIB + BESIDE_HEAP_MIB);
    if needed_mib > available_mib {
        return Err(ClusterError::NotEnoughMemory { nodes, needed_mib, available_mib });
    }
    let each_mib = available_mib * SHARE_PERCENT / 100 / nodes.max(1) as u64;
    Ok(each_mib.saturating_sub(BESIDE_HEAP_MIB).clamp(HEAP_MIN_MIB, HEAP_MAX_MIB) as u32)
}

/// The memory that is available without swapping (proc(5), `MemAvailable`).
fn available_mib() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn nodes_share_the_available_memory_and_each_has_enough() {
        assert_eq!(fitting(1, 64 << 10).unwrap(), 1024);
        assert_eq!(fitting(3, 4 << 10).unwrap(), 369);
        assert_eq!(fitting(3, 3 << 10).unwrap(), 256);
    }

    #[test]
    fn more_nodes_than_fit_are_refused() {
        let refused = fitting(6, 4 << 10);
        assert!(matches!(
            refused,
            Err(ClusterError::NotEnoughMemory { nodes: 6, needed_mib: 4236, available_mib: 4096 })
        ));
    }

    #[test]
    fn this_machine_reports_its_available_memory() {
        assert!(available_mib().unwrap() > 0);
    }
}
