//! Shared inputs of all benchmarks: stores, finished archives, and their folder.

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use walkdir::WalkDir;

use super::client::{Client, Request};
use super::penates::{Penates, Server};

/// The volumes: `penates synth` makes the same volumes from the same options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    /// The number of volumes.
    pub volumes: u64,
    /// Pages of each; `None`: as many as drawn real ones.
    pub pages_per_volume: Option<u32>,
    /// The seed by which pages are drawn.
    pub seed: u64,
}

impl Corpus {
    /// The ids of the first volumes, one per line.
    pub fn ids(&self, volumes: u64) -> String {
        self.ids_from(0, volumes)
    }

    /// The same number of ids beginning with another one, for a list that was not sent yet: the
    /// archive has the same length and another order.
    pub fn ids_from(&self, first: u64, volumes: u64) -> String {
        (0..volumes).map(|index| format!("{}\n", self.id((first + index) % volumes))).collect()
    }

    /// The id of a volume.
    pub fn id(&self, index: u64) -> String {
        format!("synth.ark:/99999/s{}v{index}", self.seed)
    }

    fn folder_name(&self, kind: &str) -> String {
        let pages = self.pages_per_volume.map(|pages| format!("-pages-{pages}")).unwrap_or_default();
        format!("{kind}-{}-seed-{}{pages}", self.volumes, self.seed)
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["synth".into(), "--volumes".into(), self.volumes.to_string()];
        arguments.extend(["--seed".into(), self.seed.to_string()]);
        arguments.extend(self.pages_per_volume.iter().flat_map(|pages| ["--pages".into(), pages.to_string()]));
        arguments
    }
}

/// The folder.
pub struct Work {
    folder: PathBuf,
    penates: Penates,
    /// Files of this run, deleted at its end.
    running: tempfile::TempDir,
}

impl Work {
    /// Works in `folder`.
    pub fn new(folder: &Path, penates: Penates) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let folder = folder.canonicalize()?;
        let running = tempfile::Builder::new().prefix("running-").tempdir_in(&folder)?;
        Ok(Self { folder, penates, running })
    }

    /// The program.
    pub fn penates(&self) -> &Penates {
        &self.penates
    }

    /// The folder of files that are needed until the end of the run.
    pub fn running(&self) -> &Path {
        self.running.path()
    }

    /// A store with a corpus: a copy of the kept one, since requests write too (audit, selections).
    /// So no run depends on earlier ones. It is on the disk when this returns.
    pub fn store(&self, corpus: &Corpus) -> Result<PathBuf> {
        let kept = self.kept(corpus, "store", &["--init", "--store"])?;
        let copy = self.running.path().join(corpus.folder_name("store"));
        if !copy.exists() {
            copy_folder(&kept, &copy)?;
        }
        Ok(copy)
    }

    /// A corpus as a pairtree.
    pub fn pairtree(&self, corpus: &Corpus) -> Result<PathBuf> {
        self.kept(corpus, "pairtree", &["--out"])
    }

    /// Makes a corpus in an existing store.
    pub fn fill(&self, corpus: &Corpus, store: &str) -> Result<()> {
        let mut arguments = corpus.arguments();
        arguments.extend(["--store".to_owned(), store.to_owned()]);
        self.penates.run(arguments).map(drop)
    }

    /// The output of `penates synth` for a corpus, made at the first call. The flags end with the one
    /// that names it.
    fn kept(&self, corpus: &Corpus, kind: &str, flags: &[&str]) -> Result<PathBuf> {
        let folder = self.folder.join(corpus.folder_name(kind));
        if !folder.exists() {
            eprintln!("making {}", folder.display());
            // It gets its name when it is complete.
            let unfinished = tempfile::Builder::new().prefix("making-").tempdir_in(&self.folder)?;
            let made = unfinished.path().join("made");
            let mut arguments = corpus.arguments();
            arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
            arguments.push(made.to_str().context("a path that is no text")?.to_owned());
            self.penates.run(arguments)?;
            fs::rename(&made, &folder)?;
        }
        Ok(folder)
    }

    /// The finished archive of the first `volumes` volumes, in the folder `files`.
    pub fn finished_zip(&self, server: &Server, corpus: &Corpus, volumes: u64) -> Result<Zip> {
        let folder = self.running.path().join("files");
        fs::create_dir_all(&folder)?;
        let name = format!("{volumes}.zip");
        let file = folder.join(&name);
        let mut out = File::create(&file)?;
        let mut crc32 = crc32fast::Hasher::new();
        let request = Request::post("/volumes", &corpus.ids(volumes));
        let received = Client::connect(server.http)?.fetch_into(&request, |bytes| {
            crc32.update(bytes);
            Ok(out.write_all(bytes)?)
        })?;
        out.sync_all()?;
        let missing = received.header("penates-missing").context("no number of missing volumes")?;
        ensure!(missing == "0", "{missing} of {volumes} volumes are missing");
        Ok(Zip { folder, name, bytes: received.body_bytes, crc32: crc32.finalize() })
    }

    /// The texts of all pages of the first `volumes` volumes, read from the archive by an
    /// independent ZIP reader.
    pub fn texts(&self, server: &Server, corpus: &Corpus, volumes: u64) -> Result<Texts> {
        let zip = self.finished_zip(server, corpus, volumes)?;
        let mut archive = zip::ZipArchive::new(BufReader::new(File::open(zip.folder.join(&zip.name))?))?;
        let mut texts = Vec::with_capacity(archive.len());
        for index in 0..archive.len() {
            let mut entry = archive.by_index(index)?;
            if entry.is_file() {
                let mut text = Vec::new();
                entry.read_to_end(&mut text)?;
                texts.push(text);
            }
        }
        Ok(texts)
    }
}

/// Texts of pages.
pub type Texts = Vec<Vec<u8>>;

/// The path segment of a volume id.
fn segment(id: &str) -> String {
    form_urlencoded::byte_serialize(id.as_bytes()).collect()
}

/// Bytes of page text of the first `count` volumes of a corpus.
pub fn text_bytes(server: &Server, corpus: &Corpus, count: u64) -> Result<u64> {
    let mut client = Client::connect(server.http)?;
    let mut size_bytes = |index| {
        let about = client.text(&Request::get(&format!("/volumes/{}", segment(&corpus.id(index)))))?;
        let about: Value = serde_json::from_str(&about)?;
        about["size_bytes"].as_u64().context("a volume without a size")
    };
    (0..count).map(&mut size_bytes).sum()
}

/// A finished archive.
#[derive(Clone, Debug)]
pub struct Zip {
    /// Its folder, which holds only archives.
    pub folder: PathBuf,
    /// Its name there.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Its CRC-32.
    pub crc32: u32,
}

/// Copies a folder, and syncs it.
pub fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    for entry in WalkDir::new(from) {
        let entry = entry?;
        let target = to.join(entry.path().strip_prefix(from)?);
        if entry.file_type().is_dir() {
            fs::create_dir(&target)?;
        } else if entry.file_type().is_file() {
            fs::copy(entry.path(), &target)?;
            File::open(&target)?.sync_all()?;
        }
    }
    Ok(())
}

/// Bytes that the files of a folder take on the disk. Files that a server deletes meanwhile do not
/// count.
pub fn disk_bytes(folder: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    for entry in WalkDir::new(folder) {
        match entry.and_then(|entry| entry.metadata()) {
            Ok(metadata) => sum += metadata.blocks() * 512, // stat(2): always blocks of 512 bytes
            Err(error) if error.depth() > 0 && is_not_found(error.io_error()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sum)
}

/// Whether an error means that there is no such file.
pub fn is_not_found(error: Option<&io::Error>) -> bool {
    error.is_some_and(|error| error.kind() == ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_corpus_has_its_own_folder_and_the_ids_of_synth() {
        let corpus = Corpus { volumes: 2, pages_per_volume: None, seed: 7 };
        let other = Corpus { pages_per_volume: Some(3), ..corpus.clone() };
        assert_ne!(corpus.folder_name("store"), other.folder_name("store"));
        assert_eq!(corpus.ids(2), "synth.ark:/99999/s7v0\nsynth.ark:/99999/s7v1\n");
        assert_eq!(corpus.ids_from(1, 2), "synth.ark:/99999/s7v1\nsynth.ark:/99999/s7v0\n");
    }

    #[test]
    fn a_copy_of_a_folder_has_all_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("in")).unwrap();
        fs::write(from.join("in/file"), "text").unwrap();
        copy_folder(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("in/file")).unwrap(), "text");
        assert!(disk_bytes(&to).unwrap() > 0);
    }
}
