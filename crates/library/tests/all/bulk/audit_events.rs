//! Events in the audit; deleting old records, and erasing persons from all.

use std::time::Duration;

use audit::{Actor, AuditEntry, Conditions, Event, EventKind, EventResult, Requester, Whom};
use futures::TryStreamExt;
use hathi::Seq;
use heads::{LibraryOptions, RevisionClock};
use store::faults::{Fault, Kind};
use store::{Call, Class, Clock, Deadline, NewRow, Step, Store, Table, UnixMillis};

use super::bench::{Bench, bench, bench_with};
use crate::support::{faulty_with, id};

const HOUR: Duration = Duration::from_secs(3_600);

const FOREVER: UnixMillis = UnixMillis(u64::MAX);

fn jane() -> Actor {
    Actor {
        token: Some("jane".to_owned()),
        address: Some("192.0.2.7".parse().unwrap()),
        agent: Some("a program".to_owned()),
        user: None,
    }
}

fn change(actor: Actor, target: &str) -> Event {
    Event { actor, ..Event::of(EventKind::Change, "PUT", target, EventResult::Status(201)) }
}

fn refusal(address: &str) -> Event {
    let actor = Actor { address: Some(address.parse().unwrap()), ..Actor::default() };
    Event { actor, ..Event::of(EventKind::Refusal, "GET", "/volumes", EventResult::Status(401)) }
}

async fn entries(bench: &Bench) -> Vec<AuditEntry> {
    bench.library.audit.read(UnixMillis(0), FOREVER).try_collect().await.unwrap()
}

async fn events(bench: &Bench) -> Vec<Event> {
    let of = |entry| match entry {
        AuditEntry::Event(record) => Some(record.event),
        AuditEntry::Record(_) | AuditEntry::Damaged(_) => None,
    };
    entries(bench).await.into_iter().filter_map(of).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_read_back_in_order_among_the_requests_for_text() {
    let bench = bench().await;
    let auditor = bench.library.audit.auditor();
    let reader = Requester { name: Some("jane".to_owned()), ..Requester::default() };
    auditor.event(&change(jane(), "/rest/a")).await.unwrap();
    auditor.page(&reader, &id("t.a"), Seq::new(1).unwrap()).await.unwrap();
    auditor.event_later(&change(Actor::default(), "/rest/b"));
    auditor.finish().await;
    let found = entries(&bench).await;
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(matches!(&found[0], AuditEntry::Event(record) if record.event == change(jane(), "/rest/a")));
    assert!(matches!(&found[3], AuditEntry::Event(record) if record.event.target == "/rest/b"));
    let conditions = Conditions { token: Some("jane".to_owned()), ..Conditions::default() };
    let of_jane: Vec<_> =
        bench.library.audit.read_where(UnixMillis(0), FOREVER, conditions).try_collect().await.unwrap();
    assert_eq!(of_jane, found[..3]);
    let top = bench.library.audit.top(UnixMillis(0), FOREVER, 10).await.unwrap();
    assert_eq!((top.requests, top.damaged), (1, 0), "events are no requests for text");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_unknown_outcome_is_written_again_and_there_once() {
    let bench = bench().await;
    for fault in [Fault::UnknownNotApplied, Fault::Unavailable, Fault::UnknownApplied] {
        bench.faults.next(Kind::Run, fault);
    }
    bench.library.audit.auditor().event(&change(jane(), "/rest/a")).await.unwrap();
    assert_eq!(events(&bench).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_many_addresses_take_few_records_and_all_are_counted() {
    let bench = bench().await;
    let auditor = bench.library.audit.auditor();
    for n in 0..2_000 {
        auditor.refused(refusal(&format!("10.0.{}.{}", n / 250, n % 250)));
        auditor.refused(refusal("192.0.2.7"));
    }
    assert_eq!(events(&bench).await, [], "nobody waits for them");
    auditor.finish().await;
    let events = events(&bench).await;
    assert!(events.len() < 300, "{}", events.len());
    assert_eq!(events.iter().map(|event| event.count).sum::<u64>(), 4_000);
    let flooding = events.iter().find(|event| event.actor.address == Some("192.0.2.7".parse().unwrap())).unwrap();
    assert_eq!(flooding.count, 2_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_kept_as_long_as_configured_and_no_hour_is_deleted_early() {
    let bench = bench_with(LibraryOptions { audit_keep: Some(24 * HOUR), ..LibraryOptions::default() }).await;
    for n in 0..4 {
        bench.library.audit.auditor().event(&change(jane(), &format!("/rest/{n}"))).await.unwrap();
        bench.clock.advance(10 * HOUR);
    }
    let pruned = bench.library.audit.prune().await.unwrap().unwrap();
    let left: Vec<_> = events(&bench).await.into_iter().map(|event| event.target).collect();
    assert_eq!((pruned.parts, left), (2, vec!["/rest/2".to_owned(), "/rest/3".to_owned()]));
    assert!(pruned.oldest.is_some());
    assert_eq!(bench.library.audit.prune().await.unwrap(), None, "it looks once an hour");
    bench.clock.advance(48 * HOUR);
    let pruned = bench.library.audit.prune().await.unwrap().unwrap();
    assert_eq!((pruned.parts, pruned.oldest), (2, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_deleted_without_a_time() {
    let bench = bench().await;
    bench.library.audit.auditor().event(&change(jane(), "/rest/a")).await.unwrap();
    bench.clock.advance(100_000 * HOUR);
    assert_eq!(bench.library.audit.prune().await.unwrap(), None);
    assert_eq!(events(&bench).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_erased_and_what_was_done_stays() {
    let bench = bench().await;
    let auditor = bench.library.audit.auditor();
    let requester = |name: &str| Requester {
        name: Some(name.to_owned()),
        address: Some("192.0.2.7".parse().unwrap()),
        request_id: "r".to_owned(),
    };
    for name in ["jane", "joan"] {
        auditor.page(&requester(name), &id("t.a"), Seq::new(1).unwrap()).await.unwrap();
    }
    auditor.event(&change(jane(), "/rest/a")).await.unwrap();
    auditor.event(&change(Actor { token: Some("joan".to_owned()), ..jane() }, "/admin/tokens/jane")).await.unwrap();
    bench.clock.advance(HOUR);
    let whom = Whom::Token("jane".to_owned());
    // It is interrupted, and repeated.
    bench.faults.next(Kind::Run, Fault::UnknownApplied);
    bench.library.audit.erase(&whom, FOREVER, false).await.unwrap_err();
    bench.library.audit.erase(&whom, FOREVER, false).await.unwrap();
    assert_eq!(bench.library.audit.erase(&whom, FOREVER, false).await.unwrap().records, 0);
    let found = entries(&bench).await;
    let shown = format!("{found:?}");
    assert_eq!((found.len(), shown.contains("jane")), (6, false), "{shown}");
    assert!(shown.contains("/admin/tokens/(erased)") && shown.contains("joan"), "{shown}");

    let from = Whom::Address("192.0.2.7".parse().unwrap());
    let erased = bench.library.audit.erase(&from, FOREVER, false).await.unwrap();
    assert_eq!(erased.records, 3, "what joan did");
    let shown = format!("{:?}", entries(&bench).await);
    assert!(!shown.contains("192.0.2.7") && shown.contains("joan"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_records_before_a_time_are_erased() {
    let bench = bench().await;
    for target in ["/rest/early", "/rest/late"] {
        bench.library.audit.auditor().event(&change(jane(), target)).await.unwrap();
        bench.clock.advance(HOUR);
    }
    let before = UnixMillis(crate::support::START.0 + 1_800_000);
    let erased = bench.library.audit.erase(&Whom::Token("jane".to_owned()), before, false).await.unwrap();
    assert_eq!((erased.records, erased.until), (1, before));
    let kept: Vec<_> = events(&bench).await.into_iter().filter(|event| event.actor == jane()).collect();
    assert_eq!(kept, [change(jane(), "/rest/late")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_the_machine_is_erased_and_records_that_cannot_be_read_if_that_is_wanted() {
    let bench = bench().await;
    let auditor = bench.library.audit.auditor();
    let of_jane = Actor { user: Some("jane".to_owned()), agent: Some("a program".to_owned()), ..Actor::default() };
    auditor.event(&change(of_jane, "/rest/a")).await.unwrap();
    auditor.event(&change(Actor { user: Some("joan".to_owned()), ..Actor::default() }, "/rest/b")).await.unwrap();
    let hour = u32::try_from(bench.clock.now().0 / 3_600_000).unwrap().to_be_bytes();
    let id = RevisionClock::new(bench.clock.clone(), &store::SystemRandom).mint();
    let put = Step::Put {
        table: Table::Audit,
        partition: [b"h/".as_slice(), &hour, b"a writer", &[0; 4]].concat().into(),
        rows: vec![NewRow::new(id.0.to_vec(), "no record, but the name jane")],
    };
    let call = Call::new(Class::Audit, Deadline::within(Duration::from_secs(60)));
    assert!(bench.faults.run(call, vec![put]).await.unwrap().is_applied());
    bench.clock.advance(HOUR);
    let whom = Whom::User("jane".to_owned());
    let erase = async |with_damaged| {
        let erased = bench.library.audit.erase(&whom, FOREVER, with_damaged).await.unwrap();
        (erased.records, erased.damaged)
    };
    assert_eq!(erase(false).await, (1, 1));
    let shown = format!("{:?}", entries(&bench).await);
    assert!(!shown.contains("jane") && !shown.contains("a program") && shown.contains("joan"), "{shown}");
    assert_eq!([erase(true).await, erase(true).await], [(0, 1), (0, 0)]);
    let mut targets: Vec<_> = events(&bench).await.into_iter().map(|event| event.target).collect();
    targets.sort();
    assert_eq!(targets, ["(erased)", "/rest/a", "/rest/b"], "that there was a record stays");
}

/// After this time a follower reads what was written, also where several servers write.
const SETTLED: Duration = Duration::from_secs(1_200);

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_reads_each_record_once_also_those_of_the_next_hour() {
    let bench = bench().await;
    let audit = &bench.library.audit;
    let record = async |target| audit.auditor().event(&change(jane(), target)).await.unwrap();
    let read = async |from, until| {
        let entries: Vec<_> = audit.read_new(from, until).try_collect().await.unwrap();
        entries.len()
    };
    record("/rest/a").await;
    assert_eq!(read(UnixMillis(0), audit.written_until().await.unwrap()).await, 0, "it is behind");
    bench.clock.advance(SETTLED);
    let first = audit.written_until().await.unwrap();
    record("/rest/b").await;
    bench.clock.advance(HOUR);
    record("/rest/c").await;
    bench.clock.advance(SETTLED);
    let second = audit.written_until().await.unwrap();
    let from = UnixMillis(first.0 - 3_600_000);
    assert_eq!([read(from, first).await, read(first, second).await, read(second, second).await], [1, 2, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_servers_share_a_store_a_follower_and_an_erasure_leave_what_others_may_still_write() {
    let second = Duration::from_secs(1);
    let (clock_skew_max, audit_max_lag, call_timeout) = (60 * second, 20 * second, 5 * second);
    let options = LibraryOptions { clock_skew_max, audit_max_lag, call_timeout, ..LibraryOptions::default() };
    let faulty = faulty_with(options).await;
    let until = faulty.library.audit.written_until().await.unwrap();
    assert_eq!(faulty.clock.now().since(until), clock_skew_max + audit_max_lag + call_timeout + second);
    let erased = faulty.library.audit.erase(&Whom::User("jane".to_owned()), FOREVER, false).await.unwrap();
    assert_eq!(erased.until, until);
}
