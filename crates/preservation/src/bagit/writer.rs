//! Writes a bag: BagIt 1.0 (RFC 8493), with manifests of SHA-256 and SHA-512.
//!
//! A bag is written into a folder beside its place, `NAME.unfinished`, and gets its name when all
//! of it is synced. So an export that was interrupted is never mistaken for a whole one.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::names;
use crate::write::{WriteError, WriteResult, failed, named, synced, unfinished};
use sha2::{Digest, Sha256, Sha512};

/// A bag that is being written.
#[derive(Debug)]
pub struct BagWriter {
    place: PathBuf,
    folder: PathBuf,
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
            let file = File::create_new(&path).map_err(failed(&path))?;
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
    /// Begins a bag at a place where nothing is yet.
    pub fn create(place: &Path) -> WriteResult<Self> {
        let folder = unfinished(place);
        if fs::symlink_metadata(place).is_ok() {
            return Err(WriteError::Exists(place.to_owned()));
        }
        fs::create_dir(&folder).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => WriteError::Unfinished(folder.clone()),
            _ => failed(&folder)(error),
        })?;
        let data = folder.join("data");
        fs::create_dir(&data).map_err(failed(&data))?;
        let payload = Manifests::create(&folder, "manifest")?;
        Ok(Self { place: place.to_owned(), folder, payload, bytes: 0, files: 0 })
    }

    /// Begins a file of the payload, in folders with these names. The names may be any; `suffix`
    /// follows the last one and is `=` with small letters, or empty.
    pub fn file<'a>(&self, names: impl IntoIterator<Item = &'a str>, suffix: &str) -> WriteResult<PayloadFile> {
        let names: Vec<_> = names.into_iter().map(names::encoded).collect();
        let name = format!("data/{}{suffix}", names.join("/"));
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

    /// Deletes what was written.
    pub fn abandon(self) -> WriteResult<()> {
        fs::remove_dir_all(&self.folder).map_err(failed(&self.folder))
    }

    /// Finishes the bag. `info` has further lines of `bag-info.txt`: labels, and values on one
    /// line.
    pub fn finish(self, info: &[(&str, String)]) -> WriteResult<()> {
        let Self { place, folder, payload, bytes, files } = self;
        let manifests = payload.finish()?;
        let mut tags = Manifests::create(&folder, "tagmanifest")?;
        let mut lines: Vec<String> = info.iter().map(|(label, value)| info_line(label, value)).collect();
        lines.push(info_line("Payload-Oxum", &format!("{bytes}.{files}")));
        let declaration = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";
        for (name, text) in [("bag-info.txt", lines.concat()), ("bagit.txt", declaration.to_owned())] {
            let path = folder.join(name);
            let mut file = BufWriter::new(File::create_new(&path).map_err(failed(&path))?);
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

/// A line of `bag-info.txt`. Line breaks in a value would begin another one.
fn info_line(label: &str, value: &str) -> String {
    format!("{label}: {}\n", value.replace(['\r', '\n'], " "))
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

    /// The SHA-256 of what was written so far.
    pub fn sha256(&self) -> [u8; 32] {
        self.sums.sha256.clone().finalize().into()
    }
}
