//! Routes of the administrator: how far receivers are, resuming one, and a test.

use std::sync::Arc;

use ::feed::Cursor;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use door_http::{Path, Query, Reason};
use heads::ObjectsError;
use serde::{Deserialize, Serialize};

use super::progress::Progress;
use super::{Deliveries, Failure, Named};
use crate::feed::activity::rfc3339;
use crate::feed::{Refused, Start};

/// `/admin/webhooks`, `/admin/bridges`
pub(crate) fn routes(deliveries: Arc<Deliveries>) -> Router {
    let base = format!("/admin/{}", deliveries.kind.plural);
    Router::new()
        .route(&base, get(list))
        .route(&format!("{base}/{{name}}/resume"), post(resume))
        .route(&format!("{base}/{{name}}/test"), post(test))
        .with_state(deliveries)
}

/// A receiver in a list.
#[derive(Serialize)]
struct Listed {
    name: String,
    /// Scheme, host and port.
    origin: String,
    /// What it gets: this, and what is below.
    path: String,
    /// `new`: no server has begun; `delivering`, `retrying` or `parked`.
    state: &'static str,
    /// Everything up to here was delivered.
    cursor: Option<String>,
    /// When an event was delivered last.
    delivered: Option<String>,
    failing: Option<ListedFailing>,
    parked: Option<ListedParked>,
}

/// The event that was not accepted.
#[derive(Serialize)]
struct ListedFailing {
    event: String,
    happened: String,
    tries: u32,
    next_try: String,
    why: String,
}

/// That nothing is sent.
#[derive(Serialize)]
struct ListedParked {
    since: String,
    why: String,
}

impl Listed {
    fn of(named: &Named, progress: Option<Progress>) -> Self {
        let state = match &progress {
            None => "new",
            Some(Progress { parked: Some(_), .. }) => "parked",
            Some(Progress { failing: Some(_), .. }) => "retrying",
            Some(_) => "delivering",
        };
        let failing = progress.as_ref().and_then(|progress| progress.failing.as_ref());
        let parked = progress.as_ref().and_then(|progress| progress.parked.as_ref());
        Self {
            name: named.name.clone(),
            origin: named.receiver.origin(),
            path: named.path.to_string(),
            state,
            cursor: progress.as_ref().map(|progress| progress.cursor.to_string()),
            delivered: progress.as_ref().and_then(|progress| progress.delivered).map(rfc3339),
            failing: failing.map(|failing| ListedFailing {
                event: failing.event.to_string(),
                happened: rfc3339(failing.at),
                tries: failing.tries,
                next_try: rfc3339(failing.next_try),
                why: failing.why.clone(),
            }),
            parked: parked.map(|parked| ListedParked { since: rfc3339(parked.since), why: parked.why.clone() }),
        }
    }
}

impl Deliveries {
    fn named(&self, name: &str) -> Result<&Arc<Named>, Refused> {
        let absent = || {
            let why = format!("no {} `{name}` is configured ({})", self.kind.word, self.kind.setting);
            Refused(Reason::ABSENT, why)
        };
        self.receivers.iter().find(|named| named.name == name).ok_or_else(absent)
    }

    /// Finds out whether a receiver takes messages from this server.
    pub(crate) async fn test(&self, name: &str) -> Result<Result<(), Failure>, Refused> {
        let heads = &self.library.heads;
        let id = format!("test_{}", hex::encode(heads.surroundings().random.bytes::<16>()));
        Ok(self.named(name)?.receiver.test(id, heads.now()).await)
    }

    /// Refuses a place whose events were dropped, and one in the future: what happens until then
    /// would not be sent.
    async fn check_place(&self, cursor: Cursor) -> Result<(), Refused> {
        self.library.feed.after(cursor, 1).await?;
        if self.is_in_the_future(cursor).await? {
            let until = rfc3339(cursor.time());
            let detail = format!("`from` is in the future: what happens until {until} would not be sent");
            return Err(Refused(Reason::MALFORMED_PARAMETER, detail));
        }
        Ok(())
    }

    async fn listed(&self, named: &Named) -> Result<Listed, ObjectsError> {
        Ok(Listed::of(named, self.read(&named.name).await?.value))
    }
}

/// `GET`
async fn list(State(deliveries): State<Arc<Deliveries>>) -> Result<Json<Vec<Listed>>, Refused> {
    let mut listed = Vec::new();
    for named in &deliveries.receivers {
        listed.push(deliveries.listed(named).await?);
    }
    Ok(Json(listed))
}

/// The query of `POST …/resume`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeQuery {
    /// Where it goes on: a cursor, a time, `start` or `now`; by default where it was.
    from: Option<String>,
    /// Whether the event that was not accepted is left out.
    #[serde(default)]
    skip: bool,
}

/// `POST …/resume`: sends again at once, what was parked too.
async fn resume(
    State(deliveries): State<Arc<Deliveries>>,
    Path(name): Path<String>,
    Query(ResumeQuery { from, skip }): Query<ResumeQuery>,
) -> Result<Json<Listed>, Refused> {
    let named = deliveries.named(&name)?;
    deliveries.check()?;
    if from.is_some() && skip {
        let detail = "`from` and `skip` are alternatives".to_owned();
        return Err(Refused(Reason::CONFLICTING_PARAMETERS, detail));
    }
    let from = match from.as_deref().map(Start::parse) {
        None => None,
        Some(None) => {
            let detail = "`from` is a cursor, a time (2026-11-22T00:00:00Z), `start` or `now`".to_owned();
            return Err(Refused(Reason::MALFORMED_PARAMETER, detail));
        }
        Some(Some(start)) => {
            let cursor = start.cursor(&deliveries.library.feed).await?;
            deliveries.check_place(cursor).await?;
            Some(cursor)
        }
    };
    deliveries.change(named, |known| resumed(known.value, from, skip)).await?;
    let (kind, from) = (deliveries.kind.word, from.map(|from| from.to_string()));
    tracing::info!(kind, name, from, skip, "an operator resumes a receiver");
    Ok(Json(deliveries.listed(named).await?))
}

/// How far a receiver is once an operator resumes it. `skips`: the event that fails is left out.
fn resumed(progress: Option<Progress>, from: Option<Cursor>, skips: bool) -> Result<Progress, Refused> {
    let mut progress = match (progress, from) {
        (Some(progress), None) => progress,
        // The server that delivers must read what is stored now.
        (Some(progress), Some(from)) => Progress { cursor: from, skipped: Vec::new(), ..progress },
        (None, Some(from)) => Progress::behind(from),
        (None, None) => {
            let detail = "no server has begun to deliver it: name a place by `from`".to_owned();
            return Err(Refused(Reason::CONFLICT, detail));
        }
    };
    if skips {
        progress = progress.skip()?;
    }
    (progress.failing, progress.parked) = (None, None);
    Ok(progress)
}

/// The result of a test.
#[derive(Serialize)]
struct Tested {
    accepted: bool,
    /// Why not.
    detail: Option<String>,
}

/// `POST …/test`: finds out whether the receiver takes messages from this server.
async fn test(State(deliveries): State<Arc<Deliveries>>, Path(name): Path<String>) -> Result<Json<Tested>, Refused> {
    let tested = deliveries.test(&name).await?;
    Ok(Json(Tested { accepted: tested.is_ok(), detail: tested.err().map(|failure| failure.why) }))
}
