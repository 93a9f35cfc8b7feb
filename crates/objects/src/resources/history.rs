//! Collecting versions of resources that are not kept: descriptions and bytes that only heads name that are neither current nor history.
//!
//! Where all versions are kept nothing is recorded and nothing collected. Otherwise whoever replaces or deletes leaves a record, and the
//! collector looks at the resources of these records: condemned by a compare-and-write of the head, removed once the grace has passed, as
//! with volumes (`collect.rs`). Entries of the head log stay, so that what came of a write can still be looked up.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use store::row::prefix_end;
use store::{Class, ContentId, NewRow, Removal, Scan, Step, Table, envelope};

use crate::child::remove_record;
use crate::error::ObjectsResult;
use crate::head::{Condemned, Head, HeadRow};
use crate::history::Keep;
use crate::keys;
use crate::library::Library;
use crate::resources::body::Place;
use crate::resources::path::ResourcePath;
use crate::resources::stored_path;
use crate::revision::RevisionId;

/// Bytes of one page of a scan over records.
const SCAN_BYTES: usize = 64 << 10;

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
    Waiting,
    Finished,
}

impl Library {
    /// The record that a revision supersedes a version of a resource; none where all of them are kept.
    pub(super) fn superseding(&self, path: &ResourcePath, revision: RevisionId) -> Option<Step> {
        let record = || {
            let row = NewRow::new(keys::superseded(revision, path), envelope::seal(&[]));
            Step::Put { table: Table::Work, partition: keys::superseded_partition(), rows: vec![row] }
        };
        (self.inner.options.history.resources != Keep::All).then(record)
    }

    /// One pass over the resources of which versions were superseded. Answers of how many resources something was removed.
    pub async fn collect_versions(&self) -> ObjectsResult<u64> {
        let mut removed = 0;
        if !self.is_home() {
            return Ok(removed);
        }
        let partition = keys::superseded_partition();
        let mut scan = Some(Scan::prefix(Bytes::new(), SCAN_BYTES));
        while let Some(range) = scan {
            let call = self.call(Class::Description);
            let page = self.inner.store.scan(call, Table::Work, &partition, range.clone()).await?;
            let mut resources: BTreeMap<&str, Vec<&Bytes>> = BTreeMap::new();
            for row in &page.rows {
                if let Some((_, path)) = keys::superseded_of(&row.sort) {
                    resources.entry(path).or_default().push(&row.sort);
                }
            }
            for (path, records) in resources {
                match self.patiently(|| async { self.collect_resource(&stored_path(path)?).await }).await? {
                    Progress::Removed => removed += 1,
                    Progress::Finished => self.forget_superseded(&records).await?,
                    Progress::Condemned | Progress::Waiting => {}
                }
            }
            scan = range.resumed(page.next);
        }
        Ok(removed)
    }

    async fn collect_resource(&self, path: &ResourcePath) -> ObjectsResult<Progress> {
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
            Some(_) => Ok(Progress::Waiting),
            None => self.condemn_versions(&partition, versions).await,
        }
    }

    async fn condemn_versions(&self, partition: &Bytes, versions: Versions) -> ObjectsResult<Progress> {
        let named = versions.named(versions.row.head.revision);
        let head = &versions.row.head;
        // What is above the head may be a write that is still at work: it is left alone for as long as a grace.
        let is_over = |revision: &RevisionId| *revision < head.revision || self.grace_passed(revision.time());
        let unnamed: Vec<_> = versions.written.difference(&named).map(|(revision, _)| revision).collect();
        let Some(floor) = unnamed.iter().copied().filter(|revision| is_over(revision)).max() else {
            let will_pass = matches!(self.inner.options.history.resources, Keep::For(_)) && versions.kept > 0;
            return Ok(if unnamed.is_empty() && !will_pass { Progress::Finished } else { Progress::Waiting });
        };
        let condemned = Condemned { named: head.revision, floor: *floor, at: self.inner.surroundings.clock.now() };
        let amended = Head { floor: head.floor.max(*floor), condemned: Some(condemned), ..head.clone() };
        // If the head moved, or nobody knows, the next pass sees what stands there.
        let amended = self.try_amend(partition, Some(&versions.row), amended, Vec::new(), Vec::new()).await?;
        Ok(if amended.is_some() { Progress::Condemned } else { Progress::Waiting })
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

    /// Takes away the records whose writers cannot be at work any more.
    async fn forget_superseded(&self, records: &[&Bytes]) -> ObjectsResult<()> {
        let is_old =
            |sort: &&&Bytes| keys::superseded_of(sort).is_none_or(|(revision, _)| self.grace_passed(revision.time()));
        let old = records.iter().filter(is_old);
        let steps: Vec<_> = old.map(|sort| remove_record(keys::superseded_partition(), (*sort).clone())).collect();
        match steps.is_empty() {
            true => Ok(()),
            false => self.put_acknowledged(Class::Description, steps).await,
        }
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
