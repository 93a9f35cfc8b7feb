//! Writes an object, version by version (OCFL 1.1, section 3).
//!
//! The inventory in the folder of a version is written when all of the version is synced, and the
//! inventory of the object last. So of an interrupted export the versions with an inventory are
//! whole, and anything later is deleted.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256, Sha512};

use super::inventory::{Inventory, Paths, User, Version, number};
use super::root::write_whole;
use crate::write::{WriteError, WriteResult, failed, sync_folders};

/// The declaration of an object.
pub const DECLARATION: &str = "0=ocfl_object_1.1";

/// The versions up to this number get an inventory of their own, and so does the newest. With one
/// for each, an object of many versions would grow with the square of their number.
const INVENTORIES_MAX: u32 = 100;

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
    is_changed: bool,
    /// Files of the version that are not durable yet.
    unsynced: Vec<PathBuf>,
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
    /// Begins an object in a folder, or opens it with the versions that are whole.
    pub(super) fn open(folder: PathBuf, id: &str, user: User) -> WriteResult<Self> {
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let mut newest: Option<(u32, Inventory)> = None;
        let mut versions = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed(&folder))? {
            let entry = entry.map_err(failed(&folder))?;
            let Some(version) = entry.file_name().to_str().and_then(number) else { continue };
            if let Some(inventory) = whole_inventory(&entry.path())?
                && newest.as_ref().is_none_or(|(known, _)| *known < version)
            {
                newest = Some((version, inventory));
            }
            versions.push((version, entry.path()));
        }
        let (whole, inventory) = newest.unwrap_or_else(|| (0, Inventory::new(id)));
        if inventory.id != id || inventory.newest() != Some(whole) {
            let why = format!("it is the inventory of {} in version {}", inventory.id, inventory.head);
            return Err(WriteError::Damaged { path: folder, why });
        }
        for (_, unfinished) in versions.iter().filter(|(version, _)| *version > whole) {
            fs::remove_dir_all(unfinished).map_err(failed(unfinished))?;
        }
        Ok(Self {
            folder,
            inventory,
            user,
            known: HashMap::new(),
            state: Paths::new(),
            is_changed: false,
            unsynced: Vec::new(),
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
        self.known.insert(sha256.finalize().into(), digest.clone());
        match self.inventory.manifest.contains_key(&digest) {
            true => fs::remove_file(&part).map_err(failed(&part))?,
            false => {
                let content = format!("{}/content/{logical}", self.next());
                let path = self.folder.join(&content);
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent).map_err(failed(parent))?;
                }
                fs::rename(&part, &path).map_err(failed(&path))?;
                self.unsynced.push(path);
                self.inventory.manifest.insert(digest.clone(), vec![content]);
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
            let (mut sha256, mut sha512) = (Sha256::new(), Sha512::new());
            let mut file = File::open(&path).map_err(failed(&path))?;
            let mut piece = vec![0; PIECE_BYTES];
            loop {
                match file.read(&mut piece).map_err(failed(&path))? {
                    0 => break,
                    len => {
                        sha256.update(&piece[..len]);
                        sha512.update(&piece[..len]);
                    }
                }
            }
            if hex::encode(sha512.finalize()) != digest {
                let why = "its bytes have another digest than the inventory says".to_owned();
                return Err(WriteError::Damaged { path, why });
            }
            self.known.insert(sha256.finalize().into(), digest);
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

    /// Drops the version that is being written. It must have no new files.
    pub fn abandon_version(&mut self) -> WriteResult<()> {
        self.state.clear();
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
        let version = Version { created, message: Some(message), user: Some(self.user.clone()), state };
        self.inventory.versions.insert(name.clone(), version);
        self.inventory.head = name;
        self.is_changed = true;
        // All at once: a file system writes many files together quicker than one after the other.
        for path in self.unsynced.drain(..) {
            File::open(&path).and_then(|file| file.sync_all()).map_err(failed(&path))?;
        }
        sync_folders(&folder)?;
        if self.inventory.newest().is_some_and(|newest| newest <= INVENTORIES_MAX) {
            self.write_inventory(&folder)?;
        }
        Ok(())
    }

    /// Finishes the object.
    pub fn finish(self) -> WriteResult<()> {
        if self.inventory.versions.is_empty() {
            return fs::remove_dir_all(&self.folder).map_err(failed(&self.folder));
        }
        let newest = self.folder.join(&self.inventory.head);
        if self.inventory.newest().is_some_and(|newest| newest > INVENTORIES_MAX) && self.is_changed {
            self.write_inventory(&newest)?;
        }
        let declaration = self.folder.join(DECLARATION);
        if !declaration.exists() {
            write_whole(&declaration, b"ocfl_object_1.1\n")?;
        }
        match whole_inventory(&self.folder)?.as_ref() == Some(&self.inventory) {
            true => Ok(()),
            false => self.write_inventory(&self.folder),
        }
    }

    fn write_inventory(&self, folder: &Path) -> WriteResult<()> {
        let (text, sidecar) = self.inventory.written();
        write_whole(&folder.join("inventory.json"), &text)?;
        write_whole(&folder.join("inventory.json.sha512"), sidecar.as_bytes())
    }
}

/// The inventory in a folder, if it is there and its digest fits.
fn whole_inventory(folder: &Path) -> WriteResult<Option<Inventory>> {
    let read = |name: &str| match fs::read(folder.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(failed(&folder.join(name))),
    };
    let (Some(text), Some(sidecar)) = (read("inventory.json")?, read("inventory.json.sha512")?) else {
        return Ok(None);
    };
    let said = String::from_utf8_lossy(&sidecar);
    let is_whole = said.split_whitespace().next() == Some(&hex::encode(Sha512::digest(&text)));
    Ok(serde_json::from_slice(&text).ok().filter(|_| is_whole))
}
