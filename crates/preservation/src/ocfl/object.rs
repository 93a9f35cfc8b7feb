//! Writes an object, version by version (OCFL 1.1, section 3).
//!
//! The inventory in the folder of a version is written when all of the version is synced, and the
//! inventory of the object last. So of an interrupted export the versions with an inventory are
//! whole, and anything later is deleted.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256, Sha512};

use super::inventory::{Inventory, Paths, User, Version, number};
use super::reader::INVENTORY_BYTES_MAX;
use super::root::write_whole;
use crate::write::{WriteError, WriteResult, failed, sync_folder, sync_folders};

/// The declaration of an object.
pub const DECLARATION: &str = "0=ocfl_object_1.1";

/// The versions up to this number get an inventory of their own, until all of these have so many
/// bytes, and so does the newest. With one for each, an object of many versions would grow with the
/// square of their number.
const INVENTORIES_MAX: u32 = 100;
const INVENTORIES_BYTES_MAX: u64 = 256 << 20;

/// About how many bytes an inventory has for a file, besides the file's path.
const LISTED_FILE_BYTES: u64 = 165;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 128 << 10;

/// The name of a file that is being written, in the folder of its version.
const PART: &str = "part";

/// An object that is being written.
#[derive(Debug)]
pub struct ObjectWriter {
    folder: PathBuf,
    inventory: Inventory,
    user: User,
    /// The SHA-512 of files of the object that are known to be whole, by their SHA-256.
    known: HashMap<[u8; 32], String>,
    /// The version that is being written.
    state: Paths,
    /// Files of the version that are not durable yet.
    unsynced: Vec<PathBuf>,
    /// About the length of the inventory.
    inventory_bytes: u64,
    /// The bytes of the inventories in the folders of versions.
    kept_bytes: u64,
    /// Whether the folder of the newest version has one.
    is_newest_kept: bool,
}

/// A file of a version that is being written.
#[derive(Debug)]
pub struct ContentFile {
    logical: String,
    part: PathBuf,
    file: BufWriter<File>,
    sha256: Sha256,
    sha512: Sha512,
}

impl ContentFile {
    /// Writes more of it.
    pub fn write(&mut self, bytes: &[u8]) -> WriteResult<()> {
        self.file.write_all(bytes).map_err(failed(&self.part))?;
        self.sha256.update(bytes);
        self.sha512.update(bytes);
        Ok(())
    }

    /// The SHA-256 of what was written so far.
    pub fn sha256(&self) -> [u8; 32] {
        self.sha256.clone().finalize().into()
    }
}

impl ObjectWriter {
    /// Begins an object in a folder, or opens it with the versions that are whole. What an
    /// interrupted export left is deleted, unless it may be a version of which the inventory is
    /// damaged.
    pub(super) fn open(folder: PathBuf, id: &str, user: User) -> WriteResult<Self> {
        let mut versions = versions(&folder)?;
        let len_of = |place: &Path| fs::metadata(place.join("inventory.json")).map_or(0, |file| file.len());
        let kept_bytes = versions.iter().map(|(_, place)| len_of(place)).sum();
        versions.sort_unstable_by_key(|(version, _)| Reverse(*version));
        let mut whole = None;
        let mut unfinished = Vec::new();
        for (version, place) in versions {
            match Kept::read(&place)? {
                Kept::Whole(inventory) => {
                    whole = Some((version, inventory));
                    break;
                }
                Kept::Damaged(_) => return Err(damaged(&place)),
                Kept::Part => unfinished.push(place),
            }
        }
        let (whole, inventory) = whole.unwrap_or_else(|| (0, Inventory::new(id)));
        if inventory.id != id || inventory.newest() != Some(whole) {
            let why = format!("it is the inventory of {} in version {}", inventory.id, inventory.head);
            return Err(WriteError::Damaged { path: folder, why });
        }
        // The object's own inventory is written when all versions are whole.
        let listed = match Kept::read(&folder)? {
            Kept::Whole(inventory) | Kept::Damaged(Some(inventory)) => newest_of(&inventory),
            // It cannot be read, so nothing may be deleted.
            Kept::Damaged(None) if !unfinished.is_empty() => return Err(damaged(&folder)),
            Kept::Damaged(None) | Kept::Part => u32::from(folder.join(DECLARATION).exists()),
        };
        if listed > whole {
            return Err(damaged(&folder.join(format!("v{listed}"))));
        }
        for place in unfinished {
            fs::remove_dir_all(&place).map_err(failed(&place))?;
        }
        let inventory_bytes = len_of(&folder.join(&inventory.head));
        Ok(Self {
            folder,
            inventory,
            user,
            known: HashMap::new(),
            state: Paths::new(),
            unsynced: Vec::new(),
            inventory_bytes,
            kept_bytes,
            is_newest_kept: true,
        })
    }

    /// The inventory, with the versions that are finished.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    fn next(&self) -> String {
        format!("v{}", self.inventory.newest().unwrap_or(0) + 1)
    }

    /// Begins a file of the next version. Its path has slashes between names, which are the names
    /// of files.
    pub fn file(&self, logical: &str) -> WriteResult<ContentFile> {
        let folder = self.folder.join(self.next());
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let part = folder.join(PART);
        let file = BufWriter::new(File::create(&part).map_err(failed(&part))?);
        Ok(ContentFile { logical: logical.to_owned(), part, file, sha256: Sha256::new(), sha512: Sha512::new() })
    }

    /// Finishes a file. Bytes that the object has already are stored once.
    pub fn finish_file(&mut self, file: ContentFile) -> WriteResult<()> {
        let ContentFile { logical, part, file, sha256, sha512 } = file;
        file.into_inner().map_err(|error| failed(&part)(error.into_error()))?;
        let digest = hex::encode(sha512.finalize());
        let is_known = self.known.insert(sha256.finalize().into(), digest.clone()).is_some();
        let stored = self.inventory.manifest.get(&digest).and_then(|paths| paths.first()).cloned();
        let content = stored.clone().unwrap_or_else(|| format!("{}/content/{logical}", self.next()));
        let path = self.folder.join(&content);
        // A file that was not read since it was written may be damaged. The good one takes its place.
        match stored.is_some() && (is_known || is_whole(&path, &digest)?) {
            true => fs::remove_file(&part).map_err(failed(&part))?,
            false => {
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent).map_err(failed(parent))?;
                }
                fs::rename(&part, &path).map_err(failed(&path))?;
                if let Some(parent) = path.parent().filter(|_| stored.is_some()) {
                    sync_folder(parent)?;
                }
                self.unsynced.push(path);
                self.inventory_bytes += LISTED_FILE_BYTES + content.len() as u64;
                self.inventory.manifest.entry(digest.clone()).or_insert_with(|| vec![content]);
            }
        }
        self.state.entry(digest).or_default().push(logical);
        Ok(())
    }

    /// Reads the files of the newest version, so that the next one can have the same ones.
    pub fn know_newest(&mut self) -> WriteResult<()> {
        let digests: Vec<_> =
            self.inventory.newest_version().into_iter().flat_map(|newest| newest.state.keys().cloned()).collect();
        for digest in digests {
            let Some(content) = self.inventory.manifest.get(&digest).and_then(|paths| paths.first()) else { continue };
            let path = self.folder.join(content);
            let (sha256, sha512) = sums(&path)?;
            if sha512 != digest {
                let why = "its bytes have another digest than the inventory says".to_owned();
                return Err(WriteError::Damaged { path, why });
            }
            self.known.insert(sha256, digest);
        }
        Ok(())
    }

    /// Adds a file with bytes that the object is known to have, if it is.
    pub fn reuse(&mut self, logical: &str, sha256: &[u8; 32]) -> bool {
        let Some(digest) = self.known.get(sha256) else { return false };
        self.state.entry(digest.clone()).or_default().push(logical.to_owned());
        true
    }

    /// Whether the version that is being written has the same files as the newest one.
    pub fn is_same_as_newest(&self) -> bool {
        self.inventory.newest_version().is_some_and(|newest| newest.state == self.state)
    }

    /// Drops the version that is being written.
    pub fn abandon_version(&mut self) -> WriteResult<()> {
        self.state.clear();
        self.unsynced.clear();
        let content = format!("{}/", self.next());
        let Self { inventory, known, .. } = self;
        inventory.manifest.retain(|_, paths| !paths.iter().any(|path| path.starts_with(&content)));
        known.retain(|_, digest| inventory.manifest.contains_key(digest));
        let folder = self.folder.join(self.next());
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&folder)(error)),
            _ => Ok(()),
        }
    }

    /// Finishes a version, made at a time (RFC 3339).
    pub fn finish_version(&mut self, created: String, message: String) -> WriteResult<()> {
        let name = self.next();
        let folder = self.folder.join(&name);
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let state = std::mem::take(&mut self.state);
        let paths = state.values().flatten();
        self.inventory_bytes += paths.map(|path| LISTED_FILE_BYTES + path.len() as u64).sum::<u64>();
        if self.inventory_bytes > INVENTORY_BYTES_MAX {
            return Err(WriteError::TooLong(self.folder.join("inventory.json")));
        }
        let version = Version { created, message: Some(message), user: Some(self.user.clone()), state };
        self.inventory.versions.insert(name.clone(), version);
        self.inventory.head = name;
        // All at once: a file system writes many files together quicker than one after the other.
        for path in self.unsynced.drain(..) {
            File::open(&path).and_then(|file| file.sync_all()).map_err(failed(&path))?;
        }
        sync_folders(&folder)?;
        let is_early = self.inventory.newest().is_some_and(|newest| newest <= INVENTORIES_MAX);
        self.is_newest_kept = is_early && self.kept_bytes < INVENTORIES_BYTES_MAX;
        if self.is_newest_kept {
            self.kept_bytes += self.write_inventory(&folder)?;
        }
        Ok(())
    }

    /// Finishes the object.
    pub fn finish(self) -> WriteResult<()> {
        if self.inventory.versions.is_empty() {
            return self.remove();
        }
        if !self.is_newest_kept {
            self.write_inventory(&self.folder.join(&self.inventory.head))?;
        }
        let declaration = self.folder.join(DECLARATION);
        if !declaration.exists() {
            write_whole(&declaration, b"ocfl_object_1.1\n")?;
        }
        match Kept::read(&self.folder)? {
            Kept::Whole(inventory) if inventory == self.inventory => Ok(()),
            _ => self.write_inventory(&self.folder).map(|_| ()),
        }
    }

    /// Removes the folders of versions, and that of the object and those above if they are empty
    /// then. That of the storage root never is. What is not of an export stays.
    fn remove(&self) -> WriteResult<()> {
        for (_, place) in versions(&self.folder)? {
            fs::remove_dir_all(&place).map_err(failed(&place))?;
        }
        let is_removed = |folder: &&Path| fs::remove_dir(folder).is_ok() || !folder.exists();
        self.folder.ancestors().take_while(is_removed).for_each(drop);
        Ok(())
    }

    /// Returns the length of the inventory.
    fn write_inventory(&self, folder: &Path) -> WriteResult<u64> {
        let (text, sidecar) = self.inventory.written();
        let path = folder.join("inventory.json");
        if text.len() as u64 > INVENTORY_BYTES_MAX {
            return Err(WriteError::TooLong(path));
        }
        write_whole(&path, &text)?;
        write_whole(&folder.join("inventory.json.sha512"), sidecar.as_bytes())?;
        Ok(text.len() as u64)
    }
}

/// What the inventory in a folder is.
enum Kept {
    /// Its digest fits.
    Whole(Inventory),
    /// Its digest does not fit. What can be read of it.
    Damaged(Option<Inventory>),
    /// It, or its digest, is not there.
    Part,
}

impl Kept {
    fn read(folder: &Path) -> WriteResult<Self> {
        let read = |name: &str| match fs::read(folder.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some).map_err(failed(&folder.join(name))),
        };
        let (Some(text), Some(sidecar)) = (read("inventory.json")?, read("inventory.json.sha512")?) else {
            return Ok(Self::Part);
        };
        let said = String::from_utf8_lossy(&sidecar);
        let is_whole = said.split_whitespace().next() == Some(&hex::encode(Sha512::digest(&text)));
        Ok(match (serde_json::from_slice(&text).ok(), is_whole) {
            (Some(inventory), true) => Self::Whole(inventory),
            (inventory, _) => Self::Damaged(inventory),
        })
    }
}

/// The folders of versions in that of an object, if there is any.
fn versions(folder: &Path) -> WriteResult<Vec<(u32, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed(folder))?,
    };
    let mut versions = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed(folder))?;
        let version = entry.file_name().to_str().and_then(number);
        versions.extend(version.map(|version| (version, entry.path())));
    }
    Ok(versions)
}

/// The newest version that an inventory names anywhere.
fn newest_of(inventory: &Inventory) -> u32 {
    inventory.versions.keys().chain([&inventory.head]).filter_map(|name| number(name)).max().unwrap_or(0)
}

/// The error of an inventory without which finished versions would be deleted.
fn damaged(folder: &Path) -> WriteError {
    let why = "a finished version needs it. Bring it back from a copy of the storage root".to_owned();
    WriteError::Damaged { path: folder.join("inventory.json"), why }
}

/// Whether a file is there and has this SHA-512.
fn is_whole(path: &Path, digest: &str) -> WriteResult<bool> {
    match path.exists() {
        true => Ok(sums(path)?.1 == digest),
        false => Ok(false),
    }
}

/// The SHA-256 and the SHA-512 of a file.
fn sums(path: &Path) -> WriteResult<([u8; 32], String)> {
    let (mut sha256, mut sha512) = (Sha256::new(), Sha512::new());
    let mut file = File::open(path).map_err(failed(path))?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece).map_err(failed(path))? {
            0 => return Ok((sha256.finalize().into(), hex::encode(sha512.finalize()))),
            len => {
                sha256.update(&piece[..len]);
                sha512.update(&piece[..len]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_length_of_an_inventory_is_about_known_before_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let user = User { name: "test".to_owned(), address: None };
        let mut object = ObjectWriter::open(folder.path().join("object"), "penates:/a", user).unwrap();
        for version in 0..10 {
            for page in 0..30 {
                let mut file = object.file(&format!("pages/{page:08}.txt")).unwrap();
                file.write(format!("{} of {page}", if page < 20 { 0 } else { version }).as_bytes()).unwrap();
                object.finish_file(file).unwrap();
            }
            object.finish_version("2025-06-15T15:06:40.007Z".to_owned(), "a version".to_owned()).unwrap();
        }
        let (known, written) = (object.inventory_bytes, object.inventory.written().0.len() as u64);
        assert!(known.abs_diff(written) < written / 10, "{known} {written}");
        assert!(object.kept_bytes > written);
    }
}
