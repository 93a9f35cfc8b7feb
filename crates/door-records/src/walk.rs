//! Commands about all records.

use bytes::Bytes;
use records::{Content, IdPage, Record};
use store::Deadline;

use crate::Door;
use crate::error::{CommandResult, Refusal};
use crate::pattern::matches;
use crate::reply::Reply;
use crate::run::{READ_AT_ONCE, refusal};
use crate::words::Words;

/// The number of ids of a page, unless a client asks for another.
const PAGE: i64 = 10;

/// A client may ask for so many.
const PAGE_MAX: i64 = 10_000;

/// What `SCAN` lists.
struct Wanted<'a> {
    pattern: Option<&'a Bytes>,
    kind: Option<&'a Bytes>,
    count: i64,
}

impl Wanted<'_> {
    fn is_of_kind(&self, record: Option<&Record>) -> bool {
        let is = |kind: &str| self.kind.is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind.as_bytes()));
        record.is_some_and(|record| match record.content {
            Content::Text(_) => is("string"),
            Content::Attributes(_) => is("hash"),
        })
    }
}

impl Door {
    /// `SCAN`: some ids, and the number of the place to read on. Records that are there during the
    /// whole walk are listed once.
    pub(crate) async fn scan(&self, deadline: Deadline, words: &[Bytes]) -> CommandResult<Reply> {
        let mut words = Words::new("scan", words);
        let cursor = words.next()?;
        let number: Option<u64> = str::from_utf8(cursor).ok().and_then(|text| text.parse().ok());
        let number = number.ok_or_else(|| Refusal::error("invalid cursor"))?;
        let mut wanted = Wanted { pattern: None, kind: None, count: PAGE };
        while !words.is_empty() {
            if words.takes("MATCH") {
                wanted.pattern = Some(words.next()?);
            } else if words.takes("TYPE") {
                wanted.kind = Some(words.next()?);
            } else if words.takes("COUNT") {
                wanted.count = words.integer()?;
            } else {
                return Err(Refusal::syntax());
            }
        }
        if wanted.count < 1 {
            return Err(Refusal::syntax());
        }
        let from = match number {
            0 => None,
            number => Some(self.cursors.place_of(number).ok_or_else(|| Refusal::error("invalid cursor"))?),
        };
        let max = usize::try_from(wanted.count.min(PAGE_MAX)).unwrap_or(1);
        let _place = self.admission.places(1, deadline).await?;
        let IdPage { mut ids, next } = self.records.ids(deadline, from, max).await.map_err(refusal)?;
        ids.retain(|id| wanted.pattern.is_none_or(|pattern| matches(pattern, id)));
        // A record whose attributes have all expired is not there either.
        let mut listed = Vec::with_capacity(ids.len());
        for ids in ids.chunks(READ_AT_ONCE) {
            let found = self.records.read_listed(deadline, ids).await.map_err(refusal)?;
            let there = ids.iter().zip(&found).filter(|(_, record)| wanted.is_of_kind(record.as_ref()));
            listed.extend(there.map(|(id, _)| Reply::Bytes(id.clone())));
        }
        let next = next.map_or(0, |place| self.cursors.number_of(place));
        Ok(Reply::List(vec![Reply::Bytes(next.to_string().into()), Reply::List(listed)]))
    }

    /// `DBSIZE`: how many records are stored. It reads all ids, so with many records it may not end
    /// by the deadline.
    pub(crate) async fn count(&self, deadline: Deadline) -> CommandResult<Reply> {
        let (mut count, mut from) = (0, None);
        loop {
            let page = self.records.ids(deadline, from, PAGE_MAX as usize).await.map_err(refusal)?;
            count += page.ids.len();
            from = page.next;
            if from.is_none() {
                return Ok(Reply::count(count));
            }
        }
    }
}
