//! What servers share: the present pass and its readers, changed by compare-and-write.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use heads::guarded::Known;
use heads::head::{open, seal};
use heads::{Heads, ObjectsResult, keys};
use store::{Class, Expect, NewRow, Removal, Row, Scan, Step, Stored, Table, UnixMillis};

use crate::state::{Finding, Pass, Reader, Tally};

/// How long a server that saves nothing keeps what it has taken.
const LEASE: Duration = Duration::from_secs(60);

/// The number of readers: the most servers that read at the same time.
pub(crate) const READERS: u8 = 32;

const _: () = assert!(READERS as u64 == library::bounds::FIXITY_READERS);

/// Bytes of one page of a scan over reports or findings.
const SCAN_BYTES: usize = 256 << 10;

/// The sort key of the row that says how far the records of the present pass were read, and the
/// start of the keys of those on earlier passes. Programs that do not know these rows ignore them.
const RECORDS: Bytes = Bytes::from_static(b"records");
const RECORDS_PREFIX: &[u8] = b"records/";

/// The start of the keys of findings of records. It begins the key of no object.
const RECORD_PREFIX: &[u8] = b"i/";

/// The start of the key of what could not be read behind a record. That record, or the list, may
/// have a finding of its own.
const BEHIND_PREFIX: &[u8] = b"j/";

/// A reader as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) number: u8,
    pub(crate) known: Known<Reader>,
}

/// The present state.
pub(crate) struct Shared {
    pub(crate) pass: Known<Pass>,
    pub(crate) places: Vec<Place>,
    /// How far the records of a pass were read: see `row_records.rs`.
    pub(crate) records: Known<Reader>,
}

/// What could be read of some rows.
pub(crate) struct Readable<T> {
    pub(crate) values: Vec<T>,
    /// How many rows are damaged.
    pub(crate) unreadable: usize,
}

/// Reads everything that servers share: the pass, and afterwards its readers. A server that moves
/// the pass on writes its reader before. So the readers show everything that was taken until the
/// pass was read. (An engine may read the rows of one call at different times.)
pub(crate) async fn read(heads: &Heads) -> ObjectsResult<Shared> {
    let mut rows = guarded(heads, vec![keys::fixity_pass(), RECORDS]).await?.into_iter();
    let (pass, records) = (rows.next().flatten(), rows.next().flatten());
    let readers = guarded(heads, (0..READERS).map(keys::fixity_reader).collect()).await?;
    let places =
        (0..READERS).zip(readers).map(|(number, row)| Ok(Place { number, known: Known::of(Table::Work, row)? }));
    Ok(Shared {
        pass: Known::of(Table::Work, pass)?,
        places: places.collect::<ObjectsResult<_>>()?,
        records: Known::of(Table::Work, records)?,
    })
}

async fn guarded(heads: &Heads, sorts: Vec<Bytes>) -> ObjectsResult<Vec<Option<Row>>> {
    heads.guarded_rows(Table::Work, keys::fixity_state(), sorts).await
}

/// Writes the present pass; `None`: another server has changed it.
pub(crate) async fn write_pass(heads: &Heads, pass: &Pass, expect: Expect) -> ObjectsResult<Option<Expect>> {
    write(heads, keys::fixity_pass(), pass, expect).await
}

/// Writes a reader; `None`: another server has changed it.
pub(crate) async fn write_reader(
    heads: &Heads,
    number: u8,
    reader: &Reader,
    expect: Expect,
) -> ObjectsResult<Option<Expect>> {
    write(heads, keys::fixity_reader(number), reader, expect).await
}

/// Writes how far the records of a pass were read; `None`: another server has changed it.
pub(crate) async fn write_records(heads: &Heads, reader: &Reader, expect: Expect) -> ObjectsResult<Option<Expect>> {
    write(heads, RECORDS, reader, expect).await
}

/// The sort key of a finding of a record; without an id: of the list of all.
pub(crate) fn record_key(id: &Bytes) -> Bytes {
    Bytes::from([RECORD_PREFIX, &id[..]].concat())
}

/// The sort key of what could not be read behind a record; without an id: of the whole list.
pub(crate) fn behind_key(id: &Bytes) -> Bytes {
    Bytes::from([BEHIND_PREFIX, &id[..]].concat())
}

/// The record of such a key.
pub(crate) fn record_of(object: &Bytes) -> Option<Bytes> {
    let id = object.strip_prefix(RECORD_PREFIX).or_else(|| object.strip_prefix(BEHIND_PREFIX))?;
    Some(Bytes::copy_from_slice(id))
}

async fn write<T: Stored>(heads: &Heads, sort: Bytes, value: &T, expect: Expect) -> ObjectsResult<Option<Expect>> {
    heads.write_guarded(Table::Work, keys::fixity_state(), sort, value, expect).await
}

/// Stores what is wrong with an object.
pub(crate) async fn put_finding(heads: &Heads, pass: u32, object: &Bytes, found: &Finding) -> ObjectsResult<()> {
    let rows = vec![NewRow::new(object.clone(), seal(found)?)];
    let step = Step::Put { table: Table::Work, partition: keys::fixity_findings(pass), rows };
    heads.put_acknowledged(Class::Description, vec![step]).await
}

/// Stores the report on a pass, with what was found in its records, and drops that of an old one with
/// its findings.
pub(crate) async fn put_report(
    heads: &Heads,
    pass: &Pass,
    records: Option<&Reader>,
    drop: Option<u32>,
) -> ObjectsResult<()> {
    let (table, partition) = (Table::Work, keys::fixity_state());
    let mut rows = vec![NewRow::new(keys::fixity_report(pass.number), seal(pass)?)];
    if let Some(records) = records.filter(|records| records.pass == pass.number) {
        rows.push(NewRow::new(records_report(pass.number), seal(records)?));
    }
    let mut steps = vec![Step::Put { table, partition: partition.clone(), rows }];
    if let Some(old) = drop {
        let findings = Removal::Range(Bytes::new(), None);
        steps.push(Step::Remove { table, partition: keys::fixity_findings(old), rows: findings });
        let report = Removal::Rows(vec![keys::fixity_report(old), records_report(old)]);
        steps.push(Step::Remove { table, partition, rows: report });
    }
    heads.put_acknowledged(Class::Description, steps).await
}

/// The reports on earlier passes, in order.
pub(crate) async fn reports(heads: &Heads) -> ObjectsResult<Readable<Pass>> {
    let rows = rows(heads, keys::fixity_state(), keys::fixity_report_prefix(), usize::MAX).await?;
    Ok(rows.opened(|row| open(Table::Work, &row.value)))
}

/// How many records were read in earlier passes, with the numbers of these.
pub(crate) async fn records_of_reports(heads: &Heads) -> ObjectsResult<HashMap<u32, u64>> {
    let rows = rows(heads, keys::fixity_state(), Bytes::from_static(RECORDS_PREFIX), usize::MAX).await?;
    let readers: Readable<Reader> = rows.opened(|row| open(Table::Work, &row.value));
    Ok(readers.values.into_iter().map(|reader| (reader.pass, reader.found.resources)).collect())
}

fn records_report(pass: u32) -> Bytes {
    Bytes::from([RECORDS_PREFIX, &pass.to_be_bytes()].concat())
}

/// The findings of a pass, at most `max`.
pub(crate) async fn findings(heads: &Heads, pass: u32, max: usize) -> ObjectsResult<Readable<(Bytes, Finding)>> {
    let rows = rows(heads, keys::fixity_findings(pass), Bytes::new(), max).await?;
    Ok(rows.opened(|row| Ok((row.sort.clone(), open(Table::Work, &row.value)?))))
}

/// Rows in order. A damaged page of them counts as one row, and hides what is behind it.
async fn rows(heads: &Heads, partition: Bytes, prefix: Bytes, max: usize) -> ObjectsResult<Readable<Row>> {
    let mut found = Readable { values: Vec::new(), unreadable: 0 };
    let mut scan = Some(Scan::prefix(prefix, SCAN_BYTES));
    while let Some(range) = scan.filter(|_| found.values.len() < max) {
        let read = async || {
            let call = heads.call(Class::Description);
            Ok(heads.store().scan(call, Table::Work, &partition, range.clone()).await?)
        };
        let page = match heads.retry_transient(read).await {
            Err(error) if error.is_damage() => {
                tracing::error!(%error, "reports of the fixity auditor cannot be read");
                found.unreadable += 1;
                break;
            }
            page => page?,
        };
        found.values.extend(page.rows);
        scan = range.resumed(page.next);
    }
    found.values.truncate(max);
    Ok(found)
}

impl Readable<Row> {
    /// Decodes the rows, and counts those that are damaged.
    fn opened<T>(self, open: impl Fn(&Row) -> ObjectsResult<T>) -> Readable<T> {
        let rows = self.values.len();
        let values: Vec<_> = self.values.iter().filter_map(|row| open(row).ok()).collect();
        Readable { unreadable: self.unreadable + rows - values.len(), values }
    }
}

/// What all readers have found in a pass, and in its records.
pub(crate) fn found(pass: u32, places: &[Place], records: &Known<Reader>) -> Tally {
    let mut found = Tally::default();
    let readers = places.iter().filter_map(|place| place.known.value.as_ref());
    readers.filter(|reader| reader.pass == pass).for_each(|reader| found.add(&reader.found));
    if let Some(records) = records.value.as_ref().filter(|records| records.pass == pass) {
        // There, `resources` are the records.
        found.add(&Tally { resources: 0, ..records.found });
    }
    found
}

/// How many records were read in a pass.
pub(crate) fn records_read(pass: u32, records: &Known<Reader>) -> u64 {
    records.value.as_ref().filter(|records| records.pass == pass).map_or(0, |records| records.found.resources)
}

impl Place {
    /// What this reader still has to read of a pass.
    pub(crate) fn pending(&self, pass: u32) -> Option<&Reader> {
        self.known.value.as_ref().filter(|reader| reader.pass == pass && !reader.pending.is_empty())
    }

    /// Whether the server may use it: nobody has it, the server itself does, or the server that has
    /// it is dead.
    pub(crate) fn is_free(&self, is_dead: impl Fn(&Reader) -> bool) -> bool {
        self.known.value.as_ref().is_none_or(is_dead)
    }
}

/// The time until which a lease lasts.
pub(crate) fn lease(now: UnixMillis) -> UnixMillis {
    now.plus(LEASE)
}
