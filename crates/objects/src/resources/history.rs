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
use crate::error::ObjectsResult;
use crate::head::{Condemned, Head, HeadRow};
use crate::history::Keep;
use crate::keys;
use crate::library::Library;
use crate::queue::{Entry, Queue};
use crate::resources::body::Place;
use crate::resources::path::ResourcePath;
use crate::resources::stored_path;
use crate::revision::RevisionId;

/// One of the two things that a revision may have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Description,
    Bytes,
}

impl Part {
    const ALL: [Self; 2] = [Self::Description, Self::Bytes];

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

/// What is known of a resource whose versions are looked at.
struct Versions {
    row: HeadRow,
    /// The earlier heads, the oldest first.
    log: Vec<Head>,
    /// How many of the newest of them are kept.
    kept: usize,
    /// What there is of the resource, in rows or contents, by the revision that wrote it.
    written: BTreeSet<(RevisionId, Part)>,
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
        let mut pass = self.pass(Queue::Superseded).await?;
        while let Some(entries) = self.next_due(&mut pass).await? {
            let mut resources: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
            for entry in entries {
                if let Some((_, path)) = keys::superseded_of(entry.sort()) {
                    resources.entry(path.to_owned()).or_default().push(entry);
                }
            }
            for (path, records) in resources {
                let collect = || async { self.collect_resource(&stored_path(&path)?, &records).await };
                let now = self.inner.surroundings.clock.now();
                let until = match self.patiently(collect).await? {
                    Progress::Removed => {
                        removed += 1;
                        now
                    }
                    Progress::Finished => {
                        self.finish(&records).await?;
                        continue;
                    }
                    Progress::Condemned => now.plus(self.inner.options.grace),
                    Progress::Waiting(until) => until,
                };
                self.postpone(&records, path.as_bytes(), until).await?;
            }
        }
        self.end_pass(pass).await?;
        Ok(removed)
    }

    async fn collect_resource(&self, path: &ResourcePath, records: &[Entry]) -> ObjectsResult<Progress> {
        let partition = keys::resource_partition(path);
        let Some(row) = self.head_at(&partition).await? else { return Ok(Progress::Finished) };
        let log = self.head_log(&partition).await?;
        let kept = self.inner.options.history.resources.count(&log, &row.head, self.inner.surroundings.clock.now());
        let mut written = self.written(&partition).await?;
        written.extend(log.iter().flat_map(contents_of).map(|(revision, _)| (revision, Part::Bytes)));
        let versions = Versions { row, log, kept, written };
        match versions.row.head.condemned {
            Some(condemned) if self.grace_passed(condemned.at) => {
                self.remove_versions(&partition, &versions, condemned).await?;
                Ok(Progress::Removed)
            }
            Some(condemned) => Ok(Progress::Waiting(condemned.at.plus(self.inner.options.grace))),
            None => self.condemn_versions(&partition, versions, records).await,
        }
    }

    async fn condemn_versions(
        &self,
        partition: &Bytes,
        versions: Versions,
        records: &[Entry],
    ) -> ObjectsResult<Progress> {
        let now = self.inner.surroundings.clock.now();
        let named = versions.named(versions.row.head.revision);
        let head = &versions.row.head;
        // What is above the head may be a write that is still at work: it is left alone for as long as a grace.
        let is_over = |revision: &RevisionId| *revision < head.revision || self.grace_passed(revision.time());
        let unnamed: Vec<_> = versions.written.difference(&named).map(|(revision, _)| revision).collect();
        let Some(floor) = unnamed.iter().copied().filter(|revision| is_over(revision)).max() else {
            let will_pass = matches!(self.inner.options.history.resources, Keep::For(_)) && versions.kept > 0;
            if !unnamed.is_empty() || will_pass {
                return Ok(Progress::Waiting(now.plus(LOOKED_AT_AGAIN)));
            }
            // Whoever left a record a grace ago cannot be at work any more.
            let revisions = records.iter().filter_map(|entry| keys::superseded_of(entry.sort())).map(|(of, _)| of);
            let until =
                revisions.map(|revision| revision.time().plus(self.inner.options.grace)).max().unwrap_or_default();
            return Ok(if until > now { Progress::Waiting(until) } else { Progress::Finished });
        };
        let condemned = Condemned { named: head.revision, floor: *floor, at: self.inner.surroundings.clock.now() };
        let amended = Head { floor: head.floor.max(*floor), condemned: Some(condemned), ..head.clone() };
        // If the head moved, or nobody knows, the next pass sees what stands there.
        let amended = self.try_amend(partition, Some(&versions.row), amended, Vec::new(), Vec::new()).await?;
        Ok(if amended.is_some() { Progress::Condemned } else { Progress::Waiting(now) })
    }

    /// Removes what is at or below the floor and was named neither when it was condemned nor since, then lifts the condemnation.
    async fn remove_versions(&self, partition: &Bytes, versions: &Versions, condemned: Condemned) -> ObjectsResult<()> {
        let named = versions.named(condemned.named);
        let is_doomed = |revision, part| revision <= condemned.floor && !named.contains(&(revision, part));
        let doomed = versions.written.iter().filter(|(revision, part)| is_doomed(*revision, *part));
        let remove = |(revision, part): &(RevisionId, Part)| {
            let first = part.rows(*revision);
            let rows = Removal::Range(first.clone(), prefix_end(&first));
            Step::Remove { table: Table::Objects, partition: partition.clone(), rows }
        };
        let steps: Vec<_> = doomed.map(remove).collect();
        if !steps.is_empty() {
            self.put_acknowledged(Class::Content, steps).await?;
        }
        let contents = versions.log.iter().flat_map(contents_of);
        for (_, content) in contents.filter(|(revision, _)| is_doomed(*revision, Part::Bytes)) {
            let store = &self.inner.store;
            store.condemn_content(self.call(Class::Content), content).await?;
            store.delete_content(self.call(Class::Content), content).await?;
        }
        self.amend(partition, |head| {
            let head = head.filter(|head| head.condemned == Some(condemned))?;
            Some(Head { condemned: None, ..head.clone() })
        })
        .await?;
        Ok(())
    }

    /// What there is of a resource in rows. Reads one row of each revision, and jumps over the others.
    async fn written(&self, partition: &Bytes) -> ObjectsResult<BTreeSet<(RevisionId, Part)>> {
        let mut written = BTreeSet::new();
        for part in Part::ALL {
            let mut scan = Scan::prefix(part.prefix(), 1);
            loop {
                let call = self.call(Class::Description).strong();
                let page = self.inner.store.scan(call, Table::Objects, partition, scan.clone()).await?;
                let Some(revision) = page.rows.first().and_then(|row| keys::revision_of(&row.sort)) else { break };
                written.insert((revision, part));
                let Some(from) = prefix_end(&part.rows(revision)) else { break };
                scan.from = from;
            }
        }
        Ok(written)
    }
}

impl Versions {
    /// What is named by the head that stands, by a head that is kept, or by one from `since` on.
    fn named(&self, since: RevisionId) -> BTreeSet<(RevisionId, Part)> {
        let history = self.log.len() - self.kept;
        let stays = |(index, head): &(usize, &Head)| *index >= history || head.revision >= since;
        let kept = self.log.iter().enumerate().filter(stays).map(|(_, head)| head);
        kept.chain([&self.row.head]).flat_map(named_by).collect()
    }
}

/// What a head names.
fn named_by(head: &Head) -> Vec<(RevisionId, Part)> {
    let Some(body) = head.body.resource() else { return Vec::new() };
    let bytes = body.binary().map(|binary| (binary.revision, Part::Bytes));
    bytes.into_iter().chain([(body.description.revision, Part::Description)]).collect()
}

/// The content that a head names, with the revision that wrote it.
fn contents_of(head: &Head) -> Option<(RevisionId, ContentId)> {
    let binary = head.body.resource()?.binary()?;
    match binary.place {
        Place::Content(id) => Some((binary.revision, id)),
        Place::Row | Place::Elsewhere(_) => None,
    }
}
