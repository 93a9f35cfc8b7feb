//! Archives, token counts, selections and the list of volumes as of a time, against a model of what
//! there was.

use std::collections::BTreeMap;
use std::time::Duration;

use hathi::VolumeId;
use heads::{History, Keep, LibraryOptions, ObjectsError, RevisionId};
use pack::{Layout, Level};
use proptest::prelude::*;
use store::faults::Harm;
use store::{Clock, UnixMillis};
use volumes::{
    BulkRequest, CollectLimits, Missing, MissingReason, OnDamage, SelectionTerms, TokenLevel, TokenOrder, TokenRequest,
    Tokenization, Unchanged, Wanted,
};

use super::bench::{Bench, bench_with, entries, entry, pages, read, request, somebody, whole_volumes};
use crate::support::{START, id, on_cassandra, volume};

const DAY: Duration = Duration::from_secs(24 * 3_600);

fn keeping(volumes: Keep) -> LibraryOptions {
    LibraryOptions { history: History { volumes, ..History::default() }, ..LibraryOptions::default() }
}

fn below(time: UnixMillis) -> RevisionId {
    RevisionId::first_at(UnixMillis(time.0 + 1))
}

/// Whole volumes as of the end of a millisecond.
fn then(ids: &[VolumeId], time: UnixMillis) -> BulkRequest {
    let request = request(whole_volumes(ids), Layout::Pages, Level::Frames, true);
    BulkRequest { as_of: Some(below(time)), ..request }
}

async fn collect(bench: &Bench) {
    assert_eq!(bench.library.volumes.collect_once(CollectLimits::default()).await.unwrap().failed, 0);
}

#[derive(Clone, Debug)]
enum Op {
    Import(usize),
    Delete(usize),
    Collect,
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (0..3usize).prop_map(Op::Import),
        2 => (0..3usize).prop_map(Op::Delete),
        2 => Just(Op::Collect),
        2 => (0..3u64).prop_map(Op::Pass),
        3 => (0..200_000_000u64).prop_map(Op::Pass),
    ]
}

/// What a request as of a time finds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Expected {
    Text(String),
    Missing(MissingReason),
}

/// The model: the changes of each volume, oldest first.
struct Model {
    bench: Bench,
    keep: Keep,
    ids: Vec<VolumeId>,
    changes: Vec<Vec<(UnixMillis, Option<String>)>>,
    imports: u32,
    /// Archives that were sent, if all versions are kept.
    sent: BTreeMap<u64, (Option<String>, Vec<u8>)>,
}

impl Model {
    async fn new(keep: Keep) -> Self {
        let ids = ["t.a", "t.b", "t.c"].map(id).to_vec();
        let changes = vec![Vec::new(); ids.len()];
        Self { bench: bench_with(keeping(keep)).await, keep, ids, changes, imports: 0, sent: BTreeMap::new() }
    }

    async fn step(&mut self, op: &Op) {
        let now = self.bench.clock.now();
        match op {
            Op::Import(n) => {
                self.imports += 1;
                let text = format!("text {}", self.imports);
                self.bench.add(self.ids[*n].as_str(), &[&text]).await;
                self.changes[*n].push((now, Some(text)));
            }
            Op::Delete(n) => {
                if self.changes[*n].last().is_some_and(|(_, text)| text.is_some()) {
                    self.bench.library.volumes.delete(&self.ids[*n]).await.unwrap();
                    self.changes[*n].push((now, None));
                }
            }
            Op::Collect => collect(&self.bench).await,
            Op::Pass(millis) => self.bench.clock.advance(Duration::from_millis(*millis)),
        }
    }

    fn expected(&self, n: usize, time: UnixMillis) -> Expected {
        let changes = &self.changes[n];
        let Some(in_force) = changes.iter().rposition(|(at, _)| *at <= time) else {
            return Expected::Missing(MissingReason::Absent);
        };
        let Some(text) = &changes[in_force].1 else { return Expected::Missing(MissingReason::Absent) };
        let later = changes.len() - 1 - in_force;
        let is_kept = match self.keep {
            _ if later == 0 => true,
            Keep::All => true,
            Keep::None | Keep::Explicit => false,
            // Those that were replaced are counted, and deletions are not.
            Keep::Newest(count) => {
                let replaced = &changes[in_force + 1..changes.len() - 1];
                replaced.iter().filter(|(_, text)| text.is_some()).count() < count as usize
            }
            Keep::For(time) => {
                let (replaced, _) = changes[in_force + 1];
                replaced.plus(time) > self.bench.clock.now()
            }
        };
        if is_kept { Expected::Text(text.clone()) } else { Expected::Missing(MissingReason::NotKept) }
    }

    /// Compares the archive as of a time with the model, and with an earlier one.
    async fn check(&mut self, time: UnixMillis) {
        let plan = self.bench.plan(&then(&self.ids, time)).await;
        let archive = self.bench.whole(&plan).await;
        let texts: BTreeMap<_, _> = entries(&archive).into_iter().collect();
        for (n, id) in self.ids.iter().enumerate() {
            let missing = plan.missing.iter().find(|missing| missing.volume == *id);
            let found = match (texts.get(&format!("{id}/00000001.txt")), missing) {
                (Some(text), None) => Expected::Text(text.clone()),
                (None, Some(Missing { reason, .. })) => Expected::Missing(*reason),
                strange => panic!("{strange:?}"),
            };
            assert_eq!(found, self.expected(n, time), "{id} as of {time:?}, {:?} kept: {:?}", self.keep, self.changes);
        }
        if self.keep == Keep::All {
            let earlier = self.sent.entry(time.0).or_insert_with(|| (plan.etag.clone(), archive.clone()));
            assert!(*earlier == (plan.etag.clone(), archive), "the archive as of {time:?} has changed");
        }
    }

    /// Compares the list of volumes as of a time with the model, where it is known.
    async fn check_list(&self, time: UnixMillis) {
        let is_known = match self.keep {
            Keep::All => true,
            Keep::For(kept) => self.bench.clock.now().since(below(time).time()) < kept,
            Keep::None | Keep::Newest(_) | Keep::Explicit => false,
        };
        if !is_known {
            return;
        }
        let mut list = self.bench.library.volumes.list_as_of(below(time)).await.unwrap();
        let mut listed = Vec::new();
        while let Some(more) = list.more(2).await.unwrap() {
            listed.extend(more);
        }
        listed.sort();
        let was_there = |n: &usize| self.expected(*n, time) != Expected::Missing(MissingReason::Absent);
        let expected: Vec<_> = (0..self.ids.len()).filter(was_there).map(|n| self.ids[n].clone()).collect();
        assert_eq!(listed, expected, "as of {time:?}, {:?} kept: {:?}", self.keep, self.changes);
    }

    /// Checks the moments around each change of which everything is settled.
    async fn check_all(&mut self) {
        let settled = self.bench.library.heads.announced_until().await.unwrap().time().0;
        let changes = self.changes.iter().flatten().map(|(at, _)| at.0);
        let around = changes.flat_map(|at| [at - 1, at, at + 1]).chain([START.0 - 1, settled - 1]);
        let mut moments: Vec<_> = around.filter(|moment| *moment < settled).collect();
        moments.sort_unstable();
        moments.dedup();
        for moment in moments {
            self.check(UnixMillis(moment)).await;
            self.check_list(UnixMillis(moment)).await;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if on_cassandra() { 1 } else { 12 }, max_shrink_iters: 60, ..ProptestConfig::default()
    })]

    #[test]
    fn an_archive_as_of_any_time_has_what_there_was_then_or_says_that_it_is_not_kept(
        ops in proptest::collection::vec(op(), 5..20),
        keep in prop_oneof![
            3 => Just(Keep::All), 1 => Just(Keep::None), 1 => Just(Keep::Newest(1)), 1 => Just(Keep::For(DAY)),
        ],
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut model = Model::new(keep).await;
            for op in &ops {
                model.step(op).await;
                if matches!(op, Op::Collect) {
                    model.check_all().await;
                }
            }
            // Everything goes that is not kept, and what is kept is still there.
            for _ in 0..2 {
                model.step(&Op::Collect).await;
                model.step(&Op::Pass(DAY.as_millis() as u64)).await;
            }
            model.step(&Op::Collect).await;
            model.check_all().await;
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn single_pages_and_token_counts_can_be_requested_as_of_a_time() {
    let bench = bench_with(keeping(Keep::All)).await;
    let a = bench.add("t.a", &["old words", "old page"]).await;
    let old = bench.clock.now();
    bench.clock.advance(DAY);
    bench.add("t.a", &["new"]).await;

    let second = BulkRequest {
        as_of: Some(below(old)),
        ..request(vec![pages(&a, &[2, 3])], Layout::Pages, Level::Stored, false)
    };
    let plan = bench.plan(&second).await;
    let archive = bench.whole(&plan).await;
    assert_eq!(entry(&archive, "t.a/00000002.txt"), "old page");
    assert!(entry(&archive, "ERROR.err").ends_with("Offending key: t.a[3]\n"));

    let counts = async |as_of| {
        let (level, order) = (TokenLevel::Volume, TokenOrder::default());
        let request = TokenRequest {
            volumes: vec![a.clone()],
            level,
            order,
            tokenization: Tokenization::default(),
            rows: None,
            as_of,
        };
        let (archive, error) = read(bench.library.volumes.token_counts(request, somebody()).await.unwrap()).await;
        assert!(error.is_none(), "{error:?}");
        entry(&archive, "t.a.count")
    };
    assert_eq!(counts(Some(below(old))).await, "old 2\npage 1\nwords 1\n");
    assert_eq!(counts(None).await, "new 1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_counts_from_when_it_could_be_read_and_not_from_when_its_import_began() {
    let bench = bench_with(keeping(Keep::All)).await;
    let a = bench.add("t.a", &["old"]).await;
    bench.clock.advance(DAY);
    let began = bench.clock.now();
    let clock = bench.clock.clone();
    let slow = move |_| clock.advance(DAY);
    bench.library.volumes.import(volume("t.a", &["new"]), Unchanged::Skip, slow).await.unwrap();
    bench.clock.advance(DAY);
    assert_eq!(bench.library.volumes.volume(&a).await.unwrap().revision.time(), began);

    for (time, text) in [(began, "old"), (began.plus(DAY / 2), "old"), (began.plus(DAY), "new")] {
        let archive = bench.whole(&bench.plan(&then(std::slice::from_ref(&a), time)).await).await;
        assert_eq!(entry(&archive, "t.a/00000001.txt"), text, "{time:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_whose_changes_are_not_settled_is_refused() {
    let bench = bench_with(keeping(Keep::All)).await;
    let a = bench.add("t.a", &["text"]).await;
    let now = bench.clock.now();
    let refused = bench.library.volumes.plan(&then(std::slice::from_ref(&a), now), OnDamage::Break).await.unwrap_err();
    assert!(matches!(refused, ObjectsError::Overloaded(_) | ObjectsError::Invalid(_)), "{refused}");
    bench.clock.advance(DAY);
    assert_eq!(bench.plan(&then(&[a], now)).await.missing, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_as_of_a_time_keeps_its_versions_when_the_history_keeps_them_no_more() {
    let bench = bench_with(keeping(Keep::Newest(1))).await;
    let a = bench.add("t.a", &["first"]).await;
    let first = bench.clock.now();
    bench.clock.advance(DAY);
    bench.add("t.a", &["second"]).await;
    let terms = SelectionTerms { life: Some(20 * DAY), ..SelectionTerms::default() };
    let requested = then(std::slice::from_ref(&a), first);
    let selected = bench.library.volumes.select(&requested, &somebody(), terms).await.unwrap();
    let whole = bench.whole(&selected.plan).await;
    assert_eq!(entry(&whole, "t.a/00000001.txt"), "first");

    bench.add("t.a", &["third"]).await;
    bench.library.volumes.delete(&a).await.unwrap();
    for _ in 0..4 {
        collect(&bench).await;
        bench.clock.advance(DAY);
    }
    let plan = bench.library.volumes.selection(&selected.info.id, &somebody().party()).await.unwrap();
    assert!(bench.whole(&plan).await == whole);
    assert_eq!(bench.plan(&requested).await.missing, [Missing::volume(a, MissingReason::NotKept)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_that_lacks_a_version_says_why_when_it_is_read_again() {
    let bench = bench_with(LibraryOptions::default()).await;
    let a = bench.add("t.a", &["first"]).await;
    let first = bench.clock.now();
    bench.clock.advance(DAY);
    bench.add("t.a", &["second"]).await;
    let requested = then(&[a], first);
    let selected = bench.library.volumes.select(&requested, &somebody(), SelectionTerms::default()).await.unwrap();
    let plan = bench.library.volumes.selection(&selected.info.id, &somebody().party()).await.unwrap();
    let errors = entry(&bench.whole(&plan).await, "ERROR.err");
    assert!(errors.ends_with("\nRepositoryException: the version of that time is not kept: t.a\n"), "{errors}");
    assert_eq!((plan.missing.len(), selected.info.missing), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_of_an_earlier_version_breaks_one_response_and_is_named_by_the_next() {
    let bench = bench_with(keeping(Keep::All)).await;
    let ids = [bench.add("t.a", &["old"]).await, bench.add("t.b", &["sound"]).await];
    bench.harm_pack(&ids[0], 0, Harm::FlippedBit, false).await;
    let old = bench.clock.now();
    bench.clock.advance(DAY);
    bench.add("t.a", &["new"]).await;

    let plan = bench.plan(&then(&ids, old)).await;
    let (_, error) = read(bench.library.volumes.stream(&plan, pack::WHOLE, somebody()).await.unwrap()).await;
    assert!(error.is_some_and(|error| error.is_damage()));
    let again = bench.plan(&then(&ids, old)).await;
    let archive = bench.whole(&again).await;
    assert_eq!(entry(&archive, "t.b/00000001.txt"), "sound");
    assert!(entry(&archive, "ERROR.err").contains("\nRepositoryException: damaged: t.a[1]\n"));
    // The present version is another one.
    let now = bench.plan(&request(vec![Wanted::all(ids[0].clone())], Layout::Pages, Level::Frames, false)).await;
    assert_eq!(entry(&bench.whole(&now).await, "t.a/00000001.txt"), "new");
}
