//! Checks a storage root and its objects, with every byte of every file (OCFL 1.0 and 1.1, sections
//! 3 and 4).
//!
//! A stranger may have written them. Nothing outside the root is read, and symbolic links are
//! refused. Objects are found by their declarations, whatever the layout is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::inventory::{Inventory, Paths, Version, number};
use crate::bagit::text::{Algorithm, is_inside};
use crate::read::{ReadError, ReadResult, digest_of, failed, invalid, read_small};

/// The most bytes of an inventory.
pub(super) const INVENTORY_BYTES_MAX: u64 = 256 << 20;

/// Longer inventories are in memory one at a time, where objects are read side by side.
const SHARED_INVENTORY_BYTES_MAX: u64 = 16 << 20;

/// Held by the reader of a long inventory.
static TURN: Mutex<()> = Mutex::new(());

/// The most folders within each other.
const DEPTH_MAX: usize = 1_000;

/// The most bytes of the file with the digest of an inventory.
const SIDECAR_BYTES_MAX: u64 = 1_000;

/// The folder of a mutable head (OCFL extension 0005), and where its files are.
const MUTABLE_HEAD: &str = "extensions/0005-mutable-head";
const MUTABLE_HEAD_FILES: &str = "extensions/0005-mutable-head/head/";

/// The file with what an object has.
const INVENTORY: &str = "inventory.json";

/// Declarations of storage roots, and of objects.
const ROOTS: [&str; 2] = ["0=ocfl_1.1", "0=ocfl_1.0"];
const OBJECTS: [&str; 2] = ["0=ocfl_object_1.1", "0=ocfl_object_1.0"];

/// Whether a folder declares itself a storage root.
pub fn is_root(folder: &Path) -> bool {
    ROOTS.iter().any(|declaration| folder.join(declaration).exists())
}

/// Calls `each` with the folder of each object in a storage root, in no order.
///
/// # Errors
/// The first one of `each`, and [`ReadError`](crate::read::ReadError) about folders.
pub fn each_object(root: &Path, each: &mut dyn FnMut(&Path) -> ReadResult<()>) -> ReadResult<()> {
    each_object_or_wrong(root, &mut |object| each(object?))
}

/// The same, also with what is wrong with folders. These are left out then. Below the root, files are
/// in objects only (OCFL 1.1, section 4.2): another one may be of an object that is damaged.
///
/// # Errors
/// The first one of `each`.
pub fn each_object_or_wrong(root: &Path, each: &mut dyn FnMut(ReadResult<&Path>) -> ReadResult<()>) -> ReadResult<()> {
    let mut waiting = vec![(root.to_owned(), 0)];
    // That of the last object. Others are likely to have the same one, and then need no further look.
    let mut likely = OBJECTS[0];
    while let Some((folder, depth)) = waiting.pop() {
        if folder.join(likely).exists() {
            each(Ok(&folder))?;
            continue;
        }
        let Listed { declaration, has_inventory, has_file, folders, wrong } = match listed(&folder, depth) {
            Ok(listed) => listed,
            Err(error) => {
                each(Err(error))?;
                continue;
            }
        };
        if let Some(declaration) = declaration {
            likely = declaration;
            each(Ok(&folder))?;
            continue;
        }
        if depth > 0 && has_inventory {
            let why = format!("it has an inventory, and does not declare itself an object ({})", OBJECTS.join(" or "));
            each(Err(invalid(folder.display().to_string(), why)))?;
            continue;
        }
        waiting.extend(folders.into_iter().map(|folder| (folder, depth + 1)));
        wrong.into_iter().try_for_each(|error| each(Err(error)))?;
        // One says enough of a folder.
        if depth > 0 && has_file {
            each(Err(invalid(folder.display().to_string(), "it has files, and is no object")))?;
        }
    }
    Ok(())
}

/// What is in a folder of a storage root.
#[derive(Default)]
struct Listed {
    /// That of an object.
    declaration: Option<&'static str>,
    has_inventory: bool,
    has_file: bool,
    folders: Vec<PathBuf>,
    /// What is wrong with the rest.
    wrong: Vec<ReadError>,
}

/// Lists a folder of a storage root, which is so deep.
fn listed(folder: &Path, depth: usize) -> ReadResult<Listed> {
    let mut listed = Listed::default();
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                listed.wrong.push(failed(folder)(error));
                continue;
            }
        };
        let name = entry.file_name();
        let declared = OBJECTS.into_iter().find(|declaration| name == *declaration);
        // It may be a link to nothing.
        listed.declaration = listed.declaration.or(declared.filter(|_| entry.path().exists()));
        listed.has_inventory |= name == INVENTORY;
        let wrong = |why: &str| invalid(entry.path().display().to_string(), why);
        match entry.file_type() {
            Err(error) => listed.wrong.push(failed(folder)(error)),
            Ok(kind) if kind.is_symlink() => listed.wrong.push(wrong("links are not followed")),
            Ok(_) if depth >= DEPTH_MAX => listed.wrong.push(wrong("folders are nested too deep")),
            Ok(kind) if !kind.is_dir() => listed.has_file = true,
            // That of extensions in the root.
            Ok(_) if depth == 0 && name == "extensions" => {}
            Ok(_) => listed.folders.push(entry.path()),
        }
    }
    Ok(listed)
}

/// An object with an inventory that makes sense.
#[derive(Debug)]
pub struct Object {
    folder: PathBuf,
    inventory: Inventory,
    /// The names of its versions, oldest first.
    names: Vec<String>,
    algorithm: Algorithm,
    /// The digest of its inventory.
    digest: String,
}

/// A file of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Where its bytes are.
    pub place: PathBuf,
    /// Their digest.
    pub digest: Vec<u8>,
}

impl Object {
    /// Reads the inventory of the object in a folder, and checks it.
    ///
    /// # Errors
    /// [`ReadError`](crate::read::ReadError) that names the object.
    pub fn open(folder: &Path) -> ReadResult<Self> {
        if folder.join(MUTABLE_HEAD).exists() {
            let shown = folder.display().to_string();
            return Err(invalid(shown, "it has a mutable head: commit it first"));
        }
        Self::read(folder, folder)
    }

    /// The same for an object that may have a mutable head (OCFL extension 0005). What is there
    /// counts as its newest version.
    ///
    /// # Errors
    /// [`ReadError`](crate::read::ReadError) that names the object.
    pub fn open_with_mutable_head(folder: &Path) -> ReadResult<Self> {
        Self::open_calling(folder, |_| ())
    }

    /// The same. `before_head` is called with the folder of the inventory of a mutable head, if there is
    /// one, before that is read.
    fn open_calling(folder: &Path, before_head: impl FnOnce(&Path)) -> ReadResult<Self> {
        let committed = Self::read(folder, folder)?;
        let head = folder.join(MUTABLE_HEAD);
        if !head.exists() {
            return Ok(committed);
        }
        // The head continues the version that the object had when it was begun.
        let sidecar = head.join(format!("root-inventory.json.{}", committed.inventory.digest_algorithm));
        let is_of_this = said(&sidecar)? == committed.digest;
        // Only one of the two inventories is in memory.
        drop(committed);
        let within = head.join("head");
        before_head(&within);
        match is_of_this {
            true => Self::read(folder, &within),
            false => Err(invalid(folder.display().to_string(), "its mutable head belongs to another version of it")),
        }
    }

    /// Opens an object that may have a mutable head, and gives it to `with`. An object with a long
    /// inventory waits until no other thread has one here, so readers side by side do not hold many of
    /// them. `with` must not read another object in this way.
    ///
    /// # Errors
    /// [`ReadError`](crate::read::ReadError) that names the object.
    pub fn in_turn<T>(folder: &Path, with: impl FnOnce(&Self) -> T) -> ReadResult<T> {
        // It protects nothing that a panic could leave half done.
        let wait = |at: &Path| has_long_inventory(at).then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
        let mut turn = wait(folder);
        let object = Self::open_calling(folder, |head| turn = turn.take().or_else(|| wait(head)))?;
        let done = with(&object);
        drop((object, turn));
        Ok(done)
    }

    /// Reads the inventory in a folder of the object in a folder.
    fn read(folder: &Path, inventory: &Path) -> ReadResult<Self> {
        let shown = folder.display().to_string();
        let wrong = |why: String| invalid(&shown, why);
        let text = read_small(&inventory.join(INVENTORY), &shown, INVENTORY_BYTES_MAX)?;
        let at = inventory;
        let inventory = match at == folder {
            true => parsed(&text),
            false => parsed_with(&text, Some(MUTABLE_HEAD_FILES)),
        };
        let inventory = inventory.map_err(wrong)?;
        let algorithm = Algorithm::named(&inventory.digest_algorithm).map_err(|error| wrong(error.to_string()))?;
        let sidecar = format!("{INVENTORY}.{}", inventory.digest_algorithm);
        let said = said(&at.join(&sidecar))?;
        let mut digest = algorithm.begin();
        digest.update(&text);
        let found = hex::encode(digest.finalize());
        let mut names: Vec<_> = inventory.versions.keys().cloned().collect();
        names.sort_by_key(|name| number(name));
        match said == found {
            true => Ok(Self { folder: folder.to_owned(), inventory, names, algorithm, digest: found }),
            false => Err(wrong(format!("the digest of its inventory is not that in {sidecar}"))),
        }
    }

    /// The digest of the inventory of the object in a folder, as its sidecar says it.
    ///
    /// # Errors
    /// [`ReadError`](crate::read::ReadError) if there is none.
    pub fn inventory_digest(folder: &Path) -> ReadResult<String> {
        let head = folder.join(MUTABLE_HEAD).join("head");
        let at = if head.exists() { head } else { folder.to_owned() };
        let [usual, other] = ["sha512", "sha256"].map(|algorithm| at.join(format!("{INVENTORY}.{algorithm}")));
        let digest = said(&usual);
        if is_missing(&digest) && other.exists() { said(&other) } else { digest }
    }

    /// Whether it has a mutable head.
    pub fn has_mutable_head(&self) -> bool {
        self.inventory.manifest.values().flatten().any(|path| path.starts_with(MUTABLE_HEAD_FILES))
    }

    /// The digest of its inventory, in hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Its identifier.
    pub fn id(&self) -> &str {
        &self.inventory.id
    }

    /// The algorithm of its digests.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Its versions, oldest first.
    pub fn versions(&self) -> Vec<&Version> {
        self.names.iter().filter_map(|name| self.inventory.versions.get(name)).collect()
    }

    /// The version with this number, counted from 0.
    pub fn version(&self, number: usize) -> Option<&Version> {
        self.inventory.versions.get(self.names.get(number)?)
    }

    /// The files of a version, by their logical paths.
    pub fn files(&self, version: &Version) -> BTreeMap<String, Content> {
        let mut files = BTreeMap::new();
        for (digest, paths) in &version.state {
            let content = self.inventory.manifest.get(digest).and_then(|paths| paths.first());
            let (Some(content), Ok(digest)) = (content, hex::decode(digest)) else { continue };
            for path in paths {
                let place = self.folder.join(content);
                files.insert(path.clone(), Content { place, digest: digest.clone() });
            }
        }
        files
    }

    /// Compares all files with their digests, and finds files that do not belong to the object.
    ///
    /// # Errors
    /// [`ReadError`](crate::read::ReadError) that names the file.
    pub fn check_files(&self) -> ReadResult<()> {
        let mut found = self.content_files()?;
        for (digest, paths) in &self.inventory.manifest {
            for path in paths {
                let place = self.folder.join(path);
                // Those of a mutable head are elsewhere.
                if found.remove(&place) != Some(true) {
                    self.refuse_links(path)?;
                }
                if hex::encode(digest_of(&place, self.algorithm)?) != *digest {
                    let why = "its bytes have another digest than the inventory says";
                    return Err(invalid(place.display().to_string(), why));
                }
            }
        }
        found.keys().next().map_or(Ok(()), |place| Err(unlisted(place)))
    }

    /// What is in the folders of contents besides folders, each with whether it is a plain file. No
    /// symbolic link leads to any of it. It is not more than the inventory lists.
    fn content_files(&self) -> ReadResult<BTreeMap<PathBuf, bool>> {
        let content = self.inventory.content_directory.as_deref().unwrap_or("content");
        let listed = || self.inventory.manifest.values().flatten();
        let most = listed().count();
        let mut files = BTreeMap::new();
        let mut each = |place: PathBuf, is_plain: bool| {
            files.insert(place, is_plain);
            if files.len() <= most {
                return Ok(());
            }
            let listed: BTreeSet<_> = listed().map(|path| self.folder.join(path)).collect();
            files.keys().find(|place| !listed.contains(*place)).map_or(Ok(()), |place| Err(unlisted(place)))
        };
        for name in self.inventory.versions.keys() {
            match self.refuse_links(&format!("{name}/{content}")) {
                Ok(()) => each_file(self.folder.join(name).join(content), &mut each)?,
                // The version has no files of its own.
                missing if is_missing(&missing) => {}
                wrong => wrong?,
            }
        }
        Ok(files)
    }

    /// Refuses a path with a symbolic link in it.
    fn refuse_links(&self, path: &str) -> ReadResult<()> {
        let mut place = self.folder.clone();
        for name in path.split('/') {
            place.push(name);
            let kind = fs::symlink_metadata(&place).map_err(failed(&place))?.file_type();
            if !kind.is_dir() && !kind.is_file() {
                return Err(invalid(place.display().to_string(), "it is neither a file nor a folder"));
            }
        }
        Ok(())
    }
}

/// The error about a file that no inventory lists.
fn unlisted(place: &Path) -> ReadError {
    invalid(place.display().to_string(), "the inventory does not list it")
}

/// Whether the inventory in a folder is long.
fn has_long_inventory(folder: &Path) -> bool {
    let is_long = |file: fs::Metadata| file.len() > SHARED_INVENTORY_BYTES_MAX;
    fs::symlink_metadata(folder.join(INVENTORY)).is_ok_and(is_long)
}

/// Whether a file is not there.
fn is_missing<T>(read: &ReadResult<T>) -> bool {
    matches!(read, Err(ReadError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound)
}

/// The digest in a sidecar.
fn said(sidecar: &Path) -> ReadResult<String> {
    let text = read_small(sidecar, &sidecar.display().to_string(), SIDECAR_BYTES_MAX)?;
    Ok(String::from_utf8_lossy(&text).split_whitespace().next().unwrap_or_default().to_lowercase())
}

/// The inventory in a text, if it makes sense; else what is wrong with it.
pub fn parsed(text: &[u8]) -> Result<Inventory, String> {
    parsed_with(text, None)
}

/// The same for an inventory with files in another folder than those of versions.
fn parsed_with(text: &[u8], beside: Option<&str>) -> Result<Inventory, String> {
    let mut inventory: Inventory = serde_json::from_slice(text).map_err(|error| format!("its inventory: {error}"))?;
    inventory.manifest = lowered(inventory.manifest)?;
    for version in inventory.versions.values_mut() {
        version.state = lowered(std::mem::take(&mut version.state))?;
    }
    let is_known = ["https://ocfl.io/1.0/spec/#inventory", "https://ocfl.io/1.1/spec/#inventory"];
    let check = |is_so: bool, why: &str| if is_so { Ok(()) } else { Err(format!("its inventory: {why}")) };
    check(is_known.contains(&inventory.kind.as_str()), "it is of no known version of OCFL")?;
    check(matches!(inventory.digest_algorithm.as_str(), "sha512" | "sha256"), "its digests are not sha512 or sha256")?;
    let directory = inventory.content_directory.as_deref().unwrap_or("content");
    check(is_inside(directory) && !directory.contains('/'), "the folder of contents has no valid name")?;
    let mut numbers: Vec<_> = inventory.versions.keys().map(|name| number(name)).collect();
    numbers.sort();
    let are_all = numbers.iter().zip(1..).all(|(number, expected)| *number == Some(expected));
    check(are_all && !numbers.is_empty(), "its versions are not v1, v2, and so on")?;
    check(inventory.newest() == numbers.last().copied().flatten(), "its head is not its newest version")?;
    check(inventory.newest_version().is_some(), "its head is not one of its versions")?;
    check(inventory.manifest.values().all(|paths| !paths.is_empty()), "a digest has no file")?;
    for path in inventory.manifest.values().flatten() {
        let of_version = path.split_once('/').filter(|(name, _)| inventory.versions.contains_key(*name));
        let within = of_version.map(|(_, within)| within).or_else(|| path.strip_prefix(beside?));
        let mut names = within.into_iter().flat_map(|within| within.split('/'));
        let is_content = is_inside(path) && names.next() == Some(directory) && names.next().is_some();
        check(is_content, &format!("{path:?} is not the path of a file of the object"))?;
    }
    for version in inventory.versions.values() {
        let mut logical = BTreeSet::new();
        for (digest, paths) in &version.state {
            check(inventory.manifest.contains_key(digest), "a digest of a version is not in the manifest")?;
            for path in paths {
                check(is_inside(path), &format!("{path:?} is not a logical path"))?;
                check(logical.insert(path), &format!("{path:?} is in a version twice"))?;
            }
        }
    }
    Ok(inventory)
}

/// Digests in small letters (section 3.5.2: their case does not matter, and each is there once).
fn lowered(paths: Paths) -> Result<Paths, String> {
    let count = paths.len();
    let lowered: Paths = paths.into_iter().map(|(digest, paths)| (digest.to_ascii_lowercase(), paths)).collect();
    match lowered.len() == count {
        true => Ok(lowered),
        false => Err("its inventory: a digest is there twice".to_owned()),
    }
}

/// Calls `each` with each file below a folder, and with whether it is a plain file. Links are files.
fn each_file(folder: PathBuf, each: &mut dyn FnMut(PathBuf, bool) -> ReadResult<()>) -> ReadResult<()> {
    let mut waiting = vec![folder];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).map_err(failed(&folder))? {
            let entry = entry.map_err(failed(&folder))?;
            let kind = entry.file_type().map_err(failed(&folder))?;
            match kind.is_dir() {
                true => waiting.push(entry.path()),
                false => each(entry.path(), kind.is_file())?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::ocfl::RootWriter;
    use crate::ocfl::inventory::User;
    use crate::ocfl::layout::place;

    #[test]
    fn an_object_with_a_long_inventory_is_open_while_no_other_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        let writer = RootWriter::begin(&root, User { name: "test".to_owned(), address: None }).unwrap();
        let long = "x".repeat(SHARED_INVENTORY_BYTES_MAX as usize);
        for (id, message) in [("short", ""), ("long", long.as_str())] {
            let mut object = writer.object(id).unwrap();
            let mut file = object.file("a").unwrap();
            file.write(b"bytes").unwrap();
            object.finish_file(file).unwrap();
            object.finish_version("2025-06-15T15:06:40.007Z".to_owned(), message.to_owned()).unwrap();
            object.finish().unwrap();
        }
        writer.finish().unwrap();
        let is_free = |id: &str| Object::in_turn(&root.join(place(id)), |_| TURN.try_lock().is_ok()).unwrap();
        assert!(is_free("short"), "objects with short inventories are read side by side");
        assert!(!is_free("long"), "another reader may hold a long inventory at the same time");
        assert!(TURN.try_lock().is_ok(), "the turn has no end");
    }
}
