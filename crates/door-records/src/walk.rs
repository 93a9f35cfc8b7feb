//! Commands about all records.

use budget::{Party, Share};
use bytes::Bytes;
use records::{Content, IdPage, Record};
use store::Deadline;

use crate::Door;
use crate::error::{CommandResult, Refusal};
use crate::pattern::Pattern;
use crate::reply::Reply;
use crate::run::{READ_AT_ONCE, refusal};
use crate::words::Words;

/// The number of ids of a page, unless a client asks for another.
const PAGE: i64 = 10;

/// A client may ask for so many.
const PAGE_MAX: i64 = 10_000;

/// Bytes of records that are held at once. They take a share of the memory once they are read.
const READ_BYTES: usize = READ_AT_ONCE * (64 << 10);

/// Memory for an id besides its bytes.
const ID_BYTES: usize = 32;

/// What `SCAN` lists.
struct Wanted<'a> {
    pattern: Option<Pattern>,
    kind: Option<&'a Bytes>,
    count: i64,
}

impl Wanted<'_> {
    /// Of so many ids at most.
    fn max(&self) -> usize {
        usize::try_from(self.count.min(PAGE_MAX)).unwrap_or(1)
    }

    fn has(&self, id: &Bytes) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(id))
    }

    fn is_of_kind(&self, record: &Record) -> bool {
        let is = |kind: &str| self.kind.is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind.as_bytes()));
        match record.content {
            Content::Text(_) => is("string"),
            Content::Attributes(_) => is("hash"),
        }
    }
}

/// Refuses if the deadline has passed: from then on no id counts as wanted.
fn in_time(deadline: Deadline) -> CommandResult<()> {
    if deadline.passed() { Err(Refusal::deadline()) } else { Ok(()) }
}

impl Door {
    /// `SCAN`: some ids, and the number of the place to read on. Records that are there during the
    /// whole walk are listed once.
    pub(crate) async fn scan(&self, party: &Party, deadline: Deadline, words: &[Bytes]) -> CommandResult<Reply> {
        let mut words = Words::new("scan", words);
        let cursor = words.next()?;
        let number: Option<u64> = str::from_utf8(cursor).ok().and_then(|text| text.parse().ok());
        let number = number.ok_or_else(|| Refusal::error("invalid cursor"))?;
        let (mut wanted, mut pattern) = (Wanted { pattern: None, kind: None, count: PAGE }, None);
        while !words.is_empty() {
            if words.takes("MATCH") {
                pattern = Some(words.next()?);
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
        // Of many patterns only the last one counts.
        wanted.pattern = pattern.map(|pattern| Pattern::new(pattern)).transpose()?;
        let from = match number {
            0 => None,
            number => Some(self.cursors.place_of(number).ok_or_else(|| Refusal::error("invalid cursor"))?),
        };
        let _place = self.admission.places(1, deadline).await?;
        let IdPage { ids, next } = match self.records.lists_in_one_pass() {
            true => self.listed_in_one_pass(party, deadline, from, &wanted).await?,
            false => self.listed_by_ids(party, deadline, from, &wanted).await?,
        };
        let next = next.map_or(0, |place| self.cursors.number_of(place));
        let listed = ids.into_iter().map(Reply::Bytes).collect();
        Ok(Reply::List(vec![Reply::Bytes(next.to_string().into()), Reply::List(listed)]))
    }

    async fn listed_in_one_pass(
        &self,
        party: &Party,
        deadline: Deadline,
        mut from: Option<Bytes>,
        wanted: &Wanted<'_>,
    ) -> CommandResult<IdPage> {
        let (mut left, mut held) = (wanted.max(), None);
        let mut ids: Vec<Bytes> = Vec::new();
        loop {
            let has = |id: &Bytes| !deadline.passed() && wanted.has(id);
            let page = self.records.list(deadline, from, (left, READ_BYTES), has).await.map_err(refusal)?;
            in_time(deadline)?;
            let _records = self.share(party, page.records.iter().map(|(_, record)| record))?;
            let found = page.records.into_iter().filter(|(_, record)| wanted.is_of_kind(record));
            ids.extend(found.map(|(id, _)| id));
            self.hold_ids(&mut held, party, &ids)?;
            left = left.saturating_sub(page.ids);
            if left == 0 || page.next.is_none() {
                return Ok(IdPage { ids, next: page.next });
            }
            from = page.next;
        }
    }

    async fn listed_by_ids(
        &self,
        party: &Party,
        deadline: Deadline,
        from: Option<Bytes>,
        wanted: &Wanted<'_>,
    ) -> CommandResult<IdPage> {
        let page = self.records.ids(deadline, from, wanted.max()).await.map_err(refusal)?;
        let mut held = None;
        self.hold_ids(&mut held, party, &page.ids)?;
        let ids: Vec<Bytes> = page.ids.into_iter().filter(|id| !deadline.passed() && wanted.has(id)).collect();
        in_time(deadline)?;
        // A record whose attributes have all expired is not there either.
        let mut listed = Vec::with_capacity(ids.len());
        for ids in ids.chunks(READ_AT_ONCE) {
            let found = self.records.read_listed(deadline, ids).await.map_err(refusal)?;
            let _records = self.share(party, found.iter().flatten())?;
            let is_there = |record: Option<&Record>| record.is_some_and(|record| wanted.is_of_kind(record));
            let there = ids.iter().zip(&found).filter(|(_, record)| is_there(record.as_ref()));
            listed.extend(there.map(|(id, _)| id.clone()));
        }
        Ok(IdPage { ids: listed, next: page.next })
    }

    /// `DBSIZE`: how many records are stored. It reads all ids, so with many records it may not end
    /// by the deadline.
    pub(crate) async fn count(&self, party: &Party, deadline: Deadline) -> CommandResult<Reply> {
        let _place = self.admission.places(1, deadline).await?;
        let (mut count, mut from, mut held) = (0, None, None);
        loop {
            let page = self.records.ids(deadline, from, PAGE_MAX as usize).await.map_err(refusal)?;
            self.hold_ids(&mut held, party, &page.ids)?;
            count += page.ids.len();
            from = page.next;
            if from.is_none() {
                return Ok(Reply::count(count));
            }
        }
    }

    /// Makes a share of the memory large enough for ids.
    fn hold_ids(&self, held: &mut Option<Share>, party: &Party, ids: &[Bytes]) -> CommandResult<()> {
        let bytes: usize = ids.iter().map(|id| ID_BYTES + id.len()).sum();
        let refusal = |_| Refusal::overloaded("there is no memory for so many ids now");
        self.memory.hold(party, held, bytes).map_err(refusal)
    }
}
