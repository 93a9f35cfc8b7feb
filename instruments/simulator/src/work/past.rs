//! Reads the past of an object: its versions, which of them was in force at which time, and which
//! members it had then, also in an archive. Of a volume it reads archives.

use std::collections::{BTreeMap, BTreeSet};

use ::volumes::{BulkRequest, MissingReason, OnDamage};
use anyhow::{Context, bail};
use bytes::Bytes;
use futures::TryStreamExt;
use hathi::VolumeId;
use heads::{Keep, RevisionId, keys};
use library::Library;
use repository::{Kind, Resource, Versions};

use super::resources::wrong_with;
use super::volumes::somebody;
use super::{Came, Seen};

/// What is to be read of the past of an object.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) object: Bytes,
    /// The revisions before which it is read.
    pub(crate) before: Vec<RevisionId>,
    /// The revisions before which an archive of it is read, if it is a container; of a volume, the
    /// positions.
    pub(crate) archived: Vec<RevisionId>,
    /// Versions that must not be found.
    pub(crate) removed: Vec<RevisionId>,
}

/// The past of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Past {
    /// The revisions of all versions, kept or not, that are listed.
    pub(crate) versions: Vec<RevisionId>,
    /// Before some revisions, the version that was in force.
    pub(crate) in_force: Vec<Option<RevisionId>>,
    /// Before the same revisions, the members of a container; `None` where it was none, or where
    /// its members are not kept.
    pub(crate) members: Vec<Option<BTreeSet<String>>>,
    /// Before some revisions, what an archive of a container has in it, by path; `None` as above.
    pub(crate) archives: Vec<Option<BTreeMap<String, Archived>>>,
    /// The same of a volume.
    pub(crate) volumes: Vec<VolumeThen>,
    /// Versions that were to be removed, and are found.
    pub(crate) served: Vec<RevisionId>,
}

/// What an archive as of a time has of a resource in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Archived {
    /// This version.
    Version(RevisionId),
    /// That the version of that time was removed.
    Removed,
    /// That the version of that time is not kept.
    NotKept,
}

/// What an archive as of a time has of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VolumeThen {
    /// This version.
    Version(RevisionId),
    /// That the version of that time is not kept.
    NotKept,
    /// That there was none.
    Absent,
}

/// Reads the past of an object. All kept versions are read whole. Nothing fails at this time, so
/// each error is a violation.
pub(super) async fn remember(library: &Library, question: Question) -> Came {
    match past(library, &question).await {
        Ok(past) => Came::seen(Seen::Past { question, past }),
        Err(error) => Came::seen(Seen::Wrong(format!("the past of {}: {error}", question.object.escape_ascii()))),
    }
}

async fn past(library: &Library, question: &Question) -> anyhow::Result<Past> {
    let Question { object, before, archived, removed } = question;
    let path = keys::resource_of_partition(object);
    let keep = path.as_ref().map_or(library.options().history.volumes, |path| library.options().kept_at(path));
    let Some(timeline) = library.heads.timeline(object, keep).await? else {
        return Ok(Past {
            in_force: vec![None; before.len()],
            members: vec![None; before.len()],
            archives: vec![None; archived.len()],
            ..Past::default()
        });
    };
    let versions = timeline.page(RevisionId::ZERO, RevisionId::LAST, usize::MAX, |_| true, |head| head.revision);
    let mut past = Past { versions: versions.await?, ..Past::default() };
    for below in before {
        past.in_force.push(timeline.in_force(*below).await?.map(|row| row.head.revision));
    }
    let Some(path) = path else {
        past.members = vec![None; before.len()];
        past.archives = vec![None; archived.len()];
        let id = keys::volume_of_partition(object).context("it is neither a resource nor a volume")?;
        for below in archived {
            past.volumes.push(volume_then(library, &id, *below).await?);
        }
        return Ok(past);
    };
    let kept = library.repository.versions(&path).await?;
    for below in before {
        past.members.push(members(library, &kept, *below, keep).await?);
    }
    for below in archived {
        past.archives.push(match container(&kept, *below, keep).await? {
            Some(container) => Some(archive(library, container, *below).await?),
            None => None,
        });
    }
    for revision in removed {
        past.served.extend(kept.at(*revision).await?.map(|version| version.revision()));
    }
    let listed: Vec<_> = past.versions.iter().filter(|revision| **revision >= kept.from()).collect();
    for revision in listed {
        let version = kept.in_force(revision.successor()).await?;
        let version = version.with_context(|| format!("version {revision} is listed and not found"))?;
        if let Some(wrong) = wrong_with(library, &version).await {
            bail!("version {revision}: {wrong}");
        }
    }
    Ok(past)
}

/// What an archive of a volume has in it when exactly the changes below a position had been made.
/// It is read whole.
async fn volume_then(library: &Library, id: &VolumeId, below: RevisionId) -> anyhow::Result<VolumeThen> {
    let request = BulkRequest { as_of: Some(below), ..BulkRequest::volumes([id.clone()]) };
    let plan = library.volumes.plan(&request, OnDamage::Break).await?;
    let mut archive = library.volumes.stream(&plan, pack::WHOLE, somebody()).await?;
    while archive.try_next().await?.is_some() {}
    match (&plan.volumes[..], &plan.missing[..]) {
        ([volume], []) => Ok(VolumeThen::Version(volume.revision)),
        ([], [missing]) if missing.reason == MissingReason::NotKept => Ok(VolumeThen::NotKept),
        ([], [missing]) if missing.reason == MissingReason::Absent => Ok(VolumeThen::Absent),
        (_, missing) => bail!("an archive before {below} lacks {missing:?}"),
    }
}

/// The version of a container that was in force then, if its members are kept.
async fn container(kept: &Versions, below: RevisionId, keep: Keep) -> anyhow::Result<Option<Resource>> {
    if keep != Keep::All {
        return Ok(None);
    }
    let version = kept.in_force(below).await?;
    Ok(version.filter(|version| matches!(version.kind(), Kind::Container { .. })))
}

/// The members that a container had when exactly the revisions below `below` had been made.
async fn members(
    library: &Library,
    kept: &Versions,
    below: RevisionId,
    keep: Keep,
) -> anyhow::Result<Option<BTreeSet<String>>> {
    let Some(container) = container(kept, below, keep).await? else { return Ok(None) };
    let mut listing = library.repository.members_as_of(&container, below).await?;
    let mut names = BTreeSet::new();
    while let Some(more) = listing.more(3).await? {
        names.extend(more.into_iter().map(|child| child.name));
    }
    Ok(Some(names))
}

/// What an archive of a container has in it, found as the repository door finds it, when exactly
/// the revisions below `below` had been made.
async fn archive(library: &Library, top: Resource, below: RevisionId) -> anyhow::Result<BTreeMap<String, Archived>> {
    let repository = &library.repository;
    let (mut archived, mut folders) = (BTreeMap::new(), vec![top]);
    while let Some(folder) = folders.pop() {
        let mut listing = repository.members_as_of(&folder, below).await?;
        while let Some(more) = listing.more(3).await? {
            for child in more {
                let path = folder.path().child(&child.name)?;
                let versions = repository.versions(&path).await?;
                let found = match versions.in_force(below).await? {
                    Some(version) => {
                        let found = Archived::Version(version.revision());
                        let is_container = matches!(version.kind(), Kind::Container { .. });
                        if is_container && repository.knows_as_of(&path, below) {
                            folders.push(version);
                        }
                        found
                    }
                    None => match versions.was_removed(below).await? {
                        true => Archived::Removed,
                        false => Archived::NotKept,
                    },
                };
                archived.insert(path.to_string(), found);
            }
        }
    }
    Ok(archived)
}
