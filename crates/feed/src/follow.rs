//! Lets many consumers follow the feed with one reader of the store.
//!
//! One task per server reads what is new, as long as anybody follows, and gives each batch to all
//! consumers. A consumer that is behind reads pages by itself until it meets the batches; at most a
//! few do so at the same time. One that is too slow for the batches misses some, and reads pages
//! again. So a slow consumer holds nothing but its own cursor.

use std::sync::Arc;
use std::time::Duration;
use store::boxed;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use crate::event::{Cursor, Event, FeedError};
use crate::live::Batch;
use crate::reader::{Feed, PAGE_EVENTS_MAX};

/// Batches that wait for the slowest consumer.
const BATCHES: usize = 16;

/// Events that a consumer reads by itself at once.
const CAUGHT_UP_EVENTS: usize = 100;

/// How long changes are gathered before they are read.
const GATHERED: Duration = Duration::from_millis(20);

/// How long a consumer waits for events. There is a batch in each pause, with events or without.
const QUIET: Duration = Duration::from_secs(3);

/// The pause between two reads if no switch of this process ends: others may write too.
const PAUSE: Duration = Duration::from_secs(1);

/// The events that a consumer gets at once, oldest first.
pub struct Events {
    batch: Arc<Batch>,
    /// The events of the batch that it got, or had before.
    taken: usize,
}

impl Events {
    /// No events.
    fn none(end: Cursor) -> Self {
        Self { batch: Arc::new(Batch { after: end, events: Vec::new(), end }), taken: 0 }
    }

    /// Takes the next event.
    pub fn take_next(&mut self) -> Option<&Event> {
        let next = self.batch.events.get(self.taken)?;
        self.taken += 1;
        Some(next)
    }

    /// The events that were not taken.
    pub fn as_slice(&self) -> &[Event] {
        &self.batch.events[self.taken..]
    }
}

/// Follows the feed.
pub struct Consumer {
    feed: Feed,
    cursor: Cursor,
    batches: Option<broadcast::Receiver<Arc<Batch>>>,
}

impl Feed {
    /// Follows the feed behind a cursor.
    ///
    /// Errors: as of [`Feed::after`].
    #[boxed]
    pub async fn follow(&self, cursor: Cursor) -> Result<Consumer, FeedError> {
        self.after(cursor, 1).await?;
        Ok(Consumer { feed: self.clone(), cursor, batches: None })
    }

    /// Receives all batches from now on. Starts the task that reads, unless it runs.
    fn subscribe(&self) -> broadcast::Receiver<Arc<Batch>> {
        let mut batches = self.live.batches.lock();
        if let Some(sender) = &*batches {
            return sender.subscribe();
        }
        let (sender, receiver) = broadcast::channel(BATCHES);
        *batches = Some(sender.clone());
        tokio::spawn(self.clone().read_for_all(sender));
        receiver
    }

    /// Reads what is new until nobody follows any more.
    async fn read_for_all(self, sender: broadcast::Sender<Arc<Batch>>) {
        let mut cursor = None;
        loop {
            let read = async {
                let from = match cursor {
                    Some(cursor) => cursor,
                    None => self.now().await?,
                };
                Ok::<_, FeedError>((from, self.after(from, PAGE_EVENTS_MAX).await?))
            };
            let mut is_last = true;
            match read.await {
                Ok((after, page)) => {
                    let end = page.end.unwrap_or(after).max(after);
                    (cursor, is_last) = (Some(end), page.is_last);
                    // Without receivers it fails; the task ends below.
                    let _ = sender.send(Arc::new(Batch { after, events: page.events, end }));
                }
                Err(error) => {
                    // Meanwhile consumers get no events. Then they notice the gap, and read for
                    // themselves what is before the next batch.
                    tracing::warn!(%error, "the change feed could not be read; it is tried again");
                    cursor = None;
                }
            }
            {
                let mut batches = self.live.batches.lock();
                if sender.receiver_count() == 0 {
                    *batches = None;
                    return;
                }
            }
            if is_last {
                let ended = self.heads.switch_ended();
                if tokio::time::timeout(PAUSE, ended).await.is_ok() {
                    tokio::time::sleep(GATHERED).await;
                }
            }
        }
    }
}

impl Consumer {
    /// Where the consumer resumes that has all that this one has returned.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// The next events; may be none, after a few seconds without a change. It can be dropped at any
    /// point and called again.
    ///
    /// Errors: as of [`Feed::after`]. A later call tries again.
    pub async fn next(&mut self) -> Result<Events, FeedError> {
        // One deadline for all batches. None of them reaches a cursor in the future, so a deadline for
        // each batch would never pass.
        let until = Instant::now() + QUIET;
        loop {
            let Some(batches) = &mut self.batches else {
                // Before the page is read: so the batches begin at its end or before.
                let receiver = self.feed.subscribe();
                let page = {
                    let _turn = self.feed.live.catching_up.acquire().await;
                    self.feed.after(self.cursor, CAUGHT_UP_EVENTS).await?
                };
                let (after, end) = (self.cursor, page.end.unwrap_or(self.cursor).max(self.cursor));
                self.cursor = end;
                if page.is_last {
                    self.batches = Some(receiver);
                }
                return Ok(Events { batch: Arc::new(Batch { after, events: page.events, end }), taken: 0 });
            };
            match tokio::time::timeout_at(until, batches.recv()).await {
                // The store may be out of reach. No stream ends for that: all clients would come again
                // together.
                Err(_) => return Ok(Events::none(self.cursor)),
                Ok(Ok(batch)) if batch.end < self.cursor => {}
                Ok(Ok(batch)) if batch.after <= self.cursor => {
                    let taken = batch.events.partition_point(|event| event.cursor <= self.cursor);
                    self.cursor = batch.end;
                    return Ok(Events { batch, taken });
                }
                // It missed some.
                Ok(Ok(_) | Err(RecvError::Lagged(_) | RecvError::Closed)) => self.batches = None,
            }
        }
    }
}
