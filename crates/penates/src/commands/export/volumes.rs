//! Exports volumes into a bag: ZIP, METS and record of each, in a pairtree, as `penates import` and
//! other programs read them.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, ensure};
use hathi::{VolumeId, VolumeParts, VolumeReader};
use heads::VOLUMES;
use http::{Response, StatusCode};
use percent_encoding::percent_decode_str;
use preservation::bagged;
use preservation::bagit::BagWriter;
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::source::received;
use crate::client::{self, Body, Client, ClientError, query_value, segment};
use crate::commands::tree::children;
use crate::resources::BaseArgs;

/// The volumes that a path names: all of them, one, or none if it is that of a resource.
pub enum Named {
    All,
    One(VolumeId),
    None,
}

impl Named {
    /// What a path from the root of the repository names. The root includes all volumes.
    pub fn by(resource: &str) -> anyhow::Result<Self> {
        let Some(rest) = resource.strip_prefix(VOLUMES).filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
            return Ok(if resource.is_empty() { Self::All } else { Self::None });
        };
        // An id may have slashes.
        match rest.trim_matches('/') {
            "" => Ok(Self::All),
            id => Ok(Self::One(VolumeId::from_path_segment(id).with_context(|| format!("/{resource}"))?)),
        }
    }
}

/// Calls `export` with each of these volumes. It returns a number of bytes. Returns the number of
/// volumes, and of bytes.
pub async fn each(
    client: &Client,
    base: &BaseArgs,
    named: Named,
    mut export: impl AsyncFnMut(&VolumeId) -> anyhow::Result<u64>,
) -> anyhow::Result<(u64, u64)> {
    let (mut volumes, mut bytes) = (0, 0);
    let addresses = match named {
        Named::None => return Ok((0, 0)),
        Named::One(id) => return Ok((1, export(&id).await.with_context(|| id.to_string())?)),
        Named::All => children(client, &base.address(VOLUMES)).await?,
    };
    for address in addresses {
        let name = address.rsplit('/').next().unwrap_or_default();
        let name = percent_decode_str(name).decode_utf8().context("the name of a volume")?;
        let id = VolumeId::from_path_segment(&name).with_context(|| name.to_string())?;
        bytes += export(&id).await.with_context(|| id.to_string())?;
        volumes += 1;
    }
    Ok((volumes, bytes))
}

/// Exports volumes into a bag. Returns their number, and the bytes of their files.
pub async fn export(client: &Client, base: &BaseArgs, named: Named, bag: &mut BagWriter) -> anyhow::Result<(u64, u64)> {
    each(client, base, named, async |id| one(client, id, bag).await).await
}

/// Exports a volume. Returns the bytes of its files.
async fn one(client: &Client, id: &VolumeId, bag: &mut BagWriter) -> anyhow::Result<u64> {
    let folder = Path::new(bagged::VOLUMES).join(hathi::pairtree_path(id));
    let stem = folder.join(id.cleaned_local());
    let stem = stem.to_str().context("a path that is not UTF-8")?;
    let about = format!("/volumes/{}", segment(id));
    let revision = async || Ok::<_, anyhow::Error>(client.get_json::<Value>(&about).await?["revision"].clone());
    let before = revision().await?;
    let mets = client::whole(client.get(&format!("{about}/mets"), "*/*").await?).await?;
    let record = match record(client, &about).await? {
        Some(response) => Some(client::whole(response).await?),
        None => None,
    };
    let archive = client.get(&format!("/volumes?volumeIDs={}", query_value(id.as_str())), "application/zip").await?;
    let mut zip = bag.file_at(&format!("{stem}.zip"))?;
    let mut len_bytes = received(archive, |piece| zip.write(piece)).await?;
    let place = zip.path().to_owned();
    bag.finish_file(zip)?;
    ensure!(revision().await? == before, "it was replaced while it was exported");
    let parts = (mets.clone(), record.clone());
    let (expected, of) = (id.clone(), place);
    spawn_blocking(move || check(expected, &of, parts)).await??;
    for (ending, bytes) in [("mets.xml", Some(mets)), ("json", record)] {
        let Some(bytes) = bytes else { continue };
        let mut file = bag.file_at(&format!("{stem}.{ending}"))?;
        file.write(&bytes)?;
        bag.finish_file(file)?;
        len_bytes += bytes.len() as u64;
    }
    Ok(len_bytes)
}

/// The response with the record of a volume, or of a version of one; `None` if it has none.
pub async fn record(client: &Client, address: &str) -> Result<Option<Response<Body>>, ClientError> {
    match client.get(&format!("{address}/record"), "*/*").await {
        Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => Ok(None),
        response => response.map(Some),
    }
}

/// Reads every page of an exported ZIP and compares it with the METS, as an import does. An archive
/// without its damaged pages, or with a page that was replaced under its METS, is refused.
fn check(id: VolumeId, zip: &Path, (mets, record): (bytes::Bytes, Option<bytes::Bytes>)) -> anyhow::Result<()> {
    let file = File::open(zip).with_context(|| zip.display().to_string())?;
    let (mets, record) = (mets.to_vec(), record.map(|record| record.to_vec()));
    let mut volume = VolumeReader::new(VolumeParts { id: Some(id), zip: file, mets, record })?;
    (0..volume.page_count()).try_for_each(|index| volume.read_page(index).map(|_| ()))?;
    Ok(())
}
