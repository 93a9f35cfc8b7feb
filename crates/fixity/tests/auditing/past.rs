//! A pass reads earlier versions too, and reports damage of them.

use std::time::Duration;

use budget::Pace;
use bytes::Bytes;
use heads::{History, Keep, LibraryOptions, RevisionId, keys};
use library::Library;
use repository::{BytesPlace, Part, Update};
use store::{Call, Class, ContentId, Deadline, NewRow, Removal, Scan, Step, Table};
use volumes::Volume;
use volumes::damage::WHOLE_VOLUME;

use crate::support::{Fixture, all_steps, fixture, quick};

/// The version of the clock's first second.
const FIRST: &str = "the version of 2025-06-15T15:06:40Z";

impl Fixture {
    /// Replaces the bytes at a path, a day later. Returns the id of the new content.
    pub async fn replace_bytes(&self, at: &str, with: u8) -> ContentId {
        self.clock.advance(Duration::from_secs(24 * 3_600));
        let path = at.parse().unwrap();
        let resource = self.library.repository.resource(&path).await.unwrap();
        let source = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![with; 300_000]))]);
        let uploaded = self.library.repository.upload(&path, source, &[]).await.unwrap();
        self.library.repository.update(&resource, &Update::Binary(uploaded)).await.unwrap();
        let resource = self.library.repository.resource(&path).await.unwrap();
        let BytesPlace::Content(id) = resource.body().binary().unwrap().place else { panic!("it is small") };
        id
    }

    /// The damaged parts that a pass names, each with its object.
    async fn found(&self) -> Vec<(String, String)> {
        let server = self.server(quick()).await;
        all_steps(&server).await;
        let number = server.status().await.unwrap().complete.unwrap().number;
        let (_, findings) = server.report(number).await.unwrap();
        let parts = findings.into_iter().map(|finding| (finding.name, finding.parts));
        parts.flat_map(|(name, parts)| parts.into_iter().map(move |(part, _)| (name.clone(), part))).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_of_an_earlier_version_is_found_marked_and_named() {
    let fixture = fixture().await;
    let earlier = fixture.put_bytes("scan", 300_000).await;
    fixture.replace_bytes("scan", 8).await;
    fixture.flip_bit(earlier, 200_000).await;
    assert_eq!(fixture.found().await, [("/scan".to_owned(), format!("bytes of {FIRST}"))]);
    let path = "scan".parse().unwrap();
    let versions = fixture.library.repository.versions(&path).await.unwrap();
    let first = versions.oldest_from(versions.from()).await.unwrap().unwrap();
    assert_eq!(fixture.library.repository.damaged_parts(&first).await.unwrap(), [Part::Bytes]);
    let current = fixture.library.repository.resource(&path).await.unwrap();
    assert_eq!(fixture.library.repository.damaged_parts(&current).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_of_what_was_deleted_are_read_and_a_version_in_common_is_read_once() {
    let fixture = fixture().await;
    let first = fixture.put_bytes("scan", 300_000).await;
    let second = fixture.replace_bytes("scan", 8).await;
    let resource = fixture.library.repository.resource(&"scan".parse().unwrap()).await.unwrap();
    fixture.library.repository.delete(&resource).await.unwrap();
    let server = fixture.server(quick()).await;
    all_steps(&server).await;
    let read = server.read_here();
    assert_eq!((read.resources, read.bytes, read.damaged), (1, 600_000, 0), "the root is a resource");
    for id in [first, second] {
        fixture.flip_bit(id, 200_000).await;
    }
    fixture.clock.advance(crate::support::EVERY);
    let found = fixture.found().await;
    let second = "bytes of the version of 2025-06-16T15:06:40Z".to_owned();
    assert_eq!(found, [("/scan".to_owned(), format!("bytes of {FIRST}")), ("/scan".to_owned(), second)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_was_collected_is_no_damage() {
    let fixture = fixture().await;
    let earlier = fixture.put_bytes("scan", 300_000).await;
    fixture.replace_bytes("scan", 8).await;
    fixture.flip_bit(earlier, 200_000).await;
    let history = History { resources: Keep::None, ..History::default() };
    let options = LibraryOptions { history, ..LibraryOptions::default() };
    let library = Library::open(fixture.store.clone(), fixture.clock.clone(), options).await.unwrap();
    let server = fixity::Auditor::new(library, quick());
    all_steps(&server).await;
    assert_eq!((server.read_here().bytes, server.read_here().damaged), (300_000, 0));
}

/// The volume `t.a`, which was replaced after a day, in a library that keeps all versions; and its
/// first version.
async fn replaced_volume() -> (Fixture, Volume) {
    let fixture = fixture().await;
    let history = History { volumes: Keep::All, ..History::default() };
    let options = LibraryOptions { history, ..LibraryOptions::default() };
    let library = Library::open(fixture.store.clone(), fixture.clock.clone(), options).await.unwrap();
    let fixture = Fixture { library, ..fixture };
    fixture.import("t.a", "one page", "").await;
    let earlier = fixture.library.volumes.volume(&"t.a".parse().unwrap()).await.unwrap();
    fixture.clock.advance(Duration::from_secs(24 * 3_600));
    fixture.import("t.a", "another page", "").await;
    (fixture, earlier)
}

fn call() -> Call {
    Call::new(Class::Content, Deadline::within(Duration::from_secs(30)))
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_of_an_earlier_version_of_a_volume_is_found_and_named() {
    let (fixture, earlier) = replaced_volume().await;
    let (partition, call) = (keys::part(&keys::volume_partition(&earlier.id), earlier.revision, 0), call());
    let rows = fixture.store.scan(call, Table::Packs, &partition, Scan::prefix("", 1 << 20)).await.unwrap().rows;
    assert!(!rows.is_empty());
    let flipped = rows.into_iter().map(|row| {
        let mut value = row.value.to_vec();
        *value.last_mut().unwrap() ^= 1;
        NewRow::new(row.sort, value)
    });
    let put = Step::Put { table: Table::Packs, partition, rows: flipped.collect() };
    fixture.store.run(call, vec![put]).await.unwrap();

    let server = fixity::Auditor::new(fixture.library.clone(), quick());
    all_steps(&server).await;
    let (report, findings) = server.report(1).await.unwrap();
    assert_eq!(report.found.damaged, 1);
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert!(finding.parts.iter().all(|(part, _)| part.ends_with(FIRST)), "{finding:?}");
    // Its printed number is in the same rows.
    assert!(finding.parts.iter().any(|(part, _)| part == &format!("page 1 of {FIRST}")), "{finding:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_version_that_lost_its_directory_is_damaged_and_one_that_was_collected_is_not() {
    let (fixture, earlier) = replaced_volume().await;
    let Volume { id, revision, .. } = &earlier;
    let (library, volume) = (&fixture.library, keys::volume_partition(id));
    let remove = async |partition: Bytes, row: Bytes| {
        let rows = Removal::Rows(vec![row]);
        fixture.store.run(call(), vec![Step::Remove { table: Table::Objects, partition, rows }]).await.unwrap();
    };
    let damaged = async || library.volumes.verify_versions(id, Pace::unlimited()).await.unwrap().damaged;
    // What an interrupted change leaves: the head does not say any more that nothing below it was
    // collected.
    library.heads.settle_change(&volume, library.heads.revisions().mint()).await.unwrap();
    assert_eq!(damaged().await, []);

    remove(keys::part(&volume, *revision, 0), keys::directory(*revision, 0)).await;
    let found = damaged().await;
    let [(version, member)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((version, member.member), (revision, WHOLE_VOLUME));
    assert!(member.detail.contains("is missing"), "{}", member.detail);
    let listed = library.volumes.versions(id).await.unwrap().list(RevisionId::ZERO, 10).await.unwrap();
    assert_eq!(listed.len(), 2);
    let server = fixity::Auditor::new(library.clone(), quick());
    all_steps(&server).await;
    let (report, findings) = server.report(1).await.unwrap();
    assert_eq!(report.found.damaged, 1);
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!(finding.parts.iter().map(|(part, _)| part.as_str()).collect::<Vec<_>>(), [FIRST]);

    // A collector removes the entry in the list of generations too.
    remove(volume.clone(), keys::generation(*revision)).await;
    assert_eq!(damaged().await, []);
}
