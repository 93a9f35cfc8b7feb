//! Single pages are in the audit before they leave, and not each of them waits for the disk.

use std::collections::BTreeSet;
use std::time::Duration;

use audit::{AuditAction, AuditRecord, AuditedVolume, Requester};
use hathi::{Seq, VolumeId};
use heads::ObjectsResult;
use store::UnixMillis;

use super::bench::{Bench, bench, somebody, until};
use crate::support::id;

/// Longer than the life of a window.
const LATER: Duration = Duration::from_secs(1);

async fn read(bench: &Bench, volume: &VolumeId, pages: impl IntoIterator<Item = u32>) {
    for seq in pages {
        bench.library.audit.auditor().page(&somebody(), volume, Seq::new(seq).unwrap()).await.unwrap();
    }
}

/// The accessed pages of a volume, record by record.
fn accessed(records: &[AuditRecord], volume: &VolumeId) -> Vec<Option<Vec<u32>>> {
    let accessed = records.iter().filter(|record| record.action == AuditAction::Accessed);
    let of_volume = accessed.flat_map(|record| &record.volumes).filter(|audited| audited.volume == *volume);
    of_volume.map(|audited| audited.pages.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_on_leaves_word_of_all_of_the_volume_ahead_and_of_just_those_pages_in_the_end() {
    let bench = bench().await;
    let a = id("t.a");
    read(&bench, &a, 1..=200).await;
    assert_eq!(accessed(&bench.audit().await, &a), [Some(vec![1]), None], "a crash now would report too much");
    bench.clock.advance(LATER);
    let exact = [Some(vec![1]), Some((2..=200).collect())];
    until(|| async { accessed(&bench.audit().await, &a) == exact }).await;
    let records = bench.audit().await;
    let asked = records.iter().filter(|record| record.action == AuditAction::PagesRequested);
    let asked: Vec<_> = asked.flat_map(|record| record.volumes.clone()).collect();
    assert_eq!(asked, [AuditedVolume { volume: a.clone(), pages: exact[1].clone() }]);
    let top = bench.library.audit.top(UnixMillis(0), UnixMillis(u64::MAX), 1).await.unwrap();
    assert_eq!((top.requests, top.volumes), (200, vec![(a, 200)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_an_open_window_are_not_written_one_by_one() {
    let bench = bench().await;
    read(&bench, &id("t.a"), 1..=2).await;
    let before = bench.faults.steps_seen();
    read(&bench, &id("t.a"), 3..=1_000).await;
    assert_eq!(bench.faults.steps_seen(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_volumes_have_windows_of_their_own() {
    let bench = bench().await;
    let (a, b) = (id("t.a"), id("t.b"));
    let other = Requester { name: None, address: Some([10, 0, 0, 1].into()), request_id: String::new() };
    for seq in 1..=3 {
        read(&bench, &a, [seq]).await;
        read(&bench, &b, [10 * seq]).await;
        bench.library.audit.auditor().page(&other, &a, Seq::new(100 * seq).unwrap()).await.unwrap();
    }
    bench.library.audit.auditor().finish().await;
    let records = bench.audit().await;
    let (own, others): (Vec<_>, Vec<_>) = records.into_iter().partition(|record| record.requester == somebody());
    assert_eq!(accessed(&own, &a), [Some(vec![1]), Some(vec![2, 3])]);
    assert_eq!(accessed(&own, &b), [Some(vec![10]), Some(vec![20, 30])]);
    assert_eq!(accessed(&others, &a), [Some(vec![100]), Some(vec![200, 300])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_leaves_before_its_window_is_acknowledged() {
    let bench = bench().await;
    let a = id("t.a");
    read(&bench, &a, [1]).await;
    bench.crash().await;
    let reading = (2..=20).map(|seq| {
        let (library, a) = (bench.library.clone(), a.clone());
        tokio::spawn(async move { library.audit.auditor().page(&somebody(), &a, Seq::new(seq).unwrap()).await })
    });
    let reading: Vec<tokio::task::JoinHandle<ObjectsResult<()>>> = reading.collect();
    until(|| async {
        bench.clock.advance(Duration::from_millis(1));
        bench.library.audit.auditor().lag() > Duration::ZERO
    })
    .await;
    assert!(reading.iter().all(|page| !page.is_finished()));
    bench.faults.revive();
    for page in reading {
        page.await.unwrap().unwrap();
    }
    bench.library.audit.auditor().finish().await;
    let reported = accessed(&bench.audit().await, &a).into_iter().flat_map(Option::unwrap);
    assert_eq!(reported.collect::<BTreeSet<u32>>(), (1..=20).collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_in_use_is_renewed_and_each_page_is_told_once() {
    let bench = bench().await;
    let a = id("t.a");
    read(&bench, &a, 1..=10).await;
    bench.clock.advance(Duration::from_millis(60));
    // The new window's record can be read before the window takes pages. The old one is closed after.
    let renewed = [Some(vec![1]), Some((2..=10).collect()), None];
    until(|| async { accessed(&bench.audit().await, &a) == renewed }).await;
    let before = bench.faults.steps_seen();
    read(&bench, &a, 11..=20).await;
    assert_eq!(bench.faults.steps_seen(), before, "nobody waits for the new window");
    bench.clock.advance(LATER);
    let exact = [Some(vec![1]), Some((2..=10).collect()), Some((11..=20).collect())];
    until(|| async { accessed(&bench.audit().await, &a) == exact }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_made_exact_goes_on_saying_too_much() {
    let bench = bench().await;
    let a = id("t.a");
    read(&bench, &a, 1..=5).await;
    bench.faults.set_full(true);
    bench.library.audit.auditor().finish().await;
    bench.faults.set_full(false);
    assert_eq!(accessed(&bench.audit().await, &a), [Some(vec![1]), None]);
}
