//! The auditor of one server: one step at a time.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use budget::Pace;
use bytes::Bytes;
use heads::guarded::Known;
use heads::{Heads, ObjectsError, ObjectsResult};
use library::Library;
use parking_lot::Mutex;
use store::{Class, Expect, StoreError, Table, UnixMillis, boxed};

use crate::check;
use crate::reading::Held;
use crate::shared::{self, Place, Shared};
use crate::state::{Next, Pass, Reader, Tally};

/// Bytes of the keys of objects that are taken at once: they are stored in one value.
const TAKEN_BYTES_MAX: usize = 32 << 10;

/// Reports that are kept.
const REPORTS_KEPT: u32 = 40;

const _: () = assert!(REPORTS_KEPT as u64 + 1 == library::bounds::FIXITY_REPORTS);

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
    /// It is for a caller that reads everything once.
    pub(crate) library: Library,
    options: FixityOptions,
    /// The number of this server.
    pub(crate) server: [u8; 16],
    pub(crate) pace: Pace,
    /// Objects of what was taken last that could not be read and are tried once more.
    pub(crate) put_off: Mutex<HashSet<Bytes>>,
    /// The last pass of which this server has written the report.
    reported: AtomicU32,
    /// What this server has read since it started.
    pub(crate) read: Mutex<Tally>,
    /// The same of records, which are its `resources`.
    pub(crate) of_records: Mutex<Tally>,
    /// When the last complete pass began, as this server last knew.
    pub(crate) complete_since: Mutex<Option<UnixMillis>>,
}

impl Auditor {
    /// The auditor of a server that starts.
    pub fn new(library: Library, options: FixityOptions) -> Arc<Self> {
        let server = library.heads.surroundings().random.bytes();
        let pace = Pace::new(options.bytes_per_second);
        Arc::new(Self {
            library: library.once(),
            options,
            server,
            pace,
            put_off: Mutex::default(),
            reported: AtomicU32::new(0),
            read: Mutex::default(),
            of_records: Mutex::default(),
            complete_since: Mutex::default(),
        })
    }

    /// What this server has read since it started, records included, but for their number.
    pub fn read_here(&self) -> Tally {
        let mut read = *self.read.lock();
        read.add(&Tally { resources: 0, ..*self.of_records.lock() });
        read
    }

    /// How many records this server has read since it started.
    pub fn records_read_here(&self) -> u64 {
        self.of_records.lock().resources
    }

    /// Why nothing can be read or recorded.
    fn prevented(&self) -> Option<String> {
        // Elsewhere, rows that are missing may only be late.
        self.library.store().check_home().err().map(|error| error.to_string())
    }

    /// Does the next step of the present pass. It may be interrupted at any time.
    #[boxed]
    pub async fn step(&self) -> ObjectsResult<Step> {
        if let Some(why) = self.prevented() {
            return Ok(Step::Prevented(why));
        }
        let now = self.heads().now();
        let Shared { pass, places, records } = shared::read(self.heads()).await?;
        if pass.is_damaged() || places.iter().any(|place| place.known.is_damaged()) {
            return self.replace_damaged(&pass, &places).await;
        }
        let Known { value: Some(pass), expect } = pass else {
            self.begin(self.last_number(&places).await? + 1, Expect::Absent).await?;
            return Ok(Step::Moved);
        };
        if pass.ended.is_some() {
            return self.rest_or_begin(&pass, records.value.as_ref(), expect).await;
        }
        let is_free = |place: &&Place| place.is_free(|reader| self.may_take(reader, now));
        if let Some(place) = places.iter().filter(is_free).find(|place| place.pending(pass.number).is_some()) {
            return self.take_over(place).await;
        }
        match &pass.next {
            Next::From(from) => match places.iter().find(is_free) {
                Some(place) => self.take_next(&pass, expect, from.clone(), place).await,
                None => Ok(Step::OthersRead),
            },
            Next::End if places.iter().any(|place| place.pending(pass.number).is_some()) => Ok(Step::OthersRead),
            Next::End => match self.read_records(pass.number, records.clone()).await? {
                Some(step) => Ok(step),
                None => {
                    let found = shared::found(pass.number, &places, &records);
                    self.end(pass, expect, found).await
                }
            },
        }
    }

    pub(crate) fn heads(&self) -> &Heads {
        &self.library.heads
    }

    /// Whether this server may use a reader: it has it, or the server that has it is dead. Where
    /// only one process has the store, every other one is.
    pub(crate) fn may_take(&self, reader: &Reader, now: UnixMillis) -> bool {
        let skew = self.library.options().clock_skew_max;
        reader.server == self.server
            || !self.library.store().capabilities().is_shared
            || now > reader.leased_until.plus(skew)
    }

    /// Begins a pass; `false`: another server was faster.
    async fn begin(&self, number: u32, expect: Expect) -> ObjectsResult<bool> {
        let pass = Pass { number, begun: self.heads().now(), next: Next::From(None), ended: None };
        let is_begun = shared::write_pass(self.heads(), &pass, expect).await?.is_some();
        if is_begun {
            tracing::info!(pass = number, "a fixity pass begins");
        }
        Ok(is_begun)
    }

    /// Replaces damaged rows of the auditor's own. A damaged reader may have had objects of the
    /// present pass, so that a new pass begins before it is replaced.
    async fn replace_damaged(&self, pass: &Known<Pass>, places: &[Place]) -> ObjectsResult<Step> {
        if pass.value.as_ref().is_none_or(|pass| pass.ended.is_none()) {
            let number = match &pass.value {
                Some(pass) => pass.number,
                None => self.last_number(places).await?,
            };
            tracing::error!(pass = number, "the state of the fixity auditor is damaged; it begins a new pass");
            if !self.begin(number + 1, pass.expect).await? {
                return Ok(Step::Moved);
            }
        }
        for place in places.iter().filter(|place| place.known.is_damaged()) {
            let (server, pending, found) = (self.server, Vec::new(), Tally::default());
            let unused = Reader { server, leased_until: UnixMillis(0), pass: 0, pending, found };
            shared::write_reader(self.heads(), place.number, &unused, place.known.expect).await?;
        }
        Ok(Step::Moved)
    }

    /// The last pass that a reader or a report names.
    async fn last_number(&self, places: &[Place]) -> ObjectsResult<u32> {
        let reports = shared::reports(self.heads()).await?.values;
        let readers = places.iter().filter_map(|place| place.known.value.as_ref());
        Ok(reports.iter().map(|pass| pass.number).chain(readers.map(|reader| reader.pass)).max().unwrap_or_default())
    }

    /// After a pass has ended: writes its report, and begins the next one when it is due.
    async fn rest_or_begin(&self, pass: &Pass, records: Option<&Reader>, expect: Expect) -> ObjectsResult<Step> {
        // The server that has ended the pass may have died before it wrote the report.
        if self.reported.load(Ordering::Relaxed) != pass.number {
            shared::put_report(self.heads(), pass, records, pass.number.checked_sub(REPORTS_KEPT)).await?;
            self.reported.store(pass.number, Ordering::Relaxed);
        }
        let (now, until) = (self.heads().now(), pass.begun.plus(self.options.every));
        // A pass of a clock that was ahead does not put off the next one.
        if now < until && pass.begun <= now.plus(self.library.options().clock_skew_max) {
            return Ok(Step::Rests { until });
        }
        self.begin(pass.number + 1, expect).await?;
        Ok(Step::Moved)
    }

    /// Ends a pass in which everything was read.
    async fn end(&self, mut pass: Pass, expect: Expect, found: Tally) -> ObjectsResult<Step> {
        pass.ended = Some((self.heads().now(), found));
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
    async fn take_next(&self, pass: &Pass, expect: Expect, from: Option<Bytes>, place: &Place) -> ObjectsResult<Step> {
        self.put_off.lock().clear();
        let (number, is_first) = (pass.number, from.is_none());
        let (objects, next) = match self.walk(from).await {
            // The place is one of another engine, or damaged. Within the same pass, what was read
            // would count twice.
            Err(ObjectsError::Store(StoreError::Invalid(why))) if !is_first => {
                tracing::warn!(pass = number, why, "a fixity pass cannot continue where it was; a new one begins");
                self.begin(number + 1, expect).await?;
                return Ok(Step::Moved);
            }
            walked => walked?,
        };
        let found = place.known.value.as_ref().filter(|reader| reader.pass == number);
        let found = found.map(|reader| reader.found).unwrap_or_default();
        let leased_until = shared::lease(self.heads().now());
        let reader = Reader { server: self.server, leased_until, pass: number, pending: objects, found };
        let held = Held { number: place.number, reader, expect: place.known.expect };
        let Some(mut held) = self.saved(held).await? else { return Ok(Step::Moved) };
        let moved = Pass { next, ..pass.clone() };
        if shared::write_pass(self.heads(), &moved, expect).await?.is_none() {
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

    /// The present time.
    pub fn now(&self) -> UnixMillis {
        self.heads().now()
    }

    /// When and how fast it reads.
    pub fn options(&self) -> FixityOptions {
        self.options
    }
}
