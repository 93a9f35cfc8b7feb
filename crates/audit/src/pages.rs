//! Records single pages in windows, so that a reader of many pages of one volume does not wait for
//! the disk at each page.
//!
//! The first page gets a record of its own. A second page within a tenth of a second opens a
//! *window*: before the page is sent, a record says that the whole volume was requested and
//! accessed. While the window is open, further pages of the same volume and requester are noted in
//! memory only. When the window closes, its record is replaced by one of exactly those pages. So
//! after a crash the audit reports up to one window too much and never too little. A window in use
//! is renewed before it ends, so that a reader waits only when it opens one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hathi::{Seq, VolumeId};
use heads::error::ObjectsResult;
use parking_lot::Mutex;
use store::UnixMillis;
use tokio::sync::{Notify, OnceCell};

use crate::queue::AuditRow;
use crate::record::{AuditAction, AuditRecord, AuditedVolume, Requester};
use crate::recorder::{NAME_BYTES_MAX, RecordPlace, Recorder, row, shortened};

/// How long a window is open.
const WINDOW: Duration = Duration::from_millis(100);

/// The age at which a window in use is renewed.
const RENEWED_AFTER: Duration = Duration::from_millis(50);

/// The interval at which windows are checked, while there are any.
const TICK: Duration = Duration::from_millis(20);

/// Pages of one window. A reader of more pages opens another window.
const WINDOW_PAGES: usize = 1_000;

/// An upper bound for the bytes of a record of that many pages.
const WINDOW_BYTES: usize = 5 * WINDOW_PAGES + hathi::id::MAX_ID_BYTES + 2 * NAME_BYTES_MAX + 256;

/// A requester and the volume it reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Reading {
    name: Option<String>,
    address: Option<IpAddr>,
    volume: VolumeId,
}

/// The pages that are being read.
pub(super) struct PageWindows {
    recorder: Arc<Recorder>,
    state: Mutex<State>,
    began: Notify,
}

#[derive(Default)]
struct State {
    /// In order, so that repeated runs mint ids and write rows in the same order.
    readings: BTreeMap<Reading, Lately>,
    /// Windows that accept no more pages and are to be closed.
    ended: Vec<Ended>,
}

/// What was read recently.
struct Lately {
    since: UnixMillis,
    /// `None`: a single page so far.
    window: Option<Arc<Window>>,
    /// Pages noted in the window.
    pages: Vec<u32>,
}

struct Ended {
    window: Arc<Window>,
    pages: Vec<u32>,
}

/// Two records which say that the whole volume was requested and accessed.
struct Window {
    requester: Requester,
    volume: VolumeId,
    asked: RecordPlace,
    accessed: RecordPlace,
    /// Set once the records are acknowledged.
    written: OnceCell<()>,
}

impl Window {
    /// The rows of the window: of the whole volume (written ahead), or of the pages that were read.
    fn rows(&self, pages: Option<Vec<u32>>) -> ObjectsResult<[AuditRow; 2]> {
        let volumes = match pages {
            Some(pages) if pages.is_empty() => Vec::new(),
            pages => vec![AuditedVolume { volume: self.volume.clone(), pages }],
        };
        let of = |place: RecordPlace, action, volumes| {
            let requester = self.requester.clone();
            row(place, &AuditRecord { at: place.id.time(), requester, action, plan: None, part: 0, volumes })
        };
        Ok([
            of(self.asked, AuditAction::PagesRequested, volumes.clone())?,
            of(self.accessed, AuditAction::Accessed, volumes)?,
        ])
    }
}

impl PageWindows {
    pub(super) fn new(recorder: Arc<Recorder>) -> Self {
        Self { recorder, state: Mutex::default(), began: Notify::new() }
    }

    /// Records a request for a page that is about to be sent. Await this before a byte leaves.
    pub(super) async fn page(&self, requester: &Requester, volume: &VolumeId, seq: Seq) -> ObjectsResult<()> {
        let Some(window) = self.note(requester, volume, seq) else {
            let page = || [AuditedVolume { volume: volume.clone(), pages: Some(vec![seq.get()]) }];
            let mut rows = self.recorder.records(requester, AuditAction::Requested, None, page())?;
            rows.extend(self.recorder.records(requester, AuditAction::Accessed, None, page())?);
            return self.recorder.write(rows).await;
        };
        let ahead = async || self.recorder.write(window.rows(None)?.into()).await;
        window.written.get_or_try_init(ahead).await?;
        Ok(())
    }

    /// Notes a page in its open window, or opens a window. Returns `None` if it is the first page
    /// for some time.
    fn note(&self, requester: &Requester, volume: &VolumeId, seq: Seq) -> Option<Arc<Window>> {
        let reading = Reading { name: requester.name.clone(), address: requester.address, volume: volume.clone() };
        let now = self.recorder.clock.now();
        let mut state = self.state.lock();
        let State { readings, ended } = &mut *state;
        match readings.entry(reading) {
            Entry::Occupied(lately) if lately.get().takes_more(now) => {
                let lately = lately.into_mut();
                lately.pages.push(seq.get());
                Some(lately.window.get_or_insert_with(|| self.open(requester, volume)).clone())
            }
            Entry::Occupied(mut lately) => {
                let past = lately.insert(Lately::begun(now));
                ended.extend(past.ended());
                None
            }
            Entry::Vacant(place) => {
                place.insert(Lately::begun(now));
                self.began.notify_one();
                None
            }
        }
    }

    fn open(&self, requester: &Requester, volume: &VolumeId) -> Arc<Window> {
        Arc::new(Window {
            requester: shortened(requester),
            volume: volume.clone(),
            asked: self.recorder.place(WINDOW_BYTES),
            accessed: self.recorder.place(WINDOW_BYTES),
            written: OnceCell::new(),
        })
    }

    /// Renews and closes windows, forever.
    pub(super) async fn look_after(self: Arc<Self>) {
        loop {
            if self.state.lock().is_empty() {
                self.began.notified().await;
            }
            tokio::time::sleep(TICK).await;
            self.renew().await;
            self.end(WINDOW);
            self.close_ended().await;
        }
    }

    /// Closes all windows. Later pages open new ones.
    pub(super) async fn close_all(&self) {
        self.end(Duration::ZERO);
        self.close_ended().await;
    }

    /// Opens a new window where one in use ends soon, and replaces the old one once the new one is
    /// written.
    async fn renew(&self) {
        let now = self.recorder.clock.now();
        let renewed: Vec<(Reading, Arc<Window>, Arc<Window>)> = {
            let state = self.state.lock();
            let due = state.readings.iter().filter_map(|(reading, lately)| {
                let window = lately.window.as_ref().filter(|window| window.written.initialized())?;
                let is_due = (RENEWED_AFTER..WINDOW).contains(&now.since(lately.since)) && !lately.pages.is_empty();
                is_due.then(|| (reading.clone(), window.clone(), self.open(&window.requester, &window.volume)))
            });
            due.collect()
        };
        if renewed.is_empty() {
            return;
        }
        let rows: ObjectsResult<Vec<[AuditRow; 2]>> = renewed.iter().map(|(_, _, window)| window.rows(None)).collect();
        let written = match rows {
            Ok(rows) => self.recorder.write(rows.into_iter().flatten().collect()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            // The next page of this reader opens a window and gets the error.
            tracing::warn!(%error, "windows of pages could not be renewed in the audit");
            return;
        }
        let mut state = self.state.lock();
        let State { readings, ended } = &mut *state;
        for (reading, old, window) in renewed {
            let _ = window.written.set(());
            match readings.get_mut(&reading) {
                Some(lately) if lately.window.as_ref().is_some_and(|now| Arc::ptr_eq(now, &old)) => {
                    let since = window.asked.id.time();
                    let past = std::mem::replace(lately, Lately { since, window: Some(window), pages: Vec::new() });
                    ended.extend(past.ended());
                }
                // The old window has ended meanwhile, so no page was noted in the new one.
                _ => ended.push(Ended { window, pages: Vec::new() }),
            }
        }
    }

    /// Ends windows that are at least `age` old.
    fn end(&self, age: Duration) {
        let now = self.recorder.clock.now();
        let mut state = self.state.lock();
        let State { readings, ended } = &mut *state;
        let past = readings.extract_if(.., |_, lately| now.since(lately.since) >= age);
        ended.extend(past.filter_map(|(_, lately)| lately.ended()));
    }

    /// Replaces the records of ended windows by records of the pages that were read. Windows whose
    /// records are still being written are left for later.
    async fn close_ended(&self) {
        let closing: Vec<Ended> = {
            // Another holder of the window may be writing its records. The order of the two checks
            // matters: once nobody else holds the window, whether it was written is settled. A
            // window that was not written has no pages.
            let is_settled =
                |ended: &mut Ended| Arc::strong_count(&ended.window) == 1 || ended.window.written.initialized();
            let mut state = self.state.lock();
            let settled = state.ended.extract_if(.., is_settled);
            settled.filter(|ended| ended.window.written.initialized()).collect()
        };
        let rows: ObjectsResult<Vec<[AuditRow; 2]>> =
            closing.into_iter().map(|ended| ended.window.rows(Some(ended.pages))).collect();
        let written = match rows {
            Ok(rows) => self.recorder.write(rows.into_iter().flatten().collect()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::warn!(%error, "the audit goes on saying that all of some volumes was read, of which some pages were");
        }
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.readings.is_empty() && self.ended.is_empty()
    }
}

impl Lately {
    fn begun(since: UnixMillis) -> Self {
        Self { since, window: None, pages: Vec::new() }
    }

    fn takes_more(&self, now: UnixMillis) -> bool {
        now.since(self.since) < WINDOW && self.pages.len() < WINDOW_PAGES
    }

    fn ended(self) -> Option<Ended> {
        Some(Ended { window: self.window?, pages: self.pages })
    }
}
