//! What servers share: the present pass and its readers, changed by compare-and-write.

use std::time::Duration;

use heads::head::{open, seal};
use heads::{Heads, ObjectsError, ObjectsResult, keys};
use store::{
    Class, Expect, Guard, NewRow, Outcome, Removal, Row, Scan, Stamp, Step, StoreError, Stored, Table, UnixMillis,
};

use crate::state::{Finding, Pass, Reader};

/// How long a server that saves nothing keeps what it has taken.
const LEASE: Duration = Duration::from_secs(60);

/// The number of readers: the most servers that read at the same time.
pub(crate) const READERS: u8 = 32;

/// Bytes of one page of a scan over reports or findings.
const SCAN_BYTES: usize = 256 << 10;

/// A value of a guarded row, and what the next change of the row must find.
#[derive(Clone, Debug)]
pub(crate) struct Known<T> {
    pub(crate) value: T,
    pub(crate) expect: Expect,
}

/// A reader as it was read; `value` is `None` if nobody ever had it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) number: u8,
    pub(crate) known: Known<Option<Reader>>,
}

/// The present state.
pub(crate) struct Shared {
    pub(crate) pass: Option<Known<Pass>>,
    pub(crate) places: Vec<Place>,
}

/// Reads everything that servers share.
pub(crate) async fn read(heads: &Heads) -> ObjectsResult<Shared> {
    let partition = keys::fixity_state();
    let sorts = std::iter::once(keys::fixity_pass()).chain((0..READERS).map(keys::fixity_reader));
    let rows: Vec<_> = sorts.map(|sort| (partition.clone(), sort)).collect();
    let read = async || {
        let call = heads.call(Class::Description).strong();
        Ok(heads.store().get_many(call, Table::Work, rows.clone()).await?)
    };
    let mut rows = heads.retry_transient(read).await?.into_iter();
    let pass = rows.next().flatten().map(known).transpose()?;
    let mut places = Vec::with_capacity(usize::from(READERS));
    for (number, row) in (0..READERS).zip(rows) {
        let known = match row {
            Some(row) => {
                let Known { value, expect } = known(row)?;
                Known { value: Some(value), expect }
            }
            None => Known { value: None, expect: Expect::Absent },
        };
        places.push(Place { number, known });
    }
    Ok(Shared { pass, places })
}

fn known<T: Stored>(row: Row) -> ObjectsResult<Known<T>> {
    let guard =
        row.guard.as_ref().ok_or_else(|| ObjectsError::corrupt(Table::Work, "a guarded row without a guard"))?;
    Ok(Known { expect: Expect::Stamp(guard.stamp), value: open(Table::Work, &row.value)? })
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

async fn write<T: Stored>(
    heads: &Heads,
    sort: bytes::Bytes,
    value: &T,
    expect: Expect,
) -> ObjectsResult<Option<Expect>> {
    let stamp: Stamp = heads.stamp();
    let guard = Guard { stamp, tag: bytes::Bytes::new() };
    let (table, partition, value) = (Table::Work, keys::fixity_state(), seal(value)?);
    let step = Step::CompareAndWrite { table, partition, sort, expect, guard, value };
    match heads.store().run(heads.call(Class::Description), vec![step]).await? {
        Outcome::Applied => Ok(Some(Expect::Stamp(stamp))),
        Outcome::Refused { .. } => Ok(None),
        // The next step reads what is there.
        Outcome::Unknown { reason } => Err(StoreError::Unavailable(reason).into()),
    }
}

/// Stores what is wrong with an object.
pub(crate) async fn put_finding(heads: &Heads, pass: u32, object: &bytes::Bytes, found: &Finding) -> ObjectsResult<()> {
    let rows = vec![NewRow::new(object.clone(), seal(found)?)];
    let step = Step::Put { table: Table::Work, partition: keys::fixity_findings(pass), rows };
    heads.put_acknowledged(Class::Description, vec![step]).await
}

/// Stores the report on a pass, and drops that of an old one with its findings.
pub(crate) async fn put_report(heads: &Heads, pass: &Pass, drop: Option<u32>) -> ObjectsResult<()> {
    let (table, partition) = (Table::Work, keys::fixity_state());
    let rows = vec![NewRow::new(keys::fixity_report(pass.number), seal(pass)?)];
    let mut steps = vec![Step::Put { table, partition: partition.clone(), rows }];
    if let Some(old) = drop {
        let findings = Removal::Range(bytes::Bytes::new(), None);
        steps.push(Step::Remove { table, partition: keys::fixity_findings(old), rows: findings });
        let report = Removal::Rows(vec![keys::fixity_report(old)]);
        steps.push(Step::Remove { table, partition, rows: report });
    }
    heads.put_acknowledged(Class::Description, steps).await
}

/// The reports on earlier passes, in order.
pub(crate) async fn reports(heads: &Heads) -> ObjectsResult<Vec<Pass>> {
    let rows = rows(heads, keys::fixity_state(), keys::fixity_report_prefix(), usize::MAX).await?;
    rows.iter().map(|row| open(Table::Work, &row.value)).collect()
}

/// The findings of a pass, at most `max`.
pub(crate) async fn findings(heads: &Heads, pass: u32, max: usize) -> ObjectsResult<Vec<(bytes::Bytes, Finding)>> {
    let rows = rows(heads, keys::fixity_findings(pass), bytes::Bytes::new(), max).await?;
    rows.into_iter().map(|row| Ok((row.sort, open(Table::Work, &row.value)?))).collect()
}

async fn rows(heads: &Heads, partition: bytes::Bytes, prefix: bytes::Bytes, max: usize) -> ObjectsResult<Vec<Row>> {
    let (mut found, mut scan) = (Vec::new(), Some(Scan::prefix(prefix, SCAN_BYTES)));
    while let Some(range) = scan.filter(|_| found.len() < max) {
        let read = async || {
            let call = heads.call(Class::Description);
            Ok(heads.store().scan(call, Table::Work, &partition, range.clone()).await?)
        };
        let page = heads.retry_transient(read).await?;
        found.extend(page.rows);
        scan = range.resumed(page.next);
    }
    found.truncate(max);
    Ok(found)
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
