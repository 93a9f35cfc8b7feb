//! Workloads: what a load does, how often, on which records.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::closed::Closed;
use crate::hold::Hold;
use crate::plan::{self, PlanError};

/// Shares of the operations. Only their ratio counts: 90 and 10 are 0.9 and 0.1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mix {
    /// Writes of whole records.
    pub write: f64,
    /// Reads of whole records.
    pub read: f64,
    /// Deletions of whole records.
    pub delete: f64,
}

impl Default for Mix {
    fn default() -> Self {
        Self { write: 0.0, read: 0.0, delete: 0.0 }
    }
}

impl Mix {
    /// The operation for a random number from 0 to 1.
    pub fn choose(&self, random: f64) -> Operation {
        let at = random * (self.write + self.read + self.delete);
        if at < self.write {
            Operation::Write
        } else if at < self.write + self.read {
            Operation::Read
        } else {
            Operation::Delete
        }
    }

    /// The share of reads, 0 to 1.
    pub fn read_share(&self) -> f64 {
        self.read / (self.write + self.read + self.delete)
    }
}

/// What one request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Writes a record.
    Write,
    /// Reads a record.
    Read,
    /// Deletes a record.
    Delete,
}

impl Operation {
    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Delete => "delete",
        }
    }
}

/// Which records are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Keys {
    /// All equally often.
    #[default]
    Uniform,
    /// Few of them often, by Zipf's law.
    Zipf {
        /// The exponent, above 0; 0.99 is usual.
        exponent: f64,
    },
}

/// The most records: their keys have ten digits.
const RECORDS_MAX: u64 = 10_000_000_000;

/// The longest duration and warm-up.
const DURATION_MAX: Duration = Duration::from_secs(24 * 3_600);

/// The most operations of a run.
const OPERATIONS_MAX: f64 = 1e9;

/// A load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// What it does.
    pub mix: Mix,
    /// Operations per second, the same for all settings. In a closed loop only estimates follow from it.
    pub rate: f64,
    /// Which records.
    #[serde(default)]
    pub keys: Keys,
    /// So long operations are made and do not count. A plan that is read says it, or has the usual
    /// time.
    #[serde(default, with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<Duration>,
    /// So long they count.
    #[serde(with = "humantime_serde")]
    pub duration: Duration,
    /// What is to be kept: then a run looks for the highest rate at which it is, and begins with the
    /// rate above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// In a closed loop, how many threads send; `None`: the loop is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Closed>,
}

/// About how many loads a run makes that looks for a rate, and how many operations as a multiple of
/// one at the first rate. A closed loop makes as many operations as the node takes, in one load.
const HOLD_LOADS: f64 = 8.0;
const HOLD_OPERATIONS: f64 = 32.0;

impl Workload {
    /// So long operations are made and do not count.
    pub fn warm_up(&self) -> Duration {
        self.warm_up.unwrap_or_default()
    }

    /// About how many loads a run makes, and how many operations as a multiple of one load at the rate
    /// that the plan says.
    pub(crate) fn loads(&self) -> (f64, f64) {
        match (&self.hold, &self.closed) {
            (Some(_), _) => (HOLD_LOADS, HOLD_OPERATIONS),
            (None, Some(_)) => (1.0, HOLD_OPERATIONS),
            (None, None) => (1.0, 1.0),
        }
    }

    /// How many threads send; `None`: the loop is open, or a search has to find it first.
    pub fn threads(&self) -> Option<u32> {
        self.closed.and_then(|closed| closed.number())
    }

    /// Whether a search has to find the number of threads first.
    pub(crate) fn is_searched(&self) -> bool {
        self.closed.is_some() && self.threads().is_none()
    }

    /// How long one load takes in all.
    pub fn time(&self) -> Duration {
        self.warm_up() + self.duration
    }

    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let wrong =
            |what: &str| Err(PlanError::Invalid { at: format!("workloads: {}", self.name), what: what.to_owned() });
        if !plan::is_name(&self.name) {
            return wrong(plan::NAME_RULE);
        }
        let shares = [self.mix.write, self.mix.read, self.mix.delete];
        if shares.iter().any(|share| !share.is_finite() || *share < 0.0) || shares.iter().sum::<f64>() <= 0.0 {
            return wrong("shares of the mix are at least 0, and one is above");
        }
        if !(self.rate.is_finite() && (0.1..=1e6).contains(&self.rate)) {
            return wrong("a rate from 0.1 to 1,000,000 operations per second");
        }
        if self.duration.is_zero() || self.duration.max(self.warm_up()) > DURATION_MAX {
            return wrong("a duration above 0, and at most a day of it and of the warm-up");
        }
        if self.rate * self.time().as_secs_f64() > OPERATIONS_MAX {
            return wrong("at most 1,000,000,000 operations: rate times time");
        }
        if let Keys::Zipf { exponent } = self.keys
            && !(exponent.is_finite() && exponent > 0.0)
        {
            return wrong("an exponent above 0");
        }
        if self.hold.as_ref().is_some_and(|hold| !hold.is_good()) {
            return wrong("hold: a known metric of which less is better, the most it may be, a precision of 1.01 to 2");
        }
        if self.closed.is_some_and(|closed| !closed.is_good()) {
            return wrong("closed: 1 to 1,000 threads, or \"search\"");
        }
        if self.closed.is_some() && self.hold.is_some() {
            return wrong("a closed loop has no rate that can be held: either `closed` or `hold`");
        }
        Ok(())
    }
}

/// The records that are there before each run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Data {
    /// How many.
    pub records: u64,
    /// Bytes of each, in five columns.
    pub record_bytes: u32,
    /// Random bytes do not compress; `true` makes records of few different bytes.
    pub compressible: bool,
    /// How they are divided among partitions.
    pub partitions: Partitions,
    /// What Linux has of the records' files in memory when the load begins.
    pub page_cache: PageCache,
    /// After so long a record expires, whole seconds; `None`: never.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
}

/// What Linux has of the records' files in memory when the load begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageCache {
    /// What the prefill has left there.
    #[default]
    AsLeft,
    /// Nothing.
    Cold,
    /// All of them, as far as there is memory.
    Warm,
}

/// How records are divided among partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Partitions {
    /// Each in one of its own.
    #[default]
    Single,
    /// So many in each.
    Wide {
        /// How many.
        rows: u32,
    },
    /// Each partition is a series in time. A write adds the newest record of a series, a read takes the
    /// newest ones, and a deletion all of them.
    TimeSeries {
        /// How many series there are.
        series: u64,
        /// How many records a read takes.
        read: u32,
    },
}

/// The most rows of a partition, and of a read: Cassandra warns of partitions of 100 MiB.
const ROWS_MAX: u32 = 100_000;

/// The most that Cassandra takes: twenty years.
const TTL_MAX: Duration = Duration::from_secs(20 * 365 * 24 * 3_600);

impl Default for Data {
    /// What cassandra-stress makes: five columns of 34 bytes.
    fn default() -> Self {
        Self {
            records: 10_000,
            record_bytes: 170,
            compressible: false,
            partitions: Partitions::Single,
            page_cache: PageCache::AsLeft,
            ttl: None,
        }
    }
}

impl Data {
    /// Whether there are always as many records: none is added beside them, and none expires.
    pub(crate) fn is_counted(&self) -> bool {
        self.ttl.is_none() && !matches!(self.partitions, Partitions::TimeSeries { .. })
    }

    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let wrong = |what: String| Err(PlanError::Invalid { at: "data".to_owned(), what });
        if !(1..=RECORDS_MAX).contains(&self.records) || !(5..=1 << 20).contains(&self.record_bytes) {
            return wrong(format!("1 to {RECORDS_MAX} records, of 5 bytes to 1 MiB"));
        }
        if self.ttl.is_some_and(|ttl| ttl.subsec_nanos() > 0 || ttl.is_zero() || ttl > TTL_MAX) {
            return wrong("a ttl of whole seconds, at most twenty years".to_owned());
        }
        match self.partitions {
            Partitions::Wide { rows } if !(1..=ROWS_MAX).contains(&rows) => wrong(format!("1 to {ROWS_MAX} rows")),
            Partitions::TimeSeries { series, .. } if !(1..=self.records).contains(&series) => {
                wrong("1 series or more, and at most as many as records".to_owned())
            }
            Partitions::TimeSeries { read, .. } if !(1..=ROWS_MAX).contains(&read) => {
                wrong(format!("a read of 1 to {ROWS_MAX} records"))
            }
            _ => Ok(()),
        }
    }
}
