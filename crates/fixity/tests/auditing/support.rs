//! A library with some resources, over a store that several servers share.

use std::io::{Cursor, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fixity::{Auditor, FixityOptions, Step};
use hathi::{VolumeId, VolumeParts};
use heads::{LibraryOptions, keys};
use library::Library;
use md5::{Digest, Md5};
use repository::{BytesPlace, NewKind, NewResource};
use store::{Call, Capabilities, Class, ContentId, Deadline, ManualClock, Store, Table, UnixMillis, Wrapper};
use store_cassandra::testing::{damage, on_cassandra, shared_options, shared_store};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tempfile::TempDir;
use volumes::Unchanged;

/// Time between the beginnings of two passes.
pub const EVERY: Duration = Duration::from_secs(3_600);

/// After this time the lease of a dead server has ended on every clock.
pub const LAPSED: Duration = Duration::from_secs(60 + 300 + 1);

/// The embedded engine as if several processes could have it open, as on Cassandra. Within one
/// process several libraries stand for servers.
struct AsShared(Arc<EmbeddedStore>);

impl Wrapper for AsShared {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { is_shared: true, ..self.0.capabilities() }
    }
}

pub struct Fixture {
    pub library: Library,
    pub store: Arc<dyn Store>,
    pub clock: Arc<ManualClock>,
    pub folder: TempDir,
}

pub async fn fixture() -> Fixture {
    let clock = Arc::new(ManualClock::new(UnixMillis(1_750_000_000_000)));
    let folder = tempfile::tempdir().unwrap();
    let shared = if on_cassandra() { shared_store(clock.clone()).await } else { None };
    let store = shared.unwrap_or_else(|| Arc::new(AsShared(embedded(&folder, &clock, EmbeddedOptions::default()))));
    fixture_over(store, clock, folder).await
}

/// A library over the embedded engine, which one process has.
pub async fn fixture_alone(options: EmbeddedOptions) -> Fixture {
    let clock = Arc::new(ManualClock::new(UnixMillis(1_750_000_000_000)));
    let folder = tempfile::tempdir().unwrap();
    let store = embedded(&folder, &clock, options);
    fixture_over(store, clock, folder).await
}

pub fn embedded(folder: &TempDir, clock: &Arc<ManualClock>, options: EmbeddedOptions) -> Arc<EmbeddedStore> {
    let options = EmbeddedOptions { headroom_bytes: 0, ..options };
    EmbeddedStore::open(folder.path(), options, clock.clone()).unwrap()
}

async fn fixture_over(store: Arc<dyn Store>, clock: Arc<ManualClock>, folder: TempDir) -> Fixture {
    let library = Library::open(store.clone(), clock.clone(), LibraryOptions::default()).await.unwrap();
    Fixture { library, store, clock, folder }
}

impl Fixture {
    /// A server: a library of its own over the same store, with an auditor.
    pub async fn server(&self, options: FixityOptions) -> Arc<Auditor> {
        let library = Library::open(self.store.clone(), self.clock.clone(), LibraryOptions::default()).await.unwrap();
        Auditor::new(library, options)
    }

    /// The stored value of the present pass.
    pub async fn pass_row(&self) -> Bytes {
        let call = Call::new(Class::Description, Deadline::within(Duration::from_secs(30))).strong();
        let row = self.store.get(call, Table::Work, &keys::fixity_state(), &keys::fixity_pass()).await.unwrap();
        row.expect("a pass has begun").value
    }

    /// Makes resources `r000`, `r001` and so on.
    pub async fn make(&self, count: usize) {
        for number in 0..count {
            let description = Bytes::from(format!("number {number}"));
            let new = NewResource { kind: NewKind::RdfSource, description, ..NewResource::empty_container() };
            self.library.repository.create(&format!("r{number:03}").parse().unwrap(), &new).await.unwrap();
        }
    }

    /// Imports a volume of one page, with a note in its METS.
    pub async fn import(&self, id: &str, text: &str, note: &str) {
        let id = VolumeId::parse(id).unwrap();
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default();
        zip.start_file(format!("{}/00000001.txt", id.cleaned_local()), options).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
        let md5 = hex::encode(Md5::digest(text));
        let len = text.len();
        let mets = format!(
            r#"<METS:mets xmlns:METS="http://www.loc.gov/METS/" xmlns:xlink="http://www.w3.org/1999/xlink" OBJID="{id}"><METS:fileSec><METS:fileGrp USE="ocr"><METS:file ID="T1" SIZE="{len}" CHECKSUM="{md5}" CHECKSUMTYPE="MD5"><METS:FLocat xlink:href="00000001.txt"/></METS:file></METS:fileGrp></METS:fileSec><METS:structMap TYPE="physical"><METS:div><METS:div TYPE="page" ORDER="1" ORDERLABEL="i"><METS:fptr FILEID="T1"/></METS:div></METS:div></METS:structMap><!-- {note} --></METS:mets>"#
        );
        let parts = VolumeParts { id: Some(id), zip: zip.finish().unwrap(), mets: mets.into_bytes(), record: None };
        self.library.volumes.import(parts, Unchanged::Skip, |_| {}).await.unwrap();
    }

    /// Stores large bytes at a path, and returns the id of their content.
    pub async fn put_bytes(&self, at: &str, len: usize) -> ContentId {
        let path = at.parse().unwrap();
        let source = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![7; len]))]);
        let uploaded = self.library.repository.upload(&path, source, &[]).await.unwrap();
        let new = NewResource { kind: NewKind::Binary(uploaded), ..NewResource::empty_container() };
        self.library.repository.create(&path, &new).await.unwrap();
        let resource = self.library.repository.resource(&path).await.unwrap();
        let BytesPlace::Content(id) = resource.body().binary().unwrap().place else { panic!("it is small") };
        id
    }

    /// Flips a bit of a content.
    pub async fn flip_bit(&self, id: ContentId, at: usize) {
        let (name, contents) = (id.to_string(), self.folder.path().join("contents"));
        if contents.exists() {
            let file = contents.join(&name[..2]).join(name);
            let mut content = std::fs::read(&file).unwrap();
            content[at] ^= 1;
            std::fs::write(&file, content).unwrap();
        } else {
            damage::flip_bit(&shared_options().await.unwrap(), id, at as u64).await;
        }
    }
}

/// Options without a limit of the rate, which take a few objects at once.
pub fn quick() -> FixityOptions {
    FixityOptions { every: EVERY, bytes_per_second: 0, taken_at_once: 8 }
}

/// Steps until a server has nothing to do. Returns its last step.
pub async fn all_steps(server: &Auditor) -> Step {
    loop {
        match server.step().await.unwrap() {
            Step::Read(_) | Step::Moved => {}
            last => return last,
        }
    }
}
