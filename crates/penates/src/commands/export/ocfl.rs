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
        let (resources, bytes) = match resource.is_empty() || matches!(named, Named::None) {
            true => source.each(&args.base, resource, true, async |node| one(&source, node, &root).await).await?,
            false => (0, 0),
        };
        let volume = async |id: &VolumeId| ocfl_volumes::one(client, id, &root).await;
        let (volumes, of_volumes) = volumes::each(client, &args.base, named, true, volume).await?;
        Ok::<_, anyhow::Error>(Exported { resources, volumes, bytes: bytes + of_volumes })
    };
    let unfinished = || unfinished(&args.destination);
    let exported = exported.await.with_context(unfinished)?;
    root.finish().with_context(unfinished)?;
    Ok(exported)
}

/// Exports the versions of a resource that the object has not yet. Returns how many bytes were
/// fetched.
async fn one(source: &Source<'_>, node: &Node, root: &RootWriter) -> anyhow::Result<u64> {
    let mut object = root.object(&archived::id(node.names.iter().map(String::as_str)))?;
    let added = add_versions(source, node, &mut object).await;
    if let Err(error) = &added {
        if !is_gone(error) {
            return added;
        }
        // It is left out, so nothing of it may stay.
        object.abandon_version()?;
    }
    object.finish()?;
    added
}

/// Adds the versions of a resource that the object has not yet. Returns how many bytes were fetched.
async fn add_versions(source: &Source<'_>, node: &Node, object: &mut ObjectWriter) -> anyhow::Result<u64> {
    let mut len_bytes = 0;
    let Some(VersionList { versions, are_explicit }) = source.versions(node).await? else {
        return add_current(source, node, object).await;
    };
    let known: HashSet<_> = object.inventory().versions.values().filter_map(|known| known.message.clone()).collect();
    let newest = object.inventory().newest_version().and_then(|newest| newest.created.parse::<Timestamp>().ok());
    let last = versions.last().map(|(_, created)| created.clone());
    for (name, created) in versions {
        let message = format!("version {name}");
        let time: Timestamp = created.parse().context("the time of a version")?;
        // A version is named once. Anything older than the newest one was exported, and may be
        // removed from the repository since.
        if known.contains(&message) || newest.is_some_and(|newest| time < newest) {
            continue;
        }
        len_bytes += add(source.state(node, Some(&name)).await?, object).await?;
        object.finish_version(created, message)?;
    }
    if are_explicit && node.deleted.is_none() {
        len_bytes += add_current(source, node, object).await?;
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
