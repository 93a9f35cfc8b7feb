//! One record.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use budget::{Memory, Party};
use bytes::Bytes;
use door_http::{Condition, Validators, body, conditional};
use headers::{ETag, HeaderMapExt};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use records::{Content, Draft, Mode, Record};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use store::{Deadline, UnixMillis, stored};
use tokio::time::timeout_at;

use super::asking::{Asking, Id};
use super::error::HttpError;
use super::json::{self, Life, Named, SentAttribute, SentAttributes, TextOr, Wanted};
use crate::Door;
use crate::answer::is_small;
use crate::meters::Outcome;

/// The header with the time at which the record expires, in milliseconds since the Unix epoch.
const EXPIRES_AT: &str = "penates-expires-at";

/// Memory per byte of JSON, for what is made of it.
const JSON_TIMES: u64 = 4;

/// What a GET may ask for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shown {
    /// Names, separated by commas.
    attributes: Option<String>,
    /// Whether attributes are shown with their expiries.
    #[serde(default)]
    expiries: bool,
}

/// What is to become of a record.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// It is replaced.
    Put(SentContent, Life),
    /// Attributes are set, or deleted where there is no value. Its expiry stays unless one is said.
    Patch(Named<Option<SentAttribute>>, Life),
    /// It is deleted.
    Delete,
}

impl Change {
    /// Memory for what it holds, besides that of its JSON.
    pub(super) fn memory_bytes(&self) -> u64 {
        match self {
            Self::Put(SentContent::Attributes(sent), _) => json::memory_bytes(sent.0.len()),
            Self::Patch(patch, _) => json::memory_bytes(patch.0.len()),
            Self::Put(SentContent::Text(_), _) | Self::Delete => 0,
        }
    }
}

/// A whole record that a client sends.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "TextOr<SentAttributes>")]
pub(super) enum SentContent {
    /// A text. In lines it need not be UTF-8.
    Text(Bytes),
    Attributes(SentAttributes),
}

impl From<TextOr<SentAttributes>> for SentContent {
    fn from(sent: TextOr<SentAttributes>) -> Self {
        match sent {
            TextOr::Text(text) => Self::Text(text.into()),
            TextOr::Object(attributes) => Self::Attributes(attributes),
        }
    }
}

impl SentContent {
    /// The record, as of a time.
    pub(super) fn record(&self, life: Life, now: UnixMillis) -> Result<Record, HttpError> {
        let record = match self {
            Self::Text(text) => Record::text(text.clone()),
            Self::Attributes(sent) if sent.0.is_empty() => {
                return Err(HttpError::Malformed("a record has at least one attribute".to_owned()));
            }
            Self::Attributes(sent) => Record::attributes(json::attributes(sent, now)),
        };
        Ok(Record { expires_at: life.end(now), ..record })
    }
}

/// What a change found and left.
pub(super) struct Changed {
    was_there: bool,
    left: Option<Record>,
}

impl Changed {
    /// What was there is not known, so it is not said that something was made.
    pub(super) fn unknown() -> Self {
        Self { was_there: true, left: None }
    }

    pub(super) fn status(&self) -> StatusCode {
        if self.was_there || self.left.is_none() { StatusCode::NO_CONTENT } else { StatusCode::CREATED }
    }
}

/// The entity tag of a record: it changes with everything that is seen of the record.
pub(super) fn tag(record: &Record) -> Option<ETag> {
    let digest = Sha256::digest(stored::encode(record).ok()?);
    conditional::strong_etag(&hex::encode(&digest[..16]))
}

/// `GET /records/ID`
pub(super) async fn get(
    State(door): State<Arc<Door>>,
    asking: Asking,
    id: Result<Id, HttpError>,
    shown: Result<Query<Shown>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let shown = shown.map_err(|error| HttpError::Malformed(error.body_text()));
    let sent = match (id, shown) {
        (Ok(Id(id)), Ok(Query(shown))) => sent(&door, &asking, &id, &shown, &headers).await,
        (Err(error), _) | (_, Err(error)) => Err(error),
    };
    door.note(sent.as_ref().map_or_else(HttpError::outcome, |_| Outcome::Answered), false, asking.began);
    sent.into_response()
}

async fn sent(
    door: &Door,
    asking: &Asking,
    id: &Bytes,
    shown: &Shown,
    headers: &HeaderMap,
) -> Result<Response, HttpError> {
    let deadline = asking.deadline();
    let _place = door.admission.places(1, deadline).await?;
    let record = door.records.read(deadline, id).await?.ok_or(HttpError::Absent)?;
    let etag = tag(&record);
    let condition = conditional::evaluate(headers, Validators { etag: etag.as_ref(), last_modified: None })?;
    let mut response = match condition {
        Condition::NotModified => StatusCode::NOT_MODIFIED.into_response(),
        Condition::Send => {
            let text = shown.of((&door.memory, &asking.party), &record)?;
            ([(header::CONTENT_TYPE, "application/json")], Body::from(text)).into_response()
        }
    };
    if let Some(at) = record.expires_at {
        response.headers_mut().insert(EXPIRES_AT, HeaderValue::from(at.0));
    }
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    etag.into_iter().for_each(|etag| response.headers_mut().typed_insert(etag));
    Ok(response)
}

impl Shown {
    /// What is shown of a record, as JSON.
    ///
    /// Errors: as of [`written`]; JSON has no form for it; a text has no attributes.
    fn of(&self, memory: (&Memory, &Party), record: &Record) -> Result<Bytes, HttpError> {
        let wanted: Wanted = self.attributes.as_ref().map(|names| names.split(',').map(str::to_owned).collect());
        match &record.content {
            Content::Text(_) if wanted.is_some() => Err(records::RecordError::OtherKind.into()),
            Content::Text(text) => {
                let text = str::from_utf8(text).map_err(|_| HttpError::NotText("the text"))?;
                written(memory, json::value_bytes(text.as_bytes()), || text)
            }
            Content::Attributes(found) => {
                let chosen = json::chosen(found, &wanted)?;
                written(memory, json::object_bytes(&chosen), || json::object(&chosen, self.expiries))
            }
        }
    }
}

/// JSON of at most `bytes`. Unless it is small, it takes a share of the memory before it is made,
/// and keeps that until it is sent.
///
/// Errors: there is no memory for it now.
fn written<T: Serialize>(
    (memory, party): (&Memory, &Party),
    bytes: usize,
    value: impl FnOnce() -> T,
) -> Result<Bytes, HttpError> {
    let share = if is_small(bytes) { None } else { Some(memory.try_reserve(party, bytes as u64)?) };
    let mut text = Vec::with_capacity(bytes);
    serde_json::to_writer(&mut text, &value()).map_err(|error| HttpError::Malformed(error.to_string()))?;
    text.shrink_to_fit();
    match share {
        None => Ok(text.into()),
        Some(share) => Ok(body::with_share(text, share)?),
    }
}

/// The expiry that a query states.
type SentLife = Result<Query<Life>, QueryRejection>;

/// `PUT /records/ID`
pub(super) async fn put(
    State(door): State<Arc<Door>>,
    asking: Asking,
    id: Result<Id, HttpError>,
    life: SentLife,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let change = async |deadline| read_change(&door, &asking, life, body, deadline, Change::Put).await;
    changing(&door, &asking, id, &headers, change).await
}

/// `PATCH /records/ID`: a merge patch (RFC 7396) of the attributes.
pub(super) async fn patch(
    State(door): State<Arc<Door>>,
    asking: Asking,
    id: Result<Id, HttpError>,
    life: SentLife,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let change = async |deadline| read_change(&door, &asking, life, body, deadline, Change::Patch).await;
    changing(&door, &asking, id, &headers, change).await
}

/// `DELETE /records/ID`
pub(super) async fn delete(
    State(door): State<Arc<Door>>,
    asking: Asking,
    id: Result<Id, HttpError>,
    headers: HeaderMap,
) -> Response {
    changing(&door, &asking, id, &headers, async |_| Ok((Change::Delete, None))).await
}

/// The change that a body and a query make, and the share of memory that it holds.
async fn read_change<T: DeserializeOwned>(
    door: &Door,
    asking: &Asking,
    life: SentLife,
    body: Body,
    deadline: Deadline,
    change: fn(T, Life) -> Change,
) -> Result<(Change, Option<body::Held>), HttpError> {
    let life = life.map_err(|error| HttpError::Malformed(error.body_text()))?.0.check()?;
    let most = door.settings.request.bytes as u64;
    let held = timeout_at(deadline.0, body::held(&door.memory, &asking.party, body, most, JSON_TIMES)).await;
    let mut held = held.map_err(|_| HttpError::Late)??;
    let change = change(json::read(&held.bytes)?, life);
    held.share.resize(held.share.bytes() + change.memory_bytes())?;
    Ok((change, Some(held)))
}

async fn changing(
    door: &Door,
    asking: &Asking,
    id: Result<Id, HttpError>,
    headers: &HeaderMap,
    read: impl AsyncFnOnce(Deadline) -> Result<(Change, Option<body::Held>), HttpError>,
) -> Response {
    let deadline = asking.deadline();
    let changed = async {
        let Id(id) = id?;
        let (change, _held) = read(deadline).await?;
        door.apply(deadline, &id, &change, headers, true).await
    };
    let changed = changed.await;
    door.note(changed.as_ref().map_or_else(HttpError::outcome, |_| Outcome::Answered), true, asking.began);
    match changed {
        Ok(changed) => {
            let mut response = changed.status().into_response();
            let etag = changed.left.as_ref().and_then(tag);
            etag.into_iter().for_each(|etag| response.headers_mut().typed_insert(etag));
            response
        }
        Err(error) => error.into_response(),
    }
}

impl Door {
    /// Changes a record, if the conditions in `headers` hold. `counts` says whether that is asking
    /// for the record.
    pub(super) async fn apply(
        &self,
        deadline: Deadline,
        id: &Bytes,
        change: &Change,
        headers: &HeaderMap,
        counts: bool,
    ) -> Result<Changed, HttpError> {
        let _place = self.admission.places(1, deadline).await?;
        if self.records.mode() == Mode::Fast {
            return self.overwrite_by(deadline, id, change, headers).await;
        }
        let apply = |drafts: &mut [Draft]| match drafts {
            [draft] => change.apply(draft, headers),
            _ => Err(HttpError::Absent),
        };
        let ids = std::slice::from_ref(id);
        match counts {
            true => self.records.change(deadline, ids, apply).await?,
            false => self.records.change_listed(deadline, ids, apply).await?,
        }
    }
}

impl Change {
    fn apply(&self, draft: &mut Draft, headers: &HeaderMap) -> Result<Changed, HttpError> {
        let etag = draft.record().and_then(tag);
        conditional::writing_undated(headers, etag.as_ref())?;
        let (was_there, now) = (draft.record().is_some(), draft.now);
        match self {
            Self::Put(content, life) => draft.put(content.record(*life, now)?),
            Self::Patch(patch, _) if !was_there && patch.0.values().all(Option::is_none) => {
                return Err(HttpError::Absent);
            }
            Self::Patch(patch, life) => {
                draft.change_attributes(|found| {
                    let mut deleted = Vec::new();
                    for (name, attribute) in &patch.0 {
                        let name = Bytes::copy_from_slice(name.as_bytes());
                        match attribute {
                            Some(attribute) => drop(found.set(name, attribute.at(now))),
                            None => deleted.push(name),
                        }
                    }
                    found.delete_all(&deleted);
                    Ok::<_, HttpError>(())
                })?;
                if life.is_said() {
                    draft.change_record(|record| record.expires_at = life.end(now));
                }
            }
            Self::Delete if !draft.delete() => return Err(HttpError::Absent),
            Self::Delete => {}
        }
        Ok(Changed { was_there, left: draft.record().cloned() })
    }
}
