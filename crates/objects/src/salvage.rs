//! Setting a salvaged store right: what was copied row by row lacks rows anywhere, so the container is made to say what heads say,
//! and everything is verified, so that what is lost is marked and an import of the original heals it.
//!
//! Nobody else may use the store meanwhile.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::StreamExt;
use hathi::VolumeId;
use store::{Class, Step, Strength, Table};

use crate::children::Children;
use crate::containment::{Mark, Parent, Settled};
use crate::error::ObjectsResult;
use crate::head::State;
use crate::keys;
use crate::library::Library;
use crate::verify::Verified;

/// Volumes that are looked at with one call of the store.
const BATCH_VOLUMES: usize = 500;

/// Volumes that are verified at once.
const VERIFIED_AT_ONCE: usize = 4;

/// What was found in a salvaged store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetRight {
    /// Volumes that are there, damaged ones too.
    pub volumes: u64,
    /// Volumes that were there, and of which no head is left. They can be imported as new ones.
    pub lost: BTreeSet<VolumeId>,
    /// Volumes of which something is lost: it is marked, and an import of the original replaces it.
    pub damaged: Vec<Verified>,
}

impl Library {
    /// Sets a salvaged store right. `is_text_incomplete` says that rows of text are known to be lost: a volume of which there are
    /// rows but neither a head nor marks counts as lost then, and otherwise as an import that never ended. `progress` is told how
    /// many volumes of how many are verified.
    pub async fn set_right(
        &self,
        is_text_incomplete: bool,
        mut progress: impl FnMut(u64, u64),
    ) -> ObjectsResult<SetRight> {
        let parent = self.patiently(|| self.parent()).await?;
        let (live, headless) = self.mark_as_heads_say(&parent).await?;
        let mut lost = self.remove_the_headless(&parent).await?;
        if is_text_incomplete {
            lost.extend(headless.iter().cloned());
        }
        for id in &headless {
            let leftover = self.work_record(self.inner.revisions.mint(), id)?;
            self.put_acknowledged(Class::Description, vec![leftover]).await?;
        }
        let total = live.len() as u64;
        let mut damaged = Vec::new();
        let verified = futures::stream::iter(live).map(async |id| self.verify(&id).await);
        let mut verified = std::pin::pin!(verified.buffer_unordered(VERIFIED_AT_ONCE));
        let mut done = 0;
        while let Some(found) = verified.next().await {
            let found = found?;
            done += 1;
            progress(done, total);
            if !found.damaged.is_empty() {
                damaged.push(found);
            }
        }
        damaged.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        Ok(SetRight { volumes: total, lost, damaged })
    }

    /// Puts the marks that heads imply; answers which volumes are live, and of which there are rows but no head.
    async fn mark_as_heads_say(&self, parent: &Parent) -> ObjectsResult<(Vec<VolumeId>, Vec<VolumeId>)> {
        let (mut live, mut headless) = (Vec::new(), Vec::new());
        let mut next: Option<Bytes> = None;
        loop {
            let call = self.call(Class::Description);
            let page = self.inner.store.walk(call, Table::Objects, next, BATCH_VOLUMES).await?;
            let ids: Vec<VolumeId> = page.partitions.iter().filter_map(keys::volume_of_partition).collect();
            let heads = self.patiently(|| self.heads(&ids, Strength::Strong)).await?;
            let mut marks: Vec<Step> = Vec::new();
            for (id, head) in ids.into_iter().zip(heads) {
                let Some(head) = head?.map(|row| row.head) else {
                    headless.push(id);
                    continue;
                };
                let implied: &[Mark] = match head.state {
                    State::Live => &[Mark::Added, Mark::Confirmed],
                    State::Deleting => &[],
                    State::Deleted | State::Free => &[Mark::Removed],
                };
                marks.extend(implied.iter().map(|mark| parent.mark(&id, head.incarnation, *mark)));
                if head.state == State::Live {
                    live.push(id);
                }
            }
            if !marks.is_empty() {
                self.put_acknowledged(Class::Description, marks).await?;
            }
            next = page.next;
            if next.is_none() {
                return Ok((live, headless));
            }
        }
    }

    /// Marks as removed what is listed as live, but has no such head; answers which of them have no live head at all.
    async fn remove_the_headless(&self, parent: &Parent) -> ObjectsResult<BTreeSet<VolumeId>> {
        let mut lost = BTreeSet::new();
        for shard in 0..parent.shards() {
            let mut children = Children::new(parent.partitions(shard), Bytes::new(), Strength::Strong);
            loop {
                let names = children.take(self, BATCH_VOLUMES).await?;
                if names.is_empty() {
                    break;
                }
                let named: Vec<_> =
                    names.iter().filter_map(|name| Some((VolumeId::parse(&name.name).ok()?, name))).collect();
                let ids: Vec<VolumeId> = named.iter().map(|(id, _)| id.clone()).collect();
                let heads = self.patiently(|| self.heads(&ids, Strength::Strong)).await?;
                let mut removals = Vec::new();
                for ((id, name), head) in named.into_iter().zip(heads) {
                    let live = head?.map(|row| row.head).filter(|head| head.state == State::Live);
                    let stands = live.map(|head| head.incarnation);
                    let is_headless = |incarnation| stands != Some(incarnation);
                    let listed = name.incarnations.iter().filter(|(_, marks)| marks.settled() == Settled::Live);
                    let headless: Vec<_> = listed.filter(|(incarnation, _)| is_headless(*incarnation)).collect();
                    removals
                        .extend(headless.iter().map(|(incarnation, _)| parent.mark(&id, *incarnation, Mark::Removed)));
                    if stands.is_none() && !headless.is_empty() {
                        lost.insert(id);
                    }
                }
                if !removals.is_empty() {
                    self.put_acknowledged(Class::Description, removals).await?;
                }
            }
        }
        Ok(lost)
    }
}
