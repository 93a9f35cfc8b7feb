//! Exports volumes as objects of an OCFL storage root, with the versions of each that are kept. The
//! last version of a deleted volume has no files.

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use hathi::{Seq, VolumeId};
use http::Response;
use jiff::Timestamp;
use preservation::archived_volume;
use preservation::ocfl::{ObjectWriter, RootWriter};
use serde::Deserialize;

use super::source::{compare, is_gone, received};
use super::volumes::record;
use crate::client::{self, Body, Client, ClientError, segment};
use crate::commands::history::{VolumeVersions, versions_of_volume};

/// Pages that are requested at the same time. Each is in memory while it is.
const PAGES_AT_ONCE: usize = 8;

/// What the description of a volume says.
#[derive(Deserialize, PartialEq, Eq)]
struct Described {
    revision: String,
    imported: String,
}

/// A page in the list of a volume's pages.
#[derive(Deserialize)]
pub struct ListedPage {
    /// Its sequence.
    pub seq: Seq,
    /// The SHA-256 of its text, in hexadecimal digits.
    pub sha256: String,
}

/// Exports the versions of a volume that its object has not yet. Returns how many bytes were
/// fetched.
pub async fn one(client: &Client, id: &VolumeId, root: &RootWriter) -> anyhow::Result<u64> {
    let address = format!("/volumes/{}", segment(id));
    let object = root.object(&archived_volume::id(id.as_str()))?;
    let mut writing = Writing { client, id, object, is_known: false, bytes: 0 };
    let added = add_versions(&mut writing, &address).await;
    if let Err(error) = added {
        if is_gone(&error) {
            // It is left out, so nothing of it may stay.
            writing.object.abandon_version()?;
            writing.object.finish()?;
        }
        return Err(error);
    }
    writing.object.finish()?;
    Ok(writing.bytes)
}

/// Adds the versions that the object has not yet.
async fn add_versions(writing: &mut Writing<'_>, address: &str) -> anyhow::Result<()> {
    let Writing { client, id, .. } = *writing;
    match versions_of_volume(client, id).await? {
        Some(VolumeVersions { versions, deleted }) => {
            let inventory = writing.object.inventory();
            let known: Vec<_> = inventory.versions.values().filter_map(|known| known.message.clone()).collect();
            let newest = inventory.newest_version().and_then(|newest| newest.created.parse::<Timestamp>().ok());
            let mut not_kept = 0;
            // The error of the newest listed version, if that cannot be read any more.
            let mut unreadable = None;
            for version in versions {
                unreadable = None;
                let message = format!("version {}", version.revision);
                let time: Timestamp = version.time.parse().context("the time of a version")?;
                // Anything older than the newest one was exported, and may be removed since.
                if known.contains(&message) || newest.is_some_and(|newest| time < newest) {
                    continue;
                }
                match writing.add(&format!("{address}/versions/{}", version.revision)).await {
                    // Each change may end the oldest version that is kept. The volume is there
                    // nevertheless.
                    Err(error) if is_gone(&error) => {
                        writing.object.abandon_version()?;
                        not_kept += 1;
                        unreadable = Some(error);
                        continue;
                    }
                    added => added?,
                }
                // A store that this was loaded into has other names for the same versions.
                match newest == Some(time) && writing.object.is_same_as_newest() {
                    true => writing.object.abandon_version()?,
                    false => writing.object.finish_version(version.time, message)?,
                }
            }
            // If the newest version in the list cannot be read, the current state is another one.
            if unreadable.is_some() && deleted.is_none() {
                writing.add_current(address).await?;
            }
            if let Some(error) = unreadable.filter(|_| writing.object.inventory().versions.is_empty()) {
                return Err(error);
            }
            if not_kept > 0 {
                note!("{id}: the server stopped keeping {not_kept} versions before they were exported");
            }
            let is_empty = writing.object.inventory().newest_version().is_none_or(|newest| newest.state.is_empty());
            if let Some(deleted) = deleted.filter(|_| !is_empty) {
                writing.object.finish_version(deleted, "deleted".to_owned())?;
            }
        }
        None => writing.add_current(address).await?,
    }
    Ok(())
}

/// A volume that is being exported.
struct Writing<'a> {
    client: &'a Client,
    id: &'a VolumeId,
    object: ObjectWriter,
    /// Whether the files of an earlier export are known.
    is_known: bool,
    /// Bytes that were fetched.
    bytes: u64,
}

impl Writing<'_> {
    /// Adds the current state of a volume, unless the object has it.
    async fn add_current(&mut self, address: &str) -> anyhow::Result<()> {
        let client = self.client;
        let described = async || client.get_json::<Described>(address).await;
        let before = described().await?;
        self.add(address).await?;
        ensure!(described().await? == before, "it was replaced while it was exported");
        match self.object.is_same_as_newest() {
            true => self.object.abandon_version()?,
            false => self.object.finish_version(before.imported, "the current state".to_owned())?,
        }
        Ok(())
    }

    /// Adds the files of a volume, or of a version of one, to the version that is being written.
    /// Pages that the object has are not fetched.
    async fn add(&mut self, address: &str) -> anyhow::Result<()> {
        if !self.is_known {
            self.object.know_newest()?;
            self.is_known = true;
        }
        let stem = self.id.cleaned_local();
        let mets = self.client.get(&format!("{address}/mets"), "*/*").await?;
        self.write(&archived_volume::mets(&stem), mets).await?;
        if let Some(record) = record(self.client, address).await? {
            self.write(&archived_volume::record(&stem), record).await?;
        }
        let pages: Vec<ListedPage> = self.client.get_json(&format!("{address}/pages/")).await?;
        let mut absent = Vec::new();
        for ListedPage { seq, sha256 } in pages {
            let mut promised = [0; 32];
            hex::decode_to_slice(&sha256, &mut promised).context("the digest of a page")?;
            if !self.object.reuse(&archived_volume::page(seq.get()), &promised) {
                absent.push((seq, promised));
            }
        }
        let client = self.client;
        let fetched = stream::iter(absent).map(async |(seq, promised): (Seq, [u8; 32])| {
            let response = client.get(&format!("{address}/pages/{seq}"), "text/plain").await?;
            Ok::<_, ClientError>((seq, promised, client::whole(response).await?))
        });
        let mut fetched = std::pin::pin!(fetched.buffered(PAGES_AT_ONCE));
        while let Some((seq, promised, text)) = fetched.try_next().await? {
            let mut file = self.object.file(&archived_volume::page(seq.get()))?;
            file.write(&text)?;
            compare(Some(promised), file.sha256()).with_context(|| format!("page {seq}"))?;
            self.object.finish_file(file)?;
            self.bytes += text.len() as u64;
        }
        Ok(())
    }

    async fn write(&mut self, logical: &str, response: Response<Body>) -> anyhow::Result<()> {
        let mut file = self.object.file(logical)?;
        self.bytes += received(response, |piece| file.write(piece)).await?;
        self.object.finish_file(file)?;
        Ok(())
    }
}
