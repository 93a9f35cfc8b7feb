//! Divides resources among bulk requests: bytes held ahead of their clients, and turns at the
//! store, at planning and at counting.
//!
//! Reads of single pages have a lane of their own. They take no turn here, so they do not queue
//! behind bulk readers.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use budget::{Load, Turn, Turns};
use budget::{Party, Shares};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use heads::error::{ObjectsError, ObjectsResult};
use heads::options::LibraryOptions;
use heads::surroundings::Compute;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// The least that a request may hold ahead of its client, in bytes.
const SHARE_BYTES_MIN: usize = 64 << 10;

/// The most that a request may hold ahead of its client, in bytes. Measured on two cores: with half
/// of it, batches are so small that waking tasks for them makes a ZIP take a third longer; a larger
/// value makes it no faster.
const SHARE_BYTES_MAX: usize = 8 << 20;

/// The largest piece of a stream, in bytes.
const PIECE_BYTES_MAX: usize = 512 << 10;

/// With a smaller share, nothing is kept that can be read again, in bytes.
const KEEPING_SHARE_BYTES: usize = 1 << 20;

/// Smaller batches of pieces are not worth waking a task for, in bytes.
const BATCH_BYTES_MIN: usize = 256 << 10;

/// The rules of one process.
#[derive(Debug)]
pub struct Fairness {
    read_ahead_bytes: usize,
    active: Mutex<Shares>,
    turns: Turns,
    planning: Turns,
    recording: Turns,
    counting: Turns,
    compute: Compute,
}

/// The right of one bulk request to stream. Dropping it returns the place.
#[derive(Debug)]
pub struct Admission {
    fairness: Arc<Fairness>,
    party: Party,
}

impl Fairness {
    /// Rules from `options`: as many turns as keep the processors busy while some readers wait for
    /// a disk.
    pub fn new(options: &LibraryOptions, compute: Compute) -> Arc<Self> {
        let processors = options.processors.max(1);
        Arc::new(Self {
            read_ahead_bytes: options.read_ahead_bytes,
            active: Mutex::new(Shares::new(options.bulk_requests_max as u64)),
            turns: Turns::new((2 * processors).max(4)),
            planning: Turns::new(processors),
            recording: Turns::new(processors),
            counting: Turns::new(options.counting_threads),
            compute,
        })
    }

    /// Admits one more request, or refuses it for now: no party holds more of the places than
    /// are still free.
    pub fn admit(self: &Arc<Self>, party: Party) -> ObjectsResult<Admission> {
        let mut active = self.active.lock();
        match active.take(&party, 1) {
            true => Ok(Admission { fairness: self.clone(), party }),
            false => Err(ObjectsError::Overloaded(format!(
                "{} bulk requests are streaming already, of all or of this token or address",
                active.taken()
            ))),
        }
    }

    /// How many requests are streaming.
    pub fn active(&self) -> usize {
        self.active.lock().taken() as usize
    }

    /// How busy the turns are, by what they are for.
    pub fn loads(&self) -> [(&'static str, Load); 4] {
        let of = |(name, turns): (&'static str, &Turns)| (name, turns.load());
        [
            ("store", &self.turns),
            ("planning", &self.planning),
            ("recording", &self.recording),
            ("counting", &self.counting),
        ]
        .map(of)
    }

    /// Bytes that each request may now hold ahead of its client.
    pub fn share_bytes(&self) -> usize {
        (self.read_ahead_bytes / self.active().max(1)).clamp(SHARE_BYTES_MIN, SHARE_BYTES_MAX)
    }

    /// Bytes of a piece now. A few pieces fit a share, so that reading and sending overlap.
    pub fn piece_bytes(&self) -> usize {
        (self.share_bytes() / 4).clamp(SHARE_BYTES_MIN, PIECE_BYTES_MAX)
    }

    /// Bytes of a batch of pieces now. Of the batches being made, waiting and being sent, three fit
    /// a share, together with what is read ahead of them.
    fn batch_bytes(&self) -> usize {
        self.share_bytes() / 8
    }

    /// Bytes of read data that a request may keep for later: half a share, if that suffices for
    /// some hundred volumes.
    pub fn kept_bytes(&self) -> usize {
        let share = self.share_bytes();
        if share < KEEPING_SHARE_BYTES { 0 } else { share / 2 }
    }

    /// Waits for a turn at the store.
    pub(crate) async fn turn(&self, party: &Party) -> ObjectsResult<Turn> {
        Ok(self.turns.turn(party).await?)
    }

    /// Waits for a turn at planning. Making a plan of thousands of volumes takes processor time,
    /// and much more memory than the finished plan. So at most one plan per processor is made at
    /// once.
    pub(crate) async fn planning_turn(&self, party: &Party) -> ObjectsResult<Turn> {
        Ok(self.planning.turn(party).await?)
    }

    /// Waits for a turn at recording a request in the audit: meanwhile a list of thousands takes
    /// several times its memory. This is not the turn of planning, so that a reader of a stored
    /// selection does not queue behind planners.
    pub(crate) async fn recording_turn(&self, party: &Party) -> ObjectsResult<Turn> {
        Ok(self.recording.turn(party).await?)
    }

    /// Runs a processor-bound job in its turn. The turn lasts until the job ends, even if no caller
    /// waits for it any more.
    pub(crate) async fn count<T: Send + 'static>(
        &self,
        party: &Party,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> ObjectsResult<T> {
        let turn = self.counting.turn(party).await?;
        let job = move || {
            let _turn = turn;
            job()
        };
        self.compute.run(job).await
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.fairness.active.lock().give_back(&self.party, 1);
    }
}

impl Admission {
    /// Makes `pieces` ahead of the client, in a task that ends at once when the client goes away
    /// (the response is dropped). They are handed over in batches: one is being made, one waits,
    /// one is being sent. So few tasks are woken.
    pub fn run_ahead<S>(self, pieces: S) -> BulkStream
    where
        S: Stream<Item = ObjectsResult<Bytes>> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(1);
        let task = AbortOnDropHandle::new(tokio::spawn(produce(pieces, sender, self.fairness.clone())));
        let pieces = Pieces::Ahead { _task: task, receiver, batch: VecDeque::new() };
        BulkStream { pieces, ended: false, _admission: self }
    }

    /// Makes `pieces` that cost little: ahead, if the share allows batches that are worth waking a
    /// task for; otherwise in the client's own task, when the client takes them.
    pub fn run_along<S>(self, pieces: S) -> BulkStream
    where
        S: Stream<Item = ObjectsResult<Bytes>> + Send + 'static,
    {
        if self.fairness.batch_bytes() >= BATCH_BYTES_MIN {
            return self.run_ahead(pieces);
        }
        BulkStream { pieces: Pieces::Along(pieces.boxed()), ended: false, _admission: self }
    }
}

/// The messages of the producing task. The end is explicit, so that a task that died is not taken
/// for one that finished.
enum Produced {
    Piece(ObjectsResult<Bytes>),
    End,
}

/// Produces batch by batch; the channel bounds it.
async fn produce<S>(pieces: S, sender: mpsc::Sender<VecDeque<Produced>>, fairness: Arc<Fairness>)
where
    S: Stream<Item = ObjectsResult<Bytes>> + Send + 'static,
{
    let mut pieces = std::pin::pin!(pieces);
    loop {
        // The share may change each time.
        let batch_bytes = fairness.batch_bytes();
        let (mut batch, mut bytes, mut is_last) = (VecDeque::new(), 0, false);
        while (batch.is_empty() || bytes < batch_bytes) && !is_last {
            let piece = pieces.next().await;
            is_last = !matches!(piece, Some(Ok(_)));
            bytes += piece.as_ref().and_then(|piece| piece.as_ref().ok()).map_or(0, Bytes::len);
            batch.push_back(piece.map_or(Produced::End, Produced::Piece));
        }
        // The client may be gone already.
        if sender.send(batch).await.is_err() || is_last {
            return;
        }
    }
}

/// The bytes of a bulk response. Dropping it stops all work for it. If it is incomplete, it ends
/// with an error.
pub struct BulkStream {
    pieces: Pieces,
    ended: bool,
    _admission: Admission,
}

/// Where the pieces are made.
enum Pieces {
    /// In a task of their own, ahead of the client.
    Ahead { _task: AbortOnDropHandle<()>, receiver: mpsc::Receiver<VecDeque<Produced>>, batch: VecDeque<Produced> },
    /// In the client's task.
    Along(BoxStream<'static, ObjectsResult<Bytes>>),
}

impl Pieces {
    fn poll_produced(&mut self, context: &mut Context<'_>) -> Poll<Option<Produced>> {
        match self {
            Self::Ahead { receiver, batch, .. } => {
                if batch.is_empty()
                    && let Some(next) = std::task::ready!(receiver.poll_recv(context))
                {
                    *batch = next;
                }
                Poll::Ready(batch.pop_front())
            }
            Self::Along(pieces) => {
                pieces.poll_next_unpin(context).map(|piece| Some(piece.map_or(Produced::End, Produced::Piece)))
            }
        }
    }
}

impl Stream for BulkStream {
    type Item = ObjectsResult<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let produced = std::task::ready!(self.pieces.poll_produced(context));
        Poll::Ready(match produced {
            Some(Produced::Piece(Ok(piece))) => Some(Ok(piece)),
            Some(Produced::Piece(Err(error))) => {
                self.ended = true;
                Some(Err(error))
            }
            Some(Produced::End) => {
                self.ended = true;
                None
            }
            None => {
                self.ended = true;
                Some(Err(ObjectsError::Internal("the task that reads ahead went away".to_owned())))
            }
        })
    }
}

impl std::fmt::Debug for BulkStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BulkStream(ended: {})", self.ended)
    }
}

impl std::fmt::Debug for Produced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Piece(Ok(piece)) => write!(f, "Piece({} bytes)", piece.len()),
            Self::Piece(Err(error)) => write!(f, "Piece({error})"),
            Self::End => f.write_str("End"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;

    use super::*;

    fn fairness(read_ahead_bytes: usize, requests_max: usize) -> Arc<Fairness> {
        Fairness::new(
            &LibraryOptions { read_ahead_bytes, bulk_requests_max: requests_max, ..LibraryOptions::default() },
            Compute::Threads,
        )
    }

    /// Lets other tasks run until `reached` holds, or panics.
    async fn until(reached: impl Fn() -> bool) {
        for _ in 0..100_000 {
            if reached() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("it never came to that");
    }

    fn endless(
        made: Arc<AtomicUsize>,
        piece_bytes: usize,
    ) -> impl Stream<Item = ObjectsResult<Bytes>> + Send + 'static {
        futures::stream::repeat_with(move || {
            made.fetch_add(1, Ordering::SeqCst);
            Ok(Bytes::from(vec![7; piece_bytes]))
        })
    }

    #[test]
    fn the_share_shrinks_with_the_number_of_requests_and_stays_within_its_bounds() {
        let fairness = fairness(4 << 20, 100);
        assert_eq!(fairness.share_bytes(), 4 << 20, "alone, a request has all of it");
        let admissions: Vec<_> = (0..16).map(|_| fairness.admit(Party::Local).unwrap()).collect();
        assert_eq!(fairness.share_bytes(), 256 << 10);
        let more: Vec<_> = (0..84).map(|_| fairness.admit(Party::Local).unwrap()).collect();
        assert_eq!(fairness.share_bytes(), 64 << 10, "never less than a piece");
        drop((admissions, more));
        assert_eq!(fairness.active(), 0);
    }

    #[test]
    fn one_request_too_many_is_told_to_come_again() {
        let fairness = fairness(1 << 20, 1);
        let first = fairness.admit(Party::Local).unwrap();
        let refused = fairness.admit(Party::Local).unwrap_err();
        assert!(refused.is_passing(), "{refused}");
        drop(first);
        assert!(fairness.admit(Party::Local).is_ok());
    }

    #[test]
    fn requests_of_one_address_leave_places_for_those_of_others() {
        let fairness = fairness(1 << 20, 256);
        let address = |number: u8| Party::Network([192, 0, 2, number].into());
        let greedy: Vec<_> = (0..256).filter_map(|_| fairness.admit(address(1)).ok()).collect();
        assert_eq!(greedy.len(), 128);
        assert!(fairness.admit(address(1)).unwrap_err().is_passing());
        let others: Vec<_> = (2..40).filter_map(|number| fairness.admit(address(number)).ok()).collect();
        assert_eq!(others.len(), 38, "each of the others gets a place");
    }

    #[tokio::test]
    async fn a_stranger_has_the_next_turn_whatever_one_address_asks_for() {
        let fairness = fairness(1 << 20, 256);
        let address = |number: u8| Party::Network([192, 0, 2, number].into());
        let (greedy, stranger) = (address(1), address(2));
        let kinds: [fn(&Fairness) -> &Turns; 4] =
            [|of| &of.turns, |of| &of.planning, |of| &of.recording, |of| &of.counting];
        for kind in kinds {
            let turns = kind(&fairness);
            let mut had = VecDeque::new();
            while let Some(turn) = turns.turn(&greedy).now_or_never() {
                had.push_back(turn.unwrap());
            }
            let mut queued: Vec<_> = (0..1_000).map(|_| Box::pin(turns.turn(&greedy))).collect();
            assert!(queued.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
            let mut last = Box::pin(turns.turn(&stranger));
            assert!((&mut last).now_or_never().is_none());
            had.pop_front();
            assert!(last.now_or_never().is_some(), "a thousand stand before it");
        }
    }

    /// Lets other tasks run until no more is made.
    async fn settled(made: &AtomicUsize) -> usize {
        until(|| made.load(Ordering::SeqCst) > 0).await;
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        made.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn a_client_that_stalls_holds_no_more_than_its_share() {
        let fairness = fairness(8 << 20, 8);
        for others in [0, 3] {
            let _others: Vec<_> = (0..others).map(|_| fairness.admit(Party::Local).unwrap()).collect();
            let made = Arc::new(AtomicUsize::new(0));
            let stream = fairness.admit(Party::Local).unwrap().run_ahead(endless(made.clone(), fairness.piece_bytes()));
            let held = settled(&made).await * fairness.piece_bytes();
            assert!(held <= fairness.share_bytes(), "{held} of {}", fairness.share_bytes());
            drop(stream);
        }
    }

    #[tokio::test]
    async fn those_who_stall_together_hold_no_more_than_all_may_and_two_pieces_each() {
        const CLIENTS: usize = 40;
        let fairness = fairness(2 << 20, CLIENTS);
        let (mut streams, mut held) = (Vec::new(), 0);
        for _ in 0..CLIENTS {
            // Each stream begins after the earlier ones have filled their shares, which were larger
            // then.
            let made = Arc::new(AtomicUsize::new(0));
            streams.push(fairness.admit(Party::Local).unwrap().run_ahead(endless(made.clone(), 64 << 10)));
            held += settled(&made).await * (64 << 10);
        }
        assert!(held <= (2 << 20) + CLIENTS * 2 * (64 << 10), "{held}");
        assert!(streams[CLIENTS - 1].next().await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn dropping_the_stream_stops_the_work_and_gives_the_place_back() {
        let fairness = fairness(1 << 20, 8);
        let made = Arc::new(AtomicUsize::new(0));
        let alive = Arc::new(());
        let witness = alive.clone();
        let pieces = endless(made.clone(), 1 << 10).map(move |piece| {
            let _held_by_the_work = &witness;
            piece
        });
        let mut stream = fairness.admit(Party::Local).unwrap().run_ahead(pieces);
        assert!(stream.next().await.unwrap().is_ok());
        drop(stream);
        assert_eq!(fairness.active(), 0);
        until(|| Arc::strong_count(&alive) == 1).await;
    }

    #[tokio::test]
    async fn work_that_dies_is_not_taken_for_work_that_ended() {
        let fairness = fairness(1 << 20, 8);
        let dying = futures::stream::poll_fn(|_| -> Poll<Option<ObjectsResult<Bytes>>> { panic!("a defect") });
        let mut stream = fairness.admit(Party::Local).unwrap().run_ahead(dying);
        assert!(stream.next().await.unwrap().is_err());
        assert!(stream.next().await.is_none());
    }
}
