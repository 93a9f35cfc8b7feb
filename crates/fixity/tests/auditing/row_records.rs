//! A pass reads the records too, and names those that are damaged.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fixity::FixityOptions;
use records::{Draft, Record, Records};
use store::faults::{Damage, Faults, Harm};
use store::{Call, Deadline, RowPage, Store, StoreError, StoreResult, Table, Wrapper};
use store_embedded::EmbeddedOptions;

use crate::support::{EVERY, Fixture, all_steps, fixture, fixture_alone, quick};

async fn put(fixture: &Fixture, count: usize) {
    let records = Records::new(fixture.store.clone(), fixture.clock.clone()).synced_within(EVERY);
    for number in 0..count {
        let id = Bytes::from(format!("n{number:03}"));
        let put = |drafts: &mut [Draft]| drafts[0].put(Record::text(Bytes::from_static(b"a text")));
        records.change(Deadline::within(Duration::from_secs(30)), &[id], put).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_read_once_although_the_server_restarts_meanwhile() {
    let fixture = fixture_alone(EmbeddedOptions::default()).await;
    put(&fixture, 130).await;
    let one_by_one = FixityOptions { taken_at_once: 1, ..quick() };
    let server = fixture.server(one_by_one).await;
    while server.records_read_here() == 0 {
        server.step().await.unwrap();
    }
    let first = server.records_read_here();
    assert!(first < 130, "a step reads some of them: {first}");
    let restarted = fixture.server(one_by_one).await;
    all_steps(&restarted).await;
    assert_eq!(first + restarted.records_read_here(), 130);
    for pass in 1..=2 {
        // The second time it is a report on an earlier pass.
        let (report, findings) = restarted.report(1).await.unwrap();
        assert_eq!((report.records, report.found.resources, findings.len()), (130, 1, 0), "pass {pass}");
        fixture.clock.advance(EVERY);
        all_steps(&restarted).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_record_is_named_and_hides_no_others() {
    for is_shared in [false, true] {
        let fixture = if is_shared { fixture().await } else { fixture_alone(EmbeddedOptions::default()).await };
        put(&fixture, 10).await;
        let faults = Arc::new(Faults::new(fixture.store.clone()));
        let (table, partition, harm) = (Table::Records, Bytes::from_static(b"n004"), Harm::FlippedBit);
        faults.damage(Damage { table, partition, sort: None, harm, strong_reads_are_whole: false });
        let fixture = Fixture { store: faults, ..fixture };
        let server = fixture.server(quick()).await;
        all_steps(&server).await;
        let (report, findings) = server.report(1).await.unwrap();
        assert_eq!((report.records, report.found.damaged, report.found.failed), (10, 1, 0));
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!((finding.kind, &*finding.name, finding.is_damaged), ("record", "n004", true));
    }
}

/// A store whose list of records has a broken block: in front of the first record, or behind it.
struct Broken {
    store: Arc<dyn Store>,
    is_first: bool,
}

impl Wrapper for Broken {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn walk_rows(
        &self,
        call: Call,
        table: Table,
        from: Option<Bytes>,
        max: usize,
        max_bytes: usize,
    ) -> StoreResult<RowPage> {
        if from.is_some() || self.is_first {
            return Err(StoreError::Corrupt { table, detail: "a broken block".to_owned() });
        }
        self.store.walk_rows(call, table, from, max, max_bytes).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_list_of_records_ends_them_and_the_pass_did_not_check_everything() {
    let (list, behind) = (("records", "the list of records", true), "the records behind it");
    let of_first = ("record", "n000", true);
    for (is_first, is_damaged, read, found) in [
        (false, false, 1, vec![("record", "n000", false), list]),
        (true, false, 0, vec![("records", "the list of records", false), list]),
        // A record and what is behind it are two findings.
        (false, true, 1, vec![("record", "n000", false), of_first, list]),
    ] {
        let fixture = fixture_alone(EmbeddedOptions::default()).await;
        put(&fixture, 3).await;
        let faults = Arc::new(Faults::new(fixture.store.clone()));
        if is_damaged {
            let (table, partition, harm) = (Table::Records, Bytes::from_static(b"n000"), Harm::FlippedBit);
            faults.damage(Damage { table, partition, sort: None, harm, strong_reads_are_whole: false });
        }
        let fixture = Fixture { store: Arc::new(Broken { store: faults, is_first }), ..fixture };
        let server = fixture.server(FixityOptions { taken_at_once: 1, ..quick() }).await;
        all_steps(&server).await;
        let (report, findings) = server.report(1).await.unwrap();
        let damaged = 1 + u64::from(is_damaged);
        assert_eq!((report.records, report.found.damaged, report.found.failed), (read, damaged, 1), "{found:?}");
        let mut named: Vec<_> = findings.iter().map(|it| (it.kind, &*it.name, it.is_damaged)).collect();
        named.sort_unstable();
        assert_eq!(named, found);
        let of_rest: Vec<_> = findings.iter().filter(|it| !it.is_damaged).map(|it| &*it.parts[0].0).collect();
        assert_eq!(of_rest, [behind]);
        assert_eq!(server.status().await.unwrap().complete, None);
    }
}
