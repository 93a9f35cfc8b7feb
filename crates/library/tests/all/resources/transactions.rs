//! A server dies between any two steps of a transaction: all of it happens or nothing, and nothing
//! is left of it. Requests beside a commit are part of it, or refused.

use std::sync::Arc;
use std::time::Duration;

use heads::claim::{Claim, TransactionId};
use heads::{LibraryOptions, ObjectsError, keys};
use library::Library;
use repository::{Membership, NewKind, NewResource, Phase, ResourceError, ResourceResult, Update};
use store::{ManualClock, Step, Table};

use super::tree::{assert_sound, beyond_the_horizon, container, create, delete, events, path, said, update};
use crate::support::memory::{Fault, Gate};
use crate::support::{Faulty, START, faulty, faulty_with};

const OWNER: &str = "somebody";

/// Longer than a transaction lasts by the clock of any server.
const EXPIRED: Duration = Duration::from_secs(500);

async fn begin(library: &Library) -> (TransactionId, Library) {
    let (id, _) = library.repository.begin_transaction(OWNER).await.unwrap();
    (id, Library { repository: library.repository.in_transaction(id), ..library.clone() })
}

async fn commit(library: &Library, id: TransactionId) -> ResourceResult<()> {
    library.repository.commit_transaction(id, OWNER).await
}

/// Whether a step changes the head of the resource at a path.
fn switches(at: &'static str) -> impl Fn(usize, &Step) -> bool {
    let object = keys::resource_partition(&path(at));
    move |_, step| matches!(step, Step::CompareAndWrite { partition, .. } if *partition == object)
}

/// Changes what a resource says, once.
async fn update_once(library: &Library, at: &str, description: &str) -> ResourceResult<()> {
    let resource = library.repository.resource(&path(at)).await?;
    let (description, membership) = (description.to_owned().into(), Membership::Basic);
    let update = Update::Description { description, membership, members_for: None, refers_to: Vec::new() };
    library.repository.update(&resource, &update).await.map(|_| ())
}

/// Runs a request in a transaction that stops where `is_there` holds, and `beside` meanwhile.
async fn with_beside<T: Send + 'static>(
    faulty: &Faulty,
    request: impl Future<Output = T> + Send + 'static,
    is_there: impl Fn(usize, &Step) -> bool + Send + 'static,
    beside: impl Future<Output = ()>,
) -> T {
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), is_there);
    let held = tokio::spawn(request);
    gate.reached().await;
    beside.await;
    gate.open();
    held.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_lost_its_claim_leaves_nothing_that_prevents_the_commit() {
    let faulty = faulty().await;
    create(&faulty.library, "s", "old").await.unwrap();
    let (id, inside) = begin(&faulty.library).await;
    let late = inside.clone();
    let request = async move { update_once(&late, "s", "lost").await };
    let lost = with_beside(&faulty, request, switches("s"), async {
        update(&faulty.library, "s", "of another").await.unwrap();
    });
    assert!(matches!(lost.await, Err(ResourceError::Moved(_))));
    create(&inside, "x", "new").await.unwrap();
    commit(&faulty.library, id).await.unwrap();
    assert_eq!(said(&faulty.library, "x").await.as_deref(), Some("new"));
    assert_eq!(said(&faulty.library, "s").await.as_deref(), Some("of another"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_unknown_outcome_counts_if_it_was_put_and_otherwise_it_is_put_again() {
    for fault in [Fault::UnknownApplied, Fault::UnknownLost, Fault::UnknownLate(1), Fault::UnknownLate(1_000)] {
        let faulty = faulty().await;
        create(&faulty.library, "s", "old").await.unwrap();
        let (id, inside) = begin(&faulty.library).await;
        faulty.store.arm(fault.clone(), switches("s"));
        update_once(&inside, "s", "new").await.unwrap();
        faulty.store.deliver();
        commit(&faulty.library, id).await.unwrap();
        assert_eq!(said(&faulty.library, "s").await.as_deref(), Some("new"), "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_claim_comes_after_the_commit_is_refused_and_holds_nothing() {
    let faulty = faulty().await;
    let (id, inside) = begin(&faulty.library).await;
    create(&inside, "x", "new").await.unwrap();
    let late = inside.clone();
    let request = async move { create(&late, "late", "late").await };
    let refused = with_beside(&faulty, request, switches("late"), async {
        // The request has put its operation, and it is not known of what outcome.
        let refused = commit(&faulty.library, id).await.unwrap_err();
        assert!(refused.to_string().contains("/late was deleted with what it was in, or the outcome"), "{refused}");
        roll_back(&faulty.library, id).await;
    });
    let refused = refused.await.unwrap_err();
    assert!(matches!(refused, ResourceError::TransactionOver { phase: Phase::RolledBack, .. }), "{refused}");
    assert_eq!(said(&faulty.library, "late").await, None);
    create(&faulty.library, "late", "of another").await.unwrap();
}

async fn roll_back(library: &Library, id: TransactionId) {
    library.repository.roll_back_transaction(id, OWNER).await.unwrap();
}

/// Whether a step is the `nth` change of the state of a transaction.
fn changes_state(nth: usize) -> impl Fn(usize, &Step) -> bool + Send {
    let seen = std::sync::atomic::AtomicUsize::new(0);
    move |_, step| matches!(step, Step::Replace { .. }) && seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == nth
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_ends_before_the_transaction_is_closed_is_part_of_the_commit() {
    let faulty = faulty().await;
    create(&faulty.library, "s", "old").await.unwrap();
    let (id, inside) = begin(&faulty.library).await;
    update_once(&inside, "s", "first").await.unwrap();
    let library = faulty.library.clone();
    let committed = with_beside(&faulty, async move { commit(&library, id).await }, changes_state(0), async {
        update_once(&inside, "s", "second").await.unwrap();
        create(&inside, "k/m", "new").await.unwrap();
    });
    committed.await.unwrap();
    assert_eq!(said(&faulty.library, "s").await.as_deref(), Some("second"));
    assert_eq!(said(&faulty.library, "k/m").await.as_deref(), Some("new"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_claims_after_the_transaction_was_closed_is_refused_whole() {
    for at in ["s", "k/m"] {
        let faulty = faulty().await;
        create(&faulty.library, "s", "old").await.unwrap();
        let (id, inside) = begin(&faulty.library).await;
        update_once(&inside, "s", "first").await.unwrap();
        // It is open when the request looks, and closed when the request puts its operation.
        let gate = Gate::new();
        faulty.store.arm(Fault::Hold(gate.clone()), puts(at));
        let late = inside.clone();
        let request = tokio::spawn(async move {
            match at {
                "s" => update_once(&late, at, "second").await,
                _ => create(&late, at, "new").await,
            }
        });
        gate.reached().await;
        let library = faulty.library.clone();
        let committed = with_beside(&faulty, async move { commit(&library, id).await }, changes_state(1), async {
            let before = claim_on(&faulty, at).await;
            gate.open();
            claimed(&faulty, at, before).await;
        });
        committed.await.unwrap();
        let refused = request.await.unwrap().unwrap_err();
        assert!(matches!(refused, ResourceError::TransactionOver { .. }), "{refused}");
        assert_eq!(said(&faulty.library, "s").await.as_deref(), Some("first"), "{at}");
        assert_eq!(said(&faulty.library, "k").await, None, "it would be there only for what is in it");
        // Nothing is held.
        update(&faulty.library, "s", "later").await.unwrap();
        create(&faulty.library, "k/m", "later").await.unwrap();
    }
}

/// Whether a step puts an operation on the resource at a path.
fn puts(at: &'static str) -> impl Fn(usize, &Step) -> bool + Send {
    move |_, step| match step {
        Step::Put { table: Table::Work, rows, .. } => {
            rows.iter().filter_map(|row| keys::operation_of(&row.sort)).any(|(of, _)| of == at)
        }
        _ => false,
    }
}

/// Waits until a transaction holds a resource by another operation than before.
async fn claimed(faulty: &Faulty, at: &str, before: Option<Claim>) {
    for _ in 0..2_000 {
        let claim = claim_on(faulty, at).await;
        if claim.is_some() && claim != before {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the request did not get so far");
}

async fn claim_on(faulty: &Faulty, at: &str) -> Option<Claim> {
    let row = faulty.library.heads.head_at(&keys::resource_partition(&path(at))).await.unwrap();
    row.and_then(|row| row.head.claim)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_created_in_a_container_of_the_transaction_does_not_come_into_that_of_a_stranger() {
    let faulty = faulty().await;
    let (id, inside) = begin(&faulty.library).await;
    inside.repository.create(&path("k"), &container()).await.unwrap();
    create(&inside, "k/m", "new").await.unwrap();
    faulty.store.arm(Fault::Crash, switches("k/m"));
    commit(&faulty.library, id).await.unwrap_err();
    faulty.store.recover();
    // The server dies once more before it goes on.
    assert!(faulty.library.repository.resource(&path("k")).await.is_ok());
    delete(&faulty.library, "k").await.unwrap();
    faulty.library.repository.remove_tombstone(&path("k")).await.unwrap();
    faulty.library.repository.create(&path("k"), &container()).await.unwrap();
    faulty.clock.advance(EXPIRED);
    faulty.library.repository.end_transactions(Duration::ZERO).await.unwrap();
    assert_eq!(said(&faulty.library, "k/m").await, None);
    create(&faulty.library, "k/m", "of the stranger").await.unwrap();
    assert_sound(&faulty.library, &faulty.clock, &["k", "k/m"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_staged_description_that_is_missing_is_no_empty_one() {
    let faulty = faulty().await;
    create(&faulty.library, "s", "old").await.unwrap();
    let (id, inside) = begin(&faulty.library).await;
    update_once(&inside, "s", "new").await.unwrap();
    let mut gone = Vec::new();
    faulty.store.tamper(|table, sort, value| {
        let is_description = table == Table::Work && sort.first() == Some(&2) && sort.len() == 21;
        if is_description {
            gone.push(value.clone());
        }
        (!is_description).then_some(value)
    });
    assert_eq!(gone.len(), 1);
    let unfinished = commit(&faulty.library, id).await.unwrap_err();
    assert!(matches!(unfinished, ResourceError::Committing { .. }), "{unfinished}");
    assert_eq!(said(&faulty.library, "s").await.as_deref(), Some("old"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_arrives_after_the_end_of_its_transaction_blocks_no_name() {
    let faulty = faulty().await;
    let (id, _) = begin(&faulty.library).await;
    commit(&faulty.library, id).await.unwrap();
    let late = Claim { transaction: id, operation: faulty.library.heads.revisions().mint() };
    let claimed = |head: Option<&heads::Head>| match head {
        Some(_) => None,
        None => Some(heads::Head { claim: Some(late), ..heads::Head::free() }),
    };
    faulty.library.heads.amend(&keys::resource_partition(&path("wish")), &claimed).await.unwrap();
    let root = path("");
    let make = |_: &repository::Resource, _: &heads::ResourcePath| Ok::<_, ResourceError>(container());
    let written = faulty.library.repository.create_in(&root, Some("wish"), make).await.unwrap();
    assert_eq!(written.path, path("wish"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_commit_is_answered_like_the_first_one_for_as_long_as_it_is_known() {
    let faulty = faulty().await;
    let (id, inside) = begin(&faulty.library).await;
    create(&inside, "x", "new").await.unwrap();
    // Another server commits it while this one reads what counts.
    let library = faulty.library.clone();
    let held = with_beside(&faulty, async move { commit(&library, id).await }, changes_state(1), async {
        commit(&faulty.library, id).await.unwrap();
    });
    held.await.unwrap();
    commit(&faulty.library, id).await.unwrap();
    let over = faulty.library.repository.renew_transaction(id, OWNER).await.unwrap_err();
    assert!(matches!(over, ResourceError::TransactionOver { phase: Phase::Committed, .. }));
    faulty.clock.advance(Duration::from_secs(2 * 3_600));
    for _ in 0..2 {
        faulty.library.repository.end_transactions(Duration::ZERO).await.unwrap();
    }
    assert!(matches!(commit(&faulty.library, id).await, Err(ResourceError::NoTransaction(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archival_group_is_held_until_everything_in_it_is_carried_out() {
    for changes_group in [false, true] {
        let faulty = faulty().await;
        let group = NewResource { kind: NewKind::Group(Membership::Basic), ..NewResource::empty_container() };
        faulty.library.repository.create(&path("g"), &group).await.unwrap();
        for at in ["g/x", "g/y"] {
            create(&faulty.library, at, "old").await.unwrap();
        }
        let (id, inside) = begin(&faulty.library).await;
        update_once(&inside, "g/x", "new").await.unwrap();
        if changes_group {
            update_once(&inside, "g", "new").await.unwrap();
        }
        let library = faulty.library.clone();
        let committed = with_beside(&faulty, async move { commit(&library, id).await }, switches("g/x"), async {
            // It is decided, and this part of it is not carried out yet.
            let refused = update_once(&faulty.library, "g/y", "of another").await.unwrap_err();
            assert!(matches!(refused, ResourceError::Objects(ObjectsError::Held { .. })), "{refused}");
        });
        committed.await.unwrap();
        assert_eq!(said(&faulty.library, "g/x").await.as_deref(), Some("new"));
        update_once(&faulty.library, "g/y", "of another").await.unwrap();
        assert_eq!(said(&faulty.library, "g/y").await.as_deref(), Some("of another"));
    }
}

/// Makes a transaction and commits it.
async fn transact(library: &Library) -> repository::ResourceResult<()> {
    let (id, _) = library.repository.begin_transaction("somebody").await?;
    let inside = Library { repository: library.repository.in_transaction(id), ..library.clone() };
    create(&inside, "x/y", "new").await?;
    update(&inside, "a/s", "new").await?;
    delete(&inside, "a/d").await?;
    library.repository.commit_transaction(id, "somebody").await
}

/// What there is of it: each part that has happened.
async fn happened(faulty: &Faulty) -> [bool; 3] {
    let library = &faulty.library;
    [
        said(library, "x/y").await.as_deref() == Some("new"),
        said(library, "a/s").await.as_deref() == Some("new"),
        said(library, "a/d").await.is_none(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_at_any_step_leaves_all_of_a_transaction_or_nothing() {
    let (mut none, mut all) = (0, 0);
    for step in 0.. {
        let faulty = faulty().await;
        create(&faulty.library, "a/s", "old").await.unwrap();
        create(&faulty.library, "a/d", "old").await.unwrap();
        faulty.store.arm(Fault::Crash, move |number, _| number == step);
        let came = transact(&faulty.library).await;
        let is_over = faulty.store.steps() <= step;
        faulty.store.recover();
        faulty.clock.advance(EXPIRED);
        faulty.library.repository.end_transactions(Duration::ZERO).await.unwrap();
        let happened = happened(&faulty).await;
        assert!(happened == [true; 3] || happened == [false; 3], "step {step}: {happened:?}");
        if came.is_ok() {
            assert_eq!(happened, [true; 3], "step {step}");
        }
        if happened[0] {
            all += 1
        } else {
            none += 1
        }
        assert_sound(&faulty.library, &faulty.clock, &["a", "a/s", "a/d", "x", "x/y"]).await;
        // Nothing stays behind.
        faulty.clock.advance(Duration::from_secs(2 * 3_600));
        for _ in 0..2 {
            faulty.library.repository.end_transactions(Duration::ZERO).await.unwrap();
        }
        let left: Vec<_> =
            faulty.store.partitions(Table::Work).into_iter().filter(|of| of.starts_with(b"tx/")).collect();
        assert!(left.is_empty(), "step {step}: {left:?}");
        update(&faulty.library, "a/s", "later").await.unwrap();
        assert!(faulty.library.repository.resource(&path("a")).await.is_ok());
        if is_over {
            break;
        }
    }
    assert!(none > 3 && all > 3, "{none} with nothing, {all} with all of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_transaction_name_its_token_whichever_server_carries_it_out() {
    for (owner, dies) in [("token ann", false), ("token ann", true), ("address 192.0.2.1", true)] {
        let options = LibraryOptions { feed_actors: true, ..LibraryOptions::default() };
        let faulty = faulty_with(options).await;
        for at in ["a/s", "a/d"] {
            create(&faulty.library, at, "old").await.unwrap();
        }
        let (id, _) = faulty.library.repository.begin_transaction(owner).await.unwrap();
        let inside = Library { repository: faulty.library.repository.in_transaction(id), ..faulty.library.clone() };
        create(&inside, "x", "new").await.unwrap();
        update(&inside, "a/s", "new").await.unwrap();
        delete(&inside, "a/d").await.unwrap();
        if dies {
            faulty.store.arm(Fault::Crash, switches("x"));
        }
        let committed = faulty.library.repository.commit_transaction(id, owner).await;
        assert_eq!(committed.is_err(), dies, "{committed:?}");
        let other = faulty.reopened().await;
        faulty.clock.advance(EXPIRED);
        other.repository.end_transactions(Duration::ZERO).await.unwrap();
        assert_eq!(said(&other, "x").await.as_deref(), Some("new"));
        beyond_the_horizon(&other, &faulty.clock);
        let named: Vec<_> = events(&other, 100).await.into_iter().map(|event| event.actor).collect();
        let expected = owner.strip_prefix("token ").map(str::to_owned);
        assert_eq!(named.len(), 7, "the root, a, s, d; x, s, d");
        assert_eq!(named[4..], [expected.clone(), expected.clone(), expected], "dies: {dies}");
        assert_eq!(named[..4], [None, None, None, None]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_clock_is_ahead_ends_no_transaction_before_its_time_by_the_clock_of_another() {
    let faulty = faulty().await;
    let LibraryOptions { clock_skew_max, transaction_timeout, .. } = LibraryOptions::default();
    let second = Duration::from_secs(1);
    let ahead = Arc::new(ManualClock::new(START.plus(clock_skew_max)));
    let other = Library::open(faulty.store.clone(), ahead.clone(), LibraryOptions::default()).await.unwrap();
    let pass = async |time| {
        faulty.clock.advance(time);
        ahead.advance(time);
        other.repository.end_transactions(Duration::ZERO).await.unwrap();
    };
    let (id, inside) = begin(&faulty.library).await;
    create(&inside, "x", "new").await.unwrap();
    pass(transaction_timeout - second).await;
    let refused = create(&other, "x", "of another").await.unwrap_err();
    assert!(matches!(refused, ResourceError::Objects(ObjectsError::Held { .. })), "{refused}");
    commit(&faulty.library, id).await.unwrap();
    assert_eq!(said(&other, "x").await.as_deref(), Some("new"));

    let (id, _) = begin(&faulty.library).await;
    pass(transaction_timeout + second).await;
    let over = commit(&faulty.library, id).await.unwrap_err();
    assert!(matches!(over, ResourceError::TransactionOver { phase: Phase::Expired, .. }), "{over}");
}
