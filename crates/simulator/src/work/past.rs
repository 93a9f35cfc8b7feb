//! Reads the past of an object: its versions, which of them was in force at which time, and which
//! members it had then.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use bytes::Bytes;
use heads::{Keep, RevisionId, keys};
use library::Library;
use repository::{Kind, Versions};

use super::resources::wrong_with;
use super::{Came, Seen};

/// The past of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Past {
    /// The revisions of all versions, kept or not.
    pub(crate) versions: Vec<RevisionId>,
    /// Before some revisions, the version that was in force.
    pub(crate) in_force: Vec<Option<RevisionId>>,
    /// Before the same revisions, the members of a container; `None` where it was none, or where
    /// its members are not kept.
    pub(crate) members: Vec<Option<BTreeSet<String>>>,
}

/// Reads the past of an object before each of some revisions. All kept versions are read whole.
/// Nothing fails at this time, so each error is a violation.
pub(super) async fn remember(library: &Library, object: Bytes, before: &[RevisionId]) -> Came {
    match past(library, &object, before).await {
        Ok(past) => Came::seen(Seen::Past { object, before: before.to_vec(), past }),
        Err(error) => Came::seen(Seen::Wrong(format!("the past of {}: {error}", object.escape_ascii()))),
    }
}

async fn past(library: &Library, object: &Bytes, before: &[RevisionId]) -> anyhow::Result<Past> {
    let (history, path) = (library.options().history, keys::resource_of_partition(object));
    let keep = if path.is_some() { history.resources } else { history.volumes };
    let Some(timeline) = library.heads.timeline(object, keep).await? else {
        return Ok(Past {
            versions: Vec::new(),
            in_force: vec![None; before.len()],
            members: vec![None; before.len()],
        });
    };
    let versions = timeline.page(RevisionId::ZERO, RevisionId::LAST, usize::MAX, |_| true, |head| head.revision);
    let mut past = Past { versions: versions.await?, in_force: Vec::new(), members: Vec::new() };
    for below in before {
        past.in_force.push(timeline.in_force(*below).await?.map(|row| row.head.revision));
    }
    let Some(path) = path else {
        past.members = vec![None; before.len()];
        return Ok(past);
    };
    let kept = library.repository.versions(&path).await?;
    for below in before {
        past.members.push(members(library, &kept, *below, keep).await?);
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

/// The members that a container had when exactly the revisions below `below` had been made.
async fn members(
    library: &Library,
    kept: &Versions,
    below: RevisionId,
    keep: Keep,
) -> anyhow::Result<Option<BTreeSet<String>>> {
    if keep != Keep::All {
        return Ok(None);
    }
    let Some(container) =
        kept.in_force(below).await?.filter(|version| matches!(version.kind(), Kind::Container { .. }))
    else {
        return Ok(None);
    };
    let mut listing = library.repository.members_as_of(&container, below).await?;
    let mut names = BTreeSet::new();
    while let Some(more) = listing.more(3).await? {
        names.extend(more.into_iter().map(|child| child.name));
    }
    Ok(Some(names))
}
