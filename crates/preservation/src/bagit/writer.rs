//! Writes a bag: BagIt 1.0 (RFC 8493), with manifests of SHA-256 and SHA-512.
//!
//! A bag is written into a folder beside its place, `NAME.unfinished`, and gets its name when all
//! of it is synced. So an export that was interrupted is never mistaken for a whole one. The same
//! export continues it: what was written goes to the folder `earlier`, from which files come back
//! if their digests fit.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::text;
use crate::names;
use crate::write::{WriteError, WriteResult, failed, locked, named, synced, unfinished};
use sha2::{Digest, Sha256, Sha512};

/// Where the files of an interrupted export wait, in the folder of the unfinished bag.
const EARLIER: &str = "earlier";

/// A bag that is being written.
#[derive(Debug)]
pub struct BagWriter {
    place: PathBuf,
    folder: PathBuf,
    /// Locked, so that only one export works on the folder.
    _lock: File,
    payload: Manifests,
    bytes: u64,
    files: u64,
}

/// The lines of the manifests of both algorithms. They are written as files are finished, so memory
/// does not grow with their number.
#[derive(Debug)]
struct Manifests {
    sha256: (PathBuf, BufWriter<File>),
    sha512: (PathBuf, BufWriter<File>),
}

/// A file of the payload that is being written.
#[derive(Debug)]
pub struct PayloadFile {
    /// Its path from the folder of the bag, with slashes.
    name: String,
    path: PathBuf,
    file: BufWriter<File>,
    sums: Sums,
    bytes: u64,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    sha256: Sha256,
    sha512: Sha512,
}

impl Sums {
    fn update(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        self.sha512.update(bytes);
    }

    fn hex(self) -> (String, String) {
        (hex::encode(self.sha256.finalize()), hex::encode(self.sha512.finalize()))
    }
}

impl Manifests {
    fn create(folder: &Path, kind: &str) -> WriteResult<Self> {
        let create = |algorithm: &str| {
            let path = folder.join(format!("{kind}-{algorithm}.txt"));
            let file = File::create(&path).map_err(failed(&path))?;
            Ok((path, BufWriter::new(file)))
        };
        Ok(Self { sha256: create("sha256")?, sha512: create("sha512")? })
    }

    fn add(&mut self, name: &str, sums: Sums) -> WriteResult<()> {
        let (sha256, sha512) = sums.hex();
        for ((path, file), sum) in [(&mut self.sha256, sha256), (&mut self.sha512, sha512)] {
            writeln!(file, "{sum}  {name}").map_err(failed(path))?;
        }
        Ok(())
    }

    fn finish(self) -> WriteResult<[PathBuf; 2]> {
        let finish = |(path, file): (PathBuf, BufWriter<File>)| {
            synced(&path, file)?;
            Ok::<_, WriteError>(path)
        };
        Ok([finish(self.sha256)?, finish(self.sha512)?])
    }
}

impl BagWriter {
    /// Begins a bag at a place where nothing is yet, or continues an interrupted one.
    pub fn create(place: &Path) -> WriteResult<Self> {
        let folder = unfinished(place);
        if fs::symlink_metadata(place).is_ok() {
            return Err(WriteError::Exists(place.to_owned()));
        }
        let is_begun = fs::symlink_metadata(&folder).is_ok();
        if !is_begun {
            fs::create_dir(&folder).map_err(failed(&folder))?;
        }
        let lock = locked(&folder)?;
        if is_begun && !is_of_a_bag(&folder)? {
            return Err(WriteError::Unfinished(folder));
        }
        let data = folder.join("data");
        if data.exists() {
            move_files(&data, &folder.join(EARLIER))?;
        }
        fs::create_dir(&data).map_err(failed(&data))?;
        let payload = Manifests::create(&folder, "manifest")?;
        Ok(Self { place: place.to_owned(), folder, _lock: lock, payload, bytes: 0, files: 0 })
    }

    /// The folder of the unfinished bag.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a file that an interrupted export wrote, if its bytes have this SHA-256. Returns their
    /// number.
    pub fn reuse<'a>(
        &mut self,
        names: impl IntoIterator<Item = &'a str>,
        sha256: &[u8; 32],
    ) -> WriteResult<Option<u64>> {
        let names: Vec<_> = names.into_iter().map(names::encoded).collect();
        self.reuse_if(&names.join("/"), |found| found == sha256)
    }

    /// Where a file of an interrupted export is that had this path.
    pub fn earlier(&self, path: &str) -> Option<PathBuf> {
        let earlier = self.folder.join(EARLIER).join(path);
        let is_file = fs::symlink_metadata(&earlier).is_ok_and(|found| found.is_file());
        (text::is_inside(path) && is_file).then_some(earlier)
    }

    /// Adds the file that an interrupted export wrote at a path. Returns the number of its bytes.
    pub fn reuse_at(&mut self, path: &str) -> WriteResult<Option<u64>> {
        self.reuse_if(path, |_| true)
    }

    fn reuse_if(&mut self, path: &str, is_right: impl Fn(&[u8; 32]) -> bool) -> WriteResult<Option<u64>> {
        let Some(earlier) = self.earlier(path) else { return Ok(None) };
        let mut file = File::open(&earlier).map_err(failed(&earlier))?;
        let mut sums = Sums::default();
        let bytes = io::copy(&mut file, &mut Summing(&mut sums)).map_err(failed(&earlier))?;
        if !is_right(&sums.sha256.clone().finalize().into()) {
            return Ok(None);
        }
        let name = format!("data/{path}");
        let path = self.folder.join(&name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed(parent))?;
        }
        fs::rename(&earlier, &path).map_err(failed(&path))?;
        file.sync_all().map_err(failed(&path))?;
        self.bytes += bytes;
        self.files += 1;
        self.payload.add(&name, sums)?;
        Ok(Some(bytes))
    }

    /// Begins a file of the payload, in folders with these names. The names may be any; `suffix`
    /// follows the last one and is `=` with small letters, or empty.
    pub fn file<'a>(&self, names: impl IntoIterator<Item = &'a str>, suffix: &str) -> WriteResult<PayloadFile> {
        let names: Vec<_> = names.into_iter().map(names::encoded).collect();
        self.begin_file(format!("data/{}{suffix}", names.join("/")))
    }

    /// Begins a file of the payload at a path that other programs expect: as it is, and not
    /// encoded. A path that would be written in another way in manifests is refused.
    pub fn file_at(&self, path: &str) -> WriteResult<PayloadFile> {
        let is_plain = text::is_inside(path) && !path.contains(|char: char| char == '%' || char.is_control());
        match is_plain {
            true => self.begin_file(format!("data/{path}")),
            false => Err(WriteError::Path(path.to_owned())),
        }
    }

    fn begin_file(&self, name: String) -> WriteResult<PayloadFile> {
        let path = self.folder.join(&name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed(parent))?;
        }
        let file = File::create_new(&path).map_err(failed(&path))?;
        Ok(PayloadFile { name, path, file: BufWriter::new(file), sums: Sums::default(), bytes: 0 })
    }

    /// Finishes a file.
    pub fn finish_file(&mut self, file: PayloadFile) -> WriteResult<()> {
        let PayloadFile { name, path, file, sums, bytes } = file;
        synced(&path, file)?;
        self.bytes += bytes;
        self.files += 1;
        self.payload.add(&name, sums)
    }

    /// Finishes the bag. `info` has further lines of `bag-info.txt`: labels, and values on one
    /// line.
    pub fn finish(self, info: &[(&str, String)]) -> WriteResult<()> {
        let Self { place, folder, _lock, payload, bytes, files } = self;
        let earlier = folder.join(EARLIER);
        if earlier.exists() {
            fs::remove_dir_all(&earlier).map_err(failed(&earlier))?;
        }
        let manifests = payload.finish()?;
        let mut tags = Manifests::create(&folder, "tagmanifest")?;
        let mut lines: Vec<String> = info.iter().map(|(label, value)| info_line(label, value)).collect();
        lines.push(info_line("Payload-Oxum", &format!("{bytes}.{files}")));
        let declaration = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";
        for (name, text) in [("bag-info.txt", lines.concat()), ("bagit.txt", declaration.to_owned())] {
            let path = folder.join(name);
            let mut file = BufWriter::new(File::create(&path).map_err(failed(&path))?);
            file.write_all(text.as_bytes()).map_err(failed(&path))?;
            synced(&path, file)?;
            let mut sums = Sums::default();
            sums.update(text.as_bytes());
            tags.add(name, sums)?;
        }
        for path in manifests {
            let mut sums = Sums::default();
            let mut file = File::open(&path).map_err(failed(&path))?;
            let copied = io::copy(&mut file, &mut Summing(&mut sums));
            copied.map_err(failed(&path))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            tags.add(&name, sums)?;
        }
        tags.finish()?;
        named(&folder, &place)
    }
}

/// Whether all in an unfinished folder is of an interrupted export of a bag. No export makes a
/// link: what one leads to is of somebody else.
fn is_of_a_bag(folder: &Path) -> WriteResult<bool> {
    let known = ["data", EARLIER, "bagit.txt", "bag-info.txt"];
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let entry = entry.map_err(failed(folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_manifest = name.starts_with("manifest-sha") || name.starts_with("tagmanifest-sha");
        let is_known = known.contains(&name.as_str()) || is_manifest;
        if !is_known || entry.file_type().map_err(failed(folder))?.is_symlink() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Moves all files of a folder to the same places in another one, and deletes the folder. What is
/// there in their places is older, and is deleted: a file may have become a folder since, and the
/// other way round. Links are not followed.
fn move_files(from: &Path, to: &Path) -> WriteResult<()> {
    if !to.exists() {
        return fs::rename(from, to).map_err(failed(to));
    }
    let mut waiting = vec![PathBuf::new()];
    while let Some(within) = waiting.pop() {
        let (from, to) = (from.join(&within), to.join(&within));
        let is_folder = |place: &Path| fs::symlink_metadata(place).ok().map(|found| found.is_dir());
        if is_folder(&to) == Some(false) {
            fs::remove_file(&to).map_err(failed(&to))?;
        }
        fs::create_dir_all(&to).map_err(failed(&to))?;
        for entry in fs::read_dir(&from).map_err(failed(&from))? {
            let entry = entry.map_err(failed(&from))?;
            if entry.file_type().map_err(failed(&from))?.is_dir() {
                waiting.push(within.join(entry.file_name()));
                continue;
            }
            let to = to.join(entry.file_name());
            if is_folder(&to) == Some(true) {
                fs::remove_dir_all(&to).map_err(failed(&to))?;
            }
            fs::rename(entry.path(), &to).map_err(failed(&to))?;
        }
    }
    fs::remove_dir_all(from).map_err(failed(from))
}

/// A line of `bag-info.txt`. Line breaks in a value would begin another one, also those that only
/// some programs take for one (bagit-python does).
fn info_line(label: &str, value: &str) -> String {
    let value = value.replace(|char: char| char.is_control() || matches!(char, '\u{2028}' | '\u{2029}'), " ");
    format!("{label}: {value}\n")
}

struct Summing<'a>(&'a mut Sums);

impl Write for Summing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PayloadFile {
    /// Writes more of it.
    pub fn write(&mut self, bytes: &[u8]) -> WriteResult<()> {
        self.file.write_all(bytes).map_err(failed(&self.path))?;
        self.sums.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Where it is while the bag is unfinished.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The SHA-256 of what was written so far.
    pub fn sha256(&self) -> [u8; 32] {
        self.sums.sha256.clone().finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_of_a_value_begins_another_line() {
        let line = info_line("External-Identifier", "a\r\nb\u{85}c\u{2028}d\u{2029}e");
        assert_eq!(line, "External-Identifier: a  b c d e\n");
    }
}
