//! Reads of a store through the process that holds it, encoded with postcard. Both ends speak the
//! same [`VERSION`] of it.

use std::ops::Range;

use bytes::Bytes;
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

use crate::{
    Call, ContentHeader, ContentId, Row, Rows, Scan, Store, StoreError, StoreResult, Table, UnixMillis, WalkPage, boxed,
};

/// The version of questions and answers. Raise it when one of them changes. Builds before 0.1.0 spoke
/// 1 and 2, over values of other forms.
pub const VERSION: u32 = 3;

/// The path of questions, and of a [`Description`].
pub const PATH: &str = "/admin/store";

/// The path of a content, as a pattern with its id. The query has a range: `from` and `to`.
pub const CONTENT_PATH: &str = "/admin/store/contents/{id}";

/// The path of [`Changes`]. The query has a cursor, `after`; without one the answer is the present
/// cursor.
pub const CHANGES_PATH: &str = "/admin/store/changes";

/// The header of an answer with the number of the store's level.
pub const LEVEL: &str = "penates-level";

/// Ranges of a question.
pub const SCANS_MAX: usize = 32;

/// What a reader has to know before it asks, as JSON.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Description {
    /// [`VERSION`] of the process that holds the store.
    pub wire: u32,
    /// The number of the store's level.
    pub level: u32,
}

/// A page of changes, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Changes {
    /// The objects that changed, in the order of the changes.
    pub objects: Vec<ChangedObject>,
    /// The cursor behind the page.
    pub end: String,
    /// Whether nothing is left for now.
    pub is_last: bool,
    /// With everything until `end`, a reader has all changes until this time.
    pub until: UnixMillis,
    /// The present time.
    pub now: UnixMillis,
}

/// A change of an object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangedObject {
    /// The partition of its head, which is text.
    pub object: String,
    /// The revision that was switched in.
    pub revision: String,
}

/// A read of a store; see the method of [`Store`] of the same name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Question {
    /// A row: table, partition, sort key.
    Get(Table, Bytes, Bytes),
    /// A page of a range: table, partition, range.
    Scan(Table, Bytes, Scan),
    /// Some partitions: table, where to begin, the greatest number.
    Walk(Table, Option<Bytes>, usize),
    /// The header of a content.
    ContentHeader(ContentId),
    /// Whether these bytes of a content can be read.
    CheckContent(ContentId, Range<u64>),
    /// The first pages of ranges: table, partition, range of each, at most [`SCANS_MAX`] of them.
    ScanMany(Vec<(Table, Bytes, Scan)>),
}

/// The answer to the [`Question`] of the same name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The row, if there is one.
    Get(Option<Row>),
    /// The page.
    Scan(Rows),
    /// The partitions.
    Walk(WalkPage),
    /// The header, if there is one.
    ContentHeader(Option<ContentHeader>),
    /// The bytes can be read, or there is no such content.
    CheckContent,
    /// The pages, in the order of the ranges.
    ScanMany(Vec<Rows>),
}

/// [`StoreError::Corrupt`] as it is sent: the other end treats damage as if the store were its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Damage {
    table: Table,
    detail: String,
}

/// Asks a store.
#[boxed]
pub async fn answer(store: &dyn Store, call: Call, question: Question) -> StoreResult<Answer> {
    Ok(match question {
        Question::Get(table, partition, sort) => Answer::Get(store.get(call, table, &partition, &sort).await?),
        Question::Scan(table, partition, scan) => Answer::Scan(store.scan(call, table, &partition, scan).await?),
        Question::ScanMany(scans) if scans.len() > SCANS_MAX => {
            return Err(StoreError::Invalid(format!("a question has at most {SCANS_MAX} ranges")));
        }
        Question::ScanMany(scans) => Answer::ScanMany(store.scan_many(call, scans).await?),
        Question::Walk(table, from, max) => Answer::Walk(store.walk(call, table, from, max).await?),
        Question::ContentHeader(id) => Answer::ContentHeader(store.content_header(call, id).await?),
        Question::CheckContent(id, range) => {
            if let Some(mut content) = store.read_content(call, id, range).await? {
                while content.try_next().await?.is_some() {}
            }
            Answer::CheckContent
        }
    })
}

/// Encodes an answer or damage. The caller reports other errors.
pub fn encode_answer(answer: StoreResult<Answer>) -> StoreResult<Bytes> {
    match answer {
        Err(StoreError::Corrupt { table, detail }) => encode(&Err::<Answer, _>(Damage { table, detail })),
        answer => encode(&Ok::<_, Damage>(answer?)),
    }
}

/// Decodes what [`encode_answer`] encoded.
pub fn decode_answer(encoded: &[u8]) -> StoreResult<Answer> {
    let answer: Result<Answer, Damage> = decode(encoded)?;
    answer.map_err(|Damage { table, detail }| StoreError::Corrupt { table, detail })
}

/// Encodes a question.
pub fn encode(value: &impl Serialize) -> StoreResult<Bytes> {
    let encoded = postcard::to_stdvec(value);
    encoded.map(Bytes::from).map_err(|error| StoreError::Invalid(format!("it cannot be encoded: {error}")))
}

/// Decodes what [`encode`] encoded.
pub fn decode<T: for<'de> Deserialize<'de>>(encoded: &[u8]) -> StoreResult<T> {
    crate::stored::decode(encoded).map_err(|error| StoreError::Invalid(format!("it cannot be decoded: {error}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::null::NullStore;
    use crate::{Class, Deadline};

    #[tokio::test]
    async fn a_question_with_too_many_ranges_is_refused() {
        let store = NullStore::new().with_rows(Table::Records, Vec::new());
        let call = Call::new(Class::Content, Deadline::within(std::time::Duration::from_secs(60)));
        let range = (Table::Records, Bytes::from_static(b"id"), Scan::prefix(Bytes::new(), 1));
        let pages = answer(&store, call, Question::ScanMany(vec![range.clone(); SCANS_MAX])).await.unwrap();
        assert!(matches!(pages, Answer::ScanMany(pages) if pages.len() == SCANS_MAX));
        let refused = answer(&store, call, Question::ScanMany(vec![range; SCANS_MAX + 1])).await;
        assert!(matches!(refused, Err(StoreError::Invalid(_))));
    }
}
