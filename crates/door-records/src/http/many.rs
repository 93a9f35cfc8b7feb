//! Many records in one request, a line each. The response has a line for each of them, in the same
//! order. It starts while the request still arrives, and waits for a client that does not read yet.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use door_http::{BodyError, lines, spool};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{Stream, StreamExt};
use http::header;

use super::LINES;
use super::asking::Asking;
use super::error::HttpError;
use super::json;
use super::line::{self, Asked, Asks};
use crate::Door;
use crate::run::note;

/// Lines that are at work at the same time: changes share their syncs.
const AT_ONCE: usize = 64;

/// First share of memory of a request, in bytes, for the part of an incomplete line.
const HELD_BYTES: u64 = 64 << 10;

/// Memory per byte of a line, for what is made of it.
const LINE_TIMES: u64 = 4;

/// What answers a line.
type Answer = fn(Arc<Door>, Arc<Asking>, Bytes) -> BoxFuture<'static, String>;

/// `POST /records:batchGet`
pub(super) async fn get(State(door): State<Arc<Door>>, asking: Asking, body: Body) -> Response {
    each(door, asking, body, |door, asking, line| read(door, asking, line).boxed())
}

async fn read(door: Arc<Door>, asking: Arc<Asking>, line: Bytes) -> String {
    let began = Instant::now();
    let (id, wanted) = match json::read::<Asked>(&line) {
        Ok(asked) => asked.parts(),
        Err(error) => return line::refused(None, &error),
    };
    let deadline = asking.deadline();
    let found = match door.admission.places(1, deadline).await {
        Ok(_place) => door.records.read(deadline, &id).await.map_err(HttpError::from),
        Err(error) => Err(error.into()),
    };
    note(found.as_ref().map_or_else(HttpError::outcome, |_| "answered"), false, began);
    match found {
        Ok(record) => line::found(&id, record.as_ref(), &wanted),
        Err(error) => line::refused(Some(&id), &error),
    }
}

/// `POST /records:batchWrite`
pub(super) async fn write(State(door): State<Arc<Door>>, asking: Asking, body: Body) -> Response {
    each(door, asking, body, |door, asking, line| change(door, asking, line).boxed())
}

async fn change(door: Arc<Door>, asking: Arc<Asking>, line: Bytes) -> String {
    let began = Instant::now();
    let (id, change, conditions) = match json::read::<Asks>(&line).and_then(Asks::parts) {
        Ok(parts) => parts,
        Err(error) => return line::refused(None, &error),
    };
    let changed = door.apply(asking.deadline(), &id, &change, &conditions).await;
    note(changed.as_ref().map_or_else(HttpError::outcome, |_| "answered"), true, began);
    match changed {
        Ok(changed) => line::changed(&id, &changed),
        Err(error) => line::refused(Some(&id), &error),
    }
}

/// Answers each line of a request.
fn each(door: Arc<Door>, asking: Asking, body: Body, answer: Answer) -> Response {
    let share = match door.memory.try_reserve(&asking.party, HELD_BYTES) {
        Ok(share) => share,
        Err(error) => return HttpError::from(error).into_response(),
    };
    let most = door.settings.request.bytes;
    let sent = lines::of(body, most, share);
    let answers = answers(door, Arc::new(asking), sent, answer);
    let (output, response) = spool::new();
    // It continues when the client leaves, and does not wait for it to read.
    tokio::spawn(async move {
        let mut answers = std::pin::pin!(answers);
        while let Some(line) = answers.next().await {
            if let Err(error) = output.write(line.as_bytes()).await {
                return tracing::warn!(%error, "lines that wait for their client cannot be kept");
            }
        }
        output.finish();
    });
    ([(header::CONTENT_TYPE, LINES)], Body::from_stream(response)).into_response()
}

/// The answers to lines, in their order. Each line is begun in that order too, so changes of one
/// record happen in it.
fn answers(
    door: Arc<Door>,
    asking: Arc<Asking>,
    sent: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static,
    answer: Answer,
) -> impl Stream<Item = String> + Send + 'static {
    let (payer, of_party) = (door.clone(), asking.clone());
    let paid = sent.then(move |line| {
        let (door, asking) = (payer.clone(), of_party.clone());
        async move {
            let line = line?;
            let share = door.memory.reserve(&asking.party, line.len() as u64 * LINE_TIMES).await?;
            Ok::<_, HttpError>((line, share))
        }
    });
    let answered = paid.map(move |line| {
        let (door, asking) = (door.clone(), asking.clone());
        async move {
            match line {
                Ok((line, _share)) => answer(door, asking, line).await,
                Err(error) => line::refused(None, &error),
            }
        }
    });
    answered.buffered(AT_ONCE)
}
