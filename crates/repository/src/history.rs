//! Collects versions of resources that are not kept: descriptions and bytes that neither the
//! current head nor a kept head names. Where versions are explicit, a kept head is one that a client
//! asked for.
//!
//! If all versions are kept, nothing is recorded and nothing is collected. Otherwise a writer that
//! replaces or deletes leaves a record, and the collector visits the resources of these records. As
//! with volumes (`collect.rs`), a compare-and-write of the head condemns versions, and after the
//! grace they are removed. Entries of the head log stay, so that the outcome of a write can still
//! be looked up.
//!
//! A version that a client removed leaves a record too, whatever is kept. Its parts are removed
//! once no version that can be read names them, a grace after that.
//!
//! Received versions have parts of their own. Where only some versions are kept, those that are
//! older than the oldest one that is kept are removed in the same way. What the writer of one left
//! behind is deleted once that version cannot be listed any more.
//!
//! Each revision has a partition for its rows, so there is no list of what exists. The heads in the
//! log name it; for revisions that were never switched in, their writers' records do. The head
//! notes up to where everything is removed, so that the work does not grow with what was removed
//! long ago.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use heads::chores::{Chore, Then};
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{Condemned, Head, HeadRow, ObjectState};
use heads::head_log::{Entries, HeadLog};
use heads::history::LOOKED_AT_AGAIN;
use heads::keep::Keep;
use heads::keys;
use heads::keys::stored_path;
use heads::mark::VersionMark;
use heads::path::ResourcePath;
use heads::queue::WorkEntry;
use heads::queues::Queue;
use heads::resource_body::BytesPlace;
use heads::resource_body::Part;
use heads::revision::RevisionId;
use heads::rules::Rule;
use heads::switch::Amends;
use heads::timeline::Timeline;
use heads::version_marks::{Listed, seal_mark};
use store::row::prefix_end;
use store::{Class, ContentId, NewRow, Removal, Scan, Step, Table, UnixMillis, ValueKind, boxed, envelope};

use crate::damage::unmark;
use crate::error::{ResourceError, ResourceResult};
use crate::handle::Repository;
use crate::received::is_receiving;

/// Parts of versions that are removed in one list.
const REMOVED_AT_ONCE: usize = 128;

/// A part that a revision wrote.
type Written = (RevisionId, Part);

/// A resource whose versions are checked.
struct Versions {
    object: Bytes,
    row: HeadRow,
    /// Which of them are kept.
    keep: Keep,
    /// The revision from which on earlier heads are kept; `None` if none are kept.
    kept_from: Option<RevisionId>,
    /// The parts of revisions that left records and were never switched in.
    cut_off: BTreeSet<Written>,
}

/// The parts that no head names from a certain head on, in order.
struct Unnamed<'a> {
    heads: Entries<'a>,
    /// The parts named by the first head that stays. No staying head names any other part: a new
    /// head names only parts that it wrote and parts that the previous head named.
    named: BTreeSet<Written>,
    /// The parts named by the head that was read last.
    shown: BTreeSet<Written>,
    /// Its parts that are still to be returned.
    found: Vec<(Written, Option<ContentId>)>,
}

/// The result for one resource.
enum Progress {
    Condemned,
    Removed,
    /// Nothing can be done before this time, or nothing is known about when.
    Waiting(UnixMillis),
    /// Nothing is left to do. Writers of the records may still be at work.
    Finished,
}

/// The result for the received versions of one resource.
#[derive(Default)]
struct OfReceived {
    /// The revisions of the records of received versions: those of their writers, and those of
    /// removals. Whether nothing is left to do for them, once their requests have passed.
    records: BTreeMap<RevisionId, bool>,
    /// When to look at versions that are not listed yet, if there are any.
    until: Option<UnixMillis>,
}

/// The revisions under which these records were left.
fn revisions_of(records: &[WorkEntry]) -> impl Iterator<Item = RevisionId> {
    records.iter().filter_map(|entry| keys::superseded_of(entry.sort())).map(|(revision, _)| revision)
}

/// The prefix of the keys of its rows.
fn rows_of(part: Part, revision: RevisionId) -> Bytes {
    match part {
        Part::Description => keys::description_rows(revision),
        Part::Bytes => keys::small_content(revision),
    }
}

impl Repository {
    /// The record that a revision supersedes a version of a resource; `None` if all versions are
    /// kept.
    pub(super) fn superseding(&self, path: &ResourcePath, revision: RevisionId) -> Option<Step> {
        let record = || {
            let (now, subject) = (self.heads.now(), path.as_str().as_bytes());
            let (sort, work) = (keys::superseded(revision, path), envelope::seal(ValueKind::SupersededWork, &[]));
            self.heads.queued(Queue::Superseded, now, subject, sort, work).put()
        };
        (self.heads.options().kept_at(path) != Keep::All).then(record)
    }

    /// Removes an earlier version for good: it is not listed any more, and a grace later the parts
    /// that no other version names are deleted. Fails with [`ResourceError::NoVersion`] if there is
    /// no such version, and with [`ResourceError::CurrentVersion`] if it is the current state. Away
    /// from the home of heads it fails as any change does: the version would still be read at home.
    #[boxed]
    pub async fn remove_version(&self, path: &ResourcePath, revision: RevisionId) -> ResourceResult<()> {
        self.heads.store().check_home().map_err(ObjectsError::from)?;
        let object = keys::resource_partition(path);
        let timeline = self.heads.timeline(&object, self.heads.options().kept_at(path)).await?;
        let timeline = timeline.ok_or_else(|| ResourceError::Absent(path.clone()))?;
        let list = self.heads.received(&object).await?;
        if let Some(received) = list.at(revision).filter(|received| !received.is_removed) {
            return self.remove_received(path, received, &timeline.current().head).await;
        }
        let version = timeline.version(revision).await?.filter(|row| row.head.revision >= timeline.kept_from());
        let head = version.ok_or_else(|| ResourceError::NoVersion(path.clone()))?.head;
        if timeline.current().head.revision == revision {
            return Err(ResourceError::CurrentVersion(path.clone()));
        }
        let current = &timeline.current().head;
        // The record is first, so that whatever is marked is also deleted.
        let noted = self.removing(path, revision, current.revision.max(current.floor));
        let marked = head.mark_step(&object, VersionMark::Removed);
        Ok(self.heads.put_removal(&object, &head, current, vec![noted, marked]).await?)
    }

    /// The record that a version was removed, under a revision above `floor`: that keeps it apart
    /// from the record of the version's writer, which may be due earlier.
    pub(crate) fn removing(&self, path: &ResourcePath, removed: RevisionId, floor: RevisionId) -> Step {
        let due = self.heads.now().plus(self.heads.options().grace);
        let sort = keys::superseded(self.heads.revisions().mint_above(floor), path);
        let work = envelope::seal(ValueKind::SupersededWork, &removed.0);
        self.heads.queued(Queue::Superseded, due, path.as_str().as_bytes(), sort, work).put()
    }

    /// Records again that versions were removed whose marks are in a page of a head log, for a
    /// store whose records may be lost.
    #[boxed]
    pub async fn record_removals(&self, path: &ResourcePath, page: u64) -> ObjectsResult<()> {
        let object = keys::resource_partition(path);
        let marks = self.heads.retry_transient(|| self.heads.version_marks(&object, page)).await?;
        let removed = marks.into_iter().filter(|(_, marked)| marked.removed());
        let noted: Vec<_> = removed.map(|(revision, _)| self.removing(path, revision, revision)).collect();
        for noted in noted.chunks(REMOVED_AT_ONCE) {
            self.heads.put_acknowledged(Class::Description, noted.to_vec()).await?;
        }
        Ok(())
    }

    /// Makes one pass over the resources with superseded versions. Returns for how many of them
    /// something was removed.
    #[boxed]
    pub async fn collect_versions(&self) -> ObjectsResult<u64> {
        let mut removed = 0;
        if !self.heads.is_home() {
            return Ok(removed);
        }
        let mut tally = self.heads.tally(Chore::Versions);
        let mut pass = self.heads.pass(Queue::Superseded).await?;
        while let Some(entries) = self.heads.next_due(&mut pass, &mut tally).await? {
            let mut resources: BTreeMap<String, Vec<WorkEntry>> = BTreeMap::new();
            for entry in entries {
                match keys::superseded_of(entry.sort()) {
                    Some((_, path)) => resources.entry(path.to_owned()).or_default().push(entry),
                    None => {
                        let strange = Err(ObjectsError::corrupt(Table::Work, "a record of no resource"));
                        let record = (std::slice::from_ref(&entry), &entry.sort()[..]);
                        self.heads.dealt_with::<()>(&mut tally, record, strange).await?;
                    }
                }
            }
            for (path, records) in resources {
                let collect = || async { self.collect_resource(&stored_path(&path)?, &records).await };
                let now = self.heads.now();
                let outcome = self.heads.retry_transient(collect).await.map(|(progress, complete)| match progress {
                    Progress::Removed => (true, Then::Partly(complete, now)),
                    Progress::Finished => (false, Then::Finished),
                    Progress::Condemned => (false, Then::Partly(complete, now.plus(self.heads.options().grace))),
                    Progress::Waiting(until) => (false, Then::Partly(complete, until)),
                });
                let done = self.heads.dealt_with(&mut tally, (&records, path.as_bytes()), outcome).await?;
                removed += u64::from(done.unwrap_or(false));
            }
        }
        self.heads.end_pass(pass).await?;
        Ok(removed)
    }

    /// Visits a resource. Also returns the sort keys of those records for which nothing is left to
    /// do, whatever is left for the others: something always waits for the grace in a resource that
    /// changes all the time.
    async fn collect_resource(
        &self,
        path: &ResourcePath,
        records: &[WorkEntry],
    ) -> ObjectsResult<(Progress, BTreeSet<Bytes>)> {
        // Before anything is read, so that all that these writers did is found.
        let ended: BTreeSet<RevisionId> =
            revisions_of(records).filter(|revision| self.heads.requests_passed(revision.time())).collect();
        let object = keys::resource_partition(path);
        let Some(row) = self.heads.head_at(&object).await? else { return Ok((Progress::Finished, BTreeSet::new())) };
        let keep = self.heads.options().kept_at(path);
        let kept_from = self.heads.kept_from(&object, &row.head, keep).await?;
        let cut_off = self.cut_off(&object, &row.head, records).await?;
        let versions = Versions { object, row, keep, kept_from, cut_off };
        let waiting = self.remove_removed(&versions, records).await?;
        let received = self.collect_received(path, &versions, records, &ended).await?;
        // Nothing is left of what revisions below this one superseded.
        let collected = versions.collected().successor();
        let (progress, settled) = match versions.row.head.condemned {
            Some(condemned) if self.heads.grace_passed(self.heads.grace_from(condemned)) => {
                self.remove_versions(&versions, condemned).await?;
                (Progress::Removed, collected.min(condemned.floor))
            }
            // A record of the last that is condemned stays until the condemnation is lifted.
            Some(condemned) => {
                let until = condemned.at.plus(self.heads.options().grace);
                (Progress::Waiting(until), collected.min(condemned.floor))
            }
            None => self.condemn_versions(&versions, records).await?,
        };
        let is_complete = |record: &&WorkEntry| {
            let Some((revision, _)) = keys::superseded_of(record.sort()) else { return false };
            let is_cut_off = versions.cut_off.iter().any(|(of, _)| *of == revision);
            // What is done about received versions does not depend on what heads superseded.
            let is_done = received.records.get(&revision).copied().unwrap_or(revision < settled && !is_cut_off);
            ended.contains(&revision) && !waiting.contains(&revision) && is_done
        };
        let complete: BTreeSet<Bytes> =
            records.iter().filter(is_complete).map(|record| record.sort().clone()).collect();
        let again = self.heads.now().plus(LOOKED_AT_AGAIN);
        let until = match progress {
            Progress::Finished if complete.len() == records.len() => return Ok((Progress::Finished, complete)),
            // If the last of them ended meanwhile, the next visit finds that.
            Progress::Finished if revisions_of(records).any(|revision| !ended.contains(&revision)) => {
                self.heads.at_work_until(revisions_of(records)).unwrap_or_else(|| self.heads.now())
            }
            Progress::Finished => again,
            Progress::Waiting(until) => until,
            Progress::Condemned | Progress::Removed => return Ok((progress, complete)),
        };
        let removed_until = (!waiting.is_empty()).then_some(again);
        let until = removed_until.into_iter().chain(received.until).fold(until, UnixMillis::min);
        Ok((Progress::Waiting(until), complete))
    }

    /// Removes received versions that are not kept, and what those left that were removed or never
    /// listed. `ended` are the revisions of records whose requests had passed before.
    async fn collect_received(
        &self,
        path: &ResourcePath,
        versions: &Versions,
        records: &[WorkEntry],
        ended: &BTreeSet<RevisionId>,
    ) -> ObjectsResult<OfReceived> {
        let Versions { object, row, keep, .. } = versions;
        let list = self.heads.received(object).await?;
        let mut found = OfReceived::default();
        let listed: Vec<_> = list.versions.iter().filter(|version| !version.is_removed).collect();
        let kept_from = match listed.is_empty() {
            true => RevisionId::ZERO,
            false => self.heads.received_kept_from(object, &row.head, *keep).await?,
        };
        let outdated: Vec<_> =
            listed.iter().map(|version| version.revision()).filter(|revision| *revision < kept_from).collect();
        if !outdated.is_empty() {
            self.mark_received_removed(path, &outdated, &row.head).await?;
        }
        for (noted_as, revision) in records.iter().filter_map(removed_by) {
            let Some(version) = list.at(revision) else { continue };
            // Earlier the version may not be marked yet. If it is not now, it never is.
            let has_ended = ended.contains(&noted_as);
            if has_ended && version.is_removed {
                self.delete_received(object, version.written, version.content).await?;
            }
            found.records.insert(noted_as, has_ended);
        }
        for record in records.iter().filter(|record| is_receiving(&record.value)) {
            let Some((written, _)) = keys::superseded_of(record.sort()) else { continue };
            if list.has(written) {
                // What is kept for a time is outdated later, whether or not the resource changes.
                // Heads are kept for that time too, so there will be another visit.
                let will_pass = matches!(keep, Keep::For(_))
                    && listed.iter().any(|version| version.written == written && version.revision() >= kept_from);
                found.records.insert(written, !will_pass);
                continue;
            }
            if !ended.contains(&written) {
                let end = self.heads.requests_end(written.time());
                found.until = found.until.into_iter().chain([end]).min();
                found.records.insert(written, false);
                continue;
            }
            // From then on its writer cannot list it any more.
            let fenced = self.heads.change_received(object, Amends::Removing, &|list| list.fenced(written)).await?;
            let is_listed = fenced.has(written);
            if !is_listed {
                self.delete_received(object, written, None).await?;
            }
            // One that was listed meanwhile may be outdated.
            found.records.insert(written, !is_listed);
        }
        Ok(found)
    }

    /// The parts of revisions that left records, but are neither in the head nor in its log. Their
    /// writers may still be at work.
    async fn cut_off(&self, object: &Bytes, current: &Head, records: &[WorkEntry]) -> ObjectsResult<BTreeSet<Written>> {
        let log = self.heads.log_before(object, current);
        let mut cut_off = BTreeSet::new();
        let of_heads = records.iter().filter(|entry| !is_receiving(&entry.value));
        for (revision, _) in of_heads.filter_map(|entry| keys::superseded_of(entry.sort())) {
            if revision == current.revision || log.has(revision).await? {
                continue;
            }
            let (partition, call) = (keys::version(object, revision), self.heads.call(Class::Description).strong());
            let scan = |part: Part| (Table::Objects, partition.clone(), Scan::prefix(rows_of(part, revision), 1));
            let pages = self.heads.store().scan_many(call, Part::ALL.map(scan).into()).await?;
            let parts = Part::ALL.into_iter().zip(pages).filter(|(_, page)| !page.rows.is_empty());
            cut_off.extend(parts.map(|(part, _)| (revision, part)));
        }
        Ok(cut_off)
    }

    /// Removes the parts of versions that clients removed, unless a version that can be read names
    /// them too, once the grace has passed. Returns the revisions of those removals for which it has
    /// not, or of which a container that is being deleted still names some.
    async fn remove_removed(&self, versions: &Versions, records: &[WorkEntry]) -> ObjectsResult<BTreeSet<RevisionId>> {
        let Versions { object, row, keep, .. } = versions;
        let removals: Vec<_> = records.iter().filter_map(removed_by).collect();
        if removals.is_empty() {
            return Ok(BTreeSet::new());
        }
        let timeline = self.heads.timeline_before(object, row.clone(), *keep).await?;
        let log = self.heads.log_before(object, &row.head);
        let (mut doomed, mut waiting) = (Vec::new(), BTreeSet::new());
        for (noted_as, revision) in removals {
            // Records are visited some minutes before they are due. With a short grace the mark may
            // not be put yet.
            if !self.heads.requests_passed(noted_as.time()) {
                waiting.insert(noted_as);
                continue;
            }
            let Some(head) = log.entry(revision).await? else { continue };
            if !timeline.is_removed(&head).await? {
                continue;
            }
            for (written, content) in named_by(&head) {
                if row.head.state == ObjectState::Deleting && named_by(&row.head).any(|(named, _)| named == written) {
                    waiting.insert(noted_as);
                } else if !self.is_needed(versions, &timeline, written).await? {
                    doomed.push((written, content));
                }
            }
        }
        self.remove_written(object, doomed).await?;
        Ok(waiting)
    }

    /// Whether a part is named by the current head, or by an earlier one that can be read.
    ///
    /// A new head names only parts that it wrote and parts that the previous head named. So the heads
    /// that name a part follow each other, from the one that wrote it.
    async fn is_needed(&self, versions: &Versions, timeline: &Timeline, part: Written) -> ObjectsResult<bool> {
        let Versions { object, row, keep, kept_from, .. } = versions;
        let names = |head: &Head| named_by(head).any(|(written, _)| written == part);
        if names(&row.head) {
            return Ok(true);
        }
        let log = self.heads.log_before(object, &row.head);
        let mut heads = log.from(part.0).await?;
        while let Some(head) = heads.next_head().await?.filter(names) {
            let is_kept = *keep == Keep::Explicit || kept_from.is_some_and(|from| head.revision >= from);
            // The entry of a deletion names what the last version named, and is none.
            if is_kept && head.state == ObjectState::Live && timeline.is_listed(&head).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Condemns what no head names. Also returns the revision below which no revision superseded
    /// anything that is still to be removed, unless the resource changes again.
    async fn condemn_versions(
        &self,
        versions: &Versions,
        records: &[WorkEntry],
    ) -> ObjectsResult<(Progress, RevisionId)> {
        let now = self.heads.now();
        let head = &versions.row.head;
        // A revision above the head may belong to a running write: it is left alone for a grace.
        let is_over = |revision: &RevisionId| *revision < head.revision || self.heads.grace_passed(revision.time());
        let cut_off = versions.cut_off.iter().map(|(revision, _)| *revision).filter(is_over).max();
        let log = self.heads.log_before(&versions.object, head);
        let since = versions.since(head.revision);
        let superseded = match self.unnamed(&log, versions, since).await?.next().await? {
            Some(_) => log.newest_below(since).await?.map(|newest| newest.revision),
            None => None,
        };
        let Some(floor) = superseded.max(cut_off) else {
            let settled = since.max(versions.collected()).successor();
            if let Some(newest) = versions.cut_off.iter().map(|(revision, _)| *revision).max() {
                return Ok((Progress::Waiting(newest.time().plus(self.heads.options().grace)), settled));
            }
            if let (Keep::For(time), Some(_)) = (versions.keep, versions.kept_from) {
                let kept = self.heads.kept_until(time, revisions_of(records).chain([head.revision]));
                let until = self.heads.at_work_until(revisions_of(records));
                return Ok((Progress::Waiting(until.map_or(kept, |until| until.min(kept))), settled));
            }
            return Ok((Progress::Finished, RevisionId::LAST));
        };
        let condemned = Condemned { named: head.revision, floor, at: now };
        let raised = if self.heads.keeps(Rule::Floor) { head.floor.max(floor) } else { head.floor };
        let amended = Head { floor: raised, condemned: Some(condemned), ..head.clone() };
        // If the head moved, or the outcome is unknown, the next pass reads the present state.
        let amended = self.heads.try_amend(&versions.object, Some(&versions.row), amended, Vec::new()).await?;
        let progress = if amended.is_some() { Progress::Condemned } else { Progress::Waiting(now) };
        Ok((progress, versions.collected().successor()))
    }

    /// Removes parts at or below the floor that were not named when they were condemned or later.
    /// Then lifts the condemnation, and notes up to where everything is removed, so that the next
    /// pass skips it.
    async fn remove_versions(&self, versions: &Versions, condemned: Condemned) -> ObjectsResult<()> {
        let object = &versions.object;
        let named = if self.heads.keeps(Rule::H0) { condemned.named } else { versions.row.head.revision };
        let since = versions.since(named);
        self.unlist(versions, since.min(condemned.floor.successor())).await?;
        let doomed = |(revision, _): &Written| *revision <= condemned.floor;
        let mut batch: Vec<_> =
            versions.cut_off.iter().filter(|written| doomed(written)).map(|of| (*of, None)).collect();
        let log = self.heads.log_before(object, &versions.row.head);
        let mut unnamed = self.unnamed(&log, versions, since).await?;
        let explicit = match versions.keep {
            Keep::Explicit => Some(self.heads.timeline_before(object, versions.row.clone(), versions.keep).await?),
            _ => None,
        };
        while let Some((written, content)) = unnamed.next().await? {
            // A client asked for a version that names it.
            if let Some(timeline) = &explicit
                && self.is_needed(versions, timeline, written).await?
            {
                continue;
            }
            batch.extend(doomed(&written).then_some((written, content)));
            if batch.len() >= REMOVED_AT_ONCE {
                self.remove_written(object, std::mem::take(&mut batch)).await?;
            }
        }
        self.remove_written(object, batch).await?;
        let collected = since.min(condemned.floor.successor());
        self.heads
            .amend(object, &|head| {
                let head = head.filter(|head| head.condemned == Some(condemned))?;
                Some(Head { condemned: None, collected: head.collected.max(Some(collected)), ..head.clone() })
            })
            .await?;
        Ok(())
    }

    /// Marks the versions below a revision as removed that clients asked for under another policy,
    /// before their parts are removed. Otherwise they would be listed again if that policy came back.
    async fn unlist(&self, versions: &Versions, to: RevisionId) -> ObjectsResult<()> {
        let Versions { object, row, keep, .. } = versions;
        if *keep == Keep::Explicit {
            return Ok(());
        }
        let from = versions.collected();
        let log = self.heads.log_before(object, &row.head);
        for page in log.page_of(from).await?..=log.page_of(to).await? {
            let marks = self.heads.version_marks(object, page).await?;
            let listed = marks
                .into_iter()
                .filter(|(revision, marked)| (from..to).contains(revision) && Listed::Asked.has(*marked));
            let removed = |(revision, _)| NewRow::new(keys::version_mark(revision, VersionMark::Removed), seal_mark());
            let rows: Vec<_> = listed.map(removed).collect();
            if !rows.is_empty() {
                let partition = keys::log_page(object, page);
                let marked = Step::Put { table: Table::Objects, partition, rows };
                self.heads.put_owed(vec![marked]).await?;
            }
        }
        Ok(())
    }

    /// Removes some parts of revisions, with the marks on them.
    pub(crate) async fn remove_written(
        &self,
        object: &Bytes,
        doomed: Vec<(Written, Option<ContentId>)>,
    ) -> ObjectsResult<()> {
        let remove = |((revision, part), _): &(Written, Option<ContentId>)| {
            let first = rows_of(*part, *revision);
            let rows = Removal::Range(first.clone(), prefix_end(&first));
            let remove = Step::Remove { table: Table::Objects, partition: keys::version(object, *revision), rows };
            [remove, unmark(object, *part, *revision)]
        };
        let steps: Vec<_> = doomed.iter().flat_map(remove).collect();
        if !steps.is_empty() {
            self.heads.put_acknowledged(Class::Content, steps).await?;
        }
        for content in doomed.iter().filter_map(|(_, content)| *content) {
            let store = &self.heads.store();
            store.condemn_content(self.heads.call(Class::Content), content).await?;
            store.delete_content(self.heads.call(Class::Content), content).await?;
        }
        Ok(())
    }

    /// The parts that earlier heads name, from the first revision that is not removed yet, and that
    /// no head names from `since` on.
    async fn unnamed<'a>(
        &self,
        log: &'a HeadLog<'_>,
        versions: &Versions,
        since: RevisionId,
    ) -> ObjectsResult<Unnamed<'a>> {
        let first = log.from(since).await?.next_head().await?;
        let named = named_by(first.as_ref().unwrap_or(&versions.row.head)).map(|(written, _)| written).collect();
        let heads = log.between(versions.collected(), since).await?;
        Ok(Unnamed { heads, named, shown: BTreeSet::new(), found: Vec::new() })
    }
}

impl Versions {
    /// Parts that only heads before this revision name have been removed.
    fn collected(&self) -> RevisionId {
        self.row.head.collected.unwrap_or(RevisionId::ZERO)
    }

    /// The head from which on all named parts stay: the first kept head or `named`, whichever is
    /// earlier.
    fn since(&self, named: RevisionId) -> RevisionId {
        self.kept_from.map_or(named, |kept_from| kept_from.min(named))
    }
}

impl Unnamed<'_> {
    /// The next part, with its content, if it has one.
    async fn next(&mut self) -> ObjectsResult<Option<(Written, Option<ContentId>)>> {
        loop {
            if let Some(found) = self.found.pop() {
                return Ok(Some(found));
            }
            let Some(head) = self.heads.next_head().await? else { return Ok(None) };
            let is_new = |written: &Written| !self.named.contains(written) && !self.shown.contains(written);
            self.found = named_by(&head).filter(|(written, _)| is_new(written)).collect();
            self.shown = named_by(&head).map(|(written, _)| written).collect();
        }
    }
}

/// The revision of a removal that left a record, and the version that it removed; `None` if the
/// record is that of a writer.
fn removed_by(record: &WorkEntry) -> Option<(RevisionId, RevisionId)> {
    let payload = envelope::open(ValueKind::SupersededWork, &record.value).ok()?;
    let (noted_as, _) = keys::superseded_of(record.sort())?;
    Some((noted_as, RevisionId(<[u8; 16]>::try_from(&payload[..]).ok()?)))
}

/// The parts stored here that a head names, each with its content, if it has one.
fn named_by(head: &Head) -> impl Iterator<Item = (Written, Option<ContentId>)> {
    let named = head.body.resource().map(|body| {
        let bytes = body.binary().and_then(|binary| match binary.place {
            BytesPlace::Content(id) => Some(((binary.revision, Part::Bytes), Some(id))),
            BytesPlace::Row => Some(((binary.revision, Part::Bytes), None)),
            BytesPlace::Elsewhere(_) => None,
        });
        let is_described = body.description.pieces > 0;
        let description = is_described.then_some(((body.description.revision, Part::Description), None));
        bytes.into_iter().chain(description)
    });
    named.into_iter().flatten()
}
