//! A control group of Linux that limits the memory of a server, with the files that it reads.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Where Linux has control groups of the first version, and of the second.
const PLACES: [(&str, &str); 3] = [
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ("/sys/fs/cgroup", "memory.max"),
    ("/sys/fs/cgroup/unified", "memory.max"),
];

/// A group, which is removed when the value is dropped. Its processes must have ended by then.
#[derive(Debug)]
pub struct ControlGroup {
    folder: PathBuf,
}

impl ControlGroup {
    /// Makes a group whose processes may use so many bytes.
    pub fn with_memory(bytes: u64) -> Result<Self> {
        for (place, limit) in PLACES {
            let folder = Path::new(place).join(format!("penates-benchmark-{}", std::process::id()));
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Self { folder };
            if group.folder.join(limit).exists() {
                fs::write(group.folder.join(limit), bytes.to_string()).context("cannot limit a control group")?;
                return Ok(group);
            }
        }
        bail!("no control group of memory can be made (run it as root)")
    }

    /// Moves a process that runs into the group. What it had in memory before does not count.
    pub fn take_in(&self, process: u32) -> Result<()> {
        fs::write(self.entrance(), process.to_string()).context("cannot move a process into a control group")
    }

    /// The file by which a process enters the group: it writes its id there.
    pub fn entrance(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder); // an empty group that is left costs nothing
    }
}
