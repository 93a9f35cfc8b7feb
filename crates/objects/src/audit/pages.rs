//! Single pages: who reads many of one volume, one after the other, does not wait for the disk at each of them.
//!
//! The first page is recorded by itself. At the second within a tenth of a second a *window* is opened: ahead of it goes a record that
//! all of the volume was asked for and accessed. Pages of the volume that the same requester asks for while the window is open are only
//! noted in memory. When it is closed, the record is replaced by one of just those pages. So a crash reports a window too much and never
//! too little. A window that is in use is renewed before it ends, so that only who opens one waits.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hathi::{Seq, VolumeId};
use parking_lot::Mutex;
use store::UnixMillis;
use tokio::sync::{Notify, OnceCell};

use super::queue::AuditRow;
use super::record::{AuditAction, AuditRecord, AuditedVolume, Requester};
use super::recorder::{NAME_BYTES_MAX, Place, Recorder, row, shortened};
use crate::error::ObjectsResult;

/// How long a window is open.
const WINDOW: Duration = Duration::from_millis(100);

/// From when on one that is in use is renewed.
const RENEWED_AFTER: Duration = Duration::from_millis(50);

/// How often windows are looked after, while there are any.
const TICK: Duration = Duration::from_millis(20);

/// Pages of one window; who reads more while it is open opens another one.
const WINDOW_PAGES: usize = 1_000;

/// Bytes of a record of that many pages, at most.
const WINDOW_BYTES: usize = 5 * WINDOW_PAGES + hathi::id::MAX_ID_BYTES + 2 * NAME_BYTES_MAX + 256;

/// Who reads what.
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
    /// In order, so that ids are minted and rows written in the same order in each run of the same.
    readings: BTreeMap<Reading, Lately>,
    /// Windows that take no more pages and are to be closed.
    ended: Vec<Ended>,
}

/// What was read lately.
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

/// Two records that say that all of a volume was asked for and accessed.
struct Window {
    requester: Requester,
    volume: VolumeId,
    asked: Place,
    accessed: Place,
    /// Set once the records are acknowledged.
    written: OnceCell<()>,
}

impl Window {
    /// Its records: of all of the volume ahead, or of the pages that it came to.
    fn rows(&self, pages: Option<Vec<u32>>) -> ObjectsResult<[AuditRow; 2]> {
        let volumes = match pages {
            Some(pages) if pages.is_empty() => Vec::new(),
            pages => vec![AuditedVolume { volume: self.volume.clone(), pages }],
        };
        let of = |place: Place, action, volumes| {
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

    /// Records that a page was asked for and is about to be sent. Await it before a byte leaves.
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

    /// Notes a page in the window that is open for it, or opens one; `None`: it is the first for some time.
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

    /// Looks after the windows, for ever.
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

    /// Closes all windows. What is read later opens others.
    pub(super) async fn close_all(&self) {
        self.end(Duration::ZERO);
        self.close_ended().await;
    }

    /// Opens a new window where one that is in use ends soon, and puts it in its place once it is written.
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
            // Who reads on opens a window and hears of it.
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
                // It has ended meanwhile, and so nothing came of the new one.
                _ => ended.push(Ended { window, pages: Vec::new() }),
            }
        }
    }

    /// Ends what is as old as `age`.
    fn end(&self, age: Duration) {
        let now = self.recorder.clock.now();
        let mut state = self.state.lock();
        let State { readings, ended } = &mut *state;
        let past = readings.extract_if(.., |_, lately| now.since(lately.since) >= age);
        ended.extend(past.filter_map(|(_, lately)| lately.ended()));
    }

    /// Replaces what was written ahead of windows that have ended by what they came to. Of those whose records are still being written
    /// it is too early to say.
    async fn close_ended(&self) {
        let closing: Vec<Ended> = {
            // Somebody who holds a window may be writing its records. Asked in this order: of one that nobody else holds, it is settled
            // whether it was written, and where it was not, it never came to anything.
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
