//! The auditor of one server: one step at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use budget::Pace;
use bytes::Bytes;
use heads::{Heads, ObjectsError, ObjectsResult};
use library::Library;
use parking_lot::Mutex;
use store::{Class, Expect, FormatLevel, StoreError, Table, UnixMillis};
use tokio::time::{Instant, MissedTickBehavior};

use crate::check::{self, Checked};
use crate::shared::{self, Known, Place, Shared};
use crate::state::{Next, Pass, Reader, Tally};

/// How often a server saves its progress, which extends its lease.
const SAVE_EVERY: Duration = Duration::from_secs(15);

/// Bytes of the keys of objects that are taken at once: they are stored in one value.
const TAKEN_BYTES_MAX: usize = 32 << 10;

/// A step ends after so many consecutive objects could not be read: then the store fails, and not
/// an object.
const FAILED_IN_A_ROW_MAX: u32 = 8;

/// Findings that one reader stores in a pass. Further ones are only counted; the marks on damage
/// and the log have all.
const FINDINGS_MAX: u64 = 500;

/// Reports that are kept.
const REPORTS_KEPT: u32 = 40;

/// When and how fast to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixityOptions {
    /// A pass begins so long after the last one began, or when that has ended.
    pub every: Duration,
    /// Bytes per second that this server reads; 0: no limit.
    pub bytes_per_second: u64,
    /// Partitions of the walk that a server takes at once, unless their keys are long.
    pub taken_at_once: usize,
}

impl Default for FixityOptions {
    fn default() -> Self {
        Self { every: Duration::from_secs(90 * 24 * 3_600), bytes_per_second: 8 << 20, taken_at_once: 500 }
    }
}

/// What a step did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It read some objects.
    Read(Tally),
    /// It began or ended a pass, or another server was faster. There is more to do.
    Moved,
    /// The last pass has ended, and the next one is not due yet.
    Rests {
        /// When it is.
        until: UnixMillis,
    },
    /// Other servers have taken all that is left of the pass.
    OthersRead,
    /// It must not read now.
    Prevented(String),
}

/// The auditor of one server.
pub struct Auditor {
    library: Library,
    options: FixityOptions,
    /// The number of this server.
    server: [u8; 16],
    pace: Pace,
    failed_in_a_row: AtomicU32,
    /// What this server has read since it started.
    read: Mutex<Tally>,
}

/// A reader that this server has.
struct Held {
    number: u8,
    reader: Reader,
    expect: Expect,
}

impl Auditor {
    /// The auditor of a server that starts.
    pub fn new(library: Library, options: FixityOptions) -> Arc<Self> {
        let server = library.heads.surroundings().random.bytes();
        let pace = Pace::new(options.bytes_per_second);
        let (failed_in_a_row, read) = (AtomicU32::new(0), Mutex::new(Tally::default()));
        Arc::new(Self { library, options, server, pace, failed_in_a_row, read })
    }

    /// What this server has read since it started.
    pub fn read_here(&self) -> Tally {
        *self.read.lock()
    }

    /// Why nothing can be read or recorded.
    fn prevented(&self) -> Option<String> {
        let store = self.library.store();
        if store.level() < FormatLevel::ARCHIVE {
            let level = store.level();
            let needed = FormatLevel::ARCHIVE;
            return Some(format!(
                "the store is of level {level}, and its auditor needs level {needed}: run `penates upgrade`"
            ));
        }
        // Elsewhere, rows that are missing may only be late.
        store.check_home().err().map(|error| error.to_string())
    }

    /// Does the next step of the present pass. It may be interrupted at any time.
    pub async fn step(&self) -> ObjectsResult<Step> {
        if let Some(why) = self.prevented() {
            return Ok(Step::Prevented(why));
        }
        let now = self.heads().now();
        let Shared { pass, places } = shared::read(self.heads()).await?;
        let Some(Known { value: pass, expect }) = pass else { return self.begin(1, Expect::Absent).await };
        if pass.ended.is_some() {
            let due = pass.begun.plus(self.options.every);
            return if now >= due { self.begin(pass.number + 1, expect).await } else { Ok(Step::Rests { until: due }) };
        }
        let is_free = |place: &&Place| place.is_free(|reader| self.may_take(reader, now));
        if let Some(place) = places.iter().filter(is_free).find(|place| place.pending(pass.number).is_some()) {
            return self.take_over(place).await;
        }
        match &pass.next {
            Next::From(from) => match places.iter().find(is_free) {
                Some(place) => {
                    let from = from.clone();
                    self.take_next(&Known { value: pass, expect }, from, place).await
                }
                None => Ok(Step::OthersRead),
            },
            Next::End if places.iter().any(|place| place.pending(pass.number).is_some()) => Ok(Step::OthersRead),
            Next::End => self.end(pass, expect, &places).await,
        }
    }

    fn heads(&self) -> &Heads {
        &self.library.heads
    }

    /// Whether this server may use a reader: it has it, or the server that has it is dead. Where
    /// only one process has the store, every other one is.
    fn may_take(&self, reader: &Reader, now: UnixMillis) -> bool {
        let skew = self.library.options().clock_skew_max;
        reader.server == self.server
            || !self.library.store().capabilities().is_shared
            || now > reader.leased_until.plus(skew)
    }

    async fn begin(&self, number: u32, expect: Expect) -> ObjectsResult<Step> {
        let pass = Pass { number, begun: self.heads().now(), next: Next::From(None), ended: None };
        if shared::write_pass(self.heads(), &pass, expect).await?.is_some() {
            tracing::info!(pass = number, "a fixity pass begins");
        }
        Ok(Step::Moved)
    }

    /// Ends a pass that all readers have finished.
    async fn end(&self, mut pass: Pass, expect: Expect, places: &[Place]) -> ObjectsResult<Step> {
        let mut found = Tally::default();
        let readers = places.iter().filter_map(|place| place.known.value.as_ref());
        readers.filter(|reader| reader.pass == pass.number).for_each(|reader| found.add(&reader.found));
        pass.ended = Some((self.heads().now(), found));
        // The report comes first, so that none is missing.
        shared::put_report(self.heads(), &pass, pass.number.checked_sub(REPORTS_KEPT)).await?;
        if shared::write_pass(self.heads(), &pass, expect).await?.is_some() {
            let Tally { volumes, resources, bytes, damaged, failed } = found;
            tracing::info!(pass = pass.number, volumes, resources, bytes, damaged, failed, "a fixity pass has ended");
        }
        Ok(Step::Moved)
    }

    /// Finishes what is left in a reader.
    async fn take_over(&self, place: &Place) -> ObjectsResult<Step> {
        let Known { value: Some(reader), expect } = place.known.clone() else { return Ok(Step::Moved) };
        let held = Held { number: place.number, reader, expect };
        match self.saved(held).await? {
            Some(held) => self.read_pending(held).await,
            None => Ok(Step::Moved),
        }
    }

    /// Takes the next objects of a pass, and reads them.
    async fn take_next(&self, pass: &Known<Pass>, from: Option<Bytes>, place: &Place) -> ObjectsResult<Step> {
        let (objects, next) = match self.walk(from).await {
            // The place is one of another engine, or damaged.
            Err(ObjectsError::Store(StoreError::Invalid(why))) => {
                tracing::warn!(why, "a fixity pass cannot continue where it was; it begins again");
                (Vec::new(), Next::From(None))
            }
            walked => walked?,
        };
        let number = pass.value.number;
        let found = place.known.value.as_ref().filter(|reader| reader.pass == number);
        let found = found.map(|reader| reader.found).unwrap_or_default();
        let leased_until = shared::lease(self.heads().now());
        let reader = Reader { server: self.server, leased_until, pass: number, pending: objects, found };
        let held = Held { number: place.number, reader, expect: place.known.expect };
        let Some(mut held) = self.saved(held).await? else { return Ok(Step::Moved) };
        let moved = Pass { next, ..pass.value.clone() };
        if shared::write_pass(self.heads(), &moved, pass.expect).await?.is_none() {
            // Another server has taken them.
            held.reader.pending.clear();
            self.saved(held).await?;
            return Ok(Step::Moved);
        }
        self.read_pending(held).await
    }

    /// The next objects of a walk, and where it continues.
    async fn walk(&self, from: Option<Bytes>) -> ObjectsResult<(Vec<Bytes>, Next)> {
        let mut max = self.options.taken_at_once;
        loop {
            let walk = async || {
                let call = self.heads().call(Class::Description);
                Ok(self.library.store().walk(call, Table::Objects, from.clone(), max).await?)
            };
            let page = self.heads().retry_transient(walk).await?;
            let mut objects: Vec<_> = page.partitions.into_iter().filter(check::is_object).collect();
            if objects.iter().map(Bytes::len).sum::<usize>() > TAKEN_BYTES_MAX && max > 1 {
                max /= 2;
                continue;
            }
            objects.reverse();
            return Ok((objects, page.next.map_or(Next::End, |next| Next::From(Some(next)))));
        }
    }

    /// Saves a reader and extends its lease; `None`: another server has it.
    async fn saved(&self, held: Held) -> ObjectsResult<Option<Held>> {
        let Held { number, mut reader, expect } = held;
        reader.server = self.server;
        reader.leased_until = shared::lease(self.heads().now());
        let expect = shared::write_reader(self.heads(), number, &reader, expect).await?;
        Ok(expect.map(|expect| Held { number, reader, expect }))
    }

    /// Reads what a reader has left. If another server takes it meanwhile, this one stops.
    async fn read_pending(&self, mut held: Held) -> ObjectsResult<Step> {
        let mut read = Tally::default();
        let mut saved = Instant::now();
        while let Some(object) = held.reader.pending.last().cloned() {
            let checked;
            (checked, held) = match self.check_while_saving(&object, held).await? {
                Some(checked) => checked,
                None => return Ok(Step::Moved),
            };
            if let Some(Checked { tally, finding }) = checked {
                let stored = held.reader.found.damaged + held.reader.found.failed;
                if let Some(finding) = finding.filter(|_| stored < FINDINGS_MAX) {
                    shared::put_finding(self.heads(), held.reader.pass, &object, &finding).await?;
                }
                held.reader.found.add(&tally);
                self.read.lock().add(&tally);
                read.add(&tally);
            }
            held.reader.pending.pop();
            if held.reader.pending.is_empty() || saved.elapsed() >= SAVE_EVERY {
                saved = Instant::now();
                held = match self.saved(held).await? {
                    Some(held) => held,
                    None => return Ok(Step::Moved),
                };
            }
        }
        Ok(Step::Read(read))
    }

    /// Checks an object, and extends the lease meanwhile; `None`: another server has the reader.
    async fn check_while_saving(
        &self,
        object: &Bytes,
        mut held: Held,
    ) -> ObjectsResult<Option<(Option<Checked>, Held)>> {
        let mut checking = std::pin::pin!(check::check(&self.library, object, &self.pace));
        let mut ticks = tokio::time::interval_at(Instant::now() + SAVE_EVERY, SAVE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                checked = &mut checking => {
                    let checked = match checked {
                        Err(error) => Some(self.failed(object, error)?),
                        Ok(checked) => {
                            self.failed_in_a_row.store(0, Ordering::Relaxed);
                            checked
                        }
                    };
                    return Ok(Some((checked, held)));
                }
                _ = ticks.tick() => {
                    held = match self.saved(held).await? {
                        Some(held) => held,
                        None => return Ok(None),
                    };
                }
            }
        }
    }

    /// An object that cannot be read is reported. If many cannot be read, the error ends the step,
    /// so that the next step tries the same object again.
    fn failed(&self, object: &Bytes, error: ObjectsError) -> ObjectsResult<Checked> {
        let in_a_row = self.failed_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        if in_a_row >= FAILED_IN_A_ROW_MAX {
            return Err(error);
        }
        tracing::warn!(object = %object.escape_ascii(), %error, "an object could not be checked");
        Ok(Checked::failed(&self.library, &error))
    }

    /// The library.
    pub(crate) fn library(&self) -> &Library {
        &self.library
    }

    /// The present time.
    pub fn now(&self) -> UnixMillis {
        self.heads().now()
    }

    /// When and how fast it reads.
    pub fn options(&self) -> FixityOptions {
        self.options
    }
}
