//! Selections: their bytes stay the same until they end, whatever happens to the volumes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use audit::Requester;
use budget::Party;
use hathi::VolumeId;
use heads::{LibraryOptions, ObjectsError, RevisionId, Surroundings, keys};
use library::Library;
use pack::{Layout, Level};
use store::faults::{Damage, Harm};
use store::{Call, Class, Clock, Deadline, ManualClock, Random, Store, SystemRandom, Table};
use volumes::{
    ALIKE_PINS_MAX, BulkRequest, CollectLimits, Pinned, SelectionInfo, SelectionTerms, UNSEEN_PINS_MAX, Unchanged,
};

use super::bench::{Bench, bench, bench_with, pages, request, somebody, whole_volumes};
use crate::support::{START, faulty, id, import, volume};

const DAY: Duration = Duration::from_secs(24 * 3_600);

fn lasting(life: Duration) -> SelectionTerms {
    SelectionTerms { life: Some(life), ..SelectionTerms::default() }
}

fn one_at_most() -> SelectionTerms {
    SelectionTerms { owned_max: 1, ..SelectionTerms::default() }
}

/// For how long after its end a selection may be read, by the clock of any server.
fn read_for(bench: &Bench) -> Duration {
    let LibraryOptions { plan_life, clock_skew_max, .. } = bench.library.options();
    *plan_life + *clock_skew_max
}

/// Runs the collector until it has done all it may.
async fn collect(bench: &Bench) {
    for _ in 0..4 {
        bench.library.volumes.collect_once(CollectLimits::default()).await.unwrap();
        bench.clock.advance(bench.library.options().grace + Duration::from_secs(600));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_resumes_byte_identical_though_its_volumes_were_replaced_deleted_and_collected() {
    let bench = bench().await;
    let ids = bench.add_samples(110).await;
    let a = bench.add("t.a", &["one", "two", "three"]).await;
    let mut wanted = whole_volumes(&ids);
    wanted.push(pages(&a, &[3, 1, 8]));
    let wanted = request(wanted, Layout::Pages, Level::Frames, true);
    let selection = bench.library.volumes.select(&wanted, &somebody(), lasting(20 * DAY)).await.unwrap();
    let whole = bench.whole(&selection.plan).await;

    bench.library.volumes.delete(&ids[0]).await.unwrap();
    bench.library.volumes.import(volume(ids[1].as_str(), &["other"]), Unchanged::Skip, |_| {}).await.unwrap();
    bench.library.volumes.import(volume("t.a", &["uno"]), Unchanged::Skip, |_| {}).await.unwrap();
    collect(&bench).await;

    let plan = bench.library.volumes.selection(&selection.info.id, &Party::Local).await.unwrap();
    assert_eq!((&plan.etag, plan.len_bytes), (&selection.plan.etag, Some(whole.len() as u64)));
    assert_eq!((plan.entries, &plan.missing), (selection.plan.entries, &selection.plan.missing));
    assert!(bench.whole(&plan).await == whole);
    let middle = whole.len() as u64 / 3;
    assert!(bench.part(&plan, middle..whole.len() as u64).await == whole[middle as usize..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_selection_what_is_collected_is_gone() {
    // The counterpart of the test above: it shows that the collector really works there.
    let bench = bench().await;
    let a = bench.add("t.a", &["one", "two", "three"]).await;
    let old = bench.library.volumes.volume(&a).await.unwrap().body.generation;
    bench.library.volumes.import(volume("t.a", &["uno"]), Unchanged::Skip, |_| {}).await.unwrap();
    collect(&bench).await;
    assert!(bench.library.volumes.entries(&a, old, 0..3).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_ends_by_itself_is_remembered_and_lets_its_volumes_go() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one"]).await;
    let old = bench.library.volumes.volume(&a).await.unwrap().body.generation;
    let wanted = request(whole_volumes(std::slice::from_ref(&a)), Layout::Pages, Level::Stored, false);
    let selection = bench.library.volumes.select(&wanted, &somebody(), lasting(DAY)).await.unwrap();
    let id = selection.info.id.as_str();
    bench.library.volumes.import(volume("t.a", &["uno"]), Unchanged::Skip, |_| {}).await.unwrap();

    bench.clock.advance(DAY - Duration::from_secs(1));
    let plan = bench.library.volumes.selection(id, &Party::Local).await.unwrap();
    bench.clock.advance(Duration::from_secs(1));
    assert!(matches!(bench.library.volumes.selection(id, &Party::Local).await, Err(ObjectsError::Expired(_))));
    assert_eq!(bench.library.volumes.sweep_selections().await.unwrap(), 0, "streams that began before the end go on");
    assert!(bench.whole(&plan).await.len() as u64 == plan.len_bytes.unwrap());

    bench.clock.advance(read_for(&bench));
    assert_eq!(bench.library.volumes.sweep_selections().await.unwrap(), 1);
    assert_eq!(bench.library.volumes.sweep_selections().await.unwrap(), 0, "once is enough");
    assert!(matches!(bench.library.volumes.selection_info(id).await, Err(ObjectsError::Expired(_))), "410, not 404");
    collect(&bench).await;
    assert!(bench.library.volumes.entries(&a, old, 0..1).await.is_err(), "nothing pins it any more");
    bench.clock.advance(60 * DAY);
    assert!(
        matches!(bench.library.volumes.selection_info(id).await, Err(ObjectsError::Absent(_))),
        "at last it is forgotten"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_can_be_deleted_and_frees_its_place() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one"]).await;
    let wanted = request(whole_volumes(&[a]), Layout::Pages, Level::Frames, false);
    let select = async |who: &Requester| bench.library.volumes.select(&wanted, who, one_at_most()).await;
    let first = select(&somebody()).await.unwrap().info;
    assert!(matches!(select(&somebody()).await, Err(ObjectsError::OverLimit(_))));
    let other = Requester { name: None, address: Some([127, 0, 0, 1].into()), request_id: String::new() };
    assert!(select(&other).await.is_ok(), "others have places of their own");
    bench.library.volumes.delete_selection(&first.id).await.unwrap();
    assert!(matches!(bench.library.volumes.selection(&first.id, &Party::Local).await, Err(ObjectsError::Expired(_))));
    assert!(matches!(bench.library.volumes.delete_selection(&first.id).await, Err(ObjectsError::Expired(_))));
    let second = select(&somebody()).await.unwrap().info;
    let SelectionInfo { owner, volumes, missing, .. } = bench.library.volumes.selection_info(&second.id).await.unwrap();
    assert_eq!((owner.as_str(), volumes, missing), ("token somebody", 1, 0));
    bench.clock.advance(bench.library.options().selection_life);
    assert!(select(&somebody()).await.is_ok(), "one that has ended takes no place");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_very_many_selections_name_takes_no_more_of_them_than_its_partition_may_have() {
    let bench = bench().await;
    let (a, b) = (bench.add("t.a", &["one"]).await, bench.add("t.b", &["two"]).await);
    let revision = bench.library.volumes.volume(&a).await.unwrap().revision;
    let other = bench.library.volumes.volume(&b).await.unwrap().revision;
    let ends = bench.clock.now().plus(DAY);
    let pin = async |pins: &[(VolumeId, RevisionId)], id: &str| bench.library.volumes.pin(pins, id, ends).await;
    let (selection, last) = (|n: usize| format!("abc{n:029x}"), ALIKE_PINS_MAX);
    for n in 0..last {
        assert_eq!(pin(&[(a.clone(), revision)], &selection(n)).await.unwrap(), [Pinned::Held], "{n}");
    }
    // Every pin counts, also one that is there.
    let same = vec![(a.clone(), revision); UNSEEN_PINS_MAX as usize - last];
    pin(&same, &selection(0)).await.unwrap();
    let both = [(b.clone(), other), (a.clone(), revision)];
    let full = pin(&both, &selection(last)).await;
    assert!(matches!(&full, Err(ObjectsError::OverLimit(why)) if why.contains("t.a is in")), "{full:?}");
    let call = Call::new(Class::Description, Deadline::within(Duration::from_secs(60)));
    let (of_b, refused) = (keys::volume_partition(&b), keys::pin(&selection(last)));
    let put = bench.faults.get(call, Table::Pins, &of_b, &refused).await.unwrap();
    assert_eq!(put, None, "no volume of a refused selection is pinned");
    bench.library.volumes.unpin(std::slice::from_ref(&a), &selection(0)).await.unwrap();
    assert_eq!(pin(&both, &selection(last)).await.unwrap(), [Pinned::Held; 2], "there is room again");
    let full = pin(&both, &selection(0)).await;
    assert!(matches!(&full, Err(ObjectsError::OverLimit(_))), "each pin of a part with many is looked at: {full:?}");
    let elsewhere = "abd00000000000000000000000000000";
    assert_eq!(pin(&both, elsewhere).await.unwrap(), [Pinned::Held; 2], "another part has room");
    assert_eq!(pin(&both, &selection(0)).await.unwrap(), [Pinned::Held; 2], "it has few, so no look is needed");
}

/// Randomness in which so many ids begin with `abc`, and the others do not.
struct Alike(AtomicUsize);

impl Random for Alike {
    fn fill(&self, bytes: &mut [u8]) {
        SystemRandom.fill(bytes);
        if bytes.len() == 16 {
            let left = self.0.load(Ordering::SeqCst);
            self.0.store(left.saturating_sub(1), Ordering::SeqCst);
            bytes[..2].copy_from_slice(if left > 0 { &[0xab, 0xc0] } else { &[0xff, 0xff] });
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_is_refused_only_if_its_volumes_have_no_room_for_any_of_three_ids() {
    let bench = bench().await;
    let random = Arc::new(Alike(AtomicUsize::new(0)));
    let surroundings = Surroundings { random: random.clone(), ..Surroundings::of_this_machine(bench.clock.clone()) };
    let library = Library::open_within(bench.faults.clone(), surroundings, LibraryOptions::default()).await.unwrap();
    let a = bench.add("t.a", &["one"]).await;
    let revision = library.volumes.volume(&a).await.unwrap().revision;
    let ends = bench.clock.now().plus(DAY);
    let pin = async |times: usize, n: usize| {
        let pins = vec![(a.clone(), revision); times];
        library.volumes.pin(&pins, &format!("abc{n:029x}"), ends).await.unwrap();
    };
    for n in 0..ALIKE_PINS_MAX {
        pin(1, n).await;
    }
    // Every pin counts, also one that is there.
    pin(UNSEEN_PINS_MAX as usize - ALIKE_PINS_MAX, 0).await;
    let wanted = request(whole_volumes(std::slice::from_ref(&a)), Layout::Pages, Level::Frames, false);
    let select = async |alike: usize| {
        random.0.store(alike, Ordering::SeqCst);
        library.volumes.select(&wanted, &somebody(), SelectionTerms::default()).await
    };
    let refused = select(3).await;
    assert!(matches!(&refused, Err(ObjectsError::OverLimit(why)) if why.contains("t.a is in")), "{refused:?}");
    assert_eq!(random.0.load(Ordering::SeqCst), 0, "three ids are drawn");
    let selection = select(2).await.unwrap();
    assert!(selection.info.id.starts_with("ffff"), "{}", selection.info.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_addresses_of_one_ipv6_network_have_their_places_together() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one"]).await;
    let wanted = request(whole_volumes(&[a]), Layout::Pages, Level::Frames, false);
    let select = async |address: &str| {
        let who = Requester { name: None, address: Some(address.parse().unwrap()), request_id: String::new() };
        bench.library.volumes.select(&wanted, &who, one_at_most()).await
    };
    let first = select("2001:db8:0:1::1").await.unwrap().info;
    assert!(matches!(select("2001:db8:0:1:ffff::2").await, Err(ObjectsError::OverLimit(_))));
    assert!(select("2001:db8:0:2::1").await.is_ok(), "another network");
    bench.library.volumes.delete_selection(&first.id).await.unwrap();
    assert!(select("2001:db8:0:1:ffff::2").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_nobody_asked_for_is_made_once_for_equal_bytes_as_long_as_it_lasts() {
    let bench = bench().await;
    let (a, b) = (bench.add("t.a", &["one"]).await, bench.add("t.b", &["two"]).await);
    let wanted = |ids: &[VolumeId]| request(whole_volumes(ids), Layout::Pages, Level::Frames, false);
    let (one, two) = (wanted(std::slice::from_ref(&a)), wanted(&[a, b]));
    let reusing = SelectionTerms { life: Some(DAY), owned_max: 2, reuse: true };
    let select = async |wanted: &BulkRequest, who: &Requester, terms| {
        bench.library.volumes.select(wanted, who, terms).await.unwrap().info.id
    };
    let first = select(&one, &somebody(), reusing).await;
    assert_eq!(select(&one, &somebody(), reusing).await, first);
    let second = select(&two, &somebody(), reusing).await;
    assert_ne!(second, first, "other bytes");
    assert_eq!(select(&one, &somebody(), reusing).await, first, "also where there is room for no more");
    let other = Requester { name: None, address: Some([127, 0, 0, 1].into()), request_id: String::new() };
    assert_ne!(select(&one, &other, reusing).await, first, "what others may delete is of no use");

    bench.clock.advance(DAY / 2 + Duration::from_secs(1));
    bench.library.volumes.delete_selection(&second).await.unwrap();
    let third = select(&one, &somebody(), reusing).await;
    assert_ne!(third, first, "less than half of its life is left");
    bench.library.volumes.delete_selection(&first).await.unwrap();
    bench.library.volumes.delete_selection(&third).await.unwrap();
    assert_ne!(select(&one, &somebody(), reusing).await, third, "it was deleted");
    assert_ne!(
        select(&one, &somebody(), lasting(DAY)).await,
        select(&one, &somebody(), lasting(DAY)).await,
        "who asks for one has one for himself"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_selection_lets_its_volumes_go_before_its_end() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one"]).await;
    let old = bench.library.volumes.volume(&a).await.unwrap().body.generation;
    let wanted = request(whole_volumes(std::slice::from_ref(&a)), Layout::Pages, Level::Frames, false);
    let selection = bench.library.volumes.select(&wanted, &somebody(), lasting(30 * DAY)).await.unwrap();
    bench.library.volumes.import(volume("t.a", &["uno"]), Unchanged::Skip, |_| {}).await.unwrap();
    bench.library.volumes.delete_selection(&selection.info.id).await.unwrap();
    assert_eq!(bench.library.volumes.sweep_selections().await.unwrap(), 0, "streams that began before go on");
    assert!(bench.library.volumes.entries(&a, old, 0..1).await.is_ok());
    bench.clock.advance(read_for(&bench));
    assert_eq!(bench.library.volumes.sweep_selections().await.unwrap(), 1);
    collect(&bench).await;
    assert!(bench.clock.now() < selection.info.ends);
    assert!(bench.library.volumes.entries(&a, old, 0..1).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_that_cannot_be_read_does_not_keep_the_others_from_being_swept() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one"]).await;
    let wanted = request(whole_volumes(&[a]), Layout::Pages, Level::Frames, false);
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(bench.library.volumes.select(&wanted, &somebody(), lasting(DAY)).await.unwrap().info.id);
    }
    // The selection that a sweep visits first.
    ids.sort();
    let partition = format!("s/{}", ids[0]).into();
    let (table, sort, harm) = (Table::Selections, Some("i".into()), Harm::FlippedBit);
    bench.faults.damage(Damage { table, partition, sort, harm, strong_reads_are_whole: false });
    bench.clock.advance(3 * DAY);
    assert_eq!(bench.library.volumes.sweep_selections().await.unwrap(), 2);
    bench.faults.heal();
    assert_eq!(bench.library.volumes.sweep_selections().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_selection_is_absent() {
    let bench = bench().await;
    for id in ["", "x", "0123456789abcdef0123456789abcdef", "../../../../../../../../../../etc"] {
        assert!(
            matches!(bench.library.volumes.selection(id, &Party::Local).await, Err(ObjectsError::Absent(_))),
            "{id}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_without_a_time_lasts_no_longer_than_one_with_a_time_may() {
    let options = LibraryOptions { selection_life_max: DAY, ..LibraryOptions::default() };
    assert!(options.selection_life > DAY);
    let bench = bench_with(options).await;
    let a = bench.add("t.a", &["one"]).await;
    let wanted = request(whole_volumes(std::slice::from_ref(&a)), Layout::Pages, Level::Stored, false);
    let selection = bench.library.volumes.select(&wanted, &somebody(), SelectionTerms::default()).await.unwrap();
    let id = selection.info.id.as_str();
    bench.clock.advance(DAY - Duration::from_secs(1));
    bench.library.volumes.selection(id, &Party::Local).await.unwrap();
    bench.clock.advance(Duration::from_secs(1));
    assert!(matches!(bench.library.volumes.selection(id, &Party::Local).await, Err(ObjectsError::Expired(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_that_cannot_be_is_refused() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one"]).await;
    let wanted = |level| request(whole_volumes(std::slice::from_ref(&a)), Layout::Pages, level, false);
    let recompressed =
        bench.library.volumes.select(&wanted(Level::Recompressed(6)), &somebody(), SelectionTerms::default()).await;
    assert!(matches!(recompressed, Err(ObjectsError::Invalid(_))));
    let too_long = bench.library.volumes.select(&wanted(Level::Frames), &somebody(), lasting(31 * DAY)).await;
    assert!(matches!(too_long, Err(ObjectsError::OverLimit(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_of_many_ids_is_stored_in_many_rows_and_reads_back() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one"]).await;
    let mut ids = vec![a];
    ids.extend((0..20_000).map(|n| crate::support::id(&format!("t.none{n}"))));
    let wanted = request(whole_volumes(&ids), Layout::Pages, Level::Frames, false);
    let selection = bench.library.volumes.select(&wanted, &somebody(), SelectionTerms::default()).await.unwrap();
    let plan = bench.library.volumes.selection(&selection.info.id, &Party::Local).await.unwrap();
    assert_eq!(plan.missing.len(), 20_000);
    assert!(bench.whole(&plan).await == bench.whole(&selection.plan).await);
}

/// The partitions of a selection.
async fn partitions(bench: &Bench, selection: &SelectionInfo) -> usize {
    let of = format!("s/{}", selection.id);
    let call = Call::new(Class::Description, Deadline::within(Duration::from_secs(60)));
    let page = bench.faults.walk(call, Table::Selections, None, 1_000).await.unwrap();
    page.partitions.iter().filter(|partition| partition.starts_with(of.as_bytes())).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_hundreds_of_chunks_is_in_several_partitions_reads_back_and_is_swept_from_all() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one"]).await;
    // Each absent volume is named once, by some thousand bytes.
    let absent = (0..50_000).map(|n| id(&format!("t.{n:0>998}")));
    let ids: Vec<VolumeId> = std::iter::once(a).chain(absent).collect();
    let wanted = request(whole_volumes(&ids), Layout::Pages, Level::Frames, false);
    let made = bench.library.volumes.select(&wanted, &somebody(), lasting(DAY)).await.unwrap();
    assert_eq!(partitions(&bench, &made.info).await, 3, "its description, and two of chunks");
    let plan = bench.library.volumes.selection(&made.info.id, &Party::Local).await.unwrap();
    assert_eq!((plan.missing.len(), &plan.etag), (50_000, &made.plan.etag));
    assert!(bench.whole(&plan).await == bench.whole(&made.plan).await);
    bench.clock.advance(DAY + read_for(&bench));
    assert_eq!(bench.library.volumes.sweep_selections().await.unwrap(), 1);
    assert_eq!(partitions(&bench, &made.info).await, 1, "it is remembered for a while");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_clock_is_ahead_sweeps_no_selection_that_others_may_still_read() {
    let faulty = faulty().await;
    let LibraryOptions { clock_skew_max, plan_life, .. } = LibraryOptions::default();
    let second = Duration::from_secs(1);
    let ahead = Arc::new(ManualClock::new(START.plus(clock_skew_max)));
    let other = Library::open(faulty.store.clone(), ahead.clone(), LibraryOptions::default()).await.unwrap();
    let advance = |time| {
        faulty.clock.advance(time);
        ahead.advance(time);
    };
    import(&faulty.library, volume("t.a", &["one"])).await.unwrap();
    let wanted = request(whole_volumes(&[id("t.a")]), Layout::Pages, Level::Frames, false);
    let selection = faulty.library.volumes.select(&wanted, &somebody(), lasting(DAY)).await.unwrap().info.id;
    advance(DAY - second);
    faulty.library.volumes.selection(&selection, &Party::Local).await.unwrap();
    // So long it may be read now.
    advance(plan_life);
    assert_eq!(other.volumes.sweep_selections().await.unwrap(), 0);
    advance(second);
    assert_eq!(other.volumes.sweep_selections().await.unwrap(), 1);
}
