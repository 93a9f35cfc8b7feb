//! Exports a tree as objects of an OCFL storage root, with the versions of each.

use std::collections::HashSet;

use anyhow::Context;
use hathi::VolumeId;
use jiff::Timestamp;
use preservation::archived::{self, ABOUT, DESCRIPTION};
use preservation::ocfl::inventory::User;
use preservation::ocfl::{ObjectWriter, RootWriter};

use super::source::{Node, Source, State, compare, is_gone, received};
use super::volumes::{self, Named};
use super::{ExportArgs, Exported, ocfl_volumes, unfinished};
use crate::client::Client;
use crate::commands::history::VersionList;

/// Exports a tree into a new storage root, or adds what is new to one.
pub async fn export(args: &ExportArgs, client: &Client) -> anyhow::Result<Exported> {
    let resource = args.resource.trim_matches('/');
    let named = Named::by(resource)?;
    let source = Source::open(client, &args.base).await?;
    let agent = format!("penates {}", env!("CARGO_PKG_VERSION"));
    let user = User { name: agent, address: Some(source.repository().to_owned()) };
    let root = RootWriter::begin(&args.destination, user)?;
    let exported = async {
        let mut passed_over = 0;
        let versions_of = async |node: &Node| one(&source, node, &root, &mut passed_over).await;
        let (resources, bytes) = match resource.is_empty() || matches!(named, Named::None) {
            true => source.each(&args.base, resource, true, versions_of).await?,
            false => (0, 0),
        };
        let volume = async |id: &VolumeId| ocfl_volumes::one(client, id, &root).await;
        let (volumes, of_volumes) = volumes::each(client, &args.base, named, true, volume).await?;
        let why = "they are older than versions that are there, and OCFL adds versions at the end: export into \
                   another folder";
        let left_out = (passed_over > 0).then(|| format!("{passed_over} versions left out, because {why}"));
        Ok::<_, anyhow::Error>(Exported { resources, volumes, bytes: bytes + of_volumes, left_out })
    };
    let unfinished = || unfinished(&args.destination);
    let exported = exported.await.with_context(unfinished)?;
    root.finish().with_context(unfinished)?;
    Ok(exported)
}

/// Listed versions that an object does not get.
#[derive(Default)]
struct NotAdded {
    /// Those that are older than the newest one that it has: OCFL adds versions at the end only.
    too_old: u64,
    /// Those that the server has stopped keeping since it listed them.
    not_kept: u64,
}

/// Exports the versions of a resource that the object has not yet. Names it and counts those that
/// the object cannot get any more. Returns how many bytes were fetched.
async fn one(source: &Source<'_>, node: &Node, root: &RootWriter, passed_over: &mut u64) -> anyhow::Result<u64> {
    let mut object = root.object(&archived::id(node.names.iter().map(String::as_str)))?;
    let mut not_added = NotAdded::default();
    let added = add_versions(source, node, &mut object, &mut not_added).await;
    if let Err(error) = &added {
        if !is_gone(error) {
            return added;
        }
        // It is left out, so nothing of it may stay.
        object.abandon_version()?;
    }
    object.finish()?;
    let NotAdded { too_old, not_kept } = not_added;
    let path = node.names.join("/");
    if too_old > 0 {
        note!("/{path}: {too_old} versions were added to it with times before the newest exported one");
        *passed_over += too_old;
    }
    if added.is_ok() && not_kept > 0 {
        note!("/{path}: the server stopped keeping {not_kept} versions before they were exported");
    }
    added
}

/// Adds the versions of a resource that the object has not yet. Counts those that it does not get.
/// Returns how many bytes were fetched.
async fn add_versions(
    source: &Source<'_>,
    node: &Node,
    object: &mut ObjectWriter,
    not_added: &mut NotAdded,
) -> anyhow::Result<u64> {
    let mut len_bytes = 0;
    let Some(VersionList { versions, are_explicit }) = source.versions(node).await? else {
        return add_current(source, node, object).await;
    };
    let known: HashSet<_> = object.inventory().versions.values().filter_map(|known| known.message.clone()).collect();
    let begun = object.inventory().versions.values().filter_map(|known| known.created.parse::<Timestamp>().ok());
    let begun: HashSet<_> = begun.collect();
    let newest = object.inventory().newest_version().and_then(|newest| newest.created.parse::<Timestamp>().ok());
    let last = versions.last().map(|(_, created)| created.clone());
    // The error of the newest listed version, if that cannot be read any more.
    let mut unreadable = None;
    for (name, created) in versions {
        unreadable = None;
        let message = format!("version {name}");
        let time: Timestamp = created.parse().context("the time of a version")?;
        if known.contains(&message) {
            continue;
        }
        if newest.is_some_and(|newest| time < newest) {
            // A store that the archive was loaded into may have another name for a version of it.
            not_added.too_old += u64::from(!begun.contains(&time));
            continue;
        }
        match add_version(source, node, &name, object).await {
            // Each change may end the oldest version that is kept. The resource is there
            // nevertheless.
            Err(error) if is_gone(&error) => {
                object.abandon_version()?;
                not_added.not_kept += 1;
                unreadable = Some(error);
                continue;
            }
            added => len_bytes += added?,
        }
        object.finish_version(created, message)?;
    }
    // If the newest version in the list cannot be read, the current state is another one.
    if (are_explicit || unreadable.is_some()) && node.deleted.is_none() {
        len_bytes += add_current(source, node, object).await?;
    }
    if let Some(error) = unreadable.filter(|_| object.inventory().versions.is_empty()) {
        return Err(error);
    }
    let is_empty = object.inventory().newest_version().is_none_or(|newest| newest.state.is_empty());
    if let Some(deleted) = node.deleted.clone().filter(|_| !is_empty)
        && is_after(&deleted, last.as_deref())?
        && source.is_away(node).await?
    {
        object.finish_version(deleted, "deleted".to_owned())?;
    }
    Ok(len_bytes)
}

/// Adds the state of a resource in one of its versions. Returns how many bytes were fetched.
async fn add_version(source: &Source<'_>, node: &Node, name: &str, object: &mut ObjectWriter) -> anyhow::Result<u64> {
    add(source.state(node, Some(name)).await?, object).await
}

/// Adds the current state of a resource, unless the object has it. Returns how many bytes were
/// fetched.
async fn add_current(source: &Source<'_>, node: &Node, object: &mut ObjectWriter) -> anyhow::Result<u64> {
    let state = source.state(node, None).await?;
    let created = state.about.last_modified.as_deref().and_then(time_of_http).unwrap_or_default();
    let len_bytes = add(state, object).await?;
    match object.is_same_as_newest() {
        true => object.abandon_version()?,
        false => object.finish_version(created.to_string(), "the current state".to_owned())?,
    }
    Ok(len_bytes)
}

/// Whether what was deleted at a time did not come back: no version is newer.
fn is_after(deleted: &str, last: Option<&str>) -> anyhow::Result<bool> {
    let time = |text: &str| text.parse::<Timestamp>().context("the time of a version");
    Ok(match last {
        Some(last) => time(last)? <= time(deleted)?,
        None => true,
    })
}

/// Adds a state to the version of an object that is being written. Returns how many bytes were
/// fetched.
async fn add(state: State, object: &mut ObjectWriter) -> anyhow::Result<u64> {
    let State { mut about, bytes, statements } = state;
    // It is the time of the version.
    about.last_modified = None;
    let mut file = object.file(ABOUT)?;
    file.write(&about.written())?;
    object.finish_file(file)?;
    let mut file = object.file(DESCRIPTION)?;
    received(statements, |piece| file.write(piece)).await?;
    object.finish_file(file)?;
    let Some((response, promised)) = bytes else { return Ok(0) };
    let logical = archived::bytes(&about);
    // A version of the description has the bytes of the version before.
    if promised.is_some_and(|sha256| object.reuse(&logical, &sha256)) {
        return Ok(0);
    }
    let mut file = object.file(&logical)?;
    let len_bytes = received(response, |piece| file.write(piece)).await?;
    compare(promised, file.sha256())?;
    object.finish_file(file)?;
    Ok(len_bytes)
}

/// A time in a header (RFC 9110, section 5.6.7).
fn time_of_http(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(text).ok().map(|time| time.timestamp())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_has_a_version_after_its_deletion_came_back() {
        let deleted = "2025-06-15T15:06:40.007Z";
        for (last, is_deleted) in [
            (None, true),
            (Some("2025-06-15T15:06:40Z"), true),
            (Some(deleted), true),
            (Some("2025-06-15T15:06:40.01Z"), false),
        ] {
            assert_eq!(is_after(deleted, last).unwrap(), is_deleted, "{last:?}");
        }
        assert!(is_after(deleted, Some("yesterday")).is_err());
    }
}
