//! A page in the middle of a TimeMap of a million versions.

use std::time::Duration;

use heads::{Head, RevisionId, keys};
use http::{Method, StatusCode};
use store::{Class, Clock, Expect, Step, Table, UnixMillis};

use crate::support::{Fixture, ROOT, fixture};

const MILLION: u64 = 1_000_000;

/// Makes a million of versions of what is at `/rest/a`, ten milliseconds apart, and a present one.
/// Of their entries in the log, the first one of each page is stored, and all of the page in the
/// middle.
async fn make_versions(fixture: &Fixture) {
    let (heads, object) = (&fixture.library.heads, keys::resource_partition(&"a".parse().unwrap()));
    let row = heads.head_at(&object).await.unwrap().unwrap();
    let (first, begin) = (row.head.revision, fixture.clock.now().0);
    let head = |place: u64| {
        let revision = if place == 0 { first } else { RevisionId::first_at(UnixMillis(begin + 10 * place)) };
        Head { revision, logged: place, ..row.head.clone() }
    };
    let last_page = (MILLION - 1) / keys::LOG_PAGE_ENTRIES;
    let stored = (0..=last_page).flat_map(|page| {
        let begin = page * keys::LOG_PAGE_ENTRIES;
        let entries = if page == last_page / 2 { keys::LOG_PAGE_ENTRIES } else { 1 };
        begin..begin + entries
    });
    let mut steps: Vec<_> = stored.map(|place| head(place).log_step(&object).unwrap()).collect();
    let last = head(MILLION);
    steps.push(Step::CompareAndWrite {
        table: Table::Objects,
        partition: object,
        sort: keys::head(),
        expect: Expect::Stamp(row.stamp),
        guard: last.guard(heads.stamp(), heads.rules()),
        value: last.seal().unwrap(),
    });
    for some in steps.chunks(1_000) {
        let outcome = fixture.library.store().run(heads.call(Class::Description), some.to_vec()).await.unwrap();
        assert!(outcome.is_applied());
    }
    fixture.clock.advance(Duration::from_millis(10 * MILLION));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_in_the_middle_of_a_million_versions_has_all_of_them_and_leads_to_the_next() {
    let fixture = fixture().await;
    fixture.make("/rest/a", "RDFSource", "").await;
    make_versions(&fixture).await;
    // The versions from number 499,720 on.
    let list = "/rest/a/fcr:versions?from=20250615162957-200&limit=1000";
    let reply = fixture.ask(Method::GET, list).header("accept", "application/link-format").answer().await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    let mementos: Vec<_> = reply.text().lines().filter(|line| line.contains("memento\"")).collect();
    assert_eq!(mementos.len(), 1_000);
    let versions = format!("{ROOT}a/fcr:versions");
    for (number, name, time) in [
        (0, "20250615162957-200", "16:29:57"),
        // The first of its second.
        (80, "20250615162958", "16:29:58"),
        (999, "20250615163007-190", "16:30:07"),
    ] {
        let link = format!("<{versions}/{name}>; rel=\"memento\"; datetime=\"Sun, 15 Jun 2025 {time} GMT\"");
        assert_eq!(mementos[number].trim_end_matches(','), link);
    }
    assert_eq!(reply.links("next"), [format!("{versions}?from=20250615163007-200&limit=1000")]);
}
