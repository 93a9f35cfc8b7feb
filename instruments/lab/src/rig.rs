//! What is measured, as the lab sees it: a real node, or a simulated one.

use std::collections::BTreeMap;
use std::path::Path;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::factor::Setting;
use crate::plan::Restart;
use crate::workload::Workload;

/// The setting that limits compactions. It is always read back: a check needs it.
pub const THROTTLE: &str = "compaction_throughput";

/// Counters of the node's process: seconds of processors, and bytes from and to disks.
pub const NODE_CPU_S: &str = "node_cpu_s";
/// See [`NODE_CPU_S`].
pub const NODE_READ_BYTES: &str = "node_read_bytes";
/// See [`NODE_CPU_S`].
pub const NODE_WRITTEN_BYTES: &str = "node_written_bytes";

/// Why a step failed.
#[derive(Debug, Error)]
pub enum RigError {
    /// This setting does not run: a node that does not start with it, a load that fails. The run is
    /// void, and the next one begins.
    #[error("{0}")]
    Run(String),
    /// Nothing can be measured here. The study ends, and can be resumed.
    #[error("{0}")]
    Fatal(String),
}

/// What is there before a run's records are written.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Baseline {
    /// Snapshots that are left.
    pub snapshots: u64,
    /// Bytes of earlier tables that are left on the disk.
    pub left_bytes: u64,
}

/// Counters of the node since it started. Only their differences count.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counters {
    /// When they were read, in seconds on a clock that only goes forward.
    pub at_s: f64,
    /// Of how many nodes they are the sums; 0 counts as one.
    pub nodes: u8,
    /// Bytes on disk that compactions of the table have read.
    pub compacted_bytes: f64,
    /// Compactions of the table that have ended.
    pub compactions: f64,
    /// Writes and deletions of the table that the node has counted.
    pub writes: f64,
    /// Reads of the table that the node has counted.
    pub reads: f64,
    /// What else was used, by the name of its metric, such as [`NODE_CPU_S`]. What cannot be read is
    /// left out.
    pub used: BTreeMap<String, f64>,
}

/// How many nodes count an operation: the fewest and the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedBy {
    /// A write or a deletion.
    pub writes: (u8, u8),
    /// A read. More nodes than have to answer may be asked.
    pub reads: (u8, u8),
}

impl Default for CountedBy {
    /// One node counts each once.
    fn default() -> Self {
        Self { writes: (1, 1), reads: (1, 1) }
    }
}

/// What a load did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// Operations that were due in the measured time.
    pub due: u64,
    /// Those of them that were done.
    pub done: u64,
    /// How late the load itself sent: the 99th percentile in milliseconds.
    pub lateness_p99_ms: f64,
    /// Writes and deletions that were answered, and that were sent, warm-up included.
    pub writes: (u64, u64),
    /// Reads that were answered, and that were sent, warm-up included.
    pub reads: (u64, u64),
    /// Writes and deletions, and reads, that were answered of those that were due in the measured time.
    pub measured: (u64, u64),
    /// How many nodes count each write, and each read: the fewest and the most. `None`: what is measured
    /// says neither what it counts nor what it compacts.
    pub counted_by: Option<CountedBy>,
    /// The counters at the beginning of the measured time.
    pub begun: Counters,
    /// Median latencies of the quarters of the measured time in milliseconds.
    pub quarters_ms: [Option<f64>; 4],
    /// All metrics of the measured time, by name.
    pub metrics: BTreeMap<String, f64>,
}

/// What was measured, on what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Facts by name: the machine, its processors, versions.
    pub facts: BTreeMap<String, String>,
}

/// What is measured. The runner calls these in the order in which they are here.
#[async_trait]
pub trait Rig: Send {
    /// What is measured, on what.
    async fn facts(&mut self) -> Result<Facts, RigError>;

    /// Brings a setting into force. The node starts again where the setting needs it, or before every
    /// run: then not, if no run was made since it started. Returns whether it did.
    async fn apply(&mut self, setting: &Setting, restart: Restart) -> Result<bool, RigError>;

    /// Makes the table again, with the setting's options, deletes snapshots, and waits until the
    /// disk is as before.
    async fn recreate(&mut self, setting: &Setting) -> Result<Baseline, RigError>;

    /// The values that are in force, by factor, and [`THROTTLE`].
    async fn read_back(&mut self) -> Result<BTreeMap<String, String>, RigError>;

    /// Writes the records, flushes them, and waits until no compaction runs or waits.
    async fn prefill(&mut self, seed: u64) -> Result<(), RigError>;

    /// The counters now.
    async fn counters(&mut self) -> Result<Counters, RigError>;

    /// Makes the load, and reads the counters where its measured time begins. Files of the run go into
    /// the folder.
    async fn load(&mut self, workload: &Workload, seed: u64, folder: &Path) -> Result<Loaded, RigError>;

    /// Flushes the table, and waits until no compaction runs or waits. Returns metrics of the state
    /// then.
    async fn drain(&mut self) -> Result<BTreeMap<String, f64>, RigError>;
}
