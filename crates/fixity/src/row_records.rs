//! Reads the records of a pass, after its objects.
//!
//! One server reads them at a time, in the order of the store. A guarded row says how far it has
//! got: see [`shared::write_records`]. It is a [`Reader`], so that it needs no form of its own. Its
//! `pending` is the place where the walk continues, and empty when all records were read. In its
//! `found`, `resources` is the number of records.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heads::guarded::Known;
use heads::{ObjectsError, ObjectsResult};
use records::{Mode, Records, RecordsError, VerifiedRecords};
use store::{Class, Deadline, Expect, StoreError, UnixMillis};
use tokio::time::{Instant, MissedTickBehavior};

use crate::auditor::{Auditor, Step};
use crate::check;
use crate::reading::SAVE_EVERY;
use crate::shared;
use crate::state::{Reader, Tally};

/// The most bytes of a page of records.
const PAGE_BYTES: usize = 4 << 20;

/// A step reads so many pages at most.
const PAGES_MAX: usize = 100;

/// The time limit of reading a page.
const PAGE_TIME: Duration = Duration::from_secs(30);

/// Findings of records that a pass stores. Further ones are only counted. One broken block is one
/// finding, however many records are in it and behind it.
const LISTED_MAX: u64 = 100;

// Damaged ones, those that could not be read, and all of them.
const _: () = assert!(2 * LISTED_MAX + 1 == library::bounds::FIXITY_RECORD_FINDINGS);

/// Names what cannot be reached behind a broken block.
const BEHIND: &str = "the records behind it";

/// Stands for all records, in a finding.
const ALL: Bytes = Bytes::new();

/// The row of the records of a pass, which this server has.
struct Held {
    reader: Reader,
    expect: Expect,
}

impl Auditor {
    /// Reads the next records of a pass; `None`: all were read.
    pub(crate) async fn read_records(&self, pass: u32, known: Known<Reader>) -> ObjectsResult<Option<Step>> {
        let reader = match known.value.filter(|reader| reader.pass == pass) {
            Some(reader) if reader.pending.is_empty() => return Ok(None),
            Some(reader) if !self.may_take(&reader, self.now()) => return Ok(Some(Step::OthersRead)),
            Some(reader) => reader,
            None => {
                let (server, leased_until, pending) = (self.server, UnixMillis(0), vec![Bytes::new()]);
                Reader { server, leased_until, pass, pending, found: Tally::default() }
            }
        };
        let Some(mut held) = self.saved_records(Held { reader, expect: known.expect }).await? else {
            return Ok(Some(Step::Moved));
        };
        let records = self.records().await?;
        let (mut read, begun) = (Tally::default(), Instant::now());
        for _ in 0..PAGES_MAX {
            let bytes = match &records {
                Some(records) => match self.read_page(records, &mut held.reader, &mut read).await {
                    Ok(bytes) => bytes,
                    Err(error) => {
                        self.saved_records(held).await?;
                        return Err(error);
                    }
                },
                None => {
                    held.reader.pending.clear();
                    0
                }
            };
            held = match self.wait_while_saving(bytes, held).await? {
                Some(held) => held,
                None => return Ok(Some(Step::Moved)),
            };
            if held.reader.pending.is_empty() || begun.elapsed() >= SAVE_EVERY {
                break;
            }
        }
        Ok(Some(match self.saved_records(held).await? {
            Some(_) => Step::Read(Tally { resources: 0, ..read }),
            None => Step::Moved,
        }))
    }

    /// The records of the store, in their mode; `None`: there are none.
    async fn records(&self) -> ObjectsResult<Option<Arc<Records>>> {
        let (store, clock) = (self.library.store(), self.library.clock());
        if !store.capabilities().is_shared {
            return Ok(Some(Arc::new(Records::new(store.clone(), clock.clone()))));
        }
        let shown = async || Ok(Mode::of_any_record(store.as_ref(), self.heads().call(Class::Record)).await?);
        let mode = self.heads().retry_transient(shown).await?;
        Ok(mode.map(|mode| Arc::new(Records::in_mode(store.clone(), clock.clone(), mode))))
    }

    /// Reads a page, and records what is found. Returns the bytes that were read.
    async fn read_page(&self, records: &Records, reader: &mut Reader, read: &mut Tally) -> ObjectsResult<u64> {
        let from = reader.pending.last().cloned().filter(|from| !from.is_empty());
        let most = (self.options().taken_at_once, PAGE_BYTES);
        let page = async || {
            let verified = records.verify_some(Deadline::within(PAGE_TIME), from.clone(), most).await;
            verified.map_err(in_objects)
        };
        let verified = match self.heads().retry_transient(page).await {
            Err(ObjectsError::Store(StoreError::Invalid(why))) if from.is_some() => {
                tracing::warn!(why, "a fixity pass over records cannot continue where it was; it begins again");
                reader.pending = vec![Bytes::new()];
                reader.found = Tally::default();
                return Ok(0);
            }
            Err(error) if error.is_damage() => {
                let why = error.to_string();
                self.record_finding(shared::record_key(&ALL), true, ("", why.clone()), reader).await?;
                // What is behind it was not read, so the pass is not complete.
                let behind = shared::behind_key(&from.unwrap_or(ALL));
                self.record_finding(behind, false, (BEHIND, why), reader).await?;
                VerifiedRecords::default()
            }
            verified => verified?,
        };
        let VerifiedRecords { next, records, bytes, damaged } = verified;
        for (id, why) in damaged {
            self.record_finding(shared::record_key(&id), true, ("", why), reader).await?;
        }
        reader.pending = next.into_iter().collect();
        let tally = Tally { resources: records, bytes, ..Tally::default() };
        reader.found.add(&tally);
        read.add(&tally);
        self.of_records.lock().add(&tally);
        Ok(bytes)
    }

    /// Stores a finding under a key. The log does not name the record: an id may be of a
    /// person.
    async fn record_finding(
        &self,
        key: Bytes,
        is_damaged: bool,
        (part, why): (&str, String),
        reader: &mut Reader,
    ) -> ObjectsResult<()> {
        tracing::warn!(is_damaged, part, why, "a fixity pass has a finding in the records");
        let listed = if is_damaged { reader.found.damaged } else { reader.found.failed };
        if listed < LISTED_MAX {
            let finding = check::finding(&self.library, is_damaged, vec![(part.to_owned(), why)]);
            shared::put_finding(self.heads(), reader.pass, &key, &finding).await?;
        }
        let tally = Tally { damaged: is_damaged.into(), failed: (!is_damaged).into(), ..Tally::default() };
        reader.found.add(&tally);
        self.of_records.lock().add(&tally);
        Ok(())
    }

    async fn saved_records(&self, Held { mut reader, expect }: Held) -> ObjectsResult<Option<Held>> {
        reader.server = self.server;
        reader.leased_until = shared::lease(self.now());
        let expect = shared::write_records(self.heads(), &reader, expect).await?;
        Ok(expect.map(|expect| Held { reader, expect }))
    }

    /// Waits until the bytes that were read are due, and extends the lease meanwhile; `None`: another
    /// server has the records.
    async fn wait_while_saving(&self, bytes: u64, mut held: Held) -> ObjectsResult<Option<Held>> {
        let mut waiting = std::pin::pin!(self.pace.took(bytes));
        let mut ticks = tokio::time::interval_at(Instant::now() + SAVE_EVERY, SAVE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = &mut waiting => return Ok(Some(held)),
                _ = ticks.tick() => {
                    held = match self.saved_records(held).await? {
                        Some(held) => held,
                        None => return Ok(None),
                    };
                }
            }
        }
    }
}

fn in_objects(error: RecordsError) -> ObjectsError {
    match error {
        RecordsError::Store(error) => error.into(),
        error => ObjectsError::Internal(error.to_string()),
    }
}
