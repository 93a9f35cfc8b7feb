//! The audit is written before bytes leave; otherwise nothing leaves.

use std::time::Duration;

use audit::{AuditAction, AuditEntry, AuditedVolume, Requester};
use futures::{StreamExt, TryStreamExt};
use hathi::Seq;
use heads::{LibraryOptions, ObjectsError, RevisionClock};
use library::Library;
use pack::{Layout, Level};
use store::faults::{Fault, Kind};
use store::{Call, Class, Clock, Deadline, NewRow, Scan, Step, Store, Table, UnixMillis};

use super::bench::{bench, pages, request, somebody, until, whole_volumes};
use crate::support::{START, id};

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test(flavor = "multi_thread")]
async fn a_request_tells_what_was_asked_for_and_what_was_sent() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one", "two"]).await;
    let b = bench.add("t.b", &["three"]).await;
    let mut wanted = whole_volumes(&[b.clone(), id("t.none")]);
    wanted.insert(0, pages(&a, &[2]));
    let plan = bench.plan(&request(wanted, Layout::Pages, Level::Frames, false)).await;
    bench.whole(&plan).await;
    let records = bench.audit().await;
    let some = |volume, pages| AuditedVolume { volume, pages };
    assert_eq!(records[0].action, AuditAction::Requested);
    assert_eq!(records[0].volumes, [some(a.clone(), Some(vec![2])), some(b.clone(), None), some(id("t.none"), None)]);
    assert!(records.iter().all(|record| record.requester == somebody() && record.plan == plan.etag));
    let accessed: Vec<_> = records[1..].iter().flat_map(|record| record.volumes.clone()).collect();
    assert!(records[1..].iter().all(|record| record.action == AuditAction::Accessed));
    assert_eq!(accessed, [some(a, Some(vec![2])), some(b, None)], "each volume once");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_byte_of_a_volume_leaves_before_its_access_is_acknowledged() {
    let bench = bench().await;
    let ids = bench.add_samples(1_000).await;
    let plan = bench.plan(&request(whole_volumes(&ids), Layout::Volumes, Level::Frames, false)).await;
    let whole = bench.whole(&plan).await;
    let begins: Vec<u64> = {
        let mut zip = zip::ZipArchive::new(std::io::Cursor::new(&whole[..])).unwrap();
        (0..zip.len()).map(|index| zip.by_index(index).unwrap().header_start()).collect()
    };
    let earlier = bench.accessed().await.len();
    let mut stream = bench.library.volumes.stream(&plan, pack::WHOLE, somebody()).await.unwrap();
    let mut sent = 0;
    while let Some(piece) = stream.next().await {
        sent += piece.unwrap().len() as u64;
        let begun = begins.iter().filter(|begin| **begin < sent).count();
        assert!(bench.accessed().await.len() - earlier >= begun, "{begun} volumes were begun after {sent} bytes");
    }
    assert_eq!(bench.accessed().await[earlier..], ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn service_is_refused_while_the_audit_lags_and_comes_back_with_it() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one"]).await;
    let plan = bench.plan(&request(whole_volumes(std::slice::from_ref(&a)), Layout::Pages, Level::Frames, false)).await;
    bench.crash().await;
    let library = bench.library.clone();
    let volume = a.clone();
    let waiting =
        tokio::spawn(async move { library.audit.auditor().page(&somebody(), &volume, Seq::new(1).unwrap()).await });
    bench.clock.advance(Duration::from_secs(1));
    until(|| async {
        bench.clock.advance(Duration::from_secs(1));
        bench.library.audit.auditor().lag() > bench.library.options().audit_max_lag
    })
    .await;
    let refused = bench.library.volumes.stream(&plan, pack::WHOLE, somebody()).await.unwrap_err();
    assert!(matches!(refused, ObjectsError::Overloaded(_)), "{refused}");
    let refused = bench.library.audit.auditor().page(&somebody(), &a, Seq::new(1).unwrap()).await.unwrap_err();
    assert!(matches!(refused, ObjectsError::Overloaded(_)), "{refused}");
    assert_eq!(bench.library.volumes.streaming(), 0);

    bench.faults.revive();
    waiting.await.unwrap().unwrap();
    assert_eq!(bench.library.audit.auditor().lag(), Duration::ZERO);
    bench.whole(&plan).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_service_rather_than_leaving_it_unaudited() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one"]).await;
    let plan = bench.plan(&request(whole_volumes(&[a]), Layout::Pages, Level::Frames, false)).await;
    bench.faults.set_full(true);
    let refused = bench.library.volumes.stream(&plan, pack::WHOLE, somebody()).await.unwrap_err();
    assert!(matches!(refused, ObjectsError::Store(store::StoreError::Full(_))), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_wait_are_written_together() {
    const READERS: usize = 300;
    let bench = bench().await;
    let before = bench.faults.steps_seen();
    bench.faults.next(Kind::Run, Fault::Delay(Duration::from_millis(200)));
    let readers = (0..READERS).map(|n| {
        let (library, volume) = (bench.library.clone(), id(&format!("t.{n}")));
        tokio::spawn(async move { library.audit.auditor().page(&somebody(), &volume, Seq::new(1).unwrap()).await })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.unwrap().unwrap();
    }
    let writes = bench.faults.steps_seen() - before;
    assert!(writes < READERS / 3, "{writes} writes for {READERS} pages");
    assert_eq!(bench.audit().await.len(), 2 * READERS, "asked for and accessed, each page");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_unknown_outcome_is_repeated_and_told_once() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one"]).await;
    for fault in [Fault::UnknownNotApplied, Fault::Unavailable, Fault::UnknownApplied] {
        bench.faults.next(Kind::Run, fault);
    }
    bench.library.audit.auditor().page(&somebody(), &a, Seq::new(1).unwrap()).await.unwrap();
    assert_eq!(bench.audit().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_read_back_by_time_across_hours() {
    let bench = bench().await;
    let start = START.plus(Duration::ZERO);
    for n in 1..=5 {
        bench.library.audit.auditor().page(&somebody(), &id("t.a"), Seq::new(n).unwrap()).await.unwrap();
        bench.clock.advance(HOUR);
    }
    let read = async |from: UnixMillis, to: UnixMillis| -> Vec<u32> {
        let entries = bench.library.audit.read(from, to);
        let records: Vec<_> = entries.map_ok(|entry| entry.record().unwrap()).try_collect().await.unwrap();
        let accessed = records.into_iter().filter(|record| record.action == AuditAction::Accessed);
        accessed.flat_map(|record| record.volumes[0].pages.clone().unwrap()).collect()
    };
    assert_eq!(read(UnixMillis(0), UnixMillis(u64::MAX)).await, [1, 2, 3, 4, 5]);
    assert_eq!(read(start.plus(HOUR), start.plus(3 * HOUR)).await, [2, 3]);
    assert_eq!(read(start.plus(5 * HOUR), UnixMillis(u64::MAX)).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_hour_of_two_servers_is_spread_over_partitions_that_stay_small_and_reads_back_in_order() {
    let bench = bench().await;
    let other = Library::open(bench.faults.clone(), bench.clock.clone(), LibraryOptions::default()).await.unwrap();
    let volume = |n| AuditedVolume { volume: id(&format!("t.{n:0>15}")), pages: None };
    for _ in 0..36 {
        bench.library.audit.auditor().requested(&somebody(), None, (0..40_000).map(volume)).await.unwrap();
        other.audit.auditor().requested(&somebody(), None, [volume(0)]).await.unwrap();
        bench.clock.advance(Duration::from_secs(1));
    }
    let call = Call::new(Class::Audit, Deadline::within(Duration::from_secs(60)));
    let partitions = bench.faults.walk(call, Table::Audit, None, 100).await.unwrap().partitions;
    assert!(partitions.len() >= 3, "{} partitions", partitions.len());
    for partition in &partitions {
        let (mut bytes, mut scan) = (0, Some(Scan::prefix(bytes::Bytes::new(), 4 << 20)));
        while let Some(range) = scan {
            let page = bench.faults.scan(call, Table::Audit, partition, range.clone()).await.unwrap();
            bytes += page.rows.iter().map(|row| row.sort.len() + row.value.len()).sum::<usize>();
            scan = range.resumed(page.next);
        }
        assert!(bytes <= 32 << 20, "{bytes} bytes");
    }
    let records = bench.audit().await;
    assert!(records.is_sorted_by_key(|record| record.at));
    assert_eq!(records.iter().filter(|record| record.part == 0).count(), 2 * 36);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_too_long_for_a_record_goes_on_in_the_next() {
    let bench = bench().await;
    let long: Vec<u32> = (1..=100_000).collect();
    let mut volumes = vec![AuditedVolume { volume: id("t.long"), pages: Some(long.clone()) }];
    volumes.extend((0..5_000).map(|n| AuditedVolume { volume: id(&format!("t.{n}")), pages: None }));
    bench.library.audit.auditor().requested(&somebody(), None, volumes).await.unwrap();
    let records = bench.audit().await;
    let parts: Vec<u32> = records.iter().map(|record| record.part).collect();
    assert_eq!(parts, (0..u32::try_from(records.len()).unwrap()).collect::<Vec<_>>());
    let reported: Vec<_> = records.into_iter().flat_map(|record| record.volumes).collect();
    let pages: Vec<u32> = reported.iter().filter_map(|volume| volume.pages.clone()).flatten().collect();
    assert_eq!(pages, long);
    assert_eq!(reported.iter().filter(|volume| volume.pages.is_none()).count(), 5_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_read_is_told_and_those_behind_it_come_all_the_same() {
    let bench = bench().await;
    let page = async |volume| {
        bench.library.audit.auditor().page(&somebody(), &id(volume), Seq::new(1).unwrap()).await.unwrap();
        bench.clock.advance(Duration::from_secs(1));
    };
    page("t.a").await;
    let written = bench.clock.now();
    let hour = u32::try_from(written.0 / 3_600_000).unwrap().to_be_bytes();
    let row = NewRow::new(RevisionClock::new(bench.clock.clone(), &store::SystemRandom).mint().0.to_vec(), "no record");
    let put = Step::Put {
        table: Table::Audit,
        partition: [b"h/".as_slice(), &hour, b"a writer", &[0; 4]].concat().into(),
        rows: vec![row],
    };
    let call = Call::new(Class::Audit, Deadline::within(Duration::from_secs(60)));
    assert!(bench.faults.run(call, vec![put]).await.unwrap().is_applied());
    bench.clock.advance(Duration::from_secs(1));
    page("t.b").await;
    let reported: Vec<_> = bench.library.audit.read(UnixMillis(0), UnixMillis(u64::MAX)).try_collect().await.unwrap();
    let damaged = reported.iter().map(|entry| match entry {
        AuditEntry::Record(_) | AuditEntry::Event(_) => None,
        AuditEntry::Damaged(damaged) => Some(damaged.at),
    });
    assert_eq!(damaged.collect::<Vec<_>>(), [None, None, Some(written), None, None]);
    let top = bench.library.audit.top(UnixMillis(0), UnixMillis(u64::MAX), 9).await.unwrap();
    assert_eq!((top.requests, top.damaged), (2, 1));
    assert_eq!(top.volumes, [(id("t.a"), 1), (id("t.b"), 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_top_lists_count_requests() {
    let bench = bench().await;
    let other = Requester { name: None, address: Some([10, 0, 0, 1].into()), request_id: String::new() };
    let auditor = bench.library.audit.auditor();
    for (who, volume) in [(&somebody(), "t.a"), (&other, "t.b"), (&somebody(), "t.b"), (&somebody(), "t.c")] {
        auditor.page(who, &id(volume), Seq::new(1).unwrap()).await.unwrap();
    }
    let top = bench.library.audit.top(UnixMillis(0), UnixMillis(u64::MAX), 2).await.unwrap();
    assert_eq!((top.requests, top.damaged), (4, 0));
    assert_eq!(top.volumes, [(id("t.b"), 2), (id("t.a"), 1)]);
    assert_eq!(top.requesters, [("token somebody".to_owned(), 3), ("address 10.0.0.1".to_owned(), 1)]);
}
