//! What the auditor has read and found.

use std::time::Duration;

use heads::{ObjectsError, ObjectsResult, keys};
use store::{UnixMillis, boxed};

use crate::auditor::Auditor;
use crate::shared::{self, Place, Readable, Shared};
use crate::state::{Finding, Next, Pass, Reader, Tally};

/// The most findings that a report lists.
const LISTED_MAX: usize = 10_000;

/// A pass, and what was found in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassReport {
    /// Its number, counted from 1.
    pub number: u32,
    /// When it began.
    pub begun: UnixMillis,
    /// When it ended; `None` while it runs.
    pub ended: Option<UnixMillis>,
    /// Whether all objects were taken by readers.
    pub is_walked: bool,
    /// What was read and found, until now, in objects and records.
    pub found: Tally,
    /// Records that were read.
    pub records: u64,
}

/// The state of the auditor in this store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The present pass, or the last one; `None`: there was none yet.
    pub present: Option<PassReport>,
    /// The last pass that has ended and could read everything.
    pub complete: Option<PassReport>,
    /// Servers that are reading now.
    pub readers: usize,
}

/// The passes that have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    /// Those that can be read, in order.
    pub passes: Vec<PassReport>,
    /// How many reports are damaged.
    pub unreadable: usize,
}

/// What is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedFinding {
    /// `volume`, `resource`, `record`, or `records` for the list of all records.
    pub kind: &'static str,
    /// The volume's id, the resource's path from the root, the id of the record, escaped where it is
    /// not ASCII, or a name of the list.
    pub name: String,
    /// When it was found.
    pub at: UnixMillis,
    /// Whether it is damaged; otherwise it could not be read.
    pub is_damaged: bool,
    /// The damaged parts, each with how the damage was noticed.
    pub parts: Vec<(String, String)>,
    /// How many more parts are damaged.
    pub more: u32,
}

impl Status {
    /// The age of the oldest check: everything that was stored then was checked since. `None`: not
    /// everything was checked yet.
    pub fn oldest_check(&self, now: UnixMillis) -> Option<Duration> {
        self.complete.as_ref().map(|pass| now.since(pass.begun))
    }
}

impl PassReport {
    fn of(pass: &Pass, found: Tally, records: u64) -> Self {
        Self {
            number: pass.number,
            begun: pass.begun,
            ended: pass.ended.map(|(at, _)| at),
            is_walked: pass.next == Next::End,
            found: pass.ended.map_or(found, |(_, found)| found),
            records,
        }
    }

    /// Whether it has ended and could read everything.
    fn is_complete(&self) -> bool {
        self.ended.is_some() && self.found.failed == 0
    }
}

impl Auditor {
    /// The state of the auditor.
    #[boxed]
    pub async fn status(&self) -> ObjectsResult<Status> {
        let Shared { pass, places, records } = shared::read(self.heads()).await?;
        let number = pass.value.as_ref().map(|pass| pass.number);
        let present = pass.value.map(|pass| {
            let found = shared::found(pass.number, &places, &records);
            PassReport::of(&pass, found, shared::records_read(pass.number, &records))
        });
        let complete = match &present {
            Some(present) if present.is_complete() => Some(present.clone()),
            _ => self.reports().await?.passes.into_iter().rfind(PassReport::is_complete),
        };
        let is_reading = |place: &&Place| number.is_some_and(|number| place.pending(number).is_some());
        let is_reading_records = |reader: &&Reader| Some(reader.pass) == number && !reader.pending.is_empty();
        let of_records = records.value.iter().filter(is_reading_records).count();
        Ok(Status { present, complete, readers: places.iter().filter(is_reading).count() + of_records })
    }

    /// The age of the oldest check for a client that waits for it `at_most` so long. If the state
    /// cannot be read, the age that was last known grows.
    #[boxed]
    pub async fn oldest_check_within(&self, at_most: Duration) -> Option<Duration> {
        match tokio::time::timeout(at_most, self.status()).await {
            Ok(Ok(status)) => *self.complete_since.lock() = status.complete.map(|pass| pass.begun),
            Ok(Err(error)) => tracing::warn!(%error, "the state of the fixity auditor cannot be read"),
            Err(_) => tracing::warn!("the state of the fixity auditor cannot be read in time"),
        }
        let begun = *self.complete_since.lock();
        begun.map(|begun| self.now().since(begun))
    }

    /// The passes that have ended.
    #[boxed]
    pub async fn reports(&self) -> ObjectsResult<Reports> {
        let Readable { values, unreadable } = shared::reports(self.heads()).await?;
        let records = shared::records_of_reports(self.heads()).await?;
        let ended = values.iter().filter(|pass| pass.ended.is_some());
        let report = |pass: &Pass| {
            PassReport::of(pass, Tally::default(), records.get(&pass.number).copied().unwrap_or_default())
        };
        Ok(Reports { passes: ended.map(report).collect(), unreadable })
    }

    /// The report on a pass with its findings: on the present one, or on an earlier one. Damaged
    /// findings are missing.
    #[boxed]
    pub async fn report(&self, number: u32) -> ObjectsResult<(PassReport, Vec<ReportedFinding>)> {
        let present = self.status().await?.present.filter(|pass| pass.number == number);
        let report = match present {
            Some(present) => present,
            None => {
                let earlier = self.reports().await?.passes.into_iter().find(|pass| pass.number == number);
                earlier.ok_or_else(|| ObjectsError::Absent(format!("a report on fixity pass {number}")))?
            }
        };
        let findings = shared::findings(self.heads(), number, LISTED_MAX).await?.values;
        Ok((report, findings.into_iter().map(|(object, finding)| ReportedFinding::of(&object, finding)).collect()))
    }
}

impl ReportedFinding {
    fn of(object: &bytes::Bytes, finding: Finding) -> Self {
        let Finding { at, is_damaged, parts, more } = finding;
        let (kind, name) = match (keys::volume_of_partition(object), keys::resource_of_partition(object)) {
            (Some(id), _) => ("volume", id.to_string()),
            (None, Some(path)) => ("resource", format!("/{path}")),
            (None, None) => match shared::record_of(object) {
                Some(id) if id.is_empty() => ("records", "the list of records".to_owned()),
                Some(id) => ("record", id.escape_ascii().to_string()),
                None => ("object", object.escape_ascii().to_string()),
            },
        };
        Self { kind, name, at, is_damaged, parts, more }
    }
}
