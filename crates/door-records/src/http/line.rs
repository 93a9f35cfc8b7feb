//! Records as lines of JSON: what clients send, and what they get.

use bytes::Bytes;
use door_http::conditional;
use http::HeaderMap;
use http::header::IF_MATCH;
use indexmap::IndexMap;
use records::{Content, Record};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::HttpError;
use super::json::{self, Life, Named, Sent, SentAttribute, SentAttributes, TextOr, Wanted};
use super::one::{Change, Changed, SentContent, tag};

/// A line of a request for many records.
#[derive(Debug, Deserialize)]
#[serde(from = "TextOr<AskedPart>")]
pub(super) enum Asked {
    Id(String),
    Part(AskedPart),
}

impl From<TextOr<AskedPart>> for Asked {
    fn from(asked: TextOr<AskedPart>) -> Self {
        match asked {
            TextOr::Text(id) => Self::Id(id),
            TextOr::Object(part) => Self::Part(part),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskedPart {
    id: Sent,
    #[serde(default, deserialize_with = "json::wanted")]
    attributes: Wanted,
}

impl Asked {
    pub(super) fn parts(self) -> (Bytes, Wanted) {
        match self {
            Self::Id(id) => (id.into(), None),
            Self::Part(AskedPart { id, attributes }) => (id.bytes(), attributes),
        }
    }
}

/// A line that changes a record: `{"id": …, "attributes": {…}}` or `{"id": …, "text": …}` puts it,
/// `{"id": …, "patch": {…}}` changes attributes, and `{"id": …, "delete": true}` deletes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asks {
    id: Sent,
    text: Option<Sent>,
    attributes: Option<SentAttributes>,
    patch: Option<Named<Option<SentAttribute>>>,
    #[serde(default)]
    delete: bool,
    expires_at: Option<u64>,
    ttl_ms: Option<u64>,
    #[serde(default)]
    persist: bool,
    /// The entity tag that the record must have.
    if_match: Option<String>,
    /// The tag that a listing states is no condition.
    #[serde(default, rename = "etag")]
    _etag: IgnoredAny,
}

impl Asks {
    /// The record, what is to become of it, and on which conditions.
    pub(super) fn parts(self) -> Result<(Bytes, Change, HeaderMap), HttpError> {
        let Self { id, text, attributes, patch, delete, expires_at, ttl_ms, persist, if_match, _etag } = self;
        let life = Life { expires_at, ttl_ms, persist }.check()?;
        let change = match (text, attributes, patch, delete) {
            (Some(text), None, None, false) => Change::Put(SentContent::Text(text.bytes()), life),
            (None, Some(attributes), None, false) => Change::Put(SentContent::Attributes(attributes), life),
            (None, None, Some(patch), false) => Change::Patch(patch, life),
            (None, None, None, true) => Change::Delete,
            _ => {
                let one = "a line has one of `attributes`, `text`, `patch` and `\"delete\": true`";
                return Err(HttpError::Malformed(one.to_owned()));
            }
        };
        let mut conditions = HeaderMap::new();
        if let Some(tag) = if_match {
            let tag = tag.parse().map_err(|_| HttpError::Malformed("if_match is no entity tag".to_owned()))?;
            conditions.insert(IF_MATCH, tag);
        }
        Ok((id.bytes(), change, conditions))
    }
}

/// The line of a record. Sent back, it puts the record.
#[derive(Serialize)]
struct Found {
    id: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<IndexMap<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    absent: bool,
}

/// The line of a record; `None`: there is none.
pub(super) fn found(id: &Bytes, record: Option<&Record>, wanted: &Wanted) -> String {
    let mut found = Found {
        id: json::value(id),
        text: None,
        attributes: None,
        expires_at: None,
        etag: None,
        absent: record.is_none(),
    };
    if let Some(record) = record {
        match &record.content {
            Content::Text(text) => found.text = Some(json::value(text)),
            Content::Attributes(attributes) => match json::chosen(attributes, wanted) {
                Ok(chosen) => found.attributes = Some(json::object(&chosen, true)),
                Err(error) => return refused(Some(id), &error),
            },
        }
        found.expires_at = record.expires_at.map(|at| at.0);
        found.etag = tag(record).map(|tag| conditional::text(&tag));
    }
    ended(&found)
}

/// At most so many bytes has a line of a record besides its id and what the record holds.
const LINE_BYTES: usize = 256;

/// At most so many bytes has the line of a record ([`found`]); `None`: there is none, or the line has
/// the id alone.
pub(super) fn found_bytes(id: &Bytes, record: Option<&Record>, wanted: &Wanted) -> usize {
    let content = match record.map(|record| &record.content) {
        None => 0,
        Some(Content::Text(text)) => json::value_bytes(text),
        // What has no form is refused in a short line.
        Some(Content::Attributes(all)) => json::chosen(all, wanted).map_or(0, |chosen| json::object_bytes(&chosen)),
    };
    LINE_BYTES + json::value_bytes(id) + content
}

/// The line of a record that was changed.
pub(super) fn changed(id: &Bytes, changed: &Changed) -> String {
    ended(&json!({ "id": json::value(id), "status": changed.status().as_u16() }))
}

/// The line of a refusal.
pub(super) fn refused(id: Option<&Bytes>, error: &HttpError) -> String {
    let reason = error.reason();
    let (status, detail) = (reason.status.as_u16(), error.problem().into_detail());
    let mut line = json!({ "status": status, "kind": reason.kind, "detail": detail });
    if let Some(id) = id {
        line["id"] = json::value(id);
    }
    ended(&line)
}

/// The line of an id alone.
pub(super) fn id_alone(id: &Bytes) -> String {
    ended(&json!({ "id": json::value(id) }))
}

fn ended(line: &impl Serialize) -> String {
    // Neither kind of line can fail: all keys are texts.
    let mut text = serde_json::to_string(line).unwrap_or_default();
    text.push('\n');
    text.shrink_to_fit();
    text
}
