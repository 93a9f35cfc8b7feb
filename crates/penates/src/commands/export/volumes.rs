//! Exports volumes into a bag: ZIP, METS and record of each, in a pairtree, as `penates import` and
//! other programs read them. Beside them the pages are named that were replaced, and that the METS
//! does not describe.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use bytes::Bytes;
use futures::TryStreamExt;
use hathi::{Mets, MetsPage, Page, PagesOf, Seq, VolumeId, VolumeParts, VolumeReader};
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

use super::Exported;
use super::ocfl_volumes::ListedPage;
use super::source::{is_gone, received};
use crate::client::{self, Body, Client, ClientError, query_value, segment};
use crate::commands::tree::{children, is_away};
use crate::resources::BaseArgs;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 128 << 10;

/// The most bytes of a file's name on most file systems.
const NAME_BYTES_MAX: usize = 255;

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
        let exported = export(&id).await;
        // It was deleted since it was listed.
        if exported.as_ref().is_err_and(is_gone) && is_volume_away(client, &id).await? {
            continue;
        }
        bytes += exported.with_context(|| id.to_string())?;
        volumes += 1;
    }
    Ok((volumes, bytes))
}

/// Whether there is no volume with an id now.
async fn is_volume_away(client: &Client, id: &VolumeId) -> Result<bool, ClientError> {
    match client.get(&format!("/volumes/{}", segment(id)), "application/json").await {
        Err(error) if is_away(&error) => Ok(true),
        there => there.map(|_| false),
    }
}

/// The volume at an address below the container of volumes.
fn named_by(address: &str) -> anyhow::Result<VolumeId> {
    let name = address.rsplit('/').next().unwrap_or_default();
    let name = percent_decode_str(name).decode_utf8().context("the name of a volume")?;
    VolumeId::from_path_segment(&name).with_context(|| name.to_string())
}

/// Why a volume cannot be in a bag.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    /// A ZIP with the names of the METS cannot have two pages with one name.
    #[error(
        "its METS has one file, {0}, for pages that differ, because one of them was replaced: export it with --as ocfl"
    )]
    OneFile(String),
    #[error("its id is too long for the names of files: export it with --as ocfl")]
    LongName,
    /// Manifests encode it, and not all programs that read them decode it.
    #[error("its id has a %, with which not all programs can read a bag: export it with --as ocfl")]
    Percent,
}

/// What a ZIP of a volume is compared with.
struct Expected {
    id: VolumeId,
    mets: Bytes,
    record: Option<Bytes>,
    /// The pages as the METS describes them.
    described: Vec<MetsPage>,
    /// The SHA-256 of each page as it is stored, in hexadecimal digits.
    stored: HashMap<Seq, String>,
}

/// Exports volumes into a bag. One that cannot be in a bag is named and left out, unless it is the
/// only one.
pub async fn export(client: &Client, base: &BaseArgs, named: Named, bag: &mut BagWriter) -> anyhow::Result<Exported> {
    let is_one = matches!(named, Named::One(_));
    let mut left_out = 0;
    let export = async |id: &VolumeId| match one(client, id, bag).await {
        Err(error) if !is_one && error.is::<Unfit>() => {
            note!("{id}: {error}");
            left_out += 1;
            Ok(0)
        }
        exported => exported,
    };
    let (volumes, bytes) = each(client, base, named, false, export).await?;
    let line = (left_out > 0).then(|| format!("{left_out} volumes left out, because a bag cannot have them"));
    Ok(Exported { resources: 0, volumes: volumes - left_out, bytes, left_out: line })
}

/// Exports a volume. Returns the bytes of its files.
async fn one(client: &Client, id: &VolumeId, bag: &mut BagWriter) -> anyhow::Result<u64> {
    // No ending is longer. The library is the name of a folder, without an ending.
    let local_bytes = id.cleaned_local().len() + bagged::REPLACED.len();
    if local_bytes.max(id.library().len()) > NAME_BYTES_MAX {
        return Err(Unfit::LongName.into());
    }
    if id.as_str().contains('%') {
        return Err(Unfit::Percent.into());
    }
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
    let pages: Vec<ListedPage> = client.get_json(&format!("{about}/pages/")).await?;
    let stored: HashMap<_, _> = pages.into_iter().map(|page| (page.seq, page.sha256)).collect();
    let described = Mets::parse(&mets)?.pages;
    check_files(&described, &stored)?;
    let names = named_otherwise(&described);
    let expected = Arc::new(Expected { id: id.clone(), mets, record, described, stored });
    let zip = format!("{stem}.zip");
    let mut len_bytes = 0;
    let checked = match reused(&expected, bag, &zip).await? {
        Some(replaced) => Ok(replaced),
        None => {
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
            let expected = expected.clone();
            spawn_blocking(move || check(&expected, &place)).await?
        }
    };
    match revision().await {
        // What was read before it was deleted stays in the bag.
        Err(error) if is_away(&error) => {}
        // If it was replaced meanwhile, that is why the ZIP has other pages.
        after => ensure!(after? == before, "it was replaced while it was exported"),
    }
    let replaced = checked?;
    for (ending, bytes) in [("mets.xml", Some(&expected.mets)), ("json", expected.record.as_ref())] {
        let Some(bytes) = bytes else { continue };
        let mut file = bag.file_at(&format!("{stem}.{ending}"))?;
        file.write(bytes)?;
        bag.finish_file(file)?;
        len_bytes += bytes.len() as u64;
    }
    if !replaced.is_empty() {
        let mut file = bag.file_at(&format!("{stem}{}", bagged::REPLACED))?;
        for seq in replaced {
            file.write(format!("{seq}\n").as_bytes())?;
        }
        bag.finish_file(file)?;
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

/// Adds the ZIP that an interrupted export wrote, if it has the pages that the volume has now.
/// Returns those that its METS does not describe.
async fn reused(expected: &Arc<Expected>, bag: &mut BagWriter, zip: &str) -> anyhow::Result<Option<Vec<Seq>>> {
    let Some(earlier) = bag.earlier(zip) else { return Ok(None) };
    let expected = expected.clone();
    match spawn_blocking(move || check(&expected, &earlier)).await? {
        Ok(replaced) => Ok(bag.reuse_at(zip)?.map(|_| replaced)),
        // It is cut off, or of another state.
        Err(_) => Ok(None),
    }
}

/// Refuses a volume whose METS has one file for pages that differ.
fn check_files(described: &[MetsPage], stored: &HashMap<Seq, String>) -> Result<(), Unfit> {
    let mut texts = HashMap::new();
    for page in described {
        let text = stored.get(&page.seq);
        if *texts.entry(&page.file_name).or_insert(text) != text {
            return Err(Unfit::OneFile(page.file_name.clone()));
        }
    }
    Ok(())
}

/// The names that a METS has for the files of pages, by the names that an archive gives them; `None`
/// if they are the same.
fn named_otherwise(described: &[MetsPage]) -> Option<HashMap<String, String>> {
    let names: HashMap<_, _> = described.iter().map(|page| (page.seq.file_name(), page.file_name.clone())).collect();
    names.iter().any(|(name, other)| name != other).then_some(names)
}

/// A temporary file on the disk of the bag.
fn temporary(bag: &BagWriter) -> anyhow::Result<File> {
    tempfile::tempfile_in(bag.folder()).with_context(|| format!("a temporary file in {}", bag.folder().display()))
}

/// The same ZIP with other names of files, at its begin. It is written to `into`.
fn renamed(zip: File, into: File, names: &HashMap<String, String>) -> anyhow::Result<File> {
    let mut archive = ZipArchive::new(zip)?;
    let mut renamed = ZipWriter::new(into);
    let mut written = HashSet::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index)?;
        let path = entry.name()?.into_owned();
        let name = path.rsplit('/').next().unwrap_or_default();
        // Not the folder itself.
        let Some(other) = names.get(name) else { continue };
        // A METS may have one file for several pages. Their texts are the same.
        if !written.insert(other) {
            continue;
        }
        let folder = &path[..path.len() - name.len()];
        renamed.raw_copy_file_rename(entry, format!("{folder}{other}"))?;
    }
    let mut renamed = renamed.finish()?;
    renamed.rewind()?;
    Ok(renamed)
}

/// Reads every page of an exported ZIP, and refuses one with other pages than the volume has. An
/// archive without its damaged pages is one. Returns the pages that the METS does not describe.
fn check(expected: &Expected, zip: &Path) -> anyhow::Result<Vec<Seq>> {
    let file = File::open(zip).with_context(|| zip.display().to_string())?;
    let archive = ZipArchive::new(file.try_clone()?)?;
    let files = archive.file_names_raw().filter(|name| !name.ends_with(b"/")).count();
    let (mets, record) = (expected.mets.to_vec(), expected.record.as_ref().map(|record| record.to_vec()));
    let parts = VolumeParts { id: Some(expected.id.clone()), zip: file, mets, record };
    let mut volume = VolumeReader::of(parts, PagesOf::Zip)?;
    // A reader ignores files that the METS does not name. They would be those of an earlier version.
    let named: HashSet<_> = expected.described.iter().map(|page| &page.file_name).collect();
    ensure!(files == named.len(), "the ZIP has {files} files, and the METS names {}", named.len());
    let mut replaced = Vec::new();
    for (index, described) in expected.described.iter().enumerate() {
        let Page { seq, text, md5, .. } = volume.read_page(index)?;
        ensure!(expected.stored.get(&seq) == Some(&sha256(&text)), "page {seq} of the ZIP is not as it is stored");
        if (described.size, described.md5) != (text.len() as u64, md5) {
            replaced.push(seq);
        }
    }
    Ok(replaced)
}

/// The SHA-256 of a text, in hexadecimal digits.
pub fn sha256(text: &[u8]) -> String {
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
    fn pages_of_one_file_are_one_entry() {
        let names = ["00000001.txt", "00000002.txt"].map(|name| (name.to_owned(), "both.txt".to_owned()));
        let mut zip = ZipWriter::new(tempfile::tempfile().unwrap());
        for name in ["a/00000001.txt", "a/00000002.txt"] {
            zip.start_file(name, SimpleFileOptions::default()).unwrap();
            zip.write_all(b"one").unwrap();
        }
        let renamed = renamed(zip.finish().unwrap(), tempfile::tempfile().unwrap(), &HashMap::from(names)).unwrap();
        let mut renamed = ZipArchive::new(renamed).unwrap();
        let mut text = String::new();
        renamed.by_name("a/both.txt").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), renamed.len()), ("one", 1));
    }

    #[test]
    fn a_volume_whose_mets_has_one_file_for_pages_that_differ_is_refused() {
        let seq = |number| Seq::new(number).unwrap();
        let page = |number| MetsPage {
            seq: seq(number),
            file_name: "both.txt".to_owned(),
            size: 3,
            md5: [0; 16],
            label: None,
            features: Vec::new(),
        };
        let checked = |texts: [&str; 2]| {
            let stored = HashMap::from([(seq(1), texts[0].to_owned()), (seq(2), texts[1].to_owned())]);
            check_files(&[page(1), page(2)], &stored)
        };
        assert!(checked(["one", "one"]).is_ok());
        let refused = checked(["one", "two"]).unwrap_err().to_string();
        assert!(refused.contains("one file, both.txt, for pages that differ"), "{refused}");
    }
}
