//! Reads the audit back. `read/counts.rs` counts what was requested most.

mod counts;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use hathi::VolumeId;
use heads::error::{ObjectsError, ObjectsResult};
use heads::head;
use serde::Serialize;
use store::envelope::EnvelopeError;
use store::stored::StoredError;
use store::{Class, Row, Scan, Table, UnixMillis, ValueKind, boxed, stored};

use crate::conditions::Conditions;
use crate::handle::Audit;
use crate::keys::{self, Part};
use crate::record::{AuditAction, AuditEntry, AuditRecord, AuditedVolume, DamagedRecord};
use counts::Counts;

/// Bytes of all scan pages over the parts of one hour together, and the minimum for each scan.
const SCAN_BYTES: usize = 1 << 20;
const SCAN_BYTES_MIN: usize = 32 << 10;

/// Volumes, and requesters, that are counted exactly. So many take 80 MB, with ids of 60 bytes; the
/// longest ids would take 550 MB.
const COUNTED_MAX: usize = 500_000;

/// The most requested volumes and the most active requesters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditTop {
    /// Requests in the period. Making a selection does not count; requests for its bytes do.
    pub requests: u64,
    /// Records that cannot be read any more. No other figure includes them.
    pub damaged: u64,
    /// Volumes with the number of requests that named them, highest first; ties by id.
    pub volumes: Vec<(VolumeId, u64)>,
    /// The number of each volume, also of one that is not listed, may be too low by so much. 0: all
    /// are exact, as they are if at most 500,000 different volumes were requested. Otherwise it is
    /// at most all these numbers together, divided by 250,000.
    pub volumes_margin: u64,
    /// Requesters ([`identity`](crate::Requester::identity)) with the number of their requests,
    /// highest first; ties by name.
    pub requesters: Vec<(String, u64)>,
    /// The same margin for requesters.
    pub requesters_margin: u64,
}

impl Audit {
    /// Streams the audit from `from` (inclusive) to `to` (exclusive), in the order in which it was
    /// written.
    pub fn read(&self, from: UnixMillis, to: UnixMillis) -> BoxStream<'static, ObjectsResult<AuditEntry>> {
        let audit = self.clone();
        let hours = async move {
            let parts = audit.parts(from, to).await?;
            Ok::<_, ObjectsError>(audit.of_parts(parts, from, to))
        };
        futures::stream::once(hours).try_flatten().boxed()
    }

    /// The records of these parts, ascending by hour, between `from` and `to`.
    pub(crate) fn of_parts(
        &self,
        parts: Vec<Part>,
        from: UnixMillis,
        to: UnixMillis,
    ) -> BoxStream<'static, ObjectsResult<AuditEntry>> {
        let hours: Vec<Vec<Part>> = parts.chunk_by(|one, other| one.hour == other.hour).map(<[Part]>::to_vec).collect();
        let audit = self.clone();
        let scans = hours.into_iter().map(move |parts| audit.clone().hour(parts, from, to));
        futures::stream::iter(scans).flatten().boxed()
    }

    /// The same, for entries that meet conditions.
    pub fn read_where(
        &self,
        from: UnixMillis,
        to: UnixMillis,
        conditions: Conditions,
    ) -> BoxStream<'static, ObjectsResult<AuditEntry>> {
        self.read(from, to).try_filter(move |entry| std::future::ready(conditions.hold(entry))).boxed()
    }

    /// Counts requests from `from` (inclusive) to `to` (exclusive), and returns the first `most` of
    /// each list. Uses memory for each volume requested in that period, up to 500,000.
    #[boxed]
    pub async fn top(&self, from: UnixMillis, to: UnixMillis, most: usize) -> ObjectsResult<AuditTop> {
        let (mut requests, mut damaged) = (0, 0);
        let mut volumes = Counts::new(COUNTED_MAX);
        let mut requesters = Counts::new(COUNTED_MAX);
        let mut entries = self.read(from, to);
        while let Some(entry) = entries.try_next().await? {
            let record = match entry {
                AuditEntry::Record(record) => record,
                AuditEntry::Event(_) => continue,
                AuditEntry::Damaged(_) => {
                    damaged += 1;
                    continue;
                }
            };
            let asked = match record.action {
                AuditAction::Requested if record.part == 0 => 1,
                AuditAction::Requested => 0,
                AuditAction::PagesRequested => record.volumes.iter().map(single_pages).sum(),
                AuditAction::Accessed | AuditAction::TokenCountAccessed | AuditAction::Selected => continue,
            };
            requests += asked;
            if asked > 0 {
                requesters.add(record.requester.identity(), asked);
            }
            for volume in record.volumes {
                let asked = if record.action == AuditAction::PagesRequested { single_pages(&volume) } else { 1 };
                volumes.add(volume.volume, asked);
            }
        }
        let (volumes, volumes_margin) = volumes.top(most);
        let (requesters, requesters_margin) = requesters.top(most);
        Ok(AuditTop { requests, damaged, volumes, volumes_margin, requesters, requesters_margin })
    }

    /// The partitions with records between `from` and `to`, ascending by hour, then by writer.
    pub(crate) async fn parts(&self, from: UnixMillis, to: UnixMillis) -> ObjectsResult<Vec<Part>> {
        const AT_ONCE: usize = 1_000;
        let wanted = keys::hour_of(from)..=keys::hour_of(to);
        let mut parts = Vec::new();
        let mut next = None;
        loop {
            let page = self.heads.store().walk(self.heads.call(Class::Audit), Table::Audit, next, AT_ONCE).await?;
            let known = page.partitions.iter().filter_map(|partition| Part::of_partition(partition));
            parts.extend(known.filter(|part| wanted.contains(&part.hour)));
            next = page.next;
            if next.is_none() {
                parts.sort_unstable();
                return Ok(parts);
            }
        }
    }

    /// The records of one hour between `from` and `to`, of all writers, in the order of their ids.
    fn hour(self, parts: Vec<Part>, from: UnixMillis, to: UnixMillis) -> BoxStream<'static, ObjectsResult<AuditEntry>> {
        let writers: Vec<Vec<Part>> =
            parts.chunk_by(|one, other| one.writer == other.writer).map(<[Part]>::to_vec).collect();
        let page_bytes = (SCAN_BYTES / writers.len().max(1)).max(SCAN_BYTES_MIN);
        let merged = async move {
            let mut writing = Vec::new();
            for parts in writers {
                let audit = self.clone();
                let of_part = move |part| audit.clone().audit_rows(part, from, to, page_bytes);
                let mut rows = futures::stream::iter(parts).flat_map(of_part).boxed();
                writing.extend(rows.try_next().await?.map(|first| (first, rows)));
            }
            Ok::<_, ObjectsError>(futures::stream::try_unfold(writing, next_of_all))
        };
        let entries = futures::stream::once(merged).try_flatten().map_ok(|row| AuditEntry::of(&row));
        entries.try_filter(|entry| std::future::ready(entry.says_something())).boxed()
    }

    /// The rows of one part between `from` and `to`.
    fn audit_rows(self, part: Part, from: UnixMillis, to: UnixMillis, page_bytes: usize) -> AuditRows {
        let scan = Scan { to: Some(keys::sort_from(to)), ..Scan::prefix(keys::sort_from(from), page_bytes) };
        let pages = futures::stream::try_unfold(Some(scan), move |scan| {
            let audit = self.clone();
            async move {
                let Some(scan) = scan else { return Ok::<_, ObjectsError>(None) };
                let call = audit.heads.call(Class::Audit);
                let page = audit.heads.store().scan(call, Table::Audit, &part.partition(), scan.clone()).await?;
                let rows = futures::stream::iter(page.rows.into_iter().map(Ok).collect::<Vec<_>>());
                Ok(Some((rows, scan.resumed(page.next))))
            }
        });
        pages.try_flatten().boxed()
    }
}

/// Rows of the audit.
type AuditRows = BoxStream<'static, ObjectsResult<Row>>;

/// Returns the row with the least id among several writers. Each writer has a next row.
async fn next_of_all(mut writing: Vec<(Row, AuditRows)>) -> ObjectsResult<Option<(Row, Vec<(Row, AuditRows)>)>> {
    let least = (0..writing.len()).min_by(|one, other| writing[*one].0.sort.cmp(&writing[*other].0.sort));
    let Some(least) = least else { return Ok(None) };
    let (row, mut rest) = writing.swap_remove(least);
    writing.extend(rest.try_next().await?.map(|next| (next, rest)));
    Ok(Some((row, writing)))
}

impl AuditEntry {
    pub(crate) fn of(row: &Row) -> Self {
        let opened = match stored::open(&row.value) {
            Err(StoredError::Envelope(EnvelopeError::Kind { found: ValueKind::AuditEvent, .. })) => {
                head::open(Table::Audit, &row.value).map(Self::Event)
            }
            Err(error) => Err(ObjectsError::corrupt(Table::Audit, &error.to_string())),
            Ok(record) => Ok(Self::Record(record)),
        };
        let damaged = |error: ObjectsError| DamagedRecord { at: keys::time_of(&row.sort), damage: error.to_string() };
        opened.unwrap_or_else(|error| Self::Damaged(damaged(error)))
    }

    /// A window without pages records nothing.
    fn says_something(&self) -> bool {
        match self {
            Self::Record(AuditRecord { action: AuditAction::Requested | AuditAction::Selected, .. }) => true,
            Self::Record(record) => !record.volumes.is_empty(),
            Self::Event(_) | Self::Damaged(_) => true,
        }
    }
}

/// The number of requests for the pages of a window. For an open window it is unknown, and counts
/// as one.
fn single_pages(volume: &AuditedVolume) -> u64 {
    volume.pages.as_ref().map_or(1, |pages| pages.len() as u64)
}
