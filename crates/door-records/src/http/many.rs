//! Many records in one request, a line each. The response has a line for each of them, in the same
//! order. It starts while the request still arrives, and waits for a client that does not read yet.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use budget::Share;
use bytes::Bytes;
use door_http::spooled::{self, Answered};
use door_http::{BodyError, in_order, lines};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use futures::stream::{Stream, StreamExt};
use http::header;
use store::Deadline;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::LINES;
use super::asking::Asking;
use super::error::HttpError;
use super::json::{self, Wanted};
use super::line::{self, Asked, Asks};
use crate::Door;
use crate::meters::Outcome;

/// Lines that are at work at the same time: changes share their syncs.
const AT_ONCE: usize = 64;

/// First share of memory of a request, in bytes, for the part of an incomplete line.
const HELD_BYTES: u64 = 64 << 10;

/// Memory per byte of a line, for what is made of it.
const LINE_TIMES: u64 = 4;

/// Memory for a small answer to a line. It is taken with that for the line: both come from the part
/// of the budget for small shares.
const SMALL_ANSWER_BYTES: u64 = 1 << 10;

/// Memory of a request with a line of so many bytes: no other request of that size takes more. The
/// share of a line that arrives doubles, so it may be twice as large as the line.
pub(crate) fn memory_bytes(line_bytes: usize) -> u64 {
    (LINE_TIMES + 2).saturating_mul(line_bytes as u64).saturating_add(HELD_BYTES)
}

/// The longest line of a request that takes so much memory.
pub(crate) fn line_within(bytes_max: u64) -> usize {
    usize::try_from(bytes_max.saturating_sub(HELD_BYTES) / (LINE_TIMES + 2)).unwrap_or(usize::MAX)
}

/// A line that has arrived, with the memory for it. Its time began then.
struct Line {
    text: Bytes,
    began: Instant,
    deadline: Deadline,
    time_limit: Duration,
    share: Share,
}

/// The order of the lines of a request that change the same record: each of them begins when the one
/// before it has ended. Otherwise one that is begun again would come after a later one.
#[derive(Default)]
struct Order {
    /// By its id, what says that the last line of a record has ended: its sender is dropped.
    ends: HashMap<Bytes, oneshot::Receiver<()>>,
}

/// Whether a line has not ended.
fn is_under_way(end: &mut oneshot::Receiver<()>) -> bool {
    matches!(end.try_recv(), Err(TryRecvError::Empty))
}

impl Order {
    /// What the next line of a record has to wait for, and what it drops at its end.
    fn next(&mut self, id: &Bytes) -> (Option<oneshot::Receiver<()>>, oneshot::Sender<()>) {
        if self.ends.len() >= 2 * AT_ONCE {
            self.ends.retain(|_, end| is_under_way(end));
        }
        let (ends, end) = oneshot::channel();
        let before = self.ends.insert(id.clone(), end);
        (before.and_then(|mut before| is_under_way(&mut before).then_some(before)), ends)
    }
}

/// What answers lines.
#[derive(Clone, Copy)]
struct Answering {
    /// Whether the lines change records.
    writes: bool,
    answer: fn(Arc<Door>, Line, &mut Order) -> BoxFuture<'static, Answered>,
}

/// The answer to a line that is not understood, or cannot be held. It is counted.
fn refused(door: &Door, error: &HttpError, writes: bool, began: Instant) -> String {
    door.note(error.outcome(), writes, began);
    line::refused(None, error)
}

/// `POST /records:batchGet`
pub(super) async fn get(State(door): State<Arc<Door>>, asking: Asking, body: Body) -> Response {
    let answer = |door, line, _: &mut Order| read(door, line).boxed();
    each(door, asking, body, Answering { writes: false, answer })
}

async fn read(door: Arc<Door>, line: Line) -> Answered {
    let Line { text, began, deadline, mut share, .. } = line;
    let (id, wanted) = match json::read::<Asked>(&text) {
        Ok(asked) => asked.parts(),
        Err(error) => return Answered::within(refused(&door, &error, false, began), share),
    };
    let names = json::memory_bytes(wanted.as_ref().map_or(0, Vec::len));
    if let Err(error) = share.resize(share.bytes() + names) {
        return Answered::within(refused(&door, &error.into(), false, began), share);
    }
    let found = found(&door, deadline, (&id, &wanted), &mut share).await;
    door.note(found.as_ref().map_or_else(HttpError::outcome, |_| Outcome::Answered), false, began);
    Answered::within(found.unwrap_or_else(|error| line::refused(Some(&id), &error)), share)
}

/// The line of a record. The share of the line that asks for it grows before it is made.
async fn found(
    door: &Door,
    deadline: Deadline,
    (id, wanted): (&Bytes, &Wanted),
    share: &mut Share,
) -> Result<String, HttpError> {
    let _place = door.admission.places(1, deadline).await?;
    let record = door.records.read(deadline, id).await?;
    let answer_bytes = line::found_bytes(id, record.as_ref(), wanted) as u64;
    if answer_bytes > SMALL_ANSWER_BYTES {
        share.resize(share.bytes() - SMALL_ANSWER_BYTES + answer_bytes)?;
    }
    Ok(line::found(id, record.as_ref(), wanted))
}

/// `POST /records:batchWrite`
pub(super) async fn write(State(door): State<Arc<Door>>, asking: Asking, body: Body) -> Response {
    each(door, asking, body, Answering { writes: true, answer: change })
}

/// Changes the record of a line, after the lines before it. If it waits for one of them, its time
/// begins with the end of that.
fn change(door: Arc<Door>, line: Line, order: &mut Order) -> BoxFuture<'static, Answered> {
    let Line { text, began, mut deadline, time_limit, mut share } = line;
    let parts = json::read::<Asks>(&text).and_then(Asks::parts).and_then(|parts| {
        share.resize(share.bytes() + parts.1.memory_bytes())?;
        Ok(parts)
    });
    let (id, change, conditions) = match parts {
        Ok(parts) => parts,
        Err(error) => {
            let answer = refused(&door, &error, true, began);
            return ready(Answered::within(answer, share)).boxed();
        }
    };
    let (before, ends) = order.next(&id);
    async move {
        if let Some(before) = before {
            // It has no value: it ends with its sender.
            let _ = before.await;
            deadline = Deadline::within(time_limit);
        }
        // An import goes through many records that nobody asks for.
        let changed = door.apply(deadline, &id, &change, &conditions, false).await;
        drop(ends);
        door.note(changed.as_ref().map_or_else(HttpError::outcome, |_| Outcome::Answered), true, began);
        let answer = match changed {
            Ok(changed) => line::changed(&id, &changed),
            Err(error) => line::refused(Some(&id), &error),
        };
        Answered::within(answer, share)
    }
    .boxed()
}

/// Answers each line of a request.
fn each(door: Arc<Door>, asking: Asking, body: Body, answering: Answering) -> Response {
    let share = match door.memory.try_reserve(&asking.party, HELD_BYTES).map_err(HttpError::from) {
        Ok(share) => share,
        Err(error) => {
            door.note(error.outcome(), answering.writes, asking.began);
            return error.into_response();
        }
    };
    let most = door.settings.request.bytes;
    let sent = lines::of(body, most, share);
    let (output, response) = spooled::new(door.memory.clone(), asking.party.clone());
    let answers = answers(door, Arc::new(asking), sent, answering);
    // It continues when the client leaves, and does not wait for it to read.
    tokio::spawn(async move {
        let to = &output;
        if let Err(error) = in_order(answers, AT_ONCE, |answered| to.write(answered)).await {
            return tracing::warn!(%error, "lines that wait for their client cannot be kept");
        }
        output.finish();
    });
    ([(header::CONTENT_TYPE, LINES)], Body::from_stream(response)).into_response()
}

/// What answers lines, in their order. Each line is begun in that order too.
fn answers(
    door: Arc<Door>,
    asking: Arc<Asking>,
    sent: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static,
    answering: Answering,
) -> impl Stream<Item = BoxFuture<'static, Answered>> + Send + 'static {
    let payer = door.clone();
    let paid = sent.then(move |text| {
        let (door, asking) = (payer.clone(), asking.clone());
        async move {
            let began = Instant::now();
            with_memory(&door, &asking, began, text).await.map_err(|error| (began, error))
        }
    });
    let mut order = Order::default();
    paid.map(move |line| match line {
        Ok(line) => (answering.answer)(door.clone(), line, &mut order),
        Err((began, error)) => ready(Answered::free(refused(&door, &error, answering.writes, began))).boxed(),
    })
}

/// A line that has arrived. The wait for its memory is a part of its time.
async fn with_memory(
    door: &Door,
    asking: &Asking,
    began: Instant,
    text: Result<Bytes, BodyError>,
) -> Result<Line, HttpError> {
    let (text, deadline) = (text?, asking.deadline());
    let bytes = text.len() as u64 * LINE_TIMES + SMALL_ANSWER_BYTES;
    let share = door.share_by(deadline, &asking.party, bytes).await?;
    Ok(Line { text, began, deadline, time_limit: asking.time_limit, share })
}
