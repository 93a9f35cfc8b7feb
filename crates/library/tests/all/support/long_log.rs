//! A resource with a million versions. The tests of `door-ldp` include this file, too.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use heads::{Head, ResourcePath, RevisionId, keys};
use library::Library;
use store::{Class, Clock, Expect, ManualClock, Step, Table, UnixMillis};

pub const MILLION: u64 = 1_000_000;

/// The time from one version to the next, in milliseconds.
const APART_MS: u64 = 10;

/// The revisions of a million versions and the present one.
pub struct Revisions {
    pub first: RevisionId,
    begin: UnixMillis,
}

impl Revisions {
    /// That with so many before it.
    pub fn at(&self, place: u64) -> RevisionId {
        match place {
            0 => self.first,
            _ => RevisionId::first_at(UnixMillis(self.begin.0 + APART_MS * place)),
        }
    }
}

/// Makes a million versions of a resource that has one, ten milliseconds apart, and a present one.
/// Of their entries in its log few are stored: the first of each page, and all of three pages.
pub async fn make_a_million_versions(library: &Library, clock: &ManualClock, path: &ResourcePath) -> Revisions {
    let (heads, object) = (&library.heads, keys::resource_partition(path));
    let row = heads.head_at(&object).await.unwrap().unwrap();
    let revisions = Revisions { first: row.head.revision, begin: clock.now() };
    let head = |place: u64| Head { revision: revisions.at(place), logged: place, ..row.head.clone() };
    let last_page = (MILLION - 1) / keys::LOG_PAGE_ENTRIES;
    let stored = (0..=last_page).flat_map(|page| {
        let begin = page * keys::LOG_PAGE_ENTRIES;
        let is_whole = [0, last_page / 2, last_page].contains(&page);
        let entries = if is_whole { keys::LOG_PAGE_ENTRIES } else { 1 };
        begin..MILLION.min(begin + entries)
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
    // Few at once: on Cassandra each takes some milliseconds of the time that one call has.
    for some in steps.chunks(100) {
        let outcome = library.store().run(heads.call(Class::Description), some.to_vec()).await.unwrap();
        assert!(outcome.is_applied());
    }
    clock.advance(Duration::from_millis(APART_MS * MILLION));
    revisions
}
