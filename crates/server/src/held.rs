//! Access to the store for commands of the administrator, which cannot open it while the server
//! holds it: reading its rows and contents, learning what changed, making it read-only, and making a
//! cut of it for a backup. Reading is also for copies at other sites.

use std::sync::Arc;
use std::time::Duration;

use ::feed::{Cursor, Subject};
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use door_http::{Path, Query, Reason};
use heads::{ObjectsError, keys};
use library::Library;
use serde::{Deserialize, Serialize};
use store::wire::{self, ChangedObject, Changes, Description, Question};
use store::{Call, Class, Cut, Deadline, Scan, StoreError, read_only};
use tokio::sync::Mutex;

use crate::{feed, problem};

/// The time limit of one call of the store.
const CALL_MAX: Duration = Duration::from_secs(25);

/// The time limit of a cut. Most of it is linking files of large contents.
const CUT_MAX: Duration = Duration::from_secs(600);

/// A copy reads everything once.
fn call() -> Call {
    Call::new(Class::Content, Deadline::within(CALL_MAX)).strong().once()
}

/// Bytes of a page of rows, whatever a reader asks for.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Partitions of a page of a walk, whatever a reader asks for.
const WALKED_MAX: usize = 1_024;

/// Bytes of a question: room for three whole keys of each range. Decoded, shorter ranges take
/// twenty times as much.
const QUESTION_BYTES_MAX: usize = wire::SCANS_MAX * 3 * (4 << 10);

/// Changes of a page.
const CHANGES: usize = 1_000;

/// The routes that read the whole store.
pub(crate) fn read_routes(library: Library) -> Router {
    Router::new()
        .route(wire::PATH, get(describe).post(ask).layer(DefaultBodyLimit::max(QUESTION_BYTES_MAX)))
        .route(wire::CONTENT_PATH, get(read_content))
        .route(wire::CHANGES_PATH, get(changes))
        .with_state(library)
}

/// The routes that make the store read-only, and a cut of it.
pub(crate) fn routes(library: Library) -> Router {
    Router::new()
        .route("/admin/read-only", get(why_read_only).put(make_read_only).delete(take_changes))
        .route("/admin/cut", post(cut))
        .with_state(Gatekeeper { library, turn: Arc::default() })
}

/// Makes the store read-only, one request after the other.
#[derive(Clone)]
struct Gatekeeper {
    library: Library,
    turn: Arc<Mutex<()>>,
}

/// `GET /admin/store`: what a copy has to know first.
async fn describe(State(library): State<Library>) -> Json<Description> {
    Json(Description { wire: wire::VERSION, level: library.store().level().number() })
}

/// The query of `GET /admin/store/changes`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct After {
    after: Option<String>,
}

/// `GET /admin/store/changes`: what changed behind a cursor, with objects of which a version was
/// removed; without one, the present cursor. 410 if the feed does not have it any more.
async fn changes(
    State(library): State<Library>,
    Query(After { after }): Query<After>,
) -> Result<Json<Changes>, feed::Refused> {
    let until = library.heads.announced_until().await?.time();
    let now = library.heads.now();
    let Some(after) = after else {
        let end = library.feed.now().await?.to_string();
        return Ok(Json(Changes { objects: Vec::new(), end, is_last: true, until, now }));
    };
    let malformed = || feed::Refused(Reason::MALFORMED_PARAMETER, "`after` is a cursor".to_owned());
    let cursor = Cursor::parse(&after).ok_or_else(malformed)?;
    let page = library.feed.after(cursor, CHANGES).await?;
    let events = page.events.iter().map(|event| {
        let object = match &event.subject {
            Subject::Volume(id) => keys::volume_partition(id),
            Subject::Resource(path) => keys::resource_partition(path),
        };
        (event.cursor, object, event.revision)
    });
    // A follower copies the mark of a removed version, wherever it has copied the version before.
    let removed = page.removed.iter().map(|removed| (removed.cursor, removed.object.clone(), removed.revision));
    let mut changed: Vec<_> = events.chain(removed).collect();
    changed.sort_unstable_by_key(|(cursor, ..)| *cursor);
    let objects = changed.into_iter().map(|(_, object, revision)| ChangedObject {
        object: String::from_utf8_lossy(&object).into_owned(),
        revision: revision.to_string(),
    });
    let end = page.end.unwrap_or(cursor).max(cursor);
    let until = if page.is_last { until } else { end.time() };
    Ok(Json(Changes { objects: objects.collect(), end: end.to_string(), is_last: page.is_last, until, now }))
}

fn refused(error: StoreError) -> Response {
    problem::of_library(&ObjectsError::Store(error))
}

/// `POST /admin/store`: a [`Question`], encoded, and its answer.
async fn ask(State(library): State<Library>, question: Result<Bytes, BytesRejection>) -> Result<Response, Response> {
    let question = question.map_err(|refused| problem::of_body(refused.status(), &refused.body_text()))?;
    let question: Question =
        wire::decode(&question).map_err(|error| problem::respond(Reason::INVALID, &error.to_string()))?;
    let store = library.store();
    let answer = wire::answer(store.as_ref(), call(), bounded(question)).await;
    let answer = wire::encode_answer(answer).map_err(refused)?;
    Ok(([(wire::LEVEL, store.level().number().to_string())], answer).into_response())
}

/// A page of a range or a walk ends early, and the reader asks again.
fn bounded(question: Question) -> Question {
    let within = |scan: Scan, max: usize| Scan { max_bytes: scan.max_bytes.min(max), ..scan };
    match question {
        Question::Scan(table, partition, scan) => Question::Scan(table, partition, within(scan, PAGE_BYTES_MAX)),
        Question::ScanMany(scans) => {
            let max = PAGE_BYTES_MAX / scans.len().max(1);
            let scans = scans.into_iter().map(|(table, partition, scan)| (table, partition, within(scan, max)));
            Question::ScanMany(scans.collect())
        }
        Question::Walk(table, from, max) => Question::Walk(table, from, max.min(WALKED_MAX)),
        question => question,
    }
}

/// The query of `GET /admin/store/contents/ID`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    from: u64,
    to: u64,
}

/// `GET /admin/store/contents/ID`: bytes of a content; 404 if there is no such sealed content.
async fn read_content(
    State(library): State<Library>,
    Path(id): Path<String>,
    Query(range): Query<Range>,
) -> Result<Response, Response> {
    let absent = || problem::respond(Reason::ABSENT, "there is no such content");
    let id = id.parse().map_err(|_| absent())?;
    let content = library.store().read_content(call(), id, range.from..range.to).await.map_err(refused)?;
    Ok(Body::from_stream(content.ok_or_else(absent)?).into_response())
}

/// Why the store is read-only, if it is.
#[derive(Serialize)]
struct ReadOnly {
    reason: Option<String>,
}

async fn why_read_only(State(keeper): State<Gatekeeper>) -> Result<Json<ReadOnly>, Response> {
    let library = &keeper.library;
    let reason = read_only::reason_at(library.store().as_ref(), library.heads.now()).await.map_err(refused)?;
    Ok(Json(ReadOnly { reason }))
}

/// The query of `PUT /admin/read-only`: the new reason and, for a copy, the one that must be stored
/// now. If that is empty, none may hold.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReasonQuery {
    reason: String,
    instead_of: Option<String>,
}

/// The query of `DELETE /admin/read-only`: the reason that must be stored now, if it matters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InsteadOf {
    instead_of: Option<String>,
}

/// Refuses a change of the reason unless the expected one is stored.
async fn expect_reason(library: &Library, expected: Option<String>) -> Result<(), Response> {
    let Some(expected) = expected else { return Ok(()) };
    let stored = read_only::reason(library.store().as_ref()).await.map_err(refused)?;
    if read_only::is_as_expected(stored.as_deref(), &expected, library.heads.now()) {
        return Ok(());
    }
    let detail = "somebody else has changed whether the store is read-only";
    Err(problem::respond(Reason::CHANGED_MEANWHILE, detail))
}

/// `PUT /admin/read-only`: once this has returned, the server changes nothing but the audit.
async fn make_read_only(
    State(keeper): State<Gatekeeper>,
    Query(ReasonQuery { reason, instead_of }): Query<ReasonQuery>,
) -> Result<Json<ReadOnly>, Response> {
    let _turn = keeper.turn.lock().await;
    expect_reason(&keeper.library, instead_of).await?;
    read_only::set(keeper.library.store().as_ref(), Some(&reason)).await.map_err(refused)?;
    Ok(Json(ReadOnly { reason: Some(reason) }))
}

/// `DELETE /admin/read-only`: makes the store writable again.
async fn take_changes(
    State(keeper): State<Gatekeeper>,
    Query(InsteadOf { instead_of }): Query<InsteadOf>,
) -> Result<Json<ReadOnly>, Response> {
    let _turn = keeper.turn.lock().await;
    expect_reason(&keeper.library, instead_of).await?;
    read_only::set(keeper.library.store().as_ref(), None).await.map_err(refused)?;
    Ok(Json(ReadOnly { reason: None }))
}

/// `POST /admin/cut`: makes a cut, for a backup that reads it in the data folder.
async fn cut(State(keeper): State<Gatekeeper>) -> Result<Json<Cut>, Response> {
    let call = Call::new(Class::Content, Deadline::within(CUT_MAX));
    keeper.library.store().cut(call).await.map(Json).map_err(refused)
}

#[cfg(test)]
mod tests {
    use store::Table;

    use super::*;

    #[test]
    fn the_pages_of_many_ranges_are_together_as_large_as_a_page() {
        let range = (Table::Records, bytes::Bytes::new(), Scan::prefix(bytes::Bytes::new(), usize::MAX));
        let Question::ScanMany(bounded) = bounded(Question::ScanMany(vec![range; wire::SCANS_MAX])) else {
            unreachable!("it is another question");
        };
        assert_eq!(bounded.iter().map(|(_, _, scan)| scan.max_bytes).sum::<usize>(), PAGE_BYTES_MAX);
        assert!(bounded.iter().all(|(_, _, scan)| scan.max_bytes >= 16 << 10), "a small partition needs two questions");
    }
}
