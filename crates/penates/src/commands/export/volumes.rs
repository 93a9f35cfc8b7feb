//! Exports volumes into a bag: ZIP, METS and record of each, in a pairtree, as `penates import` and
//! other programs read them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;

use anyhow::{Context, ensure};
use futures::TryStreamExt;
use hathi::{Mets, Page, Seq, VolumeId, VolumeParts, VolumeReader};
use heads::VOLUMES;
use http::{Response, StatusCode};
use percent_encoding::percent_decode_str;
use preservation::bagged;
use preservation::bagit::BagWriter;
use preservation::bagit::text::Algorithm;
use serde::Deserialize;
use serde_json::Value;
use tokio::task::spawn_blocking;
use zip::{ZipArchive, ZipWriter};

use super::ocfl_volumes::ListedPage;
use super::source::{is_gone, received};
use crate::client::{self, Body, Client, ClientError, query_value, segment};
use crate::commands::tree::{children, is_away};
use crate::resources::BaseArgs;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 128 << 10;

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

/// A line of the list of deleted volumes.
#[derive(Deserialize)]
struct Deleted {
    id: VolumeId,
}

/// The volumes that were deleted and have versions that are kept.
async fn deleted(client: &Client) -> anyhow::Result<BTreeSet<VolumeId>> {
    let lines = match client.get_lines("/volumes/?deleted=true", "application/x-ndjson").await {
        // The server keeps no versions.
        Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => return Ok(BTreeSet::new()),
        Err(error) if error.status() == Some(StatusCode::BAD_REQUEST) => {
            note!("the server is older and does not list deleted volumes: they are not exported");
            return Ok(BTreeSet::new());
        }
        lines => lines?,
    };
    let id = async |line: String| {
        let Deleted { id } = serde_json::from_str(&line).context("a deleted volume")?;
        Ok(id)
    };
    // One that was deleted several times may be listed several times.
    lines.map_err(anyhow::Error::from).and_then(id).try_collect().await
}

/// Calls `export` with each of these volumes. It returns a number of bytes. Returns the number of
/// volumes, and of bytes. All volumes include those that were deleted if `with_deleted`.
pub async fn each(
    client: &Client,
    base: &BaseArgs,
    named: Named,
    with_deleted: bool,
    mut export: impl AsyncFnMut(&VolumeId) -> anyhow::Result<u64>,
) -> anyhow::Result<(u64, u64)> {
    let (mut volumes, mut bytes) = (0, 0);
    let addresses = match named {
        Named::None => return Ok((0, 0)),
        Named::One(id) => return Ok((1, export(&id).await.with_context(|| id.to_string())?)),
        Named::All => children(client, &base.address(VOLUMES)).await?,
    };
    let mut ids = addresses.iter().map(|address| named_by(address)).collect::<anyhow::Result<Vec<_>>>()?;
    if with_deleted {
        // One that was deleted in between is in both lists.
        let mut deleted = deleted(client).await?;
        for id in &ids {
            deleted.remove(id);
        }
        ids.extend(deleted);
    }
    for id in ids {
        match export(&id).await {
            // It was deleted since it was listed.
            Err(error) if is_gone(&error) => continue,
            exported => bytes += exported.with_context(|| id.to_string())?,
        }
        volumes += 1;
    }
    Ok((volumes, bytes))
}

/// The volume at an address below the container of volumes.
fn named_by(address: &str) -> anyhow::Result<VolumeId> {
    let name = address.rsplit('/').next().unwrap_or_default();
    let name = percent_decode_str(name).decode_utf8().context("the name of a volume")?;
    VolumeId::from_path_segment(&name).with_context(|| name.to_string())
}

/// Exports volumes into a bag. Returns their number, and the bytes of their files.
pub async fn export(client: &Client, base: &BaseArgs, named: Named, bag: &mut BagWriter) -> anyhow::Result<(u64, u64)> {
    each(client, base, named, false, async |id| one(client, id, bag).await).await
}

/// Exports a volume. Returns the bytes of its files.
async fn one(client: &Client, id: &VolumeId, bag: &mut BagWriter) -> anyhow::Result<u64> {
    let folder = Path::new(bagged::VOLUMES).join(hathi::pairtree_path(id));
    let stem = folder.join(id.cleaned_local());
    let stem = stem.to_str().context("a path that is not UTF-8")?;
    let about = format!("/volumes/{}", segment(id));
    let revision = async || client.get_json::<Value>(&about).await.map(|described| described["revision"].clone());
    let before = revision().await?;
    let mets = client::whole(client.get(&format!("{about}/mets"), "*/*").await?).await?;
    let record = match record(client, &about).await? {
        Some(response) => Some(client::whole(response).await?),
        None => None,
    };
    let zip = format!("{stem}.zip");
    let parts = (mets.clone(), record.clone());
    let (mut len_bytes, mut checked) = (0, Ok(()));
    let names = named_otherwise(&mets)?;
    // Only the store knows whether pages of one file differ now.
    let shares_files = names.as_ref().is_some_and(|names| names.values().collect::<HashSet<_>>().len() < names.len());
    if shares_files || !is_there(client, id, bag, &zip, parts.clone()).await? {
        let archive =
            client.get(&format!("/volumes?volumeIDs={}", query_value(id.as_str())), "application/zip").await?;
        let mut file = bag.file_at(&zip)?;
        match names {
            None => len_bytes = received(archive, |piece| file.write(piece)).await?,
            Some(names) => {
                let (mut fetched, other) = (temporary(bag)?, temporary(bag)?);
                let write = |piece: &[u8]| fetched.write_all(piece).context("a temporary file for a ZIP");
                len_bytes = received(archive, write).await?;
                let mut renamed = spawn_blocking(move || renamed(fetched, other, &names)).await??;
                let mut piece = vec![0; PIECE_BYTES];
                loop {
                    match renamed.read(&mut piece)? {
                        0 => break,
                        len => file.write(&piece[..len])?,
                    }
                }
            }
        }
        let place = file.path().to_owned();
        bag.finish_file(file)?;
        let of = id.clone();
        checked = spawn_blocking(move || check(of, &place, parts, None)).await?;
    }
    match revision().await {
        // What was read before it was deleted stays in the bag.
        Err(error) if is_away(&error) => {}
        // If it was replaced meanwhile, that is why the ZIP does not match the METS.
        after => ensure!(after? == before, "it was replaced while it was exported"),
    }
    checked?;
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

/// Adds the ZIP that an interrupted export wrote, if it has the pages that the METS says, and the
/// volume has now: a page may be replaced under its METS. Returns whether it did.
async fn is_there(
    client: &Client,
    id: &VolumeId,
    bag: &mut BagWriter,
    zip: &str,
    parts: (bytes::Bytes, Option<bytes::Bytes>),
) -> anyhow::Result<bool> {
    let Some(earlier) = bag.earlier(zip) else { return Ok(false) };
    let pages: Vec<ListedPage> = client.get_json(&format!("/volumes/{}/pages/", segment(id))).await?;
    let present = pages.into_iter().map(|page| (page.seq, page.sha256)).collect();
    let of = id.clone();
    match spawn_blocking(move || check(of, &earlier, parts, Some(present))).await? {
        Ok(()) => Ok(bag.reuse_at(zip)?.is_some()),
        // It is cut off, or of another state.
        Err(_) => Ok(false),
    }
}

/// The names that a METS has for the files of pages, by the names that an archive gives them; `None`
/// if they are the same.
fn named_otherwise(mets: &[u8]) -> anyhow::Result<Option<HashMap<String, String>>> {
    let pages = Mets::parse(mets)?.pages;
    let names: HashMap<_, _> = pages.into_iter().map(|page| (page.seq.file_name(), page.file_name)).collect();
    Ok(names.iter().any(|(name, other)| name != other).then_some(names))
}

/// A temporary file on the disk of the bag.
fn temporary(bag: &BagWriter) -> anyhow::Result<File> {
    tempfile::tempfile_in(bag.folder()).with_context(|| format!("a temporary file in {}", bag.folder().display()))
}

/// The same ZIP with other names of files, at its begin. It is written to `into`.
///
/// It fails if pages of one file differ, because a ZIP with the names of the METS cannot have both.
fn renamed(zip: File, into: File, names: &HashMap<String, String>) -> anyhow::Result<File> {
    let mut archive = ZipArchive::new(zip)?;
    let mut renamed = ZipWriter::new(into);
    let mut written = HashMap::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index)?;
        let path = entry.name()?.into_owned();
        let name = path.rsplit('/').next().unwrap_or_default();
        // Not the folder itself.
        let Some(other) = names.get(name) else { continue };
        let text = (entry.size(), entry.crc32());
        // A METS may have one file for two pages.
        if let Some(earlier) = written.insert(other, text) {
            ensure!(
                earlier == text,
                "its METS has one file, {other}, for pages that differ, because one of them was replaced: export it \
                 with --as ocfl"
            );
            continue;
        }
        let folder = &path[..path.len() - name.len()];
        renamed.raw_copy_file_rename(entry, format!("{folder}{other}"))?;
    }
    let mut renamed = renamed.finish()?;
    renamed.rewind()?;
    Ok(renamed)
}

/// Reads every page of an exported ZIP and compares it with the METS, as an import does. An archive
/// without its damaged pages, or with a page that was replaced under its METS, is refused.
/// `present` has the SHA-256 that each page has now, in hexadecimal digits.
fn check(
    id: VolumeId,
    zip: &Path,
    (mets, record): (bytes::Bytes, Option<bytes::Bytes>),
    present: Option<HashMap<Seq, String>>,
) -> anyhow::Result<()> {
    let file = File::open(zip).with_context(|| zip.display().to_string())?;
    let (mets, record) = (mets.to_vec(), record.map(|record| record.to_vec()));
    let archive = ZipArchive::new(file.try_clone()?)?;
    let files = archive.file_names_raw().filter(|name| !name.ends_with(b"/")).count();
    let mut volume = VolumeReader::new(VolumeParts { id: Some(id), zip: file, mets, record })?;
    // A reader ignores files that the METS does not name. They would be those of an earlier version.
    let named: HashSet<_> = volume.mets().pages.iter().map(|page| &page.file_name).collect();
    ensure!(files == named.len(), "the ZIP has {files} files, and the METS names {}", named.len());
    for index in 0..volume.page_count() {
        let Page { seq, text, .. } = volume.read_page(index)?;
        let is_present = present.as_ref().is_none_or(|present| present.get(&seq) == Some(&sha256(&text)));
        ensure!(is_present, "page {seq} has another text now");
    }
    Ok(())
}

/// The SHA-256 of a text, in hexadecimal digits.
fn sha256(text: &[u8]) -> String {
    let mut digest = Algorithm::Sha256.begin();
    digest.update(text);
    hex::encode(digest.finalize())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use zip::write::SimpleFileOptions;

    use super::*;

    #[test]
    fn pages_of_one_file_are_one_entry_and_are_refused_if_they_differ() {
        let names = ["00000001.txt", "00000002.txt"].map(|name| (name.to_owned(), "both.txt".to_owned()));
        let names = HashMap::from(names);
        let with_second = |text: &[u8]| {
            let mut zip = ZipWriter::new(tempfile::tempfile().unwrap());
            for (name, text) in [("a/00000001.txt", &b"one"[..]), ("a/00000002.txt", text)] {
                zip.start_file(name, SimpleFileOptions::default()).unwrap();
                zip.write_all(text).unwrap();
            }
            renamed(zip.finish().unwrap(), tempfile::tempfile().unwrap(), &names)
        };
        let mut same = ZipArchive::new(with_second(b"one").unwrap()).unwrap();
        let mut text = String::new();
        same.by_name("a/both.txt").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), same.len()), ("one", 1));
        for other in [&b"two"[..], b"one and more"] {
            let refused = with_second(other).unwrap_err().to_string();
            assert!(refused.contains("one file, both.txt, for pages that differ"), "{refused}");
        }
    }
}
