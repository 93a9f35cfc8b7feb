//! Loads the versions of a volume from its object: each is an import of its own.
//!
//! The ZIP of a version is made in a temporary file, page by page, and every byte is compared with
//! its digest once more.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use hathi::archive::{MAX_PAGE_BYTES, RATIO_FREE_BYTES};
use hathi::mets::MAX_METS_BYTES;
use hathi::record::MAX_RECORD_BYTES;
use hathi::{Mets, Record, VolumeId};
use http::header::CONTENT_TYPE;
use http::{Method, Request, StatusCode};
use preservation::archived_volume::{self, ArchivedVolume};
use preservation::bagit::text::Algorithm;
use preservation::ocfl::inventory::Version;
use preservation::ocfl::{Content, Object};
use preservation::read::digest_of;
use tempfile::NamedTempFile;
use tokio::task::spawn_blocking;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::client::multipart::{self, Form, Part};
use crate::client::{self, Client, ClientError, segment};
use crate::commands::export::{ListedPage, record};
use crate::commands::history::{VolumeVersion, versions_of_volume};

/// An object of a volume.
pub struct Volume {
    id: VolumeId,
    object: Arc<Object>,
}

/// What a volume consists of: the SHA-256 of its METS, of its record, and of its pages.
#[derive(PartialEq, Eq)]
struct Contents {
    mets: [u8; 32],
    record: Option<[u8; 32]>,
    pages: BTreeMap<u32, [u8; 32]>,
}

impl Volume {
    /// The volume that an object is of; `None` if it is of none.
    pub fn of(object: &Arc<Object>) -> anyhow::Result<Option<Self>> {
        let Some(id) = archived_volume::volume(object.id()) else { return Ok(None) };
        let parsed = VolumeId::parse(&id).with_context(|| object.id().to_owned())?;
        // An id is in one form alone.
        ensure!(parsed.as_str() == id, "{}: it is not the identifier of a volume", object.id());
        Ok(Some(Self { id: parsed, object: object.clone() }))
    }

    /// Its id.
    pub fn id(&self) -> &VolumeId {
        &self.id
    }

    /// Checks that each version is a volume: its METS and record are those of this one, and its
    /// pages are those that the METS names.
    pub fn check(&self) -> anyhow::Result<()> {
        // Versions share most of their files.
        let mut parsed: HashMap<Vec<u8>, Vec<(u32, String)>> = HashMap::new();
        for (n, version) in self.object.versions().into_iter().enumerate() {
            if is_deletion(version) {
                ensure!(n > 0, "{}: its first version has no files", self.object.id());
                continue;
            }
            let ArchivedVolume { mets, record, pages } = self.read(version)?;
            let named = || format!("{}: version {}", self.object.id(), n + 1);
            let named_pages = match parsed.entry(mets.digest.clone()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(vacant) => vacant.insert(self.pages(&mets).with_context(named)?),
            };
            let is_same = named_pages.iter().map(|(seq, _)| seq).eq(pages.keys());
            ensure!(is_same, "{}: its pages are not those that the METS names", named());
            // Each version is imported with the names of the METS.
            let mut files = HashMap::new();
            for ((_, name), page) in named_pages.iter().zip(pages.values()) {
                let is_same = *files.entry(name).or_insert(&page.digest) == &page.digest;
                ensure!(is_same, "{}: its METS has one file, {name}, for pages that differ", named());
            }
            if let Some(record) = record {
                let record = Record::parse(&read_small(&record, MAX_RECORD_BYTES as u64)?).with_context(named)?;
                ensure!(record.id == self.id, "{}: its record is of {}", named(), record.id);
            }
            for content in pages.values() {
                let len_bytes = fs::metadata(&content.place).with_context(named)?.len();
                let shown = content.place.display();
                ensure!(len_bytes <= MAX_PAGE_BYTES, "{shown}: a page has at most {MAX_PAGE_BYTES} bytes");
            }
        }
        Ok(())
    }

    /// The sequences of the pages that a METS names, and the names of their files.
    fn pages(&self, mets: &Content) -> anyhow::Result<Vec<(u32, String)>> {
        let mets = Mets::parse(&read_small(mets, MAX_METS_BYTES as u64)?)?;
        let is_of_this = mets.id.as_deref().is_none_or(|id| id == self.id.as_str());
        ensure!(is_of_this, "its METS is of {}", mets.id.unwrap_or_default());
        Ok(mets.pages.into_iter().map(|page| (page.seq.get(), page.file_name)).collect())
    }

    /// The version with this number, counted from 0.
    fn version(&self, version: usize) -> anyhow::Result<ArchivedVolume> {
        self.read(self.object.version(version).context("there is no such version")?)
    }

    fn read(&self, version: &Version) -> anyhow::Result<ArchivedVolume> {
        Ok(ArchivedVolume::read(&self.object, version, &self.id.cleaned_local())?)
    }

    /// Whether the volume was deleted in a version, counted from 0.
    pub fn is_deleted_in(&self, version: usize) -> bool {
        self.object.version(version).is_some_and(is_deletion)
    }

    /// How many of these first versions are no deletions.
    fn live_among(&self, first: usize) -> usize {
        (0..first).filter(|version| !self.is_deleted_in(*version)).count()
    }

    /// The last version before this one that is no deletion. There is one before each deletion.
    fn live_before(&self, version: usize) -> usize {
        (0..version).rev().find(|before| !self.is_deleted_in(*before)).unwrap_or_default()
    }

    /// How much of it a repository has already.
    pub async fn loaded(&self, client: &Client) -> anyhow::Result<There> {
        let made = match versions_of_volume(client, &self.id).await {
            Err(error) if error.status() == Some(StatusCode::GONE) => None,
            made => made?,
        };
        let made: Vec<_> = made.into_iter().flat_map(|made| made.versions).collect();
        let address = format!("/volumes/{}", segment(&self.id));
        let version = |version: &VolumeVersion| format!("{address}/versions/{}", version.revision);
        let total = self.object.versions().len();
        let ends_deleted = self.is_deleted_in(total - 1);
        let (stored, is_deleted) = match self.stored(client, &address).await {
            Ok(stored) => (stored, false),
            Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => {
                let is_lost = ends_deleted && !keeps_versions(client).await?;
                return Ok(if is_lost { There::NotKept } else { There::Versions(0) });
            }
            Err(error) if error.status() == Some(StatusCode::GONE) => match made.last() {
                Some(last) => (self.stored(client, &version(last)).await?, true),
                // Nothing is known of what was deleted.
                None if ends_deleted => return Ok(There::Versions(total)),
                None => bail!(self.is_deleted_here()),
            },
            Err(error) => return Err(error.into()),
        };
        let mut known = HashMap::new();
        // The first ones are there, if all are kept; else the last one says how many.
        let mut count = None;
        if let Some(first) = made.first() {
            let ends_alike = |done: &usize| self.is_deleted_in(done - 1) == is_deleted;
            let as_many = |done: &usize| ends_alike(done) && self.live_among(*done) == made.len();
            count = (1..=total).rev().find(as_many);
            if count.is_some() && self.stored(client, &version(first)).await? != self.contents(0, &mut known)? {
                count = None;
            }
        }
        for done in count.into_iter().chain((1..=total).rev()) {
            let is_same_end = self.is_deleted_in(done - 1) == is_deleted;
            if is_same_end && self.contents(self.live_before(done), &mut known)? == stored {
                return Ok(There::Versions(done));
            }
        }
        match is_deleted {
            true => bail!(self.is_deleted_here()),
            false => bail!("there is another volume"),
        }
    }

    fn is_deleted_here(&self) -> String {
        format!("it is deleted here: `penates restore --volume {}` or an import brings it back", self.id)
    }

    /// Deletes the volume, as a version says, if it is as the versions before say.
    pub async fn delete(&self, version: usize, client: &Client) -> anyhow::Result<()> {
        let address = format!("/volumes/{}", segment(&self.id));
        let is_same =
            self.stored(client, &address).await? == self.contents(self.live_before(version), &mut HashMap::new())?;
        ensure!(is_same, "it is not deleted: there is another volume");
        client.ask(&address, Request::builder().method(Method::DELETE), client::empty()).await?;
        Ok(())
    }

    /// What the volume, or the version of one, at an address consists of.
    async fn stored(&self, client: &Client, address: &str) -> Result<Contents, ClientError> {
        let pages: Vec<ListedPage> = client.get_json(&format!("{address}/pages/")).await?;
        let mets = client::whole(client.get(&format!("{address}/mets"), "*/*").await?).await?;
        let record = match record(client, address).await? {
            Some(response) => Some(sha256(&client::whole(response).await?)),
            None => None,
        };
        let digest = |page: ListedPage| {
            let mut digest = [0; 32];
            // A digest that cannot be read is that of no page.
            hex::decode_to_slice(&page.sha256, &mut digest).unwrap_or_default();
            (page.seq.get(), digest)
        };
        Ok(Contents { mets: sha256(&mets), record, pages: pages.into_iter().map(digest).collect() })
    }

    /// What a version consists of. `known` are digests of files that were read, by those that the
    /// object has.
    fn contents(&self, version: usize, known: &mut HashMap<Vec<u8>, [u8; 32]>) -> anyhow::Result<Contents> {
        let ArchivedVolume { mets, record, pages } = self.version(version)?;
        let mut digest = |content: &Content| match known.get(&content.digest) {
            Some(digest) => Ok(*digest),
            None => {
                let digest = as_sha256(digest_of(&content.place, Algorithm::Sha256)?);
                known.insert(content.digest.clone(), digest);
                anyhow::Ok(digest)
            }
        };
        Ok(Contents {
            mets: digest(&mets)?,
            record: record.as_ref().map(&mut digest).transpose()?,
            pages: pages.iter().map(|(seq, page)| Ok((*seq, digest(page)?))).collect::<anyhow::Result<_>>()?,
        })
    }

    /// Imports a version. Returns the bytes of its ZIP, and whether it has a page that is not the one
    /// that its METS says.
    pub async fn import(&self, version: usize, client: &Client) -> anyhow::Result<(u64, bool)> {
        let state = |version: usize| self.object.version(version).map(|version| &version.state);
        // The same once more was a version, too.
        let is_again = version > 0 && state(version - 1) == state(version);
        let volume = self.version(version)?;
        let algorithm = self.object.algorithm();
        let Packed { zip, mets, record, is_replaced } =
            spawn_blocking(move || Packed::of(&volume, algorithm)).await??;
        let zip_bytes = zip.as_file().metadata()?.len();
        let part = |name, content_type, content| Part { name, content_type, content };
        let zip_part = part("zip", "application/zip", multipart::Content::File(zip.path().to_owned()));
        let mut parts = vec![zip_part, part("mets", "text/xml", multipart::Content::Memory(mets))];
        parts.extend(record.map(|record| part("record", "application/json", multipart::Content::Memory(record))));
        let form = Form::new(parts);
        let query = match (is_again, is_replaced) {
            (false, false) => "",
            (true, false) => "?force=true",
            (false, true) => "?replaced=true",
            (true, true) => "?force=true&replaced=true",
        };
        let request = Request::builder().method(Method::PUT).header(CONTENT_TYPE, form.content_type());
        let address = format!("/volumes/{}{query}", segment(&self.id));
        client.ask(&address, request, client::stream(form.pieces())).await?;
        Ok((zip_bytes, is_replaced))
    }
}

/// How much of a volume a repository has already.
pub enum There {
    /// So many versions. The volume is as the last of them says.
    Versions(usize),
    /// Nothing, and nothing would stay: the volume was deleted, and no versions are kept.
    NotKept,
}

/// Whether the volume was deleted. Such a version has no files.
fn is_deletion(version: &Version) -> bool {
    version.state.is_empty()
}

/// Whether a server keeps earlier versions of volumes.
async fn keeps_versions(client: &Client) -> Result<bool, ClientError> {
    match client.get("/volumes/?deleted=true", "application/x-ndjson").await {
        Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => Ok(false),
        listed => listed.map(|_| true),
    }
}

/// A version of a volume as it is imported.
struct Packed {
    zip: NamedTempFile,
    mets: Bytes,
    record: Option<Bytes>,
    /// Whether a page is not the one that the METS says.
    is_replaced: bool,
}

impl Packed {
    fn of(volume: &ArchivedVolume, algorithm: Algorithm) -> anyhow::Result<Self> {
        let checked = |content: &Content, max_bytes: u64| {
            let bytes = read_small(content, max_bytes)?;
            ensure!(digest(algorithm, &bytes) == content.digest, "{}: it has changed", content.place.display());
            Ok(bytes)
        };
        let mets = checked(&volume.mets, MAX_METS_BYTES as u64)?;
        let record = volume.record.as_ref().map(|record| checked(record, MAX_RECORD_BYTES as u64)).transpose()?;
        let mut is_replaced = false;
        let mut names = HashMap::new();
        let file = NamedTempFile::new().context("a temporary file for a ZIP")?;
        let mut zip = ZipWriter::new(io::BufWriter::new(file.reopen()?));
        for page in Mets::parse(&mets)?.pages {
            let content =
                volume.pages.get(&page.seq.get()).with_context(|| format!("there is no page {}", page.seq))?;
            let text = checked(content, MAX_PAGE_BYTES)?;
            is_replaced |= text.len() as u64 != page.size || digest(Algorithm::Md5, &text) != page.md5;
            match names.insert(page.file_name.clone(), content.digest.clone()) {
                None => {}
                Some(before) if before == content.digest => continue,
                Some(_) => bail!("its METS names {} for two pages", page.file_name),
            }
            // A reader of ZIPs refuses long texts that are compressed very well.
            let method = match text.len() as u64 > RATIO_FREE_BYTES {
                true => CompressionMethod::Stored,
                false => CompressionMethod::Deflated,
            };
            zip.start_file(page.file_name, SimpleFileOptions::default().compression_method(method))?;
            zip.write_all(&text)?;
        }
        zip.finish()?.flush()?;
        Ok(Self { zip: file, mets: mets.into(), record: record.map(Bytes::from), is_replaced })
    }
}

fn digest(algorithm: Algorithm, bytes: &[u8]) -> Vec<u8> {
    let mut digest = algorithm.begin();
    digest.update(bytes);
    digest.finalize().into()
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    as_sha256(digest(Algorithm::Sha256, bytes))
}

fn as_sha256(digest: Vec<u8>) -> [u8; 32] {
    digest.try_into().unwrap_or_default()
}

/// The bytes of a file that has at most so many.
fn read_small(content: &Content, max_bytes: u64) -> anyhow::Result<Vec<u8>> {
    let named = || content.place.display().to_string();
    let mut bytes = Vec::new();
    File::open(&content.place).and_then(|file| file.take(max_bytes + 1).read_to_end(&mut bytes)).with_context(named)?;
    ensure!(bytes.len() as u64 <= max_bytes, "{}: it has more than {max_bytes} bytes", named());
    Ok(bytes)
}
