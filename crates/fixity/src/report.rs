//! What the auditor has read and found.

use std::time::Duration;

use heads::{ObjectsError, ObjectsResult, keys};
use store::UnixMillis;

use crate::auditor::Auditor;
use crate::shared::{self, Shared};
use crate::state::{Finding, Next, Pass, Tally};

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
    /// What was read and found, until now.
    pub found: Tally,
}

/// The state of the auditor in this store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The present pass, or the last one; `None`: there was none yet.
    pub present: Option<PassReport>,
    /// The last pass that has ended.
    pub complete: Option<PassReport>,
    /// Servers that are reading now.
    pub readers: usize,
}

/// What is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedFinding {
    /// `volume` or `resource`.
    pub kind: &'static str,
    /// The volume's id, or the resource's path from the root.
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
    fn of(pass: &Pass, found: Tally) -> Self {
        Self {
            number: pass.number,
            begun: pass.begun,
            ended: pass.ended.map(|(at, _)| at),
            is_walked: pass.next == Next::End,
            found: pass.ended.map_or(found, |(_, found)| found),
        }
    }
}

impl Auditor {
    /// The state of the auditor.
    pub async fn status(&self) -> ObjectsResult<Status> {
        let heads = &self.library().heads;
        let Shared { pass, places } = shared::read(heads).await?;
        let Some(pass) = pass.map(|known| known.value) else { return Ok(Status::default()) };
        let mut found = Tally::default();
        let readers = places.iter().filter_map(|place| place.known.value.as_ref());
        readers.filter(|reader| reader.pass == pass.number).for_each(|reader| found.add(&reader.found));
        let present = PassReport::of(&pass, found);
        let complete = match present.ended {
            Some(_) => Some(present.clone()),
            None => self.reports().await?.pop(),
        };
        let readers = places.iter().filter(|place| place.pending(pass.number).is_some()).count();
        Ok(Status { present: Some(present), complete, readers })
    }

    /// The passes that have ended, in order.
    pub async fn reports(&self) -> ObjectsResult<Vec<PassReport>> {
        let reports = shared::reports(&self.library().heads).await?;
        let ended = reports.iter().filter(|pass| pass.ended.is_some());
        Ok(ended.map(|pass| PassReport::of(pass, Tally::default())).collect())
    }

    /// The report on a pass with its findings: on the present one, or on an earlier one.
    pub async fn report(&self, number: u32) -> ObjectsResult<(PassReport, Vec<ReportedFinding>)> {
        let present = self.status().await?.present.filter(|pass| pass.number == number);
        let report = match present {
            Some(present) => present,
            None => {
                let earlier = self.reports().await?.into_iter().find(|pass| pass.number == number);
                earlier.ok_or_else(|| ObjectsError::Absent(format!("a report on fixity pass {number}")))?
            }
        };
        let findings = shared::findings(&self.library().heads, number, LISTED_MAX).await?;
        Ok((report, findings.into_iter().map(|(object, finding)| ReportedFinding::of(&object, finding)).collect()))
    }
}

impl ReportedFinding {
    fn of(object: &bytes::Bytes, finding: Finding) -> Self {
        let Finding { at, is_damaged, parts, more } = finding;
        let (kind, name) = match (keys::volume_of_partition(object), keys::resource_of_partition(object)) {
            (Some(id), _) => ("volume", id.to_string()),
            (None, Some(path)) => ("resource", format!("/{path}")),
            (None, None) => ("object", object.escape_ascii().to_string()),
        };
        Self { kind, name, at, is_damaged, parts, more }
    }
}
