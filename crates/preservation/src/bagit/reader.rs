//! Checks a bag: its declaration, its manifests, and every byte of every file.
//!
//! A stranger may have written it. Nothing outside its folder is read, and symbolic links are
//! refused. Memory grows by about a hundred bytes for each file, whatever the lengths of files and
//! paths.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::text::{self, Algorithm, BagVersion, TextError};
use crate::read::{ReadError, ReadResult, failed, invalid, read_small};

/// The most bytes of a line of a manifest: a digest and the longest path of the operating system
/// with all of it encoded.
const LINE_BYTES_MAX: u64 = 16 << 10;

/// The most bytes of `bagit.txt` and `bag-info.txt`.
const TAG_BYTES_MAX: u64 = 1 << 20;

/// The most folders within each other.
const DEPTH_MAX: usize = 1_000;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 128 << 10;

/// A bag of which every byte was compared with its manifests.
#[derive(Debug)]
pub struct Bag {
    folder: PathBuf,
    /// The SHA-256 of each file of the payload.
    payload: HashMap<Key, [u8; 32]>,
}

/// The start of the SHA-256 of a path. Paths may be long, and there may be many.
type Key = [u8; 16];

fn key(name: &str) -> Key {
    let mut key = [0; 16];
    key.copy_from_slice(&Sha256::digest(name)[..16]);
    key
}

/// What manifests say about a file.
#[derive(Clone, Debug, Default)]
struct Listed {
    /// The manifests that list it, one bit for each.
    manifests: u8,
    /// The digests in them, in their order, folded into one.
    digests: [u8; 32],
    /// Its SHA-256, once it is read.
    sha256: Option<[u8; 32]>,
}

impl Listed {
    fn fold(&mut self, digest: &[u8]) {
        self.digests = Sha256::new().chain_update(self.digests).chain_update(digest).finalize().into();
    }
}

/// All manifests of one kind, in the order of their algorithms.
#[derive(Debug)]
struct Manifests {
    files: Vec<(Algorithm, String)>,
    listed: HashMap<Key, Listed>,
}

impl Bag {
    /// Checks a bag as a whole (RFC 8493, section 3).
    ///
    /// # Errors
    /// [`ReadError`], naming the first file that is wrong.
    pub fn checked(folder: &Path) -> ReadResult<Self> {
        let read = |name: &str| read_small(&folder.join(name), name, TAG_BYTES_MAX);
        let declaration = String::from_utf8(read("bagit.txt")?);
        let declaration = declaration.map_err(|_| TextError::Declaration).and_then(|text| text::declared(&text));
        let version = declaration.map_err(|error| invalid("bagit.txt", error.to_string()))?;
        let mut payload = Manifests::read(folder, "manifest-", |name| name.starts_with("data/"))?;
        if payload.files.is_empty() {
            return Err(invalid("manifest-sha512.txt", "there is no manifest"));
        }
        let mut tags = Manifests::read(folder, "tagmanifest-", |name| !name.starts_with("data/"))?;
        let (mut bytes, mut files) = (0_u64, 0_u64);
        each_file(folder, &mut |name, path| {
            let is_payload = name.starts_with("data/");
            let manifests = if is_payload { &mut payload } else { &mut tags };
            let len_bytes = manifests.compare(name, path, is_payload.then_some(version))?;
            if is_payload {
                (bytes, files) = (bytes + len_bytes, files + 1);
            }
            Ok(())
        })?;
        payload.refuse_missing(folder)?;
        tags.refuse_missing(folder)?;
        match read("bag-info.txt") {
            Ok(info) => match text::payload_oxum(&String::from_utf8_lossy(&info)) {
                Some(promised) if promised != (bytes, files) => {
                    let why = format!(
                        "it promises {} bytes in {} files; there are {bytes} in {files}",
                        promised.0, promised.1
                    );
                    return Err(invalid("bag-info.txt", why));
                }
                _ => {}
            },
            Err(ReadError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let payload = payload.listed.into_iter().filter_map(|(key, listed)| Some((key, listed.sha256?))).collect();
        Ok(Self { folder: folder.to_owned(), payload })
    }

    /// Calls `each` with the name of each file of the payload: its path in the bag. The files of a
    /// folder come before those of the folders in it.
    ///
    /// # Errors
    /// The first one of `each`, and failures to list folders.
    pub fn each_payload_file(&self, each: &mut dyn FnMut(&str) -> ReadResult<()>) -> ReadResult<()> {
        each_file_in(&self.folder, "data", &mut |name, _| each(name))
    }

    /// The labels and values of `bag-info.txt`; none if there is no such file.
    ///
    /// # Errors
    /// [`ReadError`] about the file.
    pub fn info(&self) -> ReadResult<Vec<(String, String)>> {
        match read_small(&self.folder.join("bag-info.txt"), "bag-info.txt", TAG_BYTES_MAX) {
            Ok(info) => Ok(text::info(&String::from_utf8_lossy(&info))),
            Err(ReadError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The SHA-256 of a file of the payload; `None` if there is none with this name.
    pub fn sha256(&self, name: &str) -> Option<[u8; 32]> {
        self.payload.get(&key(name)).copied()
    }

    /// The place of a file of the payload.
    pub fn place(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The bytes of a file of the payload, compared with its digest once more.
    ///
    /// # Errors
    /// [`ReadError`] also if it has more than `max_bytes`.
    pub fn read(&self, name: &str, max_bytes: u64) -> ReadResult<Vec<u8>> {
        let bytes = read_small(&self.place(name), name, max_bytes)?;
        match self.sha256(name) == Some(Sha256::digest(&bytes).into()) {
            true => Ok(bytes),
            false => Err(invalid(name, "it changed since it was checked")),
        }
    }
}

impl Manifests {
    fn read(folder: &Path, prefix: &str, belongs: impl Fn(&str) -> bool) -> ReadResult<Self> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed(folder))? {
            let name = entry.map_err(failed(folder))?.file_name().to_string_lossy().into_owned();
            let algorithm = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(".txt"));
            let algorithm = algorithm.map(Algorithm::named).transpose();
            if let Some(algorithm) = algorithm.map_err(|error| invalid(&name, error.to_string()))? {
                files.push((algorithm, name));
            }
        }
        files.sort();
        if let Some(pair) = files.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(invalid(&pair[1].1, "there are two manifests of this algorithm"));
        }
        let mut manifests = Self { files, listed: HashMap::new() };
        for at in 0..manifests.files.len() {
            let (algorithm, name) = manifests.files[at].clone();
            let bit = 1_u8 << at;
            each_line(&folder.join(&name), &name, |line| {
                let (digest, path) = text::manifest_line(line, algorithm).map_err(|error| error.to_string())?;
                if !belongs(&path) {
                    return Err(format!("{path:?} does not belong in this manifest"));
                }
                let listed = manifests.listed.entry(key(&path)).or_default();
                if listed.manifests & bit != 0 {
                    return Err(format!("{path:?} is listed twice"));
                }
                listed.manifests |= bit;
                listed.fold(&digest);
                Ok(())
            })?;
        }
        Ok(manifests)
    }

    /// Compares the bytes of a file with its digests. Returns its length. `version` is that of the
    /// bag for a file that must be listed.
    fn compare(&mut self, name: &str, path: &Path, version: Option<BagVersion>) -> ReadResult<u64> {
        let Some(listed) = self.listed.get_mut(&key(name)) else {
            return if version.is_some() { Err(invalid(name, "no manifest lists it")) } else { Ok(0) };
        };
        let all = self.files.len() as u32;
        if version == Some(BagVersion::V1_0) && listed.manifests.count_ones() != all {
            return Err(invalid(name, "not all manifests list it"));
        }
        let here = |at: &usize| listed.manifests & (1 << *at) != 0;
        let said: Vec<_> = (0..self.files.len()).filter(here).map(|at| self.files[at].0).collect();
        // The SHA-256 is kept, also if no manifest says it.
        let kept = (!said.contains(&Algorithm::Sha256)).then_some(Algorithm::Sha256);
        let mut digests: Vec<_> =
            said.iter().copied().chain(kept).map(|algorithm| (algorithm, algorithm.begin())).collect();
        let mut file = File::open(path).map_err(failed(path))?;
        let mut piece = vec![0; PIECE_BYTES];
        let mut len_bytes = 0;
        loop {
            let len = file.read(&mut piece).map_err(failed(path))?;
            if len == 0 {
                break;
            }
            digests.iter_mut().for_each(|(_, digest)| digest.update(&piece[..len]));
            len_bytes += len as u64;
        }
        let (mut found, mut sha256) = (Listed::default(), None);
        for (algorithm, digest) in digests {
            let digest = digest.finalize();
            if algorithm == Algorithm::Sha256 {
                sha256 = <[u8; 32]>::try_from(&digest[..]).ok();
            }
            if said.contains(&algorithm) {
                found.fold(&digest);
            }
        }
        if found.digests != listed.digests {
            return Err(invalid(name, "its bytes have another digest than the manifests say"));
        }
        listed.sha256 = sha256;
        Ok(len_bytes)
    }

    /// Names a file that is listed and was not there.
    fn refuse_missing(&self, folder: &Path) -> ReadResult<()> {
        if self.listed.values().all(|listed| listed.sha256.is_some()) {
            return Ok(());
        }
        let mut missing = None;
        for (algorithm, name) in &self.files {
            each_line(&folder.join(name), name, |line| {
                let (_, path) = text::manifest_line(line, *algorithm).map_err(|error| error.to_string())?;
                if self.listed.get(&key(&path)).is_none_or(|listed| listed.sha256.is_none()) {
                    missing.get_or_insert(path);
                }
                Ok(())
            })?;
        }
        let is_elsewhere = folder.join("fetch.txt").exists();
        let hint = if is_elsewhere { ": fetch.txt names files to fetch first" } else { "" };
        Err(invalid(missing.unwrap_or_default(), format!("it is in a manifest and not in the bag{hint}")))
    }
}

/// Calls `each` with the lines of a manifest.
fn each_line(path: &Path, name: &str, mut each: impl FnMut(&str) -> Result<(), String>) -> ReadResult<()> {
    if !fs::symlink_metadata(path).map_err(failed(path))?.is_file() {
        return Err(invalid(name, "it is not a file"));
    }
    let mut file = BufReader::new(File::open(path).map_err(failed(path))?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let len = file.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(failed(path))?;
        if len == 0 {
            return Ok(());
        }
        if len as u64 == LINE_BYTES_MAX {
            return Err(invalid(name, "a line is too long"));
        }
        let text = std::str::from_utf8(&line).map_err(|_| invalid(name, "a line is not UTF-8"))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_end_matches(['\n', '\r']);
        if !text.is_empty() {
            each(text).map_err(|why| invalid(name, why))?;
        }
    }
}

type Each<'a> = &'a mut dyn FnMut(&str, &Path) -> ReadResult<()>;

/// Calls `each` with the name and the place of each file of the bag.
fn each_file(folder: &Path, each: Each<'_>) -> ReadResult<()> {
    if !fs::symlink_metadata(folder.join("data")).is_ok_and(|data| data.is_dir()) {
        return Err(invalid("data", "there is no such folder"));
    }
    each_file_in(folder, "", each)
}

/// The same for a folder in the bag; the empty name is the bag itself.
fn each_file_in(folder: &Path, name: &str, each: Each<'_>) -> ReadResult<()> {
    let mut waiting = vec![(name.to_owned(), 0)];
    while let Some((name, depth)) = waiting.pop() {
        let place = folder.join(&name);
        for entry in fs::read_dir(&place).map_err(failed(&place))? {
            let entry = entry.map_err(failed(&place))?;
            let own = entry.file_name();
            let shown = own.to_string_lossy();
            let within = if name.is_empty() { shown.to_string() } else { format!("{name}/{shown}") };
            if own.to_str().is_none() {
                return Err(invalid(within, "its name is not UTF-8"));
            }
            let kind = entry.file_type().map_err(failed(&place))?;
            match () {
                () if kind.is_dir() && depth >= DEPTH_MAX => {
                    return Err(invalid(within, "folders are nested too deep"));
                }
                () if kind.is_dir() => waiting.push((within, depth + 1)),
                () if kind.is_file() => each(&within, &entry.path())?,
                () => return Err(invalid(within, "it is neither a file nor a folder (links are not followed)")),
            }
        }
    }
    Ok(())
}
