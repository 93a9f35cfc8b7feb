//! Versions, and members of containers, as of any time: random changes, deletions, re-creations and
//! growth at random times, compared with a model at every instant.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use heads::containment::Container;
use heads::timeline::Version;
use heads::{History, Keep, LibraryOptions, RevisionId};
use library::Library;
use proptest::prelude::*;
use repository::{PastMembers, ResourceError, Update, Versions};
use store::Clock;

use super::contents;
use super::tree::{container, create, delete, path, said, update};
use crate::support::long_log::{MILLION, Revisions, make_a_million_versions};
use crate::support::memory::Fault;
use crate::support::{Faulty, faulty_with, on_cassandra};

const CHILDREN: [&str; 5] = ["c/a", "c/b", "c/d", "c/e", "c/f"];
const ALL: [&str; 6] = ["c", "c/a", "c/b", "c/d", "c/e", "c/f"];

fn options(resources: Keep) -> LibraryOptions {
    LibraryOptions {
        resource_shards: 2,
        shard_bytes_max: 100,
        sample_one_of: 1,
        rewrite_dead_rows_min: 1,
        history: History { resources, ..History::default() },
        ..LibraryOptions::default()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Create(usize, u8),
    Update(usize, u8),
    /// This version of it becomes the current state.
    Restore(usize, prop::sample::Index),
    /// The same state becomes another version.
    Snapshot(usize),
    Delete(usize),
    Free(usize),
    DeleteContainer,
    /// All shards are replaced by more.
    Grow,
    /// Shards with many past members are rewritten.
    Rewrite,
    Wait(u16),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..CHILDREN.len(), any::<u8>()).prop_map(|(at, text)| Op::Create(at, text)),
        4 => (0..CHILDREN.len(), any::<u8>()).prop_map(|(at, text)| Op::Update(at, text)),
        2 => (0..CHILDREN.len(), any::<prop::sample::Index>()).prop_map(|(at, version)| Op::Restore(at, version)),
        1 => (0..CHILDREN.len()).prop_map(Op::Snapshot),
        4 => (0..CHILDREN.len()).prop_map(Op::Delete),
        4 => (0..CHILDREN.len()).prop_map(Op::Free),
        1 => Just(Op::DeleteContainer),
        2 => Just(Op::Grow),
        2 => Just(Op::Rewrite),
        2 => any::<u16>().prop_map(Op::Wait),
    ]
}

/// What was there at an instant: the description of each resource, and the members of `c`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Then {
    said: BTreeMap<&'static str, String>,
    members: BTreeSet<String>,
}

/// What was there, as the present said it then, after exactly the revisions below each id; and the
/// texts of the versions of each child, in order.
#[derive(Default)]
struct Model(Vec<(RevisionId, Then)>, BTreeMap<&'static str, Vec<String>>);

impl Model {
    async fn note(&mut self, library: &Library, clock: &store::ManualClock) {
        let mut then = Then::default();
        for at in ALL {
            then.said.extend(said(library, at).await.map(|said| (at, said)));
        }
        then.members = then.said.keys().filter_map(|at| at.strip_prefix("c/")).map(str::to_owned).collect();
        clock.advance(Duration::from_millis(10));
        self.0.push((RevisionId::first_at(clock.now()), then));
    }
}

async fn apply(library: &Library, clock: &store::ManualClock, op: &Op, n: usize, model: &mut Model) {
    // No two texts are the same, so that each change is seen.
    let text = |text: &u8| format!("{n}: {text}");
    let made = match op {
        Op::Create(at, said) | Op::Update(at, said) => Some((CHILDREN[*at], text(said))),
        Op::Restore(at, which) => {
            let texts = model.1.get(CHILDREN[*at]).filter(|texts| !texts.is_empty());
            texts.map(|texts| (CHILDREN[*at], which.get(texts).clone()))
        }
        Op::Snapshot(at) => said(library, CHILDREN[*at]).await.map(|said| (CHILDREN[*at], said)),
        _ => None,
    };
    let outcome = match op {
        Op::Create(at, said) => create(library, CHILDREN[*at], &text(said)).await,
        Op::Update(at, said) => update(library, CHILDREN[*at], &text(said)).await,
        Op::Restore(at, which) => restore(library, CHILDREN[*at], *which).await,
        Op::Snapshot(at) => change(library, CHILDREN[*at], &Update::Snapshot).await,
        Op::Delete(at) => delete(library, CHILDREN[*at]).await,
        Op::Free(at) => library.repository.remove_tombstone(&path(CHILDREN[*at])).await,
        Op::DeleteContainer => {
            let _ = delete(library, "c").await;
            library.repository.remove_tombstone(&path("c")).await
        }
        Op::Grow => library.heads.grow_containers().await.map(|_| ()).map_err(ResourceError::from),
        Op::Rewrite => rewrite(library).await,
        Op::Wait(millis) => {
            clock.advance(Duration::from_millis(u64::from(*millis)));
            Ok(())
        }
    };
    match outcome {
        Ok(()) => {
            if let Some((at, text)) = made {
                model.1.entry(at).or_default().push(text);
            }
        }
        Err(
            ResourceError::Absent(_)
            | ResourceError::Gone { .. }
            | ResourceError::Exists(_)
            | ResourceError::Moved(_)
            | ResourceError::Objects(heads::ObjectsError::Gone(_)),
        ) => {}
        Err(error) => panic!("{op:?}: {error}"),
    }
}

async fn change(library: &Library, at: &str, update: &Update) -> Result<(), ResourceError> {
    let resource = library.repository.resource(&path(at)).await?;
    library.repository.update(&resource, update).await.map(|_| ())
}

/// Restores a version of a resource that exists.
async fn restore(library: &Library, at: &str, which: prop::sample::Index) -> Result<(), ResourceError> {
    library.repository.resource(&path(at)).await?;
    let versions = library.repository.versions(&path(at)).await?;
    let all = versions.page(RevisionId::ZERO, RevisionId::LAST, usize::MAX).await?;
    let version = versions.oldest_from(which.get(&all).revision).await?.unwrap();
    let (description, membership) = (library.repository.description(&version).await?, repository::Membership::Basic);
    let update = Update::Restored { bytes: None, description, membership, members_for: None, refers_to: Vec::new() };
    change(library, at, &update).await
}

async fn rewrite(library: &Library) -> Result<(), ResourceError> {
    let of = Container::At(path("c"));
    for shard in 0..library.heads.parent(&of).await?.shards() {
        let parent = library.heads.parent(&of).await?;
        library.heads.tend_shard(&parent, shard).await?;
    }
    Ok(())
}

/// The members of `c` as of a time; `None` if there was no `c`. In pages of two.
async fn members(library: &Library, below: RevisionId) -> Option<Vec<String>> {
    let mut listing = begin(library, below).await?;
    let mut names = Vec::new();
    while let Some(page) = listing.more(2).await.unwrap() {
        names.extend(page.into_iter().map(|child| child.name));
    }
    names.sort();
    Some(names)
}

async fn begin(library: &Library, below: RevisionId) -> Option<PastMembers> {
    let versions = versions(library, "c").await?;
    let container = versions.in_force(below).await.unwrap()?;
    Some(library.repository.members_as_of(&container, below).await.unwrap())
}

async fn versions(library: &Library, at: &str) -> Option<Versions> {
    match library.repository.versions(&path(at)).await {
        Err(ResourceError::Absent(_)) => None,
        versions => Some(versions.unwrap()),
    }
}

async fn text_of(library: &Library, version: Option<repository::Resource>) -> Option<String> {
    let description = library.repository.description(&version?).await.unwrap();
    Some(String::from_utf8(description.to_vec()).unwrap())
}

/// The texts of all versions, read in pages of two.
async fn texts(library: &Library, at: &str) -> Vec<String> {
    let Some(versions) = versions(library, at).await else { return Vec::new() };
    let (mut texts, mut from) = (Vec::new(), RevisionId::ZERO);
    loop {
        let page = versions.page(from, RevisionId::LAST, 2).await.unwrap();
        for listed in &page {
            let version = versions.oldest_from(listed.revision).await.unwrap();
            assert_eq!(version.as_ref().map(repository::Resource::revision), Some(listed.revision));
            texts.extend(text_of(library, version).await);
        }
        match page.last() {
            Some(listed) => from = listed.revision.successor(),
            None => return texts,
        }
    }
}

/// Asserts that everything is found as of every instant as it was then.
async fn is_found(library: &Library, model: &Model, context: &str) {
    for (below, then) in &model.0 {
        let listed = members(library, *below).await;
        let expected = then.said.contains_key("c").then(|| then.members.iter().cloned().collect::<Vec<_>>());
        assert_eq!(listed, expected, "{context}, below {below}");
    }
    for at in ALL {
        let Some(versions) = versions(library, at).await else { continue };
        let mut last = None;
        for (below, then) in &model.0 {
            let in_force = text_of(library, versions.in_force(*below).await.unwrap()).await;
            assert_eq!(in_force.as_ref(), then.said.get(at), "{context}, {at} below {below}");
            last = then.said.get(at).cloned().or(last);
            let newest = text_of(library, versions.newest_below(*below).await.unwrap()).await;
            assert_eq!(newest, last, "{context}, {at} below {below}");
        }
        if at != "c" {
            let shown = texts(library, at).await;
            assert_eq!(shown, model.1.get(at).cloned().unwrap_or_default(), "{context}, {at}");
        }
    }
}

/// Random changes, each at a time of its own.
async fn lived(faulty: &Faulty, history: &[Op]) -> Model {
    let (library, clock) = (&faulty.library, &faulty.clock);
    let mut model = Model::default();
    model.note(library, clock).await;
    library.repository.create(&path("c"), &container()).await.unwrap();
    model.note(library, clock).await;
    for (n, op) in history.iter().enumerate() {
        apply(library, clock, op, n, &mut model).await;
        model.note(library, clock).await;
    }
    model
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if on_cassandra() { 4 } else { 64 }, ..ProptestConfig::default() })]

    #[test]
    fn versions_and_members_as_of_every_instant_are_those_of_the_model(history in prop::collection::vec(op(), 1..40)) {
        run(async {
            let faulty = faulty_with(options(Keep::All)).await;
            let model = lived(&faulty, &history).await;
            is_found(&faulty.library, &model, "now").await;
            // What happens later changes no answer, nor does the collector.
            for round in 0..3 {
                faulty.clock.advance(Duration::from_secs(25 * 3_600));
                faulty.library.heads.grow_containers().await.unwrap();
                let _ = rewrite(&faulty.library).await;
                faulty.library.repository.collect_versions().await.unwrap();
                faulty.library.repository.empty_deleted_containers().await.unwrap();
                is_found(&faulty.library, &model, &format!("after {round}")).await;
            }
        });
    }

    #[test]
    fn a_listing_goes_on_while_members_come_and_go_and_are_moved(
        history in prop::collection::vec(op(), 1..24), later in prop::collection::vec(op(), 1..12), at in any::<prop::sample::Index>(),
    ) {
        run(async {
            let faulty = faulty_with(options(Keep::All)).await;
            let mut model = lived(&faulty, &history).await;
            let (below, then) = at.get(&model.0).clone();
            let Some(mut listing) = begin(&faulty.library, below).await else { return };
            let mut names = Vec::new();
            for (n, op) in later.iter().enumerate() {
                names.extend(listing.more(1).await.unwrap().into_iter().flatten().map(|child| child.name));
                faulty.clock.advance(Duration::from_millis(10));
                apply(&faulty.library, &faulty.clock, op, 1_000 + n, &mut model).await;
            }
            while let Some(page) = listing.more(1).await.unwrap() {
                names.extend(page.into_iter().map(|child| child.name));
            }
            names.sort();
            assert_eq!(names, then.members.iter().cloned().collect::<Vec<_>>());
        });
    }

    #[test]
    fn a_change_that_was_interrupted_counts_from_when_it_was_made_or_not_at_all(
        history in prop::collection::vec(op(), 1..12), step in 0..12_usize, is_applied in any::<bool>(), is_delete in any::<bool>(),
    ) {
        run(async {
            let faulty = faulty_with(options(Keep::All)).await;
            let mut model = lived(&faulty, &history).await;
            let fault = if is_applied { Fault::UnknownApplied } else { Fault::Crash };
            faulty.store.arm(fault, move |number, _| number == step);
            let op = if is_delete { Op::Delete(0) } else { Op::Create(0, 0) };
            let _ = match op {
                Op::Delete(at) => delete(&faulty.library, CHILDREN[at]).await,
                _ => create(&faulty.library, CHILDREN[0], "interrupted").await,
            };
            let library = faulty.reopened().await;
            library.repository.resume_deletions(Duration::ZERO).await.unwrap();
            model.note(&library, &faulty.clock).await;
            // Whether it is a version is what the present says.
            let before = model.1.get(CHILDREN[0]).cloned().unwrap_or_default();
            let after = texts(&library, CHILDREN[0]).await;
            assert!(after == before || !is_delete && after == [&before[..], &["interrupted".to_owned()][..]].concat());
            if !after.is_empty() {
                model.1.insert(CHILDREN[0], after);
            }
            is_found(&library, &model, "interrupted").await;
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_past_member_that_is_moved_while_it_is_listed_is_listed_once() {
    for (op, read_before) in [(Op::Rewrite, 0), (Op::Rewrite, 1), (Op::Grow, 0), (Op::Grow, 1)] {
        let faulty = faulty_with(LibraryOptions { resource_shards: 1, ..options(Keep::All) }).await;
        let mut model = lived(&faulty, &[Op::Create(0, 0), Op::Create(1, 0), Op::Create(2, 0), Op::Create(3, 0)]).await;
        let below = model.0.last().unwrap().0;
        apply(&faulty.library, &faulty.clock, &Op::Delete(0), 10, &mut model).await;
        apply(&faulty.library, &faulty.clock, &Op::Delete(1), 11, &mut model).await;
        let mut listing = begin(&faulty.library, below).await.unwrap();
        let mut names = Vec::new();
        for _ in 0..read_before {
            names.extend(listing.more(1).await.unwrap().into_iter().flatten().map(|child| child.name));
        }
        let epoch = async || faulty.library.heads.parent(&Container::At(path("c"))).await.unwrap().epochs(0).current;
        let before = epoch().await;
        apply(&faulty.library, &faulty.clock, &op, 12, &mut model).await;
        assert_ne!(epoch().await, before, "{op:?} moves the past members");
        while let Some(page) = listing.more(1).await.unwrap() {
            names.extend(page.into_iter().map(|child| child.name));
        }
        names.sort();
        assert_eq!(names, ["a", "b", "d", "e"], "{op:?} after {read_before}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_was_created_again_was_a_member_in_each_of_its_intervals() {
    let faulty = faulty_with(options(Keep::All)).await;
    let twice = [Op::Create(0, 0), Op::Delete(0), Op::Free(0), Op::Create(0, 1), Op::Delete(0), Op::Free(0)];
    let mut history: Vec<_> = twice.iter().chain(&twice).cloned().collect();
    history.extend([Op::Grow, Op::Rewrite]);
    let model = lived(&faulty, &history).await;
    let intervals = model.0.windows(2).filter(|pair| pair[0].1.members.is_empty() && !pair[1].1.members.is_empty());
    assert_eq!(intervals.count(), 4);
    is_found(&faulty.library, &model, "intervals").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_known_for_as_long_as_versions_are_kept_and_no_longer() {
    let day = Duration::from_secs(24 * 3_600);
    for (keep, is_known) in [
        (Keep::All, [true, true]),
        (Keep::For(3 * day), [true, false]),
        (Keep::Newest(9), [false, false]),
        (Keep::None, [false, false]),
    ] {
        let faulty = faulty_with(options(keep)).await;
        let below = RevisionId::first_at(faulty.clock.now());
        let known = || faulty.library.repository.knows_as_of(&path("c"), below);
        let soon = known();
        faulty.clock.advance(3 * day);
        assert_eq!([soon, known()], is_known, "{keep}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_for_a_time_is_found_as_of_any_instant_of_that_time() {
    let faulty = faulty_with(options(Keep::For(Duration::from_secs(3 * 24 * 3_600)))).await;
    let history = [Op::Create(0, 0), Op::Create(1, 0), Op::Delete(0), Op::Free(0), Op::Create(0, 1), Op::Delete(0)];
    let model = lived(&faulty, &history).await;
    for _ in 0..2 {
        faulty.clock.advance(Duration::from_secs(25 * 3_600));
        faulty.library.heads.grow_containers().await.unwrap();
        let _ = rewrite(&faulty.library).await;
        faulty.library.repository.collect_versions().await.unwrap();
    }
    is_found(&faulty.library, &model, "within the time").await;
}

/// A resource with so many versions, ten milliseconds apart.
async fn with_versions(count: u64) -> Faulty {
    let faulty = faulty_with(LibraryOptions::default()).await;
    create(&faulty.library, "a", "0").await.unwrap();
    for n in 1..count {
        faulty.clock.advance(Duration::from_millis(10));
        update(&faulty.library, "a", &n.to_string()).await.unwrap();
    }
    faulty
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_found_by_a_few_reads_among_thousands() {
    if on_cassandra() {
        return;
    }
    let faulty = with_versions(5_000).await;
    let begin = faulty.clock.now().0 - 4_999 * 10;
    for n in [0, 1, 1_023, 1_024, 1_025, 2_500, 4_998, 4_999] {
        faulty.store.take_scanned();
        let versions = versions(&faulty.library, "a").await.unwrap();
        let below = RevisionId::first_at(store::UnixMillis(begin + n * 10 + 5));
        let found = versions.newest_below(below).await.unwrap();
        let scanned = faulty.store.take_scanned().len();
        assert!(scanned <= 6, "{scanned} scans");
        assert_eq!(text_of(&faulty.library, found).await, Some(n.to_string()));
    }
}

/// As a TimeMap does it, which has a page of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_page_of_thousands_of_versions_takes_no_more_reads_than_an_early_one() {
    if on_cassandra() {
        return;
    }
    let faulty = with_versions(5_000).await;
    let versions = versions(&faulty.library, "a").await.unwrap();
    let all = versions.page(RevisionId::ZERO, RevisionId::LAST, usize::MAX).await.unwrap();
    assert_eq!(all.len(), 5_000);
    for first in [0, 1_000, 2_047, 3_500, 4_900, 4_999] {
        faulty.store.take_scanned();
        let page = versions.page(all[first].revision, RevisionId::LAST, 101).await.unwrap();
        let scanned = faulty.store.take_scanned().len();
        assert_eq!(page, all[first..all.len().min(first + 101)]);
        // The page of the log, by halving; one or two pages of it, each with its marks.
        assert!(scanned <= 8, "{scanned} scans for the page that begins with version {first}");
    }
}

/// The same store where so many versions are kept.
async fn keeping_newest(faulty: &Faulty, count: u32) -> Library {
    let history = History { resources: Keep::Newest(count), ..History::default() };
    let options = LibraryOptions { history, ..LibraryOptions::default() };
    Library::open(faulty.store.clone(), faulty.clock.clone(), options).await.unwrap()
}

/// A resource `a` with a million versions and the present one.
async fn with_a_million_versions() -> (Faulty, Revisions) {
    let faulty = faulty_with(LibraryOptions::default()).await;
    create(&faulty.library, "a", "0").await.unwrap();
    let revisions = make_a_million_versions(&faulty.library, &faulty.clock, &path("a")).await;
    (faulty, revisions)
}

/// What TimeMaps, TimeGates and names of versions ask for.
#[tokio::test(flavor = "multi_thread")]
async fn among_a_million_versions_each_is_found_by_few_reads() {
    if on_cassandra() {
        return;
    }
    let (faulty, revisions) = with_a_million_versions().await;
    let versions = versions(&faulty.library, "a").await.unwrap();
    let at = |place: u64| revisions.at(place);
    // The page of each end of a range, by halving; a page of it, with its marks.
    let few_reads = |what: &str| {
        let scanned = faulty.store.take_scanned().len();
        assert!(scanned <= 16, "{scanned} scans for {what}");
    };
    faulty.store.take_scanned();
    let middle = MILLION / 2;
    for (from, until) in [(0, 101), (middle, middle + 101), (MILLION - 9, MILLION + 1)] {
        let page = versions.page(at(from), RevisionId::LAST, 101).await.unwrap();
        few_reads("a page");
        let listed = |place: u64| Version { revision: at(place), incarnation: revisions.first, place };
        assert_eq!(page, (from..until).map(listed).collect::<Vec<_>>());
    }
    let revision = |found: Option<repository::Resource>| found.map(|found| found.revision());
    for place in [1, middle, MILLION - 1, MILLION] {
        let found = versions.newest_below(at(place)).await.unwrap();
        few_reads("the newest version below another");
        assert_eq!(revision(found), Some(at(place - 1)));
    }
    for (from, place) in [(RevisionId::ZERO, 0), (at(middle - 1).successor(), middle), (at(MILLION), MILLION)] {
        let found = versions.oldest_from(from).await.unwrap();
        few_reads("the oldest version");
        assert_eq!(revision(found), Some(at(place)));
        let found = versions.first_ever(from, RevisionId::LAST).await.unwrap();
        few_reads("the first version that there ever was");
        assert_eq!(found, Some(at(place)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_hundreds_of_thousands_of_versions_are_kept_the_first_of_them_is_found_by_few_reads() {
    if on_cassandra() {
        return;
    }
    let (faulty, revisions) = with_a_million_versions().await;
    for (kept, place) in [(500_000, 500_000), (999_900, 100), (1_000_000, 0), (u32::MAX, 0)] {
        let library = keeping_newest(&faulty, kept).await;
        faulty.store.take_scanned();
        let versions = versions(&library, "a").await.unwrap();
        let scanned = faulty.store.take_scanned().len();
        assert_eq!(versions.from(), revisions.at(place), "{kept} kept");
        // At most a page of the log.
        assert!(scanned <= 8, "{scanned} scans where {kept} are kept");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_do_not_count_among_the_versions_that_are_kept() {
    let faulty = with_versions(20).await;
    delete(&faulty.library, "a").await.unwrap();
    faulty.library.repository.remove_tombstone(&path("a")).await.unwrap();
    create(&faulty.library, "a", "again").await.unwrap();
    for n in 0..1_100 {
        update(&faulty.library, "a", &n.to_string()).await.unwrap();
    }
    for is_deleted in [false, true] {
        if is_deleted {
            delete(&faulty.library, "a").await.unwrap();
        }
        let all = versions(&faulty.library, "a").await.unwrap();
        let mut earlier = all.page(RevisionId::ZERO, RevisionId::LAST, usize::MAX).await.unwrap();
        earlier.retain(|version| version.revision != all.newest());
        // Some are all of the second resource; the first of others is of the first one.
        for kept in [1, 1_024, 1_025, 1_099, 1_100, 1_101, 1_102, 1_110, 1_119, 1_120, 5_000] {
            let library = keeping_newest(&faulty, kept).await;
            let first = earlier[earlier.len().saturating_sub(kept as usize)].revision;
            assert_eq!(versions(&library, "a").await.unwrap().from(), first, "{kept} kept, deleted: {is_deleted}");
        }
    }
}

#[test]
fn the_versions_of_binaries_are_found_beyond_any_number_of_others() {
    run(async {
        let faulty = faulty_with(options(Keep::All)).await;
        let library = &faulty.library;
        let binary = async || {
            contents::put(library, "a", contents::upload(library, "a", 1).await).await;
            library.repository.resource(&path("a")).await.unwrap().revision()
        };
        let free = async || {
            delete(library, "a").await.unwrap();
            library.repository.remove_tombstone(&path("a")).await.unwrap();
        };
        let first = binary().await;
        free().await;
        create(library, "a", "a graph").await.unwrap();
        for _ in 0..1_200 {
            change(library, "a", &Update::Snapshot).await.unwrap();
        }
        let of_binaries = async || library.repository.versions(&path("a")).await.unwrap().of_binaries();
        let revision = |found: Option<repository::Resource>| found.map(|found| found.revision());
        assert_eq!(revision(of_binaries().await.oldest_from(first.successor()).await.unwrap()), None);
        free().await;
        let last = binary().await;
        let versions = of_binaries().await;
        assert_eq!(revision(versions.oldest_from(RevisionId::ZERO).await.unwrap()), Some(first));
        assert_eq!(revision(versions.oldest_from(first.successor()).await.unwrap()), Some(last));
        let all = versions.page(RevisionId::ZERO, RevisionId::LAST, 10).await.unwrap();
        assert_eq!(all.iter().map(|version| version.revision).collect::<Vec<_>>(), [first, last]);
    });
}
