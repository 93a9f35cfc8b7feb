//! Versions of volumes: none are kept by default. Versions that are kept can be read as long as
//! they are kept, and are collected after a further grace. The tests read them by the generation
//! that their heads named, which also shows what is left of those that are not kept.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use heads::{History, Keep, LibraryOptions, Queue, RevisionId, keys};
use library::Library;
use store::{Clock, Table};
use volumes::{BulkRequest, Missing, MissingReason, OnDamage, Pinned, Volume};

use super::common::{HOUR, collect, generations, records};
use super::plans::{first_page, streamed};
use crate::support::memory::{Fault, switches_a_volume};
use crate::support::{
    Faulty, START, faulty_with, id, import, listed, on_cassandra, sample, steps, texts, texts_at, volume,
};

const DAY: Duration = Duration::from_secs(24 * 3_600);
const MILLISECOND: Duration = Duration::from_millis(1);

fn keeping(volumes: Keep) -> LibraryOptions {
    LibraryOptions { history: History { volumes, ..History::default() }, ..LibraryOptions::default() }
}

/// A volume with its versions, oldest first.
struct Replaced {
    faulty: Faulty,
    versions: Vec<(Volume, String)>,
}

impl Replaced {
    /// A volume that was replaced three times, once a day.
    async fn new(keep: Keep) -> Self {
        let mut replaced = Self { faulty: faulty_with(keeping(keep)).await, versions: Vec::new() };
        for text in ["first", "second", "third", "fourth"] {
            if !replaced.versions.is_empty() {
                replaced.faulty.clock.advance(DAY);
            }
            replaced.import(text).await;
        }
        replaced
    }

    async fn import(&mut self, text: &str) {
        let library = &self.faulty.library;
        import(library, volume("t.a", &[text])).await.unwrap();
        self.versions.push((library.volumes.volume(&id("t.a")).await.unwrap(), text.to_owned()));
    }

    /// Asserts that exactly these versions can be read, that nothing of the others is left, and
    /// that the current one is sound.
    async fn assert_kept(&self, expected: &[&str]) {
        let library = &self.faulty.library;
        let mut kept = Vec::new();
        for (version, text) in &self.versions {
            match texts_at(library, version).await {
                Ok(texts) => {
                    assert_eq!(&texts[..], std::slice::from_ref(text));
                    kept.push(text.as_str());
                }
                Err(error) => assert!(error.is_damage(), "{error}"),
            }
        }
        assert_eq!(kept, expected);
        assert_eq!(generations(&self.faulty).len(), expected.len());
        if library.volumes.volume(&id("t.a")).await.is_ok() {
            assert!(library.volumes.verify(&id("t.a")).await.unwrap().damaged.is_empty());
        }
    }
}

/// Condemns, waits for the grace, removes.
async fn collected(library: &Library, clock: &store::ManualClock) {
    collect(library).await;
    clock.advance(library.options().grace);
    collect(library).await;
}

const ALL: [&str; 4] = ["first", "second", "third", "fourth"];

#[tokio::test(flavor = "multi_thread")]
async fn versions_that_are_kept_can_be_read_and_others_are_gone_after_the_grace() {
    let two_days = Keep::For(2 * DAY - MILLISECOND);
    assert_eq!(LibraryOptions::default().history.volumes, Keep::None);
    for (keep, kept) in [(Keep::None, 1), (Keep::Newest(1), 2), (Keep::Newest(2), 3), (two_days, 3)] {
        let replaced = Replaced::new(keep).await;
        let Faulty { library, clock, .. } = &replaced.faulty;
        assert_eq!(collect(library).await.condemned, 1, "{keep}");
        clock.advance(library.options().grace - MILLISECOND);
        assert_eq!(collect(library).await.removed, 0, "{keep}");
        replaced.assert_kept(&ALL).await;
        clock.advance(MILLISECOND);
        assert_eq!(collect(library).await.removed, 4 - kept as u64, "{keep}");
        replaced.assert_kept(&ALL[4 - kept..]).await;
        assert_eq!(texts(library, &id("t.a")).await.unwrap(), ["fourth"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_all_or_enough_versions_are_kept_nothing_is_condemned_and_nothing_is_left_to_do() {
    for keep in [Keep::All, Keep::Newest(3), Keep::Newest(u32::MAX)] {
        let replaced = Replaced::new(keep).await;
        let Faulty { library, clock, .. } = &replaced.faulty;
        for _ in 0..5 {
            assert_eq!(collect(library).await.condemned, 0, "{keep}");
            clock.advance(DAY);
        }
        assert_eq!(records(&replaced.faulty), 0, "{keep}");
        replaced.assert_kept(&ALL).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_kept_for_a_time_goes_a_grace_after_that_has_passed() {
    let replaced = Replaced::new(Keep::For(7 * DAY)).await;
    let Faulty { library, clock, .. } = &replaced.faulty;
    // The versions were superseded one, two and three days after the start. They are kept for seven
    // days and collected a grace later, apart from some hours, because passes that remove do not
    // condemn.
    for (days, left) in [(8, 4), (9, 3), (10, 2), (11, 1)] {
        while clock.now().since(START) < days * DAY + 12 * HOUR {
            clock.advance(HOUR);
            collect(library).await;
        }
        replaced.assert_kept(&ALL[4 - left..]).await;
    }
    for _ in 0..3 {
        collected(library, clock).await;
    }
    assert_eq!(records(&replaced.faulty), 0);
    replaced.assert_kept(&["fourth"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_whose_versions_are_kept_for_a_time_is_visited_once_a_day_and_a_shorter_time_counts_then() {
    let replaced = Replaced::new(Keep::For(7 * DAY)).await;
    let Faulty { library, clock, store, .. } = &replaced.faulty;
    for days in 3_u32..7 {
        assert_eq!(collect(library).await.condemned, 0);
        let has_records = |partition: &Bytes| !store.sorts(Table::Work, partition).is_empty();
        let partitions = store.partitions(Table::Work).into_iter().filter(has_records);
        let bucket = |partition: Bytes| keys::queue_bucket(&partition, Queue::Collecting.name());
        let due: BTreeSet<u32> = partitions.filter_map(bucket).collect();
        let tomorrow = u32::try_from(START.plus((days + 1) * DAY).0 / 600_000).unwrap();
        assert_eq!(due, BTreeSet::from([tomorrow]), "after {days} days");
        clock.advance(DAY);
    }
    let shorter = Library::open(store.clone(), clock.clone(), keeping(Keep::For(DAY))).await.unwrap();
    assert_eq!(collect(&shorter).await.condemned, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_is_replaced_twice_in_each_grace_has_few_records_and_rests_without_any() {
    const FEW: usize = 16;
    // A pass reads few buckets for a short grace.
    let (half, plan_life) = (Duration::from_secs(20 * 60), Duration::from_secs(300));
    let imports = if on_cassandra() { 30 } else { 100 };
    // What is kept, and how many generations are left.
    let cases = [(Keep::None, 1), (Keep::Newest(2), 3), (Keep::Newest(1_000), imports + 1), (Keep::For(4 * half), 1)];
    for (keep, left) in sample(cases) {
        let faulty = faulty_with(LibraryOptions { grace: 2 * half, plan_life, ..keeping(keep) }).await;
        import(&faulty.library, volume("t.a", &["0"])).await.unwrap();
        for n in 1..=imports {
            faulty.clock.advance(half);
            import(&faulty.library, volume("t.a", &[&n.to_string()])).await.unwrap();
            // A pass that removes does not condemn, so another one follows.
            for _ in 0..2 {
                collect(&faulty.library).await;
            }
            if n % 10 != 0 {
                continue;
            }
            let (records, generations) = (records(&faulty), generations(&faulty).len());
            assert!(records <= FEW, "{keep}: {records} records after {n} imports");
            assert!(generations <= FEW.max(left), "{keep}: {generations} generations after {n} imports");
        }
        for _ in 0..20 {
            faulty.clock.advance(2 * half);
            collect(&faulty.library).await;
        }
        assert_eq!((records(&faulty), generations(&faulty).len()), (0, left), "{keep}");
        assert_eq!(texts(&faulty.library, &id("t.a")).await.unwrap(), [imports.to_string()]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_replacement_pushes_the_oldest_version_out() {
    let mut replaced = Replaced::new(Keep::Newest(1)).await;
    collected(&replaced.faulty.library, &replaced.faulty.clock).await;
    replaced.assert_kept(&["third", "fourth"]).await;
    replaced.import("fifth").await;
    replaced.assert_kept(&["third", "fourth", "fifth"]).await;
    collected(&replaced.faulty.library, &replaced.faulty.clock).await;
    replaced.assert_kept(&["fourth", "fifth"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_of_a_deleted_volume_are_kept_as_long_and_it_is_listed_no_more() {
    let replaced = Replaced::new(Keep::Newest(2)).await;
    let Faulty { library, clock, .. } = &replaced.faulty;
    library.volumes.delete(&id("t.a")).await.unwrap();
    for _ in 0..3 {
        collected(library, clock).await;
        replaced.assert_kept(&["third", "fourth"]).await;
    }
    assert!(listed(library, 10).await.is_empty());
    assert_eq!(records(&replaced.faulty), 0);

    let replaced = Replaced::new(Keep::For(DAY)).await;
    let Faulty { library, clock, .. } = &replaced.faulty;
    library.volumes.delete(&id("t.a")).await.unwrap();
    for _ in 0..4 {
        collected(library, clock).await;
    }
    replaced.assert_kept(&[]).await;
    assert_eq!(records(&replaced.faulty), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_import_left_that_died_between_kept_versions_goes_and_they_stay() {
    let mut replaced = Replaced::new(Keep::Newest(2)).await;
    // The generation of the crashed import is above the fourth and below the fifth.
    replaced.faulty.store.arm(Fault::Crash, |_, step| switches_a_volume(step));
    import(&replaced.faulty.library, volume("t.a", &["never"])).await.unwrap_err();
    replaced.faulty.library = replaced.faulty.reopened().await;
    replaced.faulty.clock.advance(HOUR);
    replaced.import("fifth").await;
    for _ in 0..3 {
        collected(&replaced.faulty.library, &replaced.faulty.clock).await;
    }
    replaced.assert_kept(&["third", "fourth", "fifth"]).await;
    assert_eq!(records(&replaced.faulty), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_kept_can_be_pinned_and_stays_until_then_when_it_is_kept_no_more() {
    let mut replaced = Replaced::new(Keep::Newest(1)).await;
    collected(&replaced.faulty.library, &replaced.faulty.clock).await;
    let third = [(id("t.a"), replaced.versions[2].0.revision)];
    let until = replaced.faulty.clock.now().plus(10 * DAY);
    assert_eq!(replaced.faulty.library.volumes.pin(&third, "s", until).await.unwrap(), [Pinned::Held]);
    let second = [(id("t.a"), replaced.versions[1].0.revision)];
    assert_eq!(replaced.faulty.library.volumes.pin(&second, "late", until).await.unwrap(), [Pinned::Lost]);
    replaced.import("fifth").await;
    for _ in 0..5 {
        collected(&replaced.faulty.library, &replaced.faulty.clock).await;
        replaced.assert_kept(&["third", "fourth", "fifth"]).await;
    }
    replaced.faulty.library.volumes.unpin(&[id("t.a")], "s").await.unwrap();
    collected(&replaced.faulty.library, &replaced.faulty.clock).await;
    replaced.assert_kept(&["fourth", "fifth"]).await;
}

/// A volume of which "fourth" is the only kept version, below a condemned generation that an import
/// left when it died.
async fn kept_below_a_condemned_generation() -> Replaced {
    let mut replaced = Replaced::new(Keep::Newest(1)).await;
    replaced.faulty.store.arm(Fault::Crash, |_, step| switches_a_volume(step));
    import(&replaced.faulty.library, volume("t.a", &["never"])).await.unwrap_err();
    replaced.faulty.library = replaced.faulty.reopened().await;
    replaced.faulty.clock.advance(HOUR);
    replaced.import("fifth").await;
    assert_eq!(collect(&replaced.faulty.library).await.condemned, 1);
    replaced
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_was_kept_when_others_were_condemned_has_a_grace_of_its_own() {
    let mut replaced = kept_below_a_condemned_generation().await;
    let grace = replaced.faulty.library.options().grace;
    replaced.faulty.clock.advance(grace - MILLISECOND);
    let fourth = replaced.versions[3].0.revision;
    let as_of = Some(RevisionId::first_at(fourth.time().plus(MILLISECOND)));
    let request = BulkRequest { as_of, ..first_page() };
    let plan = replaced.faulty.library.volumes.plan(&request, OnDamage::Break).await.unwrap();
    assert_eq!(plan.volumes[0].revision, fourth);
    replaced.import("sixth").await;
    replaced.faulty.clock.advance(MILLISECOND);
    // The first three go, and what the import left.
    assert_eq!(collect(&replaced.faulty.library).await.removed, 4);
    replaced.assert_kept(&["fourth", "fifth", "sixth"]).await;
    assert!(streamed(&replaced.faulty.library, &plan, "fourth").await.unwrap());
    collected(&replaced.faulty.library, &replaced.faulty.clock).await;
    replaced.assert_kept(&["fifth", "sixth"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_version_below_a_condemned_generation_can_be_pinned() {
    let replaced = kept_below_a_condemned_generation().await;
    let library = &replaced.faulty.library;
    let until = replaced.faulty.clock.now().plus(DAY);
    let fourth = [(id("t.a"), replaced.versions[3].0.revision)];
    assert_eq!(library.volumes.pin(&fourth, "s", until).await.unwrap(), [Pinned::Held]);
    let third = [(id("t.a"), replaced.versions[2].0.revision)];
    assert_eq!(library.volumes.pin(&third, "late", until).await.unwrap(), [Pinned::Lost]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_was_collected_before_more_were_kept_is_reported_as_not_kept() {
    let replaced = Replaced::new(Keep::None).await;
    let Faulty { library, clock, .. } = &replaced.faulty;
    collected(library, clock).await;
    let keeping_all = Library::open(replaced.faulty.store.clone(), clock.clone(), keeping(Keep::All)).await.unwrap();
    let as_of = Some(RevisionId::first_at(replaced.versions[1].0.revision.time().plus(MILLISECOND)));
    let request = BulkRequest { as_of, ..BulkRequest::volumes([id("t.a")]) };
    let plan = keeping_all.volumes.plan(&request, OnDamage::Break).await.unwrap();
    assert_eq!(plan.missing, [Missing::volume(id("t.a"), MissingReason::NotKept)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_any_step_of_collecting_loses_nothing_that_is_kept_and_is_made_good_by_a_later_pass() {
    for fault in
        sample([Fault::Crash, Fault::UnknownApplied, Fault::UnknownLost, Fault::UnknownLate(1), Fault::Overloaded])
    {
        for at in steps() {
            let mut replaced = Replaced::new(Keep::Newest(1)).await;
            replaced.faulty.store.arm(fault.clone(), move |number, _| number == at);
            for _ in 0..3 {
                let _ = replaced.faulty.library.volumes.collect_once(volumes::CollectLimits::default()).await;
                replaced.faulty.clock.advance(DAY);
            }
            if replaced.faulty.store.steps() <= at {
                assert!(at > 5, "collecting has steps");
                break;
            }
            replaced.faulty.library = replaced.faulty.reopened().await;
            for _ in 0..4 {
                collected(&replaced.faulty.library, &replaced.faulty.clock).await;
            }
            replaced.assert_kept(&["third", "fourth"]).await;
            assert_eq!(records(&replaced.faulty), 0, "{fault:?} at {at}");
        }
    }
}
