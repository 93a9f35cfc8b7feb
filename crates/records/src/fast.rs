//! Records in mode fast: a row for each attribute, or one for a text. The last write of a row wins.
//!
//! Each row holds a part of the record, which is a record too: the text, or one attribute. The
//! expiry of a record is stored in each of its parts. So what is set later does not have it.
//!
//! What sets attributes does not read, so it does not know how large the record is. A server
//! therefore looks at a record once it has set [`UNSEEN_BYTES_MAX`] of it, and then refuses what
//! would make it too large to be read.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use budget::Unseen;
use bytes::{BufMut, Bytes, BytesMut};
use store::{
    Call, Deadline, Direction, NewRow, Outcome, PlainValue, Removal, Row, Rows, Scan, Step, Store, StoreError, Table,
    UnixMillis,
};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout_at};

use crate::attributes::{Attribute, Attributes};
use crate::draft::Draft;
use crate::overwrite::Overwrite;
use crate::record::{Content, Record};
use crate::records::{RecordsError, by, call, decoded, sealed};

/// The sort key of a text.
const TEXT: Bytes = Bytes::from_static(b"t");

/// The sort key of an attribute begins with this. Its name follows.
const ATTRIBUTE: u8 = b'a';

/// The longest name of an attribute in bytes.
pub const NAME_BYTES_MAX: usize = 1_024;

/// A record whose rows have more bytes than this is not read as a whole. In mode atomic a record
/// has at most half as much, and each row has some bytes besides.
pub const ROWS_BYTES_MAX: usize = 128 << 10;

/// A server sets so many bytes of a record, and then looks how large it is.
pub const UNSEEN_BYTES_MAX: u32 = 512 << 10;

/// What a row counts as besides its key and its value, so that no store has more of it.
const ROW_BYTES: usize = 20;

/// It is remembered of so many records how much was set unseen: 4 MiB of memory, 9 at most. If more
/// are set, the counts are set to zero each time that 16 GiB were set, or more.
const UNSEEN_RECORDS: usize = 1 << 17;

/// The pause before a change is made again, because another one was faster.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The records of a store.
pub(crate) struct FastRecords {
    store: Arc<dyn Store>,
    unseen: Unseen,
    /// One look at a record after the other, so that not each of several writes has one of its own.
    looks: [Mutex<()>; Unseen::PARTS],
}

impl FastRecords {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let unseen = Unseen::new(UNSEEN_RECORDS, UNSEEN_BYTES_MAX);
        Self { store, unseen, looks: std::array::from_fn(|_| Mutex::default()) }
    }

    /// The records of many ids, in their order.
    pub(crate) async fn read(
        &self,
        deadline: Deadline,
        ids: &[Bytes],
        now: UnixMillis,
    ) -> Result<Vec<Option<Record>>, RecordsError> {
        let rows = self.rows(deadline, ids).await?;
        rows.iter().map(|rows| merged(rows, now)).collect()
    }

    async fn rows(&self, deadline: Deadline, ids: &[Bytes]) -> Result<Vec<Vec<Row>>, RecordsError> {
        let all = Scan { from: Bytes::new(), to: None, direction: Direction::Forward, max_bytes: ROWS_BYTES_MAX };
        let scans = ids.iter().map(|id| (Table::Records, id.clone(), all.clone())).collect();
        let found = by(deadline, self.store.scan_many(call(deadline), scans)).await?;
        found.into_iter().map(whole).collect()
    }

    /// Writes a change, unless it is known to make the record too large to be read.
    pub(crate) async fn overwrite(
        &self,
        deadline: Deadline,
        id: &Bytes,
        change: Overwrite,
    ) -> Result<Outcome, RecordsError> {
        let adds = !change.replaces;
        let steps = self.steps(id, change)?;
        if steps.is_empty() {
            return Ok(Outcome::Applied);
        }
        if adds {
            self.check_room(deadline, id, &steps).await?;
        }
        Ok(self.store.run(by_clock(deadline), steps).await?)
    }

    /// Refuses steps that would make a record too large to be read. Reads it only if this server has
    /// set much of it since the last look.
    async fn check_room(&self, deadline: Deadline, id: &Bytes, steps: &[Step]) -> Result<(), RecordsError> {
        let set_bytes: usize = put_by(steps).map(|row| row.sort.len() + row.value.len()).sum();
        let counted = set_bytes + put_by(steps).count() * ROW_BYTES;
        if set_bytes == 0 || self.unseen.take(id, counted) {
            return Ok(());
        }
        let look = &self.looks[self.unseen.part(id)];
        let _alone = timeout_at(deadline.0, look.lock()).await.map_err(|_| StoreError::DeadlinePassed)?;
        // Another write may have looked meanwhile.
        if self.unseen.take(id, counted) {
            return Ok(());
        }
        let stored = self.rows(deadline, std::slice::from_ref(id)).await?.pop().unwrap_or_default();
        let touched = touched_by(steps);
        let stays = stored.iter().filter(|row| !touched.contains(&row.sort));
        let bytes = set_bytes + stays.map(|row| row.sort.len() + row.value.len()).sum::<usize>();
        if bytes > ROWS_BYTES_MAX {
            return Err(RecordsError::TooLarge { bytes, max: ROWS_BYTES_MAX });
        }
        self.unseen.looked_at(id, counted);
        Ok(())
    }

    fn steps(&self, id: &Bytes, change: Overwrite) -> Result<Vec<Step>, RecordsError> {
        let Overwrite { replaces, text, attributes, now: _ } = change;
        let (mut rows, mut gone) = (Vec::new(), Vec::new());
        for (name, part) in attributes {
            let sort = sort_of(&name)?;
            match part {
                Some(part) => rows.push(self.row(sort, &part)?),
                None => gone.push(sort),
            }
        }
        match text {
            Some(text) => rows.push(self.row(TEXT, &text)?),
            // The attributes replace a text.
            None if !rows.is_empty() => gone.push(TEXT),
            None => {}
        }
        let bytes: usize = rows.iter().map(|row| row.sort.len() + row.value.len()).sum();
        if bytes > ROWS_BYTES_MAX {
            return Err(RecordsError::TooLarge { bytes, max: ROWS_BYTES_MAX });
        }
        let (table, partition) = (Table::Records, id);
        let removal = match replaces {
            true => Some(Removal::Range(Bytes::new(), None)),
            false => (!gone.is_empty()).then_some(Removal::Rows(gone)),
        };
        // What is put comes after what is removed.
        let remove = removal.map(|rows| Step::Remove { table, partition: partition.clone(), rows });
        let put = (!rows.is_empty()).then(|| Step::Put { table, partition: partition.clone(), rows });
        Ok(remove.into_iter().chain(put).collect())
    }

    fn row(&self, sort: Bytes, part: &Record) -> Result<NewRow, RecordsError> {
        let PlainValue { value, expires_at } = sealed(self.store.as_ref(), part)?;
        Ok(NewRow { sort, value, expires_at })
    }

    /// Changes what is there: rows that were read, unless they are changed meanwhile. Then `change`
    /// is called again. It must not add anything. A record of very many attributes takes several
    /// writes.
    pub(crate) async fn refresh<T>(
        &self,
        deadline: Deadline,
        id: &Bytes,
        now: impl Fn() -> UnixMillis,
        mut change: impl FnMut(&mut [Draft]) -> T,
    ) -> Result<(T, Outcome), RecordsError> {
        let mut is_begun = false;
        loop {
            match self.refresh_once(deadline, id, now(), &mut change, &mut is_begun).await {
                Ok((_, Outcome::Refused { .. })) if !deadline.passed() => sleep(LOOK_AGAIN).await,
                Ok((_, Outcome::Refused { .. })) if is_begun => return Err(in_part("its deadline has passed")),
                Err(error) if is_begun => return Err(in_part(error)),
                ended => return ended,
            }
        }
    }

    /// Notes in `is_begun` that a part of the change was made.
    async fn refresh_once<T>(
        &self,
        deadline: Deadline,
        id: &Bytes,
        now: UnixMillis,
        mut change: impl FnMut(&mut [Draft]) -> T,
        is_begun: &mut bool,
    ) -> Result<(T, Outcome), RecordsError> {
        let rows = self.rows(deadline, std::slice::from_ref(id)).await?.pop().unwrap_or_default();
        let found = merged(&rows, now)?;
        let mut draft = [Draft::new(found.clone(), now)];
        let answer = change(&mut draft);
        let [draft] = draft;
        let steps = match (found, draft.change()) {
            (Some(before), Some(after)) => {
                let after = after.map(|after| with_own_expiries(&rows, &before, after)).transpose()?;
                self.replacements(id, &rows, &before, after.as_ref())?
            }
            _ => Vec::new(),
        };
        for steps in steps.chunks(self.store.limits().steps) {
            match self.store.run(by_clock(deadline), steps.to_vec()).await? {
                Outcome::Applied => *is_begun = true,
                outcome => return Ok((answer, outcome)),
            }
        }
        Ok((answer, Outcome::Applied))
    }

    /// The steps from the rows of one record to those of another, for the parts that differ.
    fn replacements(
        &self,
        id: &Bytes,
        rows: &[Row],
        before: &Record,
        after: Option<&Record>,
    ) -> Result<Vec<Step>, RecordsError> {
        let rows: HashMap<&Bytes, &Row> = rows.iter().map(|row| (&row.sort, row)).collect();
        let after: HashMap<Bytes, Record> = after.map(parts).transpose()?.unwrap_or_default().into_iter().collect();
        let mut steps = Vec::new();
        for (sort, part) in parts(before)? {
            let Some(row) = rows.get(&sort).filter(|_| after.get(&sort) != Some(&part)) else { continue };
            let then = after.get(&sort).map(|part| sealed(self.store.as_ref(), part)).transpose()?;
            let expect = Some(PlainValue::of(row));
            steps.push(Step::Replace { table: Table::Records, partition: id.clone(), sort, expect, then });
        }
        Ok(steps)
    }
}

/// The rows that steps put.
fn put_by(steps: &[Step]) -> impl Iterator<Item = &NewRow> {
    let rows = steps.iter().filter_map(|step| match step {
        Step::Put { rows, .. } => Some(rows),
        _ => None,
    });
    rows.flatten()
}

/// The sort keys of the rows that steps put or remove.
fn touched_by(steps: &[Step]) -> HashSet<&Bytes> {
    let removed = steps.iter().filter_map(|step| match step {
        Step::Remove { rows: Removal::Rows(sorts), .. } => Some(sorts),
        _ => None,
    });
    put_by(steps).map(|row| &row.sort).chain(removed.flatten()).collect()
}

/// A change of which a part was made.
fn in_part(why: impl std::fmt::Display) -> RecordsError {
    RecordsError::Unknown(format!("a part of it was made: {why}"))
}

/// A record whose expiry was changed: what expired with it, at a time of its own, does so no more.
fn with_own_expiries(rows: &[Row], before: &Record, mut after: Record) -> Result<Record, RecordsError> {
    if after.expires_at == before.expires_at {
        return Ok(after);
    }
    let (Content::Attributes(read), Content::Attributes(attributes)) = (&before.content, &mut after.content) else {
        return Ok(after);
    };
    for row in rows {
        let Content::Attributes(stored) = decoded(&row.value)?.content else { continue };
        for (name, own) in stored.iter() {
            let (Some(read), Some(now)) = (read.get(name), attributes.get(name)) else { continue };
            if now.expires_at == read.expires_at && now.expires_at != own.expires_at {
                let restored = Attribute { expires_at: own.expires_at, ..now.clone() };
                attributes.set(name.clone(), restored);
            }
        }
    }
    Ok(after)
}

fn by_clock(deadline: Deadline) -> Call {
    call(deadline).by_clock()
}

fn sort_of(name: &Bytes) -> Result<Bytes, RecordsError> {
    if name.len() > NAME_BYTES_MAX {
        return Err(RecordsError::Name(name.len()));
    }
    let mut sort = BytesMut::with_capacity(1 + name.len());
    sort.put_u8(ATTRIBUTE);
    sort.put_slice(name);
    Ok(sort.freeze())
}

/// All rows of a record.
fn whole(page: Rows) -> Result<Vec<Row>, RecordsError> {
    let bytes: usize = page.rows.iter().map(|row| row.sort.len() + row.value.len()).sum();
    if page.next.is_some() || bytes > ROWS_BYTES_MAX {
        return Err(RecordsError::TooLarge { bytes, max: ROWS_BYTES_MAX });
    }
    Ok(page.rows)
}

/// The parts of a record, each with its sort key.
fn parts(record: &Record) -> Result<Vec<(Bytes, Record)>, RecordsError> {
    let expires_at = record.expires_at;
    match &record.content {
        Content::Text(_) => Ok(vec![(TEXT, record.clone())]),
        Content::Attributes(attributes) => {
            let part = |(name, attribute): (&Bytes, &Attribute)| {
                let one: Attributes = [(name.clone(), attribute.clone())].into_iter().collect();
                Ok((sort_of(name)?, Record { expires_at, ..Record::attributes(one) }))
            };
            attributes.iter().map(part).collect()
        }
    }
}

/// The record of some rows. It expires as a whole if each part does, with the last of them. An
/// attribute whose part expires at another time has that as its own expiry.
fn merged(rows: &[Row], now: UnixMillis) -> Result<Option<Record>, RecordsError> {
    let parts = rows.iter().map(|row| Ok(decoded(&row.value)?.live(now)));
    let parts: Vec<Record> = parts.filter_map(Result::transpose).collect::<Result<_, RecordsError>>()?;
    let expiries: Option<Vec<UnixMillis>> = parts.iter().map(|part| part.expires_at).collect();
    let whole = expiries.and_then(|expiries| expiries.into_iter().max());
    let (mut text, mut attributes) = (None, Vec::new());
    for part in parts {
        let of_part = part.expires_at.filter(|_| part.expires_at != whole);
        match part.content {
            Content::Text(_) => text = Some(part),
            Content::Attributes(one) => attributes.extend(one.iter().map(|(name, attribute)| {
                let expires_at = attribute.expires_at.into_iter().chain(of_part).min();
                (name.clone(), Attribute { expires_at, ..attribute.clone() })
            })),
        }
    }
    // Attributes remove a text, and a text removes attributes. There are both only if two servers
    // wrote them in the same microsecond.
    if attributes.is_empty() {
        return Ok(text);
    }
    Ok(Some(Record { expires_at: whole, ..Record::attributes(attributes.into_iter().collect()) }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use store::null::NullStore;
    use store::{StoreResult, Wrapper, stored};

    use super::*;

    const NOW: UnixMillis = UnixMillis(1_000);

    /// A store in which every record is the same. It counts how often records are read.
    struct Reads(NullStore, AtomicUsize);

    impl Wrapper for Reads {
        fn inner(&self) -> &dyn Store {
            &self.0
        }

        async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.scan_many(call, scans).await
        }
    }

    /// Records that have these attributes, and the store.
    fn records_of(names: &[String]) -> (FastRecords, Arc<Reads>) {
        let rows = names.iter().map(|name| part(name, None, None)).collect();
        let store = Arc::new(Reads(NullStore::new().with_rows(Table::Records, rows), AtomicUsize::new(0)));
        (FastRecords::new(store.clone()), store)
    }

    fn soon() -> Deadline {
        Deadline::within(Duration::from_secs(60))
    }

    /// Sets an attribute, to a value of 60 KiB.
    fn sets(name: &str) -> Overwrite {
        let mut change = Overwrite::new(NOW);
        let value = Bytes::from(vec![b'v'; 60 << 10]);
        change.set(Bytes::copy_from_slice(name.as_bytes()), Attribute::lasting(value), None);
        change
    }

    /// Some names of attributes, each of 1,000 bytes.
    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("{number:01000}")).collect()
    }

    /// A part of a record: its attribute's expiry, and that of the record.
    fn part(name: &str, own: Option<u64>, of_record: Option<u64>) -> Row {
        let name = Bytes::copy_from_slice(name.as_bytes());
        let attribute = Attribute { value: name.clone(), expires_at: own.map(UnixMillis) };
        let record = Record::attributes([(name.clone(), attribute)].into_iter().collect());
        let record = Record { expires_at: of_record.map(UnixMillis), ..record };
        let value = stored::seal(&record).unwrap();
        Row { sort: sort_of(&name).unwrap(), value, guard: None, expires_at: record.last_expiry() }
    }

    fn expiries(rows: &[Row]) -> (Option<u64>, Vec<Option<u64>>) {
        let record = merged(rows, NOW).unwrap().unwrap();
        let attributes = record.as_attributes().unwrap().iter();
        let own = attributes.map(|(_, attribute)| attribute.expires_at.map(|at| at.0)).collect();
        (record.expires_at.map(|at| at.0), own)
    }

    #[test]
    fn a_record_expires_as_a_whole_if_each_part_does() {
        assert_eq!(
            expiries(&[part("a", None, Some(2_000)), part("b", None, Some(2_000))]),
            (Some(2_000), vec![None, None])
        );
        assert_eq!(
            expiries(&[part("a", None, Some(2_000)), part("b", None, None), part("c", Some(1_500), None)]),
            (None, vec![Some(2_000), None, Some(1_500)])
        );
        assert_eq!(
            expiries(&[part("a", Some(1_200), Some(2_000)), part("b", None, Some(3_000))]),
            (Some(3_000), vec![Some(1_200), None])
        );
        assert_eq!(merged(&[part("a", Some(1_000), None), part("b", None, Some(999))], NOW).unwrap(), None);
        assert_eq!(merged(&[], NOW).unwrap(), None);
    }

    #[test]
    fn a_record_in_parts_is_the_same_record_again() {
        let lasting = |value: &'static str| Attribute::lasting(Bytes::from_static(value.as_bytes()));
        let expiring = Attribute { expires_at: Some(UnixMillis(1_100)), ..lasting("2") };
        let attributes = [("a", lasting("1")), ("b", expiring)];
        let attributes = attributes.map(|(name, attribute)| (Bytes::from_static(name.as_bytes()), attribute));
        let record = Record::attributes(attributes.into_iter().collect());
        for record in [
            Record { expires_at: Some(UnixMillis(5_000)), ..record.clone() },
            record,
            Record::text(Bytes::from_static(b"text")),
        ] {
            let parts = parts(&record).unwrap().into_iter().map(|(sort, part)| {
                let expires_at = part.last_expiry();
                Row { sort, value: stored::seal(&part).unwrap(), guard: None, expires_at }
            });
            assert_eq!(merged(&parts.collect::<Vec<_>>(), NOW).unwrap(), Some(record));
        }
    }

    #[tokio::test]
    async fn a_record_of_which_much_was_set_is_read_once_and_refused_what_makes_it_too_large() {
        // Each row has its name three times.
        let (fast, store) = records_of(&names(30));
        let (large, other) = (Bytes::from_static(b"large"), Bytes::from_static(b"other"));
        for _ in 0..8 {
            fast.overwrite(soon(), &large, sets("f")).await.unwrap();
        }
        assert_eq!(store.1.load(Ordering::SeqCst), 0, "480 KiB are set unread");
        for reads in 1..3 {
            let refused = fast.overwrite(soon(), &large, sets("f")).await;
            assert!(matches!(&refused, Err(RecordsError::TooLarge { .. })), "{refused:?}");
            assert_eq!(store.1.load(Ordering::SeqCst), reads);
        }
        let mut shrinks = Overwrite::new(NOW);
        shrinks.delete_attribute(Bytes::from_static(b"f"));
        fast.overwrite(soon(), &large, shrinks).await.unwrap();
        let mut replaces = Overwrite::new(NOW);
        replaces.put(Record::text(Bytes::from_static(b"text")));
        fast.overwrite(soon(), &large, replaces).await.unwrap();
        fast.overwrite(soon(), &other, sets("f")).await.unwrap();
        assert_eq!(store.1.load(Ordering::SeqCst), 2, "these are not looked at");
    }

    #[tokio::test]
    async fn a_record_with_room_is_read_once_each_time_that_much_of_it_was_set() {
        let (fast, store) = records_of(&names(20));
        let id = Bytes::from_static(b"id");
        for _ in 0..80 {
            fast.overwrite(soon(), &id, sets("f")).await.unwrap();
        }
        assert_eq!(store.1.load(Ordering::SeqCst), 9);
    }

    #[tokio::test]
    async fn records_that_are_set_in_turn_are_each_read_once_each_time_that_much_of_them_was_set() {
        let (fast, store) = records_of(&names(20));
        for _ in 0..20 {
            for id in 0..30_u8 {
                fast.overwrite(soon(), &Bytes::from(vec![id]), sets("f")).await.unwrap();
            }
        }
        assert_eq!(store.1.load(Ordering::SeqCst), 60);
    }

    #[tokio::test]
    async fn what_is_set_anew_or_deleted_with_it_does_not_count_as_being_there() {
        let names = names(40);
        let (fast, store) = records_of(&names);
        let id = Bytes::from_static(b"id");
        let change = || {
            let mut change = sets("f");
            for name in &names {
                change.delete_attribute(Bytes::copy_from_slice(name.as_bytes()));
            }
            change
        };
        for _ in 0..20 {
            fast.overwrite(soon(), &id, change()).await.unwrap();
        }
        assert!(store.1.load(Ordering::SeqCst) > 0);
    }

    /// A change of these bytes is a change of the stored format.
    #[test]
    fn stored_parts_keep_their_keys() {
        assert_eq!(sort_of(&Bytes::from_static(b"city")).unwrap(), "acity");
        assert_eq!(sort_of(&Bytes::new()).unwrap(), "a");
        assert_eq!(TEXT, "t");
        assert!(sort_of(&Bytes::from(vec![b'n'; NAME_BYTES_MAX + 1])).is_err());
    }
}
