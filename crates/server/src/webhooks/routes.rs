//! Routes of the administrator: how far webhooks are, resuming one, and sending a test.

use std::sync::Arc;

use ::feed::Cursor;
use axum::extract::{Path, Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use door_http::Reason;
use heads::ObjectsError;
use serde::{Deserialize, Serialize};
use store::UnixMillis;

use super::progress::{self, Progress};
use super::{Webhook, Webhooks};
use crate::feed::activity::rfc3339;
use crate::feed::{Refused, Start};

pub(crate) fn routes(webhooks: Arc<Webhooks>) -> Router {
    Router::new()
        .route("/admin/webhooks", get(list))
        .route("/admin/webhooks/{name}/resume", post(resume))
        .route("/admin/webhooks/{name}/test", post(test))
        .with_state(webhooks)
}

/// A webhook in a list.
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
    fn of(hook: &Webhook, progress: Option<Progress>) -> Self {
        let state = match &progress {
            None => "new",
            Some(Progress { parked: Some(_), .. }) => "parked",
            Some(Progress { failing: Some(_), .. }) => "retrying",
            Some(_) => "delivering",
        };
        let failing = progress.as_ref().and_then(|progress| progress.failing.as_ref());
        let parked = progress.as_ref().and_then(|progress| progress.parked.as_ref());
        Self {
            name: hook.name.clone(),
            origin: hook.sender.destination().origin(),
            path: hook.path.to_string(),
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

impl Webhooks {
    fn named(&self, name: &str) -> Result<&Arc<Webhook>, Refused> {
        let absent = || Refused(Reason::ABSENT, format!("no webhook `{name}` is configured (feed.webhooks)"));
        self.hook(name).ok_or_else(absent)
    }

    async fn listed(&self, hook: &Webhook) -> Result<Listed, ObjectsError> {
        Ok(Listed::of(hook, progress::read(&self.library.heads, &hook.name).await?.value))
    }
}

/// `GET /admin/webhooks`
async fn list(State(webhooks): State<Arc<Webhooks>>) -> Result<Json<Vec<Listed>>, Refused> {
    let mut listed = Vec::new();
    for hook in &webhooks.hooks {
        listed.push(webhooks.listed(hook).await?);
    }
    Ok(Json(listed))
}

/// The query of `POST /admin/webhooks/{name}/resume`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeQuery {
    /// Where it goes on: a cursor, a time, `start` or `now`; by default where it was.
    from: Option<String>,
    /// Whether the event that was not accepted is left out.
    #[serde(default)]
    skip: bool,
}

/// `POST /admin/webhooks/{name}/resume`: sends again at once, what was parked too.
async fn resume(
    State(webhooks): State<Arc<Webhooks>>,
    Path(name): Path<String>,
    Query(ResumeQuery { from, skip }): Query<ResumeQuery>,
) -> Result<Json<Listed>, Refused> {
    let hook = webhooks.named(&name)?;
    webhooks.check()?;
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
            let cursor = start.cursor(&webhooks.library.feed).await?;
            // Refuses one whose events were dropped.
            webhooks.library.feed.after(cursor, 1).await?;
            Some(cursor)
        }
    };
    webhooks.change(hook, |known| resumed(known.value, from, skip)).await?;
    tracing::info!(webhook = name, from = from.map(|from| from.to_string()), skip, "an operator resumes a webhook");
    Ok(Json(webhooks.listed(hook).await?))
}

/// How far a webhook is once an operator resumes it.
fn resumed(progress: Option<Progress>, from: Option<Cursor>, skip: bool) -> Result<Progress, Refused> {
    let refused = |detail: &str| Refused(Reason::CONFLICT, detail.to_owned());
    let mut progress = match (progress, from) {
        (Some(progress), None) => progress,
        // The server that delivers must read what is stored now.
        (Some(progress), Some(from)) => Progress { cursor: from, skipped: None, ..progress },
        (None, Some(from)) => Progress::behind(from),
        (None, None) => return Err(refused("no server has begun to deliver it: name a place by `from`")),
    };
    if skip {
        let failing = progress.failing.as_ref().ok_or_else(|| refused("no event is failing that could be skipped"))?;
        progress.skipped = Some(failing.event);
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

/// `POST /admin/webhooks/{name}/test`: sends a message of the type `webhook.test` from this server.
async fn test(State(webhooks): State<Arc<Webhooks>>, Path(name): Path<String>) -> Result<Json<Tested>, Refused> {
    let hook = webhooks.named(&name)?;
    let heads = &webhooks.library.heads;
    let id = format!("test_{}", hex::encode(heads.surroundings().random.bytes::<16>()));
    let now: UnixMillis = heads.now();
    let sent = hook.send_test(&id, now).await;
    Ok(Json(Tested { accepted: sent.is_ok(), detail: sent.err().map(|failure| failure.why) }))
}
