//! A pass reads everything once, reports damage, and is followed by the next one in time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use budget::Pace;
use fixity::{Status, Step, Tally};
use hathi::VolumeId;
use md5::{Digest, Md5};
use repository::Part;
use store::copying::{Copier, Patience};
use store::read_only::{self, ReadOnlyGate};
use store::{FormatLevel, Store};
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

#[tokio::test(flavor = "multi_thread")]
async fn the_mets_of_a_volume_is_read_at_the_pace_too() {
    let fixture = fixture().await;
    // Each digest takes 16 bytes, however well it is compressed.
    let note: String = (0..6_000_u32).map(|number| hex::encode(Md5::digest(number.to_be_bytes()))).collect();
    fixture.import("t.a", "one page", &note).await;
    let (pace, begun) = (Pace::new(6_000 * 16 * 5), Instant::now());
    fixture.library.volumes.verify_at(&VolumeId::parse("t.a").unwrap(), &pace).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
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
async fn a_store_of_an_earlier_level_works_on_without_the_auditor_which_says_what_to_do() {
    let options = EmbeddedOptions { newest_level: FormatLevel::KINDS, ..EmbeddedOptions::default() };
    let fixture = fixture_alone(options).await;
    fixture.make(1).await;
    let server = fixture.server(quick()).await;
    let Step::Prevented(why) = server.step().await.unwrap() else { panic!("it reads") };
    assert!(why.contains("penates upgrade"), "{why}");
    assert_eq!(server.status().await.unwrap(), Status::default());
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
