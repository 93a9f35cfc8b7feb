//! Records in a store.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use store::{
    Call, Class, Clock, Condition, Deadline, ForwardClock, Outcome, PlainValue, Row, Step, Store, StoreError,
    StoreResult, Stored, Table, UnixMillis, ValueKind, boxed, stored,
};
use thiserror::Error;
use tokio::time::{sleep, timeout_at};

use crate::draft::Draft;
use crate::fast::{FastRecords, NAME_BYTES_MAX};
use crate::following::{begin, follow};
use crate::hot::Hot;
use crate::mode::{KnownMode, Mode};
use crate::overwrite::Overwrite;
use crate::record::Record;
use crate::turns::{Place, Turns};
use crate::unbroken::Unbroken;

/// Changes of so many records can be under way at once.
const PLACES: usize = 1 << 14;

/// The sort key of a record's row.
pub(crate) const ROW: Bytes = Bytes::new();

/// The longest id in bytes.
pub const ID_BYTES_MAX: usize = 1_024;

/// An engine that ends a call by its deadline has so much time to say what became of it.
pub(crate) const LAST_WORD: Duration = Duration::from_millis(1);

/// How long one look at whether a write has ended may take, and the pause before the next.
const LOOK: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Stored for Record {
    const KIND: ValueKind = ValueKind::Record;
}

/// Why a request for records has no answer.
#[derive(Debug, Error)]
pub enum RecordsError {
    /// The store refuses it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Whether the change was made is not known.
    #[error("whether the change was made is not known: {0}")]
    Unknown(String),
    /// An id is empty or too long.
    #[error("the id of a record has 1 to {ID_BYTES_MAX} bytes, not {0}")]
    Id(usize),
    /// A record is too large to be stored.
    #[error("a record has at most {max} bytes, not {bytes}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The name of an attribute is too long for mode fast.
    #[error("the name of an attribute has at most {NAME_BYTES_MAX} bytes in mode fast, not {0}")]
    Name(usize),
    /// The records of the store are kept in another way.
    #[error(
        "the records of this store are in mode {stored}, and this server has mode {ours}: set records.mode = \"{stored}\""
    )]
    OtherMode {
        /// The mode of the store.
        stored: Mode,
        /// That of the server.
        ours: Mode,
    },
    /// The store belongs to this process.
    #[error("records.mode = \"fast\" is for stores on Cassandra; a data folder has mode atomic")]
    FastAlone,
    /// A stored record cannot be decoded.
    #[error("the record is damaged: {0}")]
    Damaged(String),
}

/// The records of a store. Each change of a record is one write, which is acknowledged when it is
/// durable, or before it is synced ([`Records::synced_within`]). Changes of one record happen one
/// after the other; those that wait for the same sync share it. Each call ends by its deadline, even if
/// the store does not answer.
///
/// In a store that belongs to this process, changes take turns. In one that several processes share,
/// a change also compares: it is written only if the record is as it was read, and is made again
/// otherwise.
///
/// In mode fast the last write of each attribute wins. Changes are written without being read
/// ([`Records::overwrite`]), or only touch what was read ([`Records::change`]).
pub struct Records {
    pub(crate) store: Arc<dyn Store>,
    /// What has expired stays so if the clock of the machine is set back.
    clock: ForwardClock,
    /// Makes it hard to find ids that share a turn.
    salt: u64,
    /// Made at the first change: they take some MiB, and not every server changes records.
    places: OnceLock<Vec<Place>>,
    is_shared: bool,
    pub(crate) mode: KnownMode,
    fast: FastRecords,
    sync_delay: Duration,
    hot: Option<Hot>,
}

/// The clock of this machine, with what the store knows to be wrong with it. So servers that share a
/// store agree on what has expired.
struct CorrectedClock {
    clock: Arc<dyn Clock>,
    store: Arc<dyn Store>,
}

impl Clock for CorrectedClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.clock.now().0.saturating_add_signed(self.store.clock_correction_ms()))
    }
}

/// Some ids, and where to read on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdPage {
    /// Ids, each once.
    pub ids: Vec<Bytes>,
    /// The argument for the next page; `None`: all ids were read.
    pub next: Option<Bytes>,
}

/// Some records, and where to read on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordPage {
    /// Records with their ids, each once.
    pub records: Vec<(Bytes, Record)>,
    /// The number of ids that the page is about, also of those that were not wanted.
    pub ids: usize,
    /// The argument for the next page; `None`: the walk has ended.
    pub next: Option<Bytes>,
}

impl Records {
    /// The records of `store`, in mode atomic.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self::in_mode(store, clock, Mode::Atomic)
    }

    /// The records of `store`. If they are in another mode, each call fails.
    pub fn in_mode(store: Arc<dyn Store>, clock: Arc<dyn Clock>, mode: Mode) -> Self {
        let is_shared = store.capabilities().is_shared;
        let fast = FastRecords::new(store.clone());
        let mode = KnownMode::new(store.clone(), mode);
        let salt = RandomState::new().hash_one(0);
        let clock = ForwardClock::new(Arc::new(CorrectedClock { clock, store: store.clone() }));
        Self {
            store,
            clock,
            salt,
            places: OnceLock::new(),
            is_shared,
            mode,
            fast,
            sync_delay: Duration::ZERO,
            hot: None,
        }
    }

    /// The same records, with a salt for the choice of turns. With the same salt, the same ids share
    /// a turn.
    pub fn salted(self, salt: u64) -> Self {
        Self { salt, ..self }
    }

    /// How they change.
    pub fn mode(&self) -> Mode {
        self.mode.mode
    }

    /// Refuses if the records of the store are in another mode.
    #[boxed]
    pub async fn check_mode(&self, deadline: Deadline) -> Result<(), RecordsError> {
        self.mode.look(deadline).await
    }

    /// The same records, whose changes may survive a power failure only so long after they were
    /// acknowledged (see [`Call::sync_delay`]).
    pub fn synced_within(self, sync_delay: Duration) -> Self {
        Self { sync_delay, ..self }
    }

    /// The same records, which remember what is asked for most. It costs up to 32 MiB.
    pub fn remembering(self) -> Self {
        Self { hot: Some(Hot::default()), ..self }
    }

    /// The ids of records that are asked for most, the first ones most; none unless they are
    /// remembered.
    pub fn hottest(&self) -> Vec<Bytes> {
        self.hot.as_ref().map(Hot::ids).unwrap_or_default()
    }

    /// Counts an id that an earlier process remembered.
    pub fn recall(&self, id: &Bytes) {
        if let Some(hot) = &self.hot {
            hot.count(id);
        }
    }

    pub(crate) fn count(&self, id: &Bytes, row: Option<&Row>) {
        if row.is_some() {
            self.recall(id);
        }
    }

    /// Counts those ids for which something was found.
    fn count_found<T>(&self, ids: &[Bytes], found: &[Option<T>]) {
        if let Some(hot) = &self.hot {
            hot.count_all(ids.iter().zip(found).filter(|(_, found)| found.is_some()).map(|(id, _)| id));
        }
    }

    /// How long after its acknowledgement a change may take until it survives a power failure.
    pub fn sync_delay(&self) -> Duration {
        self.sync_delay
    }

    /// Whether several processes may have the store.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Whether [`Records::change`] takes several ids: whether changes of several records are made
    /// all or none.
    pub fn changes_several_at_once(&self) -> bool {
        !self.is_shared && self.mode() == Mode::Atomic
    }

    /// The record of an id as it is seen now.
    #[boxed]
    pub async fn read(&self, deadline: Deadline, id: &Bytes) -> Result<Option<Record>, RecordsError> {
        check_id(id)?;
        self.mode.check(deadline).await?;
        if self.mode() == Mode::Fast {
            let mut found = self.fast.read(deadline, std::slice::from_ref(id), self.clock.now()).await?;
            return Ok(found.pop().flatten());
        }
        let row = by(deadline, self.store.get(call(deadline), Table::Records, id, &ROW)).await?;
        self.count(id, row.as_ref());
        live(row.as_ref(), self.clock.now())
    }

    /// The records of many ids, in their order.
    #[boxed]
    pub async fn read_many(&self, deadline: Deadline, ids: &[Bytes]) -> Result<Vec<Option<Record>>, RecordsError> {
        let found = self.read_listed(deadline, ids).await?;
        self.count_found(ids, &found);
        Ok(found)
    }

    /// The same for a caller that goes through all records. It does not count as asking for them.
    #[boxed]
    pub async fn read_listed(&self, deadline: Deadline, ids: &[Bytes]) -> Result<Vec<Option<Record>>, RecordsError> {
        self.mode.check(deadline).await?;
        if self.mode() == Mode::Fast {
            ids.iter().try_for_each(check_id)?;
            return self.fast.read(deadline, ids, self.clock.now()).await;
        }
        let rows = self.rows(call(deadline), ids).await?;
        let now = self.clock.now();
        rows.iter().map(|row| live(row.as_ref(), now)).collect()
    }

    async fn rows(&self, call: Call, ids: &[Bytes]) -> Result<Vec<Option<Row>>, RecordsError> {
        ids.iter().try_for_each(check_id)?;
        let keys = ids.iter().map(|id| (id.clone(), ROW)).collect();
        Ok(by(call.deadline, self.store.get_many(call, Table::Records, keys)).await?)
    }

    /// The rows of ids, where no acknowledged change is missed. If plain writes reach less than a
    /// majority of the replicas, a strong read asks all of them. While one is away a serial read
    /// serves as well: in mode atomic each change of a shared store is a compare-and-write, and a
    /// majority decides those. It comes second, because it costs more and slows writers.
    async fn current_rows(&self, deadline: Deadline, ids: &[Bytes]) -> Result<Vec<Option<Row>>, RecordsError> {
        match self.rows(call(deadline).strong(), ids).await {
            Err(RecordsError::Store(StoreError::Unavailable(_))) => self.rows(call(deadline).serial(), ids).await,
            read => read,
        }
    }

    /// The record of an id, in mode atomic, where no acknowledged change is missed. Away from the home
    /// of the store it may be: there all reads lag behind.
    #[boxed]
    pub async fn read_current(&self, deadline: Deadline, id: &Bytes) -> Result<Option<Record>, RecordsError> {
        self.mode.check(deadline).await?;
        let row = self.current_rows(deadline, std::slice::from_ref(id)).await?.pop().flatten();
        self.count(id, row.as_ref());
        live(row.as_ref(), self.clock.now())
    }

    /// Changes records: all of them or none. `change` gets a draft for each of the ids, which are
    /// all different. It is called again, with other drafts, if another process changed the record
    /// meanwhile, or if it leaves all as it is and the read may have missed a change: a usual read
    /// of a shared store may. It returns when the change is durable.
    ///
    /// In mode fast it only touches what was read: it must not add anything, and another change
    /// that is made at the same time may be missed and wins.
    ///
    /// Either wait for the call to its end, or drop it: until then other changes of the records wait.
    /// If it is dropped, a write that has begun goes on by itself.
    ///
    /// Errors: [`StoreError::Invalid`] for several ids, unless
    /// [`Records::changes_several_at_once`]; [`StoreError::DeadlinePassed`] also if other processes
    /// changed the record again and again; [`StoreError::ReadOnly`] where no record can be changed.
    /// In a shared store that is so for a change that leaves all as it is, too.
    pub async fn change<T>(
        &self,
        deadline: Deadline,
        ids: &[Bytes],
        change: impl FnMut(&mut [Draft]) -> T,
    ) -> Result<T, RecordsError> {
        self.change_counted(deadline, ids, true, change).await
    }

    /// The same for a caller that goes through many records, such as an import. It does not count
    /// as asking for them.
    pub async fn change_listed<T>(
        &self,
        deadline: Deadline,
        ids: &[Bytes],
        change: impl FnMut(&mut [Draft]) -> T,
    ) -> Result<T, RecordsError> {
        self.change_counted(deadline, ids, false, change).await
    }

    /// `counts` says whether that is asking for the records.
    async fn change_counted<T>(
        &self,
        deadline: Deadline,
        ids: &[Bytes],
        counts: bool,
        change: impl FnMut(&mut [Draft]) -> T,
    ) -> Result<T, RecordsError> {
        self.check_change(ids)?;
        if let [id] = ids
            && self.changes_several_at_once()
        {
            return self.change_following(deadline, id, counts, change).await;
        }
        let turns = self.turns(deadline, ids).await?;
        self.change_holding(deadline, turns, ids, counts, change).await
    }

    fn check_change(&self, ids: &[Bytes]) -> Result<(), RecordsError> {
        if ids.len() > 1 && !self.changes_several_at_once() {
            return Err(StoreError::Invalid("records of a shared store change one by one".to_owned()).into());
        }
        ids.iter().try_for_each(check_id)
    }

    /// As [`Records::change`], with the turns of these ids.
    pub async fn change_in_turn<T>(
        &self,
        deadline: Deadline,
        turns: Turns,
        ids: &[Bytes],
        change: impl FnMut(&mut [Draft]) -> T,
    ) -> Result<T, RecordsError> {
        self.check_change(ids)?;
        self.change_holding(deadline, turns, ids, true, change).await
    }

    /// As [`Records::change_counted`], with the turns of these ids, which were checked.
    async fn change_holding<T>(
        &self,
        deadline: Deadline,
        turns: Turns,
        ids: &[Bytes],
        counts: bool,
        mut change: impl FnMut(&mut [Draft]) -> T,
    ) -> Result<T, RecordsError> {
        self.mode.check(deadline).await?;
        let turns = Arc::new(turns);
        if let (Mode::Fast, [id]) = (self.mode(), ids) {
            let refreshed =
                timeout_at(deadline.0 + LAST_WORD, self.fast.refresh(deadline, id, || self.clock.now(), change));
            let (answer, outcome) = refreshed.await.unwrap_or_else(|_| Err(late()))?;
            return applied(outcome).map(|()| answer);
        }
        let mut rows = self.rows(call(deadline), ids).await?;
        if counts {
            self.count_found(ids, &rows);
        }
        // A write compares with what is stored, and a change that writes nothing does not.
        let mut are_current = !self.is_shared;
        while !deadline.passed() {
            let now = self.clock.now();
            let stored = rows.iter().map(|row| row.as_ref().map(|row| decoded(&row.value)).transpose());
            let stored = stored.collect::<Result<Vec<_>, _>>()?;
            let mut drafts: Vec<Draft> = stored.into_iter().map(|record| Draft::new(record, now)).collect();
            let answer = change(&mut drafts);
            let changes = ids.iter().zip(&rows).zip(drafts);
            let changes = changes.filter_map(|((id, row), draft)| Some((id, row.as_ref(), draft.change()?)));
            let steps = changes.map(|(id, row, record)| self.step(id, row, record)).collect::<Result<Vec<_>, _>>()?;
            if steps.is_empty() && are_current {
                return Ok(answer);
            }
            if steps.is_empty() {
                self.store.check_home()?;
                rows = self.current_rows(deadline, ids).await?;
                are_current = true;
                continue;
            }
            self.mode.settle(deadline).await?;
            match self.write(deadline, turns.clone(), steps).await? {
                Outcome::Applied => return Ok(answer),
                Outcome::Refused { current, .. } => (rows, are_current) = (vec![current], true),
                Outcome::Unknown { reason } => return Err(RecordsError::Unknown(reason)),
            }
        }
        Err(StoreError::DeadlinePassed.into())
    }

    /// Writes a change that does not depend on what is stored. Once this process has set much of a
    /// record, it reads it first.
    ///
    /// Errors: [`StoreError::Invalid`] in mode atomic; [`RecordsError::TooLarge`] if the record is
    /// seen to get too large to be read.
    #[boxed]
    pub async fn overwrite(&self, deadline: Deadline, id: &Bytes, change: Overwrite) -> Result<(), RecordsError> {
        check_id(id)?;
        if self.mode() == Mode::Atomic {
            return Err(StoreError::Invalid("in mode atomic a change reads first".to_owned()).into());
        }
        self.mode.settle(deadline).await?;
        let written = timeout_at(deadline.0 + LAST_WORD, self.fast.overwrite(deadline, id, change)).await;
        applied(written.unwrap_or_else(|_| Err(late()))?)
    }

    /// Runs steps. If the caller goes away meanwhile, the write goes on without it. It keeps the
    /// turns until the write has ended, so that the next change begins with what this one left.
    pub(crate) async fn write(
        &self,
        deadline: Deadline,
        turns: Arc<Turns>,
        steps: Vec<Step>,
    ) -> Result<Outcome, RecordsError> {
        let (store, compares, sync_delay) = (self.store.clone(), self.is_shared, self.sync_delay);
        let key = steps.first().map(|step| step.partition().clone()).unwrap_or_default();
        let write = Unbroken::new(async move {
            let outcome = store.run(call(deadline).having_read().synced_within(sync_delay), steps).await;
            // A write that compares does no harm if it comes after the next one.
            if matches!(outcome, Ok(Outcome::Unknown { .. })) && !compares {
                tokio::spawn(async move {
                    wait_for_writes(store.as_ref(), key).await;
                    drop(turns);
                });
            }
            outcome
        });
        let late = Outcome::Unknown { reason: "the store did not answer in time".to_owned() };
        timeout_at(deadline.0 + LAST_WORD, write).await.map_or(Ok(late), |outcome| Ok(outcome?))
    }

    /// Some ids of stored records, some of which may have expired meanwhile. A record that is there
    /// during the whole walk is found.
    #[boxed]
    pub async fn ids(&self, deadline: Deadline, from: Option<Bytes>, max: usize) -> Result<IdPage, RecordsError> {
        self.mode.check(deadline).await?;
        let page = by(deadline, self.store.walk(call(deadline), Table::Records, from, max)).await?;
        Ok(IdPage { ids: page.partitions, next: page.next })
    }

    /// Whether [`Records::list`] reads ids and records in one pass. Otherwise it reads ids first, and
    /// then the records of those that are wanted.
    pub fn lists_in_one_pass(&self) -> bool {
        !self.is_shared && self.mode() == Mode::Atomic
    }

    /// Some records whose ids are wanted, as they are seen now, of at most `max` ids. It ends earlier
    /// before it holds much more than `max_bytes`. A record that is there during the whole walk is
    /// found. It does not count as asking for the records, and in a store that belongs to this process
    /// it leaves in the engine's cache what is read more often.
    pub async fn list(
        &self,
        deadline: Deadline,
        from: Option<Bytes>,
        (max, max_bytes): (usize, usize),
        is_wanted: impl Fn(&Bytes) -> bool,
    ) -> Result<RecordPage, RecordsError> {
        if !self.lists_in_one_pass() {
            let IdPage { mut ids, next } = self.ids(deadline, from, max.min(self.fit_in(max_bytes))).await?;
            let count = ids.len();
            ids.retain(&is_wanted);
            let found = self.read_listed(deadline, &ids).await?;
            let records = ids.into_iter().zip(found).filter_map(|(id, record)| Some((id, record?))).collect();
            return Ok(RecordPage { records, ids: count, next });
        }
        self.mode.check(deadline).await?;
        let walk = self.store.walk_rows(call(deadline), Table::Records, from, max, max_bytes);
        let page = by(deadline, walk).await?;
        let (mut records, now) = (Vec::new(), self.clock.now());
        for (id, row) in page.rows.iter().filter(|(id, _)| is_wanted(id)) {
            records.extend(live(Some(row), now)?.map(|record| (id.clone(), record)));
        }
        Ok(RecordPage { records, ids: page.rows.len(), next: page.next })
    }

    /// So many records certainly fit: nobody knows before they are read how large they are.
    pub(crate) fn fit_in(&self, max_bytes: usize) -> usize {
        (max_bytes / self.store.limits().value_bytes.max(1)).max(1)
    }

    /// The step from a row to a record; `None`: to none.
    fn step(&self, id: &Bytes, row: Option<&Row>, record: Option<Record>) -> Result<Step, RecordsError> {
        let then = record.map(|record| sealed(self.store.as_ref(), &record)).transpose()?;
        Ok(if self.is_shared { follow(id, row.map(PlainValue::of), then) } else { begin(id, then) })
    }

    /// The turns of some ids, always in the same order, so that no two callers wait for each other.
    async fn turns(&self, deadline: Deadline, ids: &[Bytes]) -> Result<Turns, RecordsError> {
        let places: BTreeSet<usize> = ids.iter().map(|id| self.place_of(id)).collect();
        let mut turns = Vec::with_capacity(places.len());
        for place in places {
            turns.push(self.places()[place].turn_alone(deadline).await?);
        }
        Ok(Turns { _held: turns })
    }

    /// The turns of those ids that need not wait for one, and whether each of the ids is one of them.
    pub fn free_turns(&self, ids: &[Bytes]) -> (Turns, Vec<bool>) {
        let (mut turns, mut taken) = (Vec::with_capacity(ids.len()), BTreeSet::new());
        let mut take = |id: &Bytes| {
            let place = self.place_of(id);
            let is_free =
                taken.contains(&place) || self.places()[place].free_turn().map(|turn| turns.push(turn)).is_some();
            if is_free {
                taken.insert(place);
            }
            is_free
        };
        let are_free = ids.iter().map(&mut take).collect();
        (Turns { _held: turns }, are_free)
    }

    fn places(&self) -> &[Place] {
        self.places.get_or_init(|| (0..PLACES).map(|_| Place::default()).collect())
    }

    /// Where changes of an id take turns.
    pub(crate) fn place(&self, id: &Bytes) -> &Place {
        &self.places()[self.place_of(id)]
    }

    /// The number of the place of an id. Several ids may share one.
    fn place_of(&self, id: &Bytes) -> usize {
        let mut hasher = DefaultHasher::new();
        (self.salt, id).hash(&mut hasher);
        hasher.finish() as usize % PLACES
    }

    /// It is no earlier than this from now on: an earlier process has seen it.
    pub fn not_before(&self, time: UnixMillis) {
        self.clock.not_before(time);
    }

    /// The time by which records expire, which never goes back.
    pub fn now(&self) -> UnixMillis {
        self.clock.now()
    }
}

/// The record of a row as it is seen at a time.
fn live(row: Option<&Row>, now: UnixMillis) -> Result<Option<Record>, RecordsError> {
    Ok(row.map(|row| decoded(&row.value)).transpose()?.and_then(|record| record.live(now)))
}

/// The stored form of a record.
pub(crate) fn sealed(store: &dyn Store, record: &Record) -> Result<PlainValue, RecordsError> {
    let value = stored::seal(record).map_err(|error| RecordsError::Damaged(error.to_string()))?;
    let (bytes, max) = (value.len(), store.limits().value_bytes);
    if bytes > max {
        return Err(RecordsError::TooLarge { bytes, max });
    }
    Ok(PlainValue { value, expires_at: record.last_expiry() })
}

/// The outcome of a write without conditions, or of the last one with some.
fn applied(outcome: Outcome) -> Result<(), RecordsError> {
    match outcome {
        Outcome::Applied => Ok(()),
        Outcome::Refused { .. } => Err(StoreError::DeadlinePassed.into()),
        Outcome::Unknown { reason } => Err(RecordsError::Unknown(reason)),
    }
}

/// The store did not keep to the deadline of a write.
fn late() -> RecordsError {
    RecordsError::Unknown("the store did not answer in time".to_owned())
}

pub(crate) fn decoded(value: &Bytes) -> Result<Record, RecordsError> {
    stored::open(value).map_err(|error| RecordsError::Damaged(error.to_string()))
}

pub(crate) fn call(deadline: Deadline) -> Call {
    Call::new(Class::Record, deadline)
}

/// The answer of a store, by a deadline.
pub(crate) async fn by<T>(deadline: Deadline, answer: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
    timeout_at(deadline.0 + LAST_WORD, answer).await.unwrap_or(Err(StoreError::DeadlinePassed))
}

/// Waits until all writes that were begun have ended: one thread of a lane decides on its lists in
/// their order, so it has decided on those before this one. A store that refuses writes from now on
/// ends the wait too.
pub(crate) async fn wait_for_writes(store: &dyn Store, key: Bytes) {
    loop {
        let look =
            Step::Require { table: Table::Records, partition: key.clone(), sort: ROW, condition: Condition::Absent };
        match store.run(call(Deadline::within(LOOK)), vec![look]).await {
            Ok(Outcome::Unknown { .. }) | Err(StoreError::Overloaded(_) | StoreError::DeadlinePassed) => {
                sleep(LOOK_AGAIN).await;
            }
            Ok(_) | Err(_) => return,
        }
    }
}

fn check_id(id: &Bytes) -> Result<(), RecordsError> {
    if (1..=ID_BYTES_MAX).contains(&id.len()) { Ok(()) } else { Err(RecordsError::Id(id.len())) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicI64, Ordering};

    use store::null::NullStore;
    use store::{ManualClock, Wrapper};

    use super::*;
    use crate::attributes::{Attribute, Attributes};

    /// A store that knows by how much the clock is wrong.
    #[derive(Default)]
    struct Corrects(NullStore, AtomicI64);

    impl Wrapper for Corrects {
        fn inner(&self) -> &dyn Store {
            &self.0
        }

        fn clock_correction_ms(&self) -> i64 {
            self.1.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn records_expire_by_the_clock_that_the_store_corrects_which_never_goes_back() {
        let (store, clock) = (Arc::new(Corrects::default()), Arc::new(ManualClock::new(UnixMillis(1_000))));
        let records = Records::new(store.clone(), clock.clone());
        for (clock_ms, correction_ms, now) in
            [(1_000, 0, 1_000), (1_000, 500, 1_500), (1_200, -100, 1_500), (1_700, -100, 1_600), (50, -100, 1_600)]
        {
            clock.set(UnixMillis(clock_ms));
            store.1.store(correction_ms, Ordering::SeqCst);
            assert_eq!(records.now(), UnixMillis(now));
        }
    }

    #[test]
    fn places_for_changes_take_no_memory_before_the_first_change() {
        let records = Records::new(Arc::new(NullStore::default()), Arc::new(ManualClock::new(UnixMillis(1_000))));
        assert!(records.places.get().is_none());
        let (_turns, are_free) = records.free_turns(&[Bytes::from_static(b"id")]);
        assert_eq!(are_free, [true]);
        assert_eq!(records.places.get().map(Vec::len), Some(PLACES));
    }

    /// A change of these bytes is a change of the stored format.
    #[test]
    fn stored_records_keep_their_bytes() {
        assert_eq!((Record::KIND.number(), Record::VERSION), (52, 1));
        let text = Record { expires_at: Some(UnixMillis(5)), ..Record::text(Bytes::from_static(b"ab")) };
        let expiring = Attribute { value: Bytes::from_static(b"v"), expires_at: Some(UnixMillis(300)) };
        let lasting = Attribute::lasting(Bytes::new());
        let attributes: Attributes =
            [(Bytes::from_static(b"f"), expiring), (Bytes::from_static(b"g"), lasting)].into_iter().collect();
        for (record, bytes) in [
            (text, &b"\x00\x02ab\x01\x05"[..]),
            (Record::attributes(attributes), b"\x01\x02\x01f\x01v\x01\xAC\x02\x01g\x00\x00\x00"),
        ] {
            assert_eq!(stored::encode(&record).unwrap(), bytes);
            assert_eq!(stored::decode::<Record>(bytes).unwrap(), record);
        }
    }
}
