//! Shared by the tests: the door over a fresh store, requests without a socket, and small synthetic
//! volumes.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{Cursor, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use ::volumes::Unchanged;
use axum::Router;
use axum::body::{Body, to_bytes};
use bytes::Bytes;
use door_data::{DataDoor, DataSettings, Routes, routes};
use hathi::{VolumeId, VolumeParts, VolumeReader};
use heads::{LibraryOptions, keys};
use http::{HeaderMap, HeaderName, Method, Request, StatusCode, header};
use library::Library;
use md5::{Digest, Md5};
use store::faults::{Damage, Faults, Harm};
use store::{ManualClock, Store, Table, UnixMillis};
use store_cassandra::testing::{on_cassandra, shared_store};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tempfile::TempDir;
use tower::ServiceExt;

/// Ninety-two pages.
pub const MACMAHON: &str = "uc2.ark:/13960/t8ff3zh99";
/// Twenty-four pages.
pub const SALMON: &str = "psia.ark:/13960/t0ks80527";
/// Pages whose file names are not their sequences.
pub const TAYLOR: &str = "yale.39002015008130";

/// The heading of `ERROR.err`.
pub const HEADING: &str = "Caught the following errors while generating the ZIP file.  \
                           This ZIP file is likely to be incomplete and missing some entries.\n";

/// The door, mounted at `/` and under `/data-api`, over a store of its own that can inject faults.
pub struct Fixture {
    pub router: Router,
    pub library: Library,
    pub clock: Arc<ManualClock>,
    pub faults: Arc<Faults>,
    folder: TempDir,
}

/// An empty library.
pub async fn empty(settings: DataSettings) -> Fixture {
    empty_with(settings, LibraryOptions::default()).await
}

/// An empty library with other options.
pub async fn empty_with(settings: DataSettings, options: LibraryOptions) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(UnixMillis(1_750_000_000_000)));
    let faults = Arc::new(Faults::new(engine(&folder, clock.clone()).await));
    over(folder, clock, faults, settings, options).await
}

/// The door over a store.
async fn over(
    folder: TempDir,
    clock: Arc<ManualClock>,
    faults: Arc<Faults>,
    settings: DataSettings,
    options: LibraryOptions,
) -> Fixture {
    let library = Library::open(faults.clone(), clock.clone(), options).await.unwrap();
    let door = Arc::new(DataDoor { library: library.clone(), settings });
    let mounted = || {
        let Routes { read, write } = routes(door.clone());
        read.merge(write)
    };
    let router = mounted().nest("/data-api", mounted());
    Fixture { router, library, clock, faults, folder }
}

/// The engine under the door. If that is Cassandra, and no node can be started, that is reported, and
/// the tests use the embedded engine.
async fn engine(folder: &TempDir, clock: Arc<ManualClock>) -> Arc<dyn Store> {
    if on_cassandra()
        && let Some(store) = shared_store(clock.clone()).await
    {
        return store;
    }
    let options = EmbeddedOptions { headroom_bytes: 0, ..EmbeddedOptions::default() };
    EmbeddedStore::open(folder.path(), options, clock).unwrap()
}

/// A library with some of the sample volumes.
pub async fn with_samples(settings: DataSettings, ids: &[&str]) -> Fixture {
    let fixture = empty(settings).await;
    for id in ids {
        fixture.library.volumes.import(sample(id), Unchanged::Skip, |_| {}).await.unwrap();
    }
    fixture
}

/// A sample volume's files.
pub fn sample_files(id: &str) -> hathi::VolumeFiles {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../samples/pairtree");
    hathi::locate(&root, &id.parse().unwrap()).unwrap()
}

/// A sample volume, ready to be imported.
pub fn sample(id: &str) -> VolumeParts<Cursor<Vec<u8>>> {
    let parts = sample_files(id).open().unwrap();
    let mut zip = Vec::new();
    { parts.zip }.read_to_end(&mut zip).unwrap();
    VolumeParts { id: parts.id, zip: Cursor::new(zip), mets: parts.mets, record: parts.record }
}

/// The texts of a sample volume's pages with their sequences, in METS order, from the source.
pub fn sample_pages(id: &str) -> Vec<(u32, String)> {
    let mut reader = VolumeReader::new(sample(id)).unwrap();
    (0..reader.page_count())
        .map(|index| {
            let page = reader.read_page(index).unwrap();
            (page.seq.get(), String::from_utf8(page.text).unwrap())
        })
        .collect()
}

/// The cleaned form of an id.
pub fn cleaned(id: &str) -> String {
    id.parse::<VolumeId>().unwrap().cleaned().to_string()
}

/// A volume whose page `n` (from 1) has text `n` of `texts`.
pub fn volume(id: &str, texts: &[&str]) -> VolumeParts<Cursor<Vec<u8>>> {
    let id: VolumeId = id.parse().unwrap();
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let (mut files, mut divs) = (String::new(), String::new());
    for (seq, text) in (1..).zip(texts) {
        let name = format!("{seq:08}.txt");
        zip.start_file(format!("{}/{name}", id.cleaned_local()), zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
        let (size, md5) = (text.len(), hex::encode(Md5::digest(text)));
        files += &format!(
            r#"<file ID="T{seq}" SIZE="{size}" CHECKSUM="{md5}" CHECKSUMTYPE="MD5"><FLocat xlink:href="{name}"/></file>"#
        );
        divs += &format!(r#"<div TYPE="page" ORDER="{seq}" ORDERLABEL="p{seq}"><fptr FILEID="T{seq}"/></div>"#);
    }
    let object_id = id.as_str().replace('&', "&amp;").replace('<', "&lt;");
    let mets = format!(
        r#"<mets xmlns="http://www.loc.gov/METS/" xmlns:xlink="http://www.w3.org/1999/xlink" OBJID="{object_id}"><fileSec><fileGrp USE="ocr">{files}</fileGrp></fileSec><structMap TYPE="physical"><div>{divs}</div></structMap></mets>"#
    );
    VolumeParts { id: Some(id), zip: zip.finish().unwrap(), mets: mets.into_bytes(), record: None }
}

/// The boundary between the parts of a multipart body.
const BOUNDARY: &str = "----a-boundary";

/// A multipart/form-data body of parts with their names.
pub fn form(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, bytes) in parts {
        let disposition = format!("Content-Disposition: form-data; name=\"{name}\"; filename=\"{name}\"");
        body.extend_from_slice(format!("--{BOUNDARY}\r\n{disposition}\r\n\r\n").as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    body
}

/// A response, read to its end.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn header(&self, name: impl AsRef<str>) -> Option<&str> {
        self.headers.get(name.as_ref()).map(|value| value.to_str().unwrap())
    }

    /// The names and contents of the ZIP's entries, in order; every CRC is verified.
    pub fn entries(&self) -> Vec<(String, String)> {
        let mut zip = self.zip();
        (0..zip.len())
            .map(|index| {
                let mut entry = zip.by_index(index).unwrap();
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                (entry.name().unwrap().into_owned(), text)
            })
            .collect()
    }

    pub fn zip(&self) -> zip::ZipArchive<Cursor<Bytes>> {
        zip::ZipArchive::new(Cursor::new(self.body.clone())).unwrap()
    }

    pub fn names(&self) -> Vec<String> {
        self.entries().into_iter().map(|(name, _)| name).collect()
    }
}

/// A request under construction.
pub struct Ask<'a> {
    fixture: &'a Fixture,
    request: http::request::Builder,
    body: Body,
}

impl Fixture {
    /// The same store under other options.
    pub async fn reopened(self, options: LibraryOptions) -> Self {
        let Self { folder, clock, faults, .. } = self;
        over(folder, clock, faults, DataSettings::default(), options).await
    }

    pub fn ask(&self, method: Method, path: &str) -> Ask<'_> {
        Ask { fixture: self, request: Request::builder().method(method).uri(path), body: Body::empty() }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.ask(Method::GET, path).answer().await
    }

    pub async fn head(&self, path: &str) -> Reply {
        self.ask(Method::HEAD, path).answer().await
    }

    /// Damages the first pack of a volume, in all replicas or (if strong reads are whole) in one
    /// only.
    pub async fn damage_a_pack(&self, id: &str, harm: Harm, strong_reads_are_whole: bool) {
        let id: VolumeId = id.parse().unwrap();
        let generation = self.library.volumes.volume(&id).await.unwrap().body.generation;
        let sort = keys::pack(generation, 0);
        let (partition, sort) = (keys::partition_of(&keys::volume_partition(&id), &sort), Some(sort));
        self.faults.damage(Damage { table: Table::Packs, partition, sort, harm, strong_reads_are_whole });
    }

    /// Puts a multipart/form-data body.
    pub async fn put(&self, path: &str, body: impl Into<Body>) -> Reply {
        let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
        self.ask(Method::PUT, path).header(header::CONTENT_TYPE, &content_type).body(body).answer().await
    }

    /// Posts a form.
    pub async fn post(&self, path: &str, form: &str) -> Reply {
        let ask = self.ask(Method::POST, path).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        ask.body(form.to_owned()).answer().await
    }
}

impl Ask<'_> {
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    pub fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    /// The response, whose body must end without an error.
    pub async fn answer(self) -> Reply {
        let (status, headers, body) = self.sent().await;
        Reply { status, headers, body: to_bytes(body, usize::MAX).await.unwrap() }
    }

    /// The response, whose body is not read yet.
    pub async fn sent(self) -> (StatusCode, HeaderMap, Body) {
        let response = self.fixture.router.clone().oneshot(self.request.body(self.body).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        (head.status, head.headers, body)
    }
}
