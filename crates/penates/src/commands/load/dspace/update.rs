//! Packages that changed since an earlier load. The METS that this load kept says what it made.
//! What is still so is brought to what the package says now; what was changed here is left as it
//! is.

use std::collections::{BTreeSet, HashSet};

use anyhow::{Context, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use preservation::dspace::{Bitstream, Manifest};

use super::super::loader::{Loader, State};
use super::super::report::{Report, What};
use super::super::source::{Bytes, Source};
use super::check::Found;
use super::states::Described;
use crate::client::ClientError;
use crate::exit::full_message;

/// What was changed.
#[derive(Debug, Default)]
pub struct Updated {
    /// Packages that changed.
    pub packages: u64,
    /// Resources that have other statements or bytes now.
    pub replaced: u64,
    /// Resources that DSpace has not any more.
    pub deleted: u64,
}

/// Updates what earlier loads made. `failed` learns of each resource that was changed here, too.
pub(super) async fn all(
    found: &[Found],
    loader: &Loader,
    report: &Report,
    failed: &mut (dyn FnMut(&str, &str) + Send),
) -> anyhow::Result<Updated> {
    let mut updated = Updated::default();
    let handles: HashSet<&str> = found.iter().map(Found::handle).collect();
    for found in found {
        let (path, sha256) = found.mets();
        match loader.sha256(path).await? {
            Some(there) if there != format!("sha-256=:{}:", BASE64.encode(sha256)) => {}
            _ => continue,
        }
        updated.packages += 1;
        let (updated, failed) = (&mut updated, &mut *failed);
        let mut update = Update { loader, report, handles: &handles, updated, failed, is_whole: true };
        match update.package(found, path).await {
            Err(error) if error.downcast_ref().is_some_and(ClientError::stops_all) => return Err(error),
            Err(error) => (update.failed)(path, &full_message(error.as_ref())),
            Ok(()) => {}
        }
    }
    Ok(updated)
}

/// An update of one package.
struct Update<'a> {
    loader: &'a Loader,
    report: &'a Report,
    /// The handles of all packages.
    handles: &'a HashSet<&'a str>,
    updated: &'a mut Updated,
    failed: &'a mut (dyn FnMut(&str, &str) + Send),
    /// Whether nothing is left that only the earlier METS knows.
    is_whole: bool,
}

impl Update<'_> {
    async fn package(&mut self, found: &Found, mets: &str) -> anyhow::Result<()> {
        let stored = self.loader.small_bytes(mets).await?;
        let before = Manifest::read(stored.as_ref(), mets).context("the METS of an earlier load")?;
        let before = Described::by(before).map_err(|why| anyhow!(why))?;
        let now = found.open()?;
        let is_moved = before.path != now.said.path;
        let made: Vec<_> = if is_moved { Vec::new() } else { now.bitstreams() };
        for before in before.bitstreams(bytes_before) {
            match made.iter().find(|state| state.about.path == before.about.path) {
                Some(now) => self.bitstream(&before, now).await?,
                None => self.delete(&before).await?,
            }
        }
        match is_moved {
            // An item that is withdrawn, or not any more. Other files in it keep it there.
            true => self.delete_container(&before).await?,
            false => self.statements(&before.container(), &now.said.container()).await?,
        }
        // The next load knows by it what this one made.
        if self.is_whole {
            self.note_gone(&before, &now.said);
            self.loader.replace_bytes(&now.mets()).await?;
            self.updated.replaced += 1;
        }
        Ok(())
    }

    /// Reports objects that were in this one, and are not any more. Those that moved have a
    /// package.
    fn note_gone(&self, before: &Described, now: &Described) {
        let children = |said: &Described| {
            let handles = said.manifest.children.iter().filter_map(|child| child.handle.clone());
            handles.collect::<BTreeSet<_>>()
        };
        let now = children(now);
        for handle in children(before).iter().filter(|handle| !now.contains(*handle)) {
            if !self.handles.contains(handle.as_str()) {
                let why = "it is not in its collection or community any more, and has no package";
                self.report.resource(What::Gone, handle, why);
            }
        }
    }

    fn keep(&mut self, path: &str, why: &str) {
        self.is_whole = false;
        (self.failed)(path, why);
    }

    async fn bitstream(&mut self, before: &State, now: &State) -> anyhow::Result<()> {
        // One that was deleted here stays so, and the load says it.
        if !self.loader.is_there(&before.about.path).await? {
            return Ok(());
        }
        let is_changed = !self.has_bytes(now).await? && self.has_bytes(before).await?;
        if is_changed {
            self.loader.replace_bytes(now).await?;
            self.updated.replaced += 1;
        }
        self.statements(before, now).await
    }

    async fn statements(&mut self, before: &State, now: &State) -> anyhow::Result<()> {
        let is_there = self.loader.is_there(&before.about.path).await?;
        let is_changed = is_there
            && before.statements != now.statements
            && self.loader.has_statements(before).await?
            && !self.loader.has_statements(now).await?;
        if is_changed {
            self.loader.replace_statements(now).await?;
            self.updated.replaced += 1;
        }
        Ok(())
    }

    /// Deletes a bitstream, unless it was changed here.
    async fn delete(&mut self, before: &State) -> anyhow::Result<()> {
        let path = &before.about.path;
        if !self.loader.is_there(path).await? {
            return Ok(());
        }
        if self.has_bytes(before).await? && self.loader.has_statements(before).await? {
            self.loader.remove(&before.about).await?;
            self.updated.deleted += 1;
            return Ok(());
        }
        self.keep(path, "DSpace has it not any more, and it is not deleted: it was changed here");
        Ok(())
    }

    /// Deletes the container of an object, unless something is in it.
    async fn delete_container(&mut self, before: &Described) -> anyhow::Result<()> {
        let container = before.container();
        if !self.loader.is_there(&before.path).await? {
            return Ok(());
        }
        let other = self.loader.within(&before.path).next().await?;
        if other.is_none() && self.loader.has_statements(&container).await? {
            self.loader.forget(&container.about).await?;
            self.updated.deleted += 1;
            return Ok(());
        }
        self.keep(&before.path, "it is somewhere else now, and not deleted here: it was changed");
        Ok(())
    }

    /// Whether a resource is there with these bytes.
    async fn has_bytes(&self, state: &State) -> anyhow::Result<bool> {
        match self.loader.compare_bytes(state).await {
            Err(error) if error.downcast_ref().is_some_and(ClientError::stops_all) => Err(error),
            compared => Ok(compared.is_ok()),
        }
    }
}

/// The bytes of a bitstream as an earlier METS says them.
fn bytes_before(_: usize, bitstream: &Bitstream) -> Option<Bytes> {
    let (algorithm, digest) = bitstream.digest.clone()?;
    Some(Bytes { source: Source::Away, algorithm, digest })
}
