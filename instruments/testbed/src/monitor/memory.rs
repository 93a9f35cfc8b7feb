//! How much memory of the machine is in use.

use procfs::{Current, Meminfo};

/// The columns, in the order of [`Memory::values`].
pub const COLUMNS: [&str; 2] = ["memory_used_bytes", "memory_cached_bytes"];

/// Memory of the machine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Not available to new programs; `None` where the kernel does not report it.
    used: Option<u64>,
    /// Pages of files.
    cached: u64,
}

impl Memory {
    /// Reads it now.
    pub fn read() -> Option<Self> {
        Meminfo::current().ok().as_ref().map(Self::from)
    }

    /// The values of [`COLUMNS`].
    pub fn values(now: Option<Self>) -> [Option<f64>; 2] {
        let Some(now) = now else { return [None; 2] };
        [now.used.map(|bytes| bytes as f64), Some(now.cached as f64)]
    }
}

impl From<&Meminfo> for Memory {
    fn from(info: &Meminfo) -> Self {
        let used = info.mem_available.map(|available| info.mem_total.saturating_sub(available));
        Self { used, cached: info.cached }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use procfs::FromBufRead;

    use super::*;

    const TEXT: &str = "MemTotal: 24684096 kB\nMemFree: 17047776 kB\nBuffers: 262992 kB\n\
        Cached: 5822024 kB\nSwapCached: 0 kB\nActive: 3356688 kB\nInactive: 2764068 kB\nSwapTotal: 0 kB\n\
        SwapFree: 0 kB\nDirty: 4 kB\nWriteback: 0 kB\nMapped: 100 kB\nSlab: 100 kB\nCommitted_AS: 100 kB\n\
        VmallocTotal: 100 kB\nVmallocUsed: 100 kB\nVmallocChunk: 0 kB\n";

    fn memory(text: &str) -> Memory {
        Memory::from(&Meminfo::from_buf_read(text.as_bytes()).unwrap())
    }

    #[test]
    fn used_is_what_is_not_available() {
        let text = format!("{TEXT}MemAvailable:   23415532 kB\n");
        let wanted = [Some(1_268_564.0 * 1024.0), Some(5_822_024.0 * 1024.0)];
        assert_eq!(Memory::values(Some(memory(&text))), wanted);
    }

    #[test]
    fn a_kernel_that_does_not_say_what_is_available_gives_no_used_bytes() {
        assert_eq!(Memory::values(Some(memory(TEXT))), [None, Some(5_822_024.0 * 1024.0)]);
        assert_eq!(Memory::values(None), [None, None]);
    }
}
