//! A pass reads everything once, reports damage, and is followed by the next one in time.

use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use fixity::{Auditor, FixityOptions, Status, Step, Tally};
use hathi::VolumeId;
use heads::{History, Keep, LibraryOptions};
use library::Library;
use md5::{Digest, Md5};
use repository::{Membership, NewKind, NewResource, Part, Update};
use store::copying::{Copier, Patience};
use store::read_only::{self, ReadOnlyGate};
use store::{Call, Outcome, Store, StoreResult, Wrapper};
use store_embedded::EmbeddedOptions;

use crate::support::{EVERY, Fixture, all_steps, embedded, fixture, fixture_alone, quick};

async fn ended(fixture: &Fixture) -> (u32, Tally) {
    let server = fixture.server(quick()).await;
    let complete = server.status().await.unwrap().complete.expect("a pass has ended");
    (complete.number, complete.found)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_reads_every_volume_description_and_content_once() {
    let fixture = fixture().await;
    fixture.make(20).await;
    fixture.import("t.a", "one page", "").await;
    fixture.put_bytes("large", 300_000).await;
    let server = fixture.server(quick()).await;
    assert_eq!(server.status().await.unwrap(), Status::default(), "there was no pass yet");
    assert_eq!(all_steps(&server).await, Step::Rests { until: fixture.library.heads.now().plus(EVERY) });
    let (number, found) = ended(&fixture).await;
    // The root is a resource too.
    assert_eq!((number, found.volumes, found.resources), (1, 1, 22));
    assert_eq!((found.damaged, found.failed), (0, 0));
    let descriptions: u64 = (0..20).map(|number| format!("number {number}").len() as u64).sum();
    assert!(found.bytes >= 300_000 + descriptions + "one page".len() as u64, "{found:?}");
    assert_eq!(server.read_here(), found);
    let (report, findings) = server.report(1).await.unwrap();
    assert_eq!((report.found, findings.len()), (found, 0));
    assert!(server.report(2).await.is_err());
}

/// A store whose writes take no time while time is paused. The embedded engine writes on threads of
/// its own. Tokio would take that for idleness and let deadlines pass, but it does not while it has
/// blocking work.
struct Still(Arc<dyn Store>);

impl Wrapper for Still {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn run(&self, call: Call, steps: Vec<store::Step>) -> StoreResult<Outcome> {
        let (end, ended) = mpsc::channel::<()>();
        let blocking = tokio::task::spawn_blocking(move || ended.recv().is_err());
        let outcome = self.0.run(call, steps).await;
        drop(end);
        blocking.await.unwrap();
        outcome
    }
}

/// A text that is compressed to half of its length at best.
fn digests(numbers: Range<u32>) -> String {
    numbers.map(|number| hex::encode(Md5::digest(number.to_be_bytes()))).collect()
}

#[tokio::test]
async fn a_pass_takes_at_least_as_long_as_its_bytes_at_the_set_rate() {
    const PART_BYTES: u64 = 300_000;
    const BYTES_PER_SECOND: u64 = 1_000_000;
    let fixture = fixture_alone(EmbeddedOptions::default()).await;
    let store: Arc<dyn Store> = Arc::new(Still(fixture.store.clone()));
    let history = History { volumes: Keep::All, ..History::default() };
    let options = LibraryOptions { history, ..LibraryOptions::default() };
    let library = Library::open(store.clone(), fixture.clock.clone(), options).await.unwrap();
    let fixture = Fixture { library, store, ..fixture };
    let (volumes, repository) = (&fixture.library.volumes, &fixture.library.repository);

    // Two versions of each: the frames of a page and of a METS, a content, a description.
    let mut parts = Vec::new();
    for from in [0, 20_000] {
        let (page, note) = (digests(from..from + 10_000), digests(from + 10_000..from + 20_000));
        fixture.import("t.a", &page, &note).await;
        let body = volumes.volume(&VolumeId::parse("t.a").unwrap()).await.unwrap().body;
        parts.extend([body.pages.frame_bytes, u64::from(body.mets.member.frame_len)]);
        fixture.clock.advance(EVERY);
    }
    fixture.put_bytes("scan", PART_BYTES as usize).await;
    fixture.replace_bytes("scan", 8).await;
    let description = |sign: u8| Bytes::from(vec![sign; PART_BYTES as usize]);
    let path = "note".parse().unwrap();
    let new =
        NewResource { kind: NewKind::RdfSource, description: description(b'a'), ..NewResource::empty_container() };
    repository.create(&path, &new).await.unwrap();
    fixture.clock.advance(EVERY);
    let note = repository.resource(&path).await.unwrap();
    let (membership, refers_to) = (Membership::Basic, Vec::new());
    let update = Update::Description { description: description(b'b'), membership, members_for: None, refers_to };
    repository.update(&note, &update).await.unwrap();
    parts.extend([PART_BYTES; 4]);

    let options = FixityOptions { bytes_per_second: BYTES_PER_SECOND, ..quick() };
    let server = Auditor::new(fixture.library.clone(), options);
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    all_steps(&server).await;
    let took = begun.elapsed();
    assert_eq!(server.read_here().damaged, 0);
    let lasts = |bytes: u64| Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND as f64);
    let (all, least) = (parts.iter().sum::<u64>(), parts.iter().copied().min().unwrap());
    assert!(took >= lasts(all), "{took:?} for {all} bytes: {parts:?}");
    assert!(took < lasts(all + least), "{took:?} for {all} bytes, so one of {parts:?} could be missing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_read_only_is_not_audited_until_it_takes_changes_again() {
    let fixture = fixture_alone(EmbeddedOptions::default()).await;
    fixture.make(1).await;
    let gate = Arc::new(ReadOnlyGate::new(fixture.store.clone()).await.unwrap());
    let fixture = Fixture { store: gate, ..fixture };
    let server = fixture.server(quick()).await;
    read_only::set(&*fixture.store, Some("it is copied")).await.unwrap();
    let Step::Prevented(why) = server.step().await.unwrap() else { panic!("it reads") };
    assert!(why.contains("it is copied"), "{why}");
    read_only::set(&*fixture.store, None).await.unwrap();
    all_steps(&server).await;
    assert_eq!(ended(&fixture).await.1.resources, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_marked_and_named_in_the_report_of_its_pass_alone() {
    let fixture = fixture().await;
    fixture.make(3).await;
    let id = fixture.put_bytes("large", 300_000).await;
    fixture.flip_bit(id, 200_000).await;
    let server = fixture.server(quick()).await;
    all_steps(&server).await;
    let (report, findings) = server.report(1).await.unwrap();
    assert_eq!((report.found.damaged, report.found.failed), (1, 0));
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((finding.kind, &*finding.name, finding.is_damaged), ("resource", "/large", true));
    let [(part, detail)] = &finding.parts[..] else { panic!("{finding:?}") };
    assert!(part == "bytes" && detail.contains("checksum"), "{finding:?}");
    let resource = fixture.library.repository.resource(&"large".parse().unwrap()).await.unwrap();
    assert_eq!(fixture.library.repository.damaged_parts(&resource).await.unwrap(), [Part::Bytes]);

    fixture.flip_bit(id, 200_000).await;
    fixture.clock.advance(EVERY);
    all_steps(&server).await;
    let (report, findings) = server.report(2).await.unwrap();
    assert_eq!((report.found.damaged, findings.len()), (0, 0));
    assert_eq!(fixture.library.repository.damaged_parts(&resource).await.unwrap(), [], "it is sound again");
    assert_eq!(server.report(1).await.unwrap().1.len(), 1, "earlier reports stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_age_of_the_oldest_check_is_that_of_the_beginning_of_the_last_complete_pass() {
    let fixture = fixture().await;
    fixture.make(3).await;
    let server = fixture.server(quick()).await;
    let age = async || server.status().await.unwrap().oldest_check(fixture.library.heads.now());
    assert_eq!(age().await, None);
    all_steps(&server).await;
    fixture.clock.advance(EVERY / 2);
    assert_eq!(age().await, Some(EVERY / 2));
    fixture.clock.advance(EVERY / 2);
    assert_eq!(server.step().await.unwrap(), Step::Moved, "the next pass begins");
    assert_eq!(age().await, Some(EVERY), "it has not read everything yet");
    all_steps(&server).await;
    assert_eq!(age().await, Some(std::time::Duration::ZERO));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_before_it_is_read_is_no_failure() {
    let fixture = fixture().await;
    fixture.make(5).await;
    let resource = fixture.library.repository.resource(&"r002".parse().unwrap()).await.unwrap();
    fixture.library.repository.delete(&resource).await.unwrap();
    all_steps(&*fixture.server(quick()).await).await;
    let (_, found) = ended(&fixture).await;
    assert_eq!((found.resources, found.damaged, found.failed), (5, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_store_begins_its_own_first_pass() {
    let fixture = fixture_alone(EmbeddedOptions::default()).await;
    fixture.make(3).await;
    all_steps(&*fixture.server(quick()).await).await;
    let folder = tempfile::tempdir().unwrap();
    let target = embedded(&folder, &fixture.clock, EmbeddedOptions::default());
    let copier = Copier::begin(fixture.store.clone(), target.clone(), "the source", Patience::default()).await.unwrap();
    copier.pass().await.unwrap();
    copier.verify().await.unwrap();
    copier.end().await.unwrap();
    let copy = Fixture { store: target.clone(), ..fixture };
    let server = copy.server(quick()).await;
    assert_eq!(server.status().await.unwrap(), Status::default(), "nothing of the copy was checked");
    all_steps(&server).await;
    assert_eq!(ended(&copy).await.1.resources, 4);
    target.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_of_a_clock_that_was_ahead_does_not_put_off_the_next_one() {
    let fixture = fixture_alone(EmbeddedOptions::default()).await;
    let server = fixture.server(quick()).await;
    let now = fixture.library.heads.now();
    fixture.clock.advance(Duration::from_secs(365 * 24 * 3_600));
    all_steps(&server).await;
    assert!(matches!(server.step().await.unwrap(), Step::Rests { .. }));
    fixture.clock.set(now);
    assert_eq!(server.step().await.unwrap(), Step::Moved, "the next pass begins");
}
