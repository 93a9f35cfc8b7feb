//! The head log: keeps the replaced heads of an object, each under its revision. It makes the
//! outcome of every write available, and is the object's history.
//!
//! An object's own partition must not grow with its changes, so the log has partitions of its own,
//! in pages of [`keys::LOG_PAGE_ENTRIES`]. A head counts the heads before it, which determines the
//! page of its entry.
//!
//! A switch puts the entry of the head that it read and waits until it is acknowledged. Only then
//! does it compare and write the head. It follows that:
//!
//! - An entry is true whatever the outcome of the switch: that head existed. Its revision may still
//!   be the current one. A reader of the log therefore reads the head first, and of the log only
//!   what is below it.
//! - Every head except the current one has an entry that a strong read finds, because the writer
//!   that replaced it had it acknowledged before.
//! - A writer that puts an entry late, or twice, changes nothing: every writer puts the same entry
//!   ([`Head::as_logged`]), and no entry is ever removed.
//! - A page never has more entries than it may, however many switches are refused or interrupted:
//!   each head has one place.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use store::{Class, Direction, NewRow, Row, Scan, Step, Table, boxed};

use crate::container_body::ContainerBody;
use crate::error::ObjectsResult;
use crate::handle::Heads;
use crate::head::{self, Body, Head, ObjectState};
use crate::keys;
use crate::revision::RevisionId;

/// Bytes of one page of a scan.
const SCAN_BYTES: usize = 64 << 10;

impl Head {
    /// Whether it goes into the log when it is replaced. A head that was only fenced has no
    /// history.
    pub fn is_logged(&self) -> bool {
        self.revision != RevisionId::ZERO
    }

    /// The number of heads before the one that replaces it.
    pub fn logged_with_it(&self) -> u64 {
        self.logged + u64::from(self.is_logged())
    }

    /// The logged form of a head: everything except what changes without a new revision. Otherwise
    /// a delayed writer that read the head before such a change could overwrite the entry of a
    /// writer that read it afterwards.
    pub fn as_logged(&self) -> Self {
        let mut head = Self { floor: RevisionId::ZERO, condemned: None, collected: None, claim: None, ..self.clone() };
        match head.state {
            // The shards of a container that is not live do not change.
            ObjectState::Live => {
                if let Some(children) = head.body.container_mut() {
                    *children = ContainerBody::new(0);
                }
                if let Body::Volume(volume) = &mut head.body {
                    volume.damaged = 0;
                }
            }
            ObjectState::Deleting | ObjectState::Deleted => {}
            ObjectState::Free => head.state = ObjectState::Deleted,
        }
        head
    }

    /// The step that puts its entry into the log of its object.
    pub fn log_step(&self, object: &Bytes) -> ObjectsResult<Step> {
        let rows = vec![NewRow::new(keys::log(self.revision), self.as_logged().seal()?)];
        let partition = keys::log_page(object, self.log_page());
        Ok(Step::Put { table: Table::Objects, partition, rows })
    }
}

/// The heads of an object before one of its heads.
pub struct HeadLog<'a> {
    heads: &'a Heads,
    object: Bytes,
    /// The revision of that head.
    before: RevisionId,
    /// The number of entries.
    entries: u64,
}

/// Reads entries of a log in order.
pub struct Entries<'a> {
    heads: &'a Heads,
    object: Bytes,
    /// The scan of each page.
    of_page: Scan,
    /// The pages that are still to be read, without the page of `rest`.
    pages: Range<u64>,
    /// The rest of a page.
    rest: Option<(Bytes, Scan)>,
    rows: VecDeque<Row>,
}

impl HeadLog<'_> {
    fn pages(&self) -> u64 {
        self.entries.div_ceil(keys::LOG_PAGE_ENTRIES)
    }

    /// Whether there is an entry for a revision.
    #[boxed]
    pub async fn has(&self, revision: RevisionId) -> ObjectsResult<bool> {
        if self.entries == 0 {
            return Ok(false);
        }
        let partition = keys::log_page(&self.object, self.page_of(revision).await?);
        let call = self.heads.call(Class::Description).strong();
        let store = &self.heads.inner.store;
        Ok(store.get(call, Table::Objects, &partition, &keys::log(revision)).await?.is_some())
    }

    /// The head of a revision, if it has an entry.
    #[boxed]
    pub async fn entry(&self, revision: RevisionId) -> ObjectsResult<Option<Head>> {
        Ok(self.newest_below(revision.successor()).await?.filter(|head| head.revision == revision))
    }

    /// The newest head below a revision.
    #[boxed]
    pub async fn newest_below(&self, below: RevisionId) -> ObjectsResult<Option<Head>> {
        let mut entries = self.below(below, 1).await?;
        entries.next().await?.map(|row| head::open(Table::Objects, &row.value)).transpose()
    }

    /// The oldest head from a revision on.
    #[boxed]
    pub async fn oldest_from(&self, from: RevisionId) -> ObjectsResult<Option<Head>> {
        let first = self.page_of(from).await?;
        let (from, to) = (keys::log(from.min(self.before)), Some(keys::log(self.before)));
        let scan = Scan { from, to, direction: Direction::Forward, max_bytes: 1 };
        self.entries(scan, first..self.pages()).next_head().await
    }

    /// All entries, newest first.
    pub async fn newest_first(&self) -> ObjectsResult<Entries<'_>> {
        self.newest_first_below(self.before).await
    }

    /// The entries below a revision, newest first.
    pub async fn newest_first_below(&self, below: RevisionId) -> ObjectsResult<Entries<'_>> {
        self.below(below, SCAN_BYTES).await
    }

    /// The same with pages of at least so many bytes.
    async fn below(&self, below: RevisionId, max_bytes: usize) -> ObjectsResult<Entries<'_>> {
        let below = below.min(self.before);
        let to = Some(keys::log(below));
        let scan = Scan { from: keys::log_prefix(), to, direction: Direction::Backward, max_bytes };
        let last = self.page_of(below).await?;
        Ok(self.entries(scan, 0..self.pages().min(last + 1)))
    }

    /// The entries from a revision on, oldest first.
    pub async fn from(&self, from: RevisionId) -> ObjectsResult<Entries<'_>> {
        self.between(from, self.before).await
    }

    /// The entries from a revision on and below another, oldest first.
    pub async fn between(&self, from: RevisionId, to: RevisionId) -> ObjectsResult<Entries<'_>> {
        let to = to.min(self.before);
        let first = self.page_of(from).await?;
        let end = self.pages().min(self.page_of(to).await? + 1);
        let (from, to) = (keys::log(from.min(to)), Some(keys::log(to)));
        let scan = Scan { from, to, direction: Direction::Forward, max_bytes: SCAN_BYTES };
        Ok(self.entries(scan, first..end))
    }

    fn entries(&self, of_page: Scan, pages: Range<u64>) -> Entries<'_> {
        let (heads, object) = (self.heads, self.object.clone());
        Entries { heads, object, of_page, pages, rest: None, rows: VecDeque::new() }
    }

    /// The newest head of an incarnation, however many incarnations came after it.
    ///
    /// Incarnations rise, as revisions do. So the page is found by halving, and in it the heads of an
    /// incarnation are together, from the revision that began it on.
    #[boxed]
    pub async fn newest_of(&self, incarnation: RevisionId) -> ObjectsResult<Option<Head>> {
        let begins_at_most_with_it = |page| async move {
            let first = self.first_of(page).await?;
            let first = first.map(|row| head::open::<Head>(Table::Objects, &row.value)).transpose()?;
            Ok(first.is_some_and(|first| first.incarnation <= incarnation))
        };
        let page = self.last_page_that(begins_at_most_with_it).await?;
        let (from, to) = (keys::log(incarnation.min(self.before)), Some(keys::log(self.before)));
        let scan = Scan { from, to, direction: Direction::Forward, max_bytes: SCAN_BYTES };
        let mut entries = self.entries(scan, page..self.pages().min(page + 1));
        let mut newest = None;
        while let Some(head) = entries.next_head().await?.filter(|head| head.incarnation == incarnation) {
            newest = Some(head);
        }
        Ok(newest)
    }

    /// The page that has the entry of a revision if there is one: the last page that begins with it
    /// or with an earlier one.
    #[boxed]
    pub async fn page_of(&self, revision: RevisionId) -> ObjectsResult<u64> {
        let begins_at_most_with_it = |page| async move {
            let first = self.first_of(page).await?;
            Ok(first.and_then(|row| keys::revision_of(&row.sort)).is_some_and(|first| first <= revision))
        };
        self.last_page_that(begins_at_most_with_it).await
    }

    /// The last page that `begins_early`: no later one does, and each earlier one does. The first
    /// page needs no look. Usually it is the last page, which is tried first.
    async fn last_page_that<F>(&self, begins_early: impl Fn(u64) -> F) -> ObjectsResult<u64>
    where
        F: Future<Output = ObjectsResult<bool>>,
    {
        let (mut low, mut high) = (0, self.pages().saturating_sub(1));
        let mut looked_at = high;
        while low < high {
            if begins_early(looked_at).await? {
                low = looked_at;
            } else {
                high = looked_at - 1;
            }
            looked_at = (low + high).div_ceil(2);
        }
        Ok(low)
    }

    /// The first row of a page.
    async fn first_of(&self, page: u64) -> ObjectsResult<Option<Row>> {
        let first = Scan::prefix(keys::log_prefix(), 1);
        let call = self.heads.call(Class::Description).strong();
        let partition = keys::log_page(&self.object, page);
        Ok(self.heads.inner.store.scan(call, Table::Objects, &partition, first).await?.rows.into_iter().next())
    }
}

impl Entries<'_> {
    /// The next row.
    pub async fn next(&mut self) -> ObjectsResult<Option<Row>> {
        loop {
            if let Some(row) = self.rows.pop_front() {
                return Ok(Some(row));
            }
            if !self.read_page().await? {
                return Ok(None);
            }
        }
    }

    /// Reads more rows; `false` if there are no more.
    #[boxed]
    async fn read_page(&mut self) -> ObjectsResult<bool> {
        let (partition, scan) = match self.rest.take() {
            Some(rest) => rest,
            None => {
                let page = match self.of_page.direction {
                    Direction::Forward => self.pages.next(),
                    Direction::Backward => self.pages.next_back(),
                };
                let Some(page) = page else { return Ok(false) };
                (keys::log_page(&self.object, page), self.of_page.clone())
            }
        };
        let call = self.heads.call(Class::Description).strong();
        let page = self.heads.inner.store.scan(call, Table::Objects, &partition, scan.clone()).await?;
        self.rows = page.rows.into();
        self.rest = scan.resumed(page.next).map(|rest| (partition, rest));
        Ok(true)
    }

    /// The next head.
    pub async fn next_head(&mut self) -> ObjectsResult<Option<Head>> {
        self.next().await?.map(|row| head::open(Table::Objects, &row.value)).transpose()
    }
}

/// Reads the heads of one incarnation of an object, from the last to the first.
struct HeadsOf<'a> {
    heads: &'a Heads,
    object: &'a Bytes,
    incarnation: RevisionId,
    /// The head that was read last.
    last: Option<Head>,
}

impl HeadsOf<'_> {
    async fn next(&mut self) -> ObjectsResult<Option<Head>> {
        let is_wanted = |head: &Head| head.incarnation == self.incarnation;
        let head = match &self.last {
            None => {
                let current = self.heads.head_at(self.object).await?.map(|row| row.head);
                match current.filter(|head| head.incarnation >= self.incarnation) {
                    Some(current) if !is_wanted(&current) => {
                        self.heads.log_before(self.object, &current).newest_of(self.incarnation).await?
                    }
                    current => current,
                }
            }
            Some(last) => self.heads.log_before(self.object, last).newest_below(last.revision).await?,
        };
        let head = head.filter(is_wanted);
        self.last.clone_from(&head);
        Ok(head)
    }
}

impl Heads {
    /// The heads of an object before this head.
    pub fn log_before(&self, object: &Bytes, head: &Head) -> HeadLog<'_> {
        HeadLog { heads: self, object: object.clone(), before: head.revision, entries: head.logged }
    }

    /// How an incarnation of an object ended: its first head that is not live. `None` if it is live
    /// or never existed.
    ///
    /// Once the incarnation can never be switched in any more, every call returns the same head.
    #[boxed]
    pub async fn end_of(&self, object: &Bytes, incarnation: RevisionId) -> ObjectsResult<Option<Head>> {
        let mut heads = HeadsOf { heads: self, object, incarnation, last: None };
        let mut end = None;
        while let Some(head) = heads.next().await?.filter(|head| head.state != ObjectState::Live) {
            end = Some(head);
        }
        Ok(end)
    }

    /// The shards in the last head of a container's incarnation that has any.
    pub async fn last_shards_of(
        &self,
        object: &Bytes,
        incarnation: RevisionId,
    ) -> ObjectsResult<Option<ContainerBody>> {
        let mut heads = HeadsOf { heads: self, object, incarnation, last: None };
        while let Some(head) = heads.next().await? {
            if let Some(container) = head.body.container() {
                return Ok(Some(container.clone()));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use store::{UnixMillis, ValueKind, envelope};

    use super::*;
    use crate::container_body::MoreShards;
    use crate::head::Condemned;
    use crate::resource_body::ResourceBody;

    const FIRST: RevisionId = RevisionId([1; 16]);

    fn container(state: ObjectState, shards: u16) -> Head {
        let body = match state {
            ObjectState::Live | ObjectState::Deleting => Body::Resource(ResourceBody::empty_container(shards)),
            ObjectState::Deleted | ObjectState::Free => Body::Nothing,
        };
        Head { state, incarnation: FIRST, revision: FIRST, logged: 3, body, ..Head::free() }
    }

    #[test]
    fn whoever_logs_a_head_puts_the_same_whatever_was_done_to_it_without_a_new_revision() {
        let condemned = Some(Condemned { named: FIRST, floor: FIRST, at: UnixMillis(7) });
        for state in [ObjectState::Live, ObjectState::Deleting, ObjectState::Deleted] {
            let head = container(state, 4);
            let amended = Head { floor: FIRST, condemned, collected: Some(FIRST), ..head.clone() };
            assert_eq!(amended.as_logged().seal().unwrap(), head.as_logged().seal().unwrap(), "{state:?}");
        }
        let (live, mut grown) = (container(ObjectState::Live, 4), container(ObjectState::Live, 16));
        grown.body.container_mut().unwrap().growing = Some(MoreShards { shards: 64, first_epoch: 1 });
        assert_eq!(grown.as_logged(), live.as_logged(), "its shards may change while it is live");
        let freed = Head { state: ObjectState::Free, ..container(ObjectState::Deleted, 4) };
        assert_eq!(freed.as_logged(), container(ObjectState::Deleted, 4).as_logged());
        // The shards of a container that is being deleted do not change: its entry records where
        // its past members are.
        let deleting = container(ObjectState::Deleting, 16);
        assert_eq!(deleting.as_logged().body, deleting.body);
    }

    #[test]
    fn an_entry_lies_where_every_version_looks_for_it_and_its_bytes_are_these() {
        let head = Head { logged: 1_025, body: Body::Nothing, ..container(ObjectState::Deleted, 4) };
        let Step::Put { table, partition, rows } = head.log_step(&Bytes::from_static(b"r/a")).unwrap() else {
            panic!()
        };
        assert_eq!((table, &partition[..]), (Table::Objects, &b"r/a\0l\0\0\0\0\0\0\0\x01"[..]));
        assert_eq!(rows[0].sort, [&[1][..], &[1; 16]].concat());
        // State, incarnation, parent incarnation, revision; 1,025 earlier heads; nothing collected;
        // no floor; nothing condemned; no body; not announced; no claim; no group.
        let described = [&[0x81, 8][..], &[0], &[0; 16], &[0], &[0]].concat();
        let value = [&[2][..], &[1; 16], &[0; 16], &[1; 16], &described, &[0; 16], &[0], &[0]].concat();
        assert_eq!(envelope::open(ValueKind::Head, &rows[0].value).unwrap(), value);
        assert_eq!(keys::version(b"r/a", FIRST), [&b"r/a\0r"[..], &[1; 16]].concat());
    }
}
