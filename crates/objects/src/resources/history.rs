//! Collecting versions of resources that are not kept: descriptions and bytes that only heads name that are neither current nor history.
//!
//! Where all versions are kept nothing is recorded and nothing collected. Otherwise whoever replaces or deletes leaves a record, and the
//! collector looks at the resources of these records: condemned by a compare-and-write of the head, removed once the grace has passed, as
//! with volumes (`collect.rs`). Entries of the head log stay, so that what came of a write can still be looked up.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use store::row::prefix_end;
use store::{Class, ContentId, Removal, Scan, Step, Table, UnixMillis, envelope};

use crate::collect::LOOKED_AT_AGAIN;
use crate::error::{ObjectsError, ObjectsResult};
use crate::head::{self, Condemned, Head, HeadRow};
use crate::history::{Found, Keep, WINDOW_REVISIONS, Window};
use crate::keys;
use crate::library::Library;
use crate::passes::{Chore, Then};
use crate::queue::{Entry, Queue};
use crate::resources::body::Place;
use crate::resources::damage::{Part, unmark};
use crate::resources::path::ResourcePath;
use crate::resources::stored_path;
use crate::revision::RevisionId;
use crate::rules::Rule;

/// Bytes of one page of a scan over a head log.
const SCAN_BYTES: usize = 64 << 10;

/// Versions that are removed in one list.
const REMOVED_AT_ONCE: usize = 256;

impl Part {
    /// What the keys of its rows begin with.
    fn rows(self, revision: RevisionId) -> Bytes {
        match self {
            Self::Description => keys::description_rows(revision),
            Self::Bytes => keys::small_content(revision),
        }
    }

    /// The same, of whatever revision.
    fn prefix(self) -> Bytes {
        match self {
            Self::Description => keys::description_prefix(),
            Self::Bytes => keys::small_content_prefix(),
        }
    }
}

/// A resource whose versions are looked at.
struct Versions {
    partition: Bytes,
    row: HeadRow,
    /// From where on earlier heads are kept; `None`: none is.
    kept_from: Option<RevisionId>,
}

/// Some of what there is of a resource, in rows or contents, by the revision that wrote it.
struct Written {
    parts: BTreeSet<(RevisionId, Part)>,
    /// Those that are contents.
    contents: BTreeMap<RevisionId, ContentId>,
    /// From where the next ones begin; `None`: these are the last.
    rest: Option<RevisionId>,
}

/// What was done to one resource.
enum Progress {
    Condemned,
    Removed,
    /// Nothing can be done before this time, or nobody knows before when.
    Waiting(UnixMillis),
    /// There is nothing left to do, and nobody who left these records is at work any more.
    Finished,
}

impl Library {
    /// The record that a revision supersedes a version of a resource; none where all of them are kept.
    pub(super) fn superseding(&self, path: &ResourcePath, revision: RevisionId) -> Option<Step> {
        let record = || {
            let (now, subject) = (self.inner.surroundings.clock.now(), path.as_str().as_bytes());
            self.queued(Queue::Superseded, now, subject, keys::superseded(revision, path)).put(envelope::seal(&[]))
        };
        (self.inner.options.history.resources != Keep::All).then(record)
    }

    /// One pass over the resources of which versions were superseded. Answers of how many resources something was removed.
    pub async fn collect_versions(&self) -> ObjectsResult<u64> {
        let mut removed = 0;
        if !self.is_home() {
            return Ok(removed);
        }
        let mut tally = self.tally(Chore::Versions);
        let mut pass = self.pass(Queue::Superseded).await?;
        while let Some(entries) = self.next_due(&mut pass, &mut tally).await? {
            let mut resources: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
            for entry in entries {
                match keys::superseded_of(entry.sort()) {
                    Some((_, path)) => resources.entry(path.to_owned()).or_default().push(entry),
                    None => {
                        let strange = Err(ObjectsError::corrupt(Table::Work, "a record of no resource"));
                        let record = (std::slice::from_ref(&entry), &entry.sort()[..]);
                        self.dealt_with::<()>(&mut tally, record, strange).await?;
                    }
                }
            }
            for (path, records) in resources {
                let collect = || async { self.collect_resource(&stored_path(&path)?, &records).await };
                let now = self.inner.surroundings.clock.now();
                let outcome = self.patiently(collect).await.map(|progress| match progress {
                    Progress::Removed => (true, Then::Later(now)),
                    Progress::Finished => (false, Then::Finished),
                    Progress::Condemned => (false, Then::Later(now.plus(self.inner.options.grace))),
                    Progress::Waiting(until) => (false, Then::Later(until)),
                });
                let done = self.dealt_with(&mut tally, (&records, path.as_bytes()), outcome).await?;
                removed += u64::from(done.unwrap_or(false));
            }
        }
        self.end_pass(pass).await?;
        Ok(removed)
    }

    async fn collect_resource(&self, path: &ResourcePath, records: &[Entry]) -> ObjectsResult<Progress> {
        let partition = keys::resource_partition(path);
        let Some(row) = self.head_at(&partition).await? else { return Ok(Progress::Finished) };
        let kept_from = self.kept_from(&partition, &row.head, self.inner.options.history.resources).await?;
        let versions = Versions { partition, row, kept_from };
        match versions.row.head.condemned {
            Some(condemned) if self.grace_passed(self.grace_from(condemned)) => {
                self.remove_versions(&versions, condemned).await?;
                Ok(Progress::Removed)
            }
            Some(condemned) => Ok(Progress::Waiting(condemned.at.plus(self.inner.options.grace))),
            None => self.condemn_versions(&versions, records).await,
        }
    }

    async fn condemn_versions(&self, versions: &Versions, records: &[Entry]) -> ObjectsResult<Progress> {
        let now = self.inner.surroundings.clock.now();
        let head = &versions.row.head;
        // What is above the head may be a write that is still at work: it is left alone for as long as a grace.
        let is_over = |revision: &RevisionId| *revision < head.revision || self.grace_passed(revision.time());
        let (mut floor, mut is_unnamed, mut from) = (None, false, Some(RevisionId::ZERO));
        while let Some(window) = from {
            let unnamed = self.unnamed(versions, window, head.revision).await?;
            is_unnamed |= !unnamed.parts.is_empty();
            floor = unnamed.parts.iter().map(|(revision, _)| *revision).filter(is_over).max().or(floor);
            from = unnamed.rest;
        }
        let Some(floor) = floor else {
            let will_pass =
                matches!(self.inner.options.history.resources, Keep::For(_)) && versions.kept_from.is_some();
            if is_unnamed || will_pass {
                return Ok(Progress::Waiting(now.plus(LOOKED_AT_AGAIN)));
            }
            // Whoever left a record a grace ago cannot be at work any more.
            let revisions = records.iter().filter_map(|entry| keys::superseded_of(entry.sort())).map(|(of, _)| of);
            let until = revisions.map(|revision| revision.time().plus(self.inner.options.grace)).max();
            let until = until.unwrap_or_default();
            return Ok(if until > now { Progress::Waiting(until) } else { Progress::Finished });
        };
        let condemned = Condemned { named: head.revision, floor, at: now };
        let raised = if self.keeps(Rule::Floor) { head.floor.max(floor) } else { head.floor };
        let amended = Head { floor: raised, condemned: Some(condemned), ..head.clone() };
        let (partition, row) = (&versions.partition, Some(&versions.row));
        // If the head moved, or nobody knows, the next pass sees what stands there.
        let amended = self.try_amend(partition, row, amended, Vec::new(), Vec::new()).await?;
        Ok(if amended.is_some() { Progress::Condemned } else { Progress::Waiting(now) })
    }

    /// Removes what is at or below the floor and was named neither when it was condemned nor since, then lifts the condemnation.
    async fn remove_versions(&self, versions: &Versions, condemned: Condemned) -> ObjectsResult<()> {
        let partition = &versions.partition;
        let since = if self.keeps(Rule::H0) { condemned.named } else { versions.row.head.revision };
        let mut from = Some(RevisionId::ZERO);
        while let Some(window) = from.filter(|window| *window <= condemned.floor) {
            let mut doomed = self.unnamed(versions, window, since).await?;
            doomed.parts.retain(|(revision, _)| *revision <= condemned.floor);
            let remove = |(revision, part): &(RevisionId, Part)| {
                let first = part.rows(*revision);
                let rows = Removal::Range(first.clone(), prefix_end(&first));
                let remove = Step::Remove { table: Table::Objects, partition: partition.clone(), rows };
                [remove, unmark(partition.clone(), *part, *revision)]
            };
            let steps: Vec<_> = doomed.parts.iter().flat_map(remove).collect();
            for steps in steps.chunks(REMOVED_AT_ONCE) {
                self.put_acknowledged(Class::Content, steps.to_vec()).await?;
            }
            for (_, content) in doomed.contents.iter().filter(|(of, _)| doomed.parts.contains(&(**of, Part::Bytes))) {
                let store = &self.inner.store;
                store.condemn_content(self.call(Class::Content), *content).await?;
                store.delete_content(self.call(Class::Content), *content).await?;
            }
            from = doomed.rest;
        }
        self.amend(partition, |head| {
            let head = head.filter(|head| head.condemned == Some(condemned))?;
            Some(Head { condemned: None, ..head.clone() })
        })
        .await?;
        Ok(())
    }

    /// Some of what there is of a resource from a revision on, that neither the head names that stands, nor one that is kept, nor one from
    /// `since` on.
    async fn unnamed(&self, versions: &Versions, from: RevisionId, since: RevisionId) -> ObjectsResult<Written> {
        let mut written = self.written(&versions.partition, from).await?;
        let mut strike = |head: &Head| named_by(head).for_each(|named| _ = written.parts.remove(&named));
        strike(&versions.row.head);
        let kept_from = versions.kept_from.map_or(since, |kept_from| kept_from.min(since));
        self.each_logged(&versions.partition, kept_from, |head| strike(&head)).await?;
        // The log tells of contents that were removed long ago too.
        for (revision, content) in &written.contents {
            let part = (*revision, Part::Bytes);
            let call = self.call(Class::Content).strong();
            if written.parts.contains(&part) && self.inner.store.content_header(call, *content).await?.is_none() {
                written.parts.remove(&part);
            }
        }
        Ok(written)
    }

    /// Some of what there is of a resource, from a revision on.
    async fn written(&self, partition: &Bytes, from: RevisionId) -> ObjectsResult<Written> {
        let mut found = Vec::new();
        for part in Part::ALL {
            found.push((part, self.revisions_of((Table::Objects, partition, &part.prefix()), from).await?));
        }
        let (of_contents, contents) = self.contents_written(partition, from).await?;
        found.push((Part::Bytes, of_contents));
        let Window { written: parts, rest } = Window::of(found);
        Ok(Written { parts, contents, rest })
    }

    /// Some of the contents that heads of the log name, by the revisions that wrote them.
    async fn contents_written(
        &self,
        partition: &Bytes,
        from: RevisionId,
    ) -> ObjectsResult<(Found, BTreeMap<RevisionId, ContentId>)> {
        let mut contents = BTreeMap::new();
        let mut scan = Some(Scan { from: keys::log(from), ..Scan::prefix(keys::log_prefix(), SCAN_BYTES) });
        while let Some(range) = scan.take().filter(|_| contents.len() < WINDOW_REVISIONS) {
            let call = self.call(Class::Description).strong();
            let page = self.inner.store.scan(call, Table::Objects, partition, range.clone()).await?;
            for row in &page.rows {
                let head: Head = head::open(Table::Objects, &row.value)?;
                // Later heads that name the same bytes come after the one that brought them.
                contents.extend(content_of(&head).filter(|(revision, _)| *revision == head.revision));
            }
            scan = range.resumed(page.next);
        }
        let is_all = scan.is_none() && contents.len() < WINDOW_REVISIONS;
        Ok((Found { revisions: contents.keys().copied().collect(), is_all }, contents))
    }
}

/// What a head names.
fn named_by(head: &Head) -> impl Iterator<Item = (RevisionId, Part)> {
    let named = head.body.resource().map(|body| {
        let bytes = body.binary().map(|binary| (binary.revision, Part::Bytes));
        bytes.into_iter().chain([(body.description.revision, Part::Description)])
    });
    named.into_iter().flatten()
}

/// The content that a head names, with the revision that wrote it.
fn content_of(head: &Head) -> Option<(RevisionId, ContentId)> {
    let binary = head.body.resource()?.binary()?;
    match binary.place {
        Place::Content(id) => Some((binary.revision, id)),
        Place::Row | Place::Elsewhere(_) => None,
    }
}
