//! Reading the audit back.

use std::collections::HashMap;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use hathi::VolumeId;
use serde::Serialize;
use store::{Class, Row, Scan, Table, UnixMillis};

use super::keys;
use super::{AuditAction, AuditEntry, AuditRecord, AuditedVolume, Auditor, DamagedRecord};
use crate::error::{ObjectsError, ObjectsResult};
use crate::head;
use crate::library::Library;

/// Bytes of one page of a scan.
const SCAN_BYTES: usize = 1 << 20;

/// What is asked for most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditTop {
    /// Requests in the time. The making of a selection is none: what is asked for of it is.
    pub requests: u64,
    /// Records that cannot be read any more, and are not counted otherwise.
    pub damaged: u64,
    /// Volumes, with the number of requests that named them, most first; ties by id.
    pub volumes: Vec<(VolumeId, u64)>,
    /// Who asked ([`identity`](super::Requester::identity)), with the number of requests, most first; ties by name.
    pub requesters: Vec<(String, u64)>,
}

impl Library {
    /// The audit's writer.
    pub fn auditor(&self) -> &Auditor {
        &self.inner.bulk.auditor
    }

    /// The audit from `from` (inclusive) to `to` (exclusive), in the order in which it was written.
    pub fn audit_read(&self, from: UnixMillis, to: UnixMillis) -> BoxStream<'static, ObjectsResult<AuditEntry>> {
        let library = self.clone();
        let hours = async move {
            let hours = library.audit_hours(from, to).await?;
            let scans = hours.into_iter().map(move |hour| library.clone().audit_hour(hour, from, to));
            Ok::<_, ObjectsError>(futures::stream::iter(scans).flatten())
        };
        futures::stream::once(hours).try_flatten().boxed()
    }

    /// What was asked for most from `from` (inclusive) to `to` (exclusive): the `most` first of each list. Takes memory for each
    /// volume that was asked for in that time.
    pub async fn audit_top(&self, from: UnixMillis, to: UnixMillis, most: usize) -> ObjectsResult<AuditTop> {
        let (mut requests, mut damaged) = (0, 0);
        let mut volumes: HashMap<VolumeId, u64> = HashMap::new();
        let mut requesters: HashMap<String, u64> = HashMap::new();
        let mut entries = self.audit_read(from, to);
        while let Some(entry) = entries.try_next().await? {
            let AuditEntry::Record(record) = entry else {
                damaged += 1;
                continue;
            };
            let asked = match record.action {
                AuditAction::Requested if record.part == 0 => 1,
                AuditAction::Requested => 0,
                AuditAction::PagesRequested => record.volumes.iter().map(single_pages).sum(),
                AuditAction::Accessed | AuditAction::TokenCountAccessed | AuditAction::Selected => continue,
            };
            requests += asked;
            if asked > 0 {
                *requesters.entry(record.requester.identity()).or_default() += asked;
            }
            for volume in record.volumes {
                let asked = if record.action == AuditAction::PagesRequested { single_pages(&volume) } else { 1 };
                *volumes.entry(volume.volume).or_default() += asked;
            }
        }
        Ok(AuditTop { requests, damaged, volumes: top(volumes, most), requesters: top(requesters, most) })
    }

    /// The hours between `from` and `to` of which there are records, ascending.
    async fn audit_hours(&self, from: UnixMillis, to: UnixMillis) -> ObjectsResult<Vec<u32>> {
        const AT_ONCE: usize = 1_000;
        let wanted = keys::hour_of(from)..=keys::hour_of(to);
        let mut hours = Vec::new();
        let mut next = None;
        loop {
            let page = self.inner.store.walk(self.call(Class::Audit), Table::Audit, next, AT_ONCE).await?;
            let known = page.partitions.iter().filter_map(|partition| keys::hour_of_partition(partition));
            hours.extend(known.filter(|hour| wanted.contains(hour)));
            next = page.next;
            if next.is_none() {
                hours.sort_unstable();
                return Ok(hours);
            }
        }
    }

    /// The records of one hour that lie between `from` and `to`.
    fn audit_hour(self, hour: u32, from: UnixMillis, to: UnixMillis) -> BoxStream<'static, ObjectsResult<AuditEntry>> {
        let scan = Scan { to: Some(keys::sort_from(to)), ..Scan::prefix(keys::sort_from(from), SCAN_BYTES) };
        let pages = futures::stream::try_unfold(Some(scan), move |scan| {
            let library = self.clone();
            async move {
                let Some(scan) = scan else { return Ok::<_, ObjectsError>(None) };
                let call = library.call(Class::Audit);
                let page = library.inner.store.scan(call, Table::Audit, &keys::partition(hour), scan.clone()).await?;
                let entries = page.rows.iter().map(AuditEntry::of).filter(AuditEntry::says_something).map(Ok);
                let entries = futures::stream::iter(entries.collect::<Vec<_>>());
                Ok(Some((entries, scan.resumed(page.next))))
            }
        });
        pages.try_flatten().boxed()
    }
}

impl AuditEntry {
    fn of(row: &Row) -> Self {
        match head::open(Table::Audit, &row.value) {
            Ok(record) => Self::Record(record),
            Err(error) => Self::Damaged(DamagedRecord { at: keys::time_of(&row.sort), damage: error.to_string() }),
        }
    }

    /// A window of pages in which none were read tells of nothing.
    fn says_something(&self) -> bool {
        match self {
            Self::Record(AuditRecord { action: AuditAction::Requested | AuditAction::Selected, .. }) => true,
            Self::Record(record) => !record.volumes.is_empty(),
            Self::Damaged(_) => true,
        }
    }
}

/// How many requests asked for the pages of a window; of an open one that is not known.
fn single_pages(volume: &AuditedVolume) -> u64 {
    volume.pages.as_ref().map_or(1, |pages| pages.len() as u64)
}

fn top<K: Ord + Clone>(counts: HashMap<K, u64>, most: usize) -> Vec<(K, u64)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable_by(|(a_key, a), (b_key, b)| b.cmp(a).then_with(|| a_key.cmp(b_key)));
    counts.truncate(most);
    counts
}
