//! Each partition is bounded, or it is known with what it grows. All stored rows have a rule, and
//! the documentation has the numbers.

use std::collections::BTreeSet;
use std::time::Duration;

use audit::Requester;
use bytes::Bytes;
use heads::path::PATH_BYTES_MAX;
use heads::queue::SHARE_BYTES;
use heads::sampling::ROW_BYTES;
use heads::{LibraryOptions, RevisionId, keys};
use library::bounds::{Largest, PARTITION_BYTES_MAX, Partition, SERVERS};
use repository::{Membership, NewKind, NewResource, Update};
use search::keys::List;
use store::{FormatLevel, Limits, Table};
use store_cassandra::{Replication, SchemaPlan};
use volumes::{BulkRequest, SelectionTerms};

use super::tree::{container, create, path};
use super::work::{all_passes, with_work};
use crate::support::{Faulty, id};

/// The number as in `docs/scale.md`.
fn number(partition: Partition) -> String {
    let largest = partition.largest(&LibraryOptions::default());
    match largest {
        Largest::Bytes(bytes) => format!("{:.2} MB", bytes as f64 / 1e6),
        Largest::OfServer(bytes) => format!("{:.2} MB of each server", bytes as f64 / 1e6),
        Largest::Each(_, what) => {
            let digits = largest.fits().unwrap().to_string();
            let groups = digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap());
            format!("100 MB at {} {what}", groups.collect::<Vec<_>>().join(","))
        }
    }
}

#[test]
fn every_partition_is_bounded_by_its_rule_or_by_something_of_which_there_can_be_many() {
    // However many pages and generations they have.
    for of_volumes in [Partition::Volume, Partition::Directory, Partition::Packs, Partition::Damage] {
        assert_eq!(of_volumes.largest(&LibraryOptions::default()).fits(), None, "{of_volumes:?}");
    }
    let mut growing = Vec::new();
    for partition in Partition::ALL {
        match partition.largest(&LibraryOptions::default()) {
            Largest::Bytes(bytes) => assert!(bytes < PARTITION_BYTES_MAX, "{partition:?}: {bytes}"),
            Largest::OfServer(bytes) => assert!(SERVERS * bytes < PARTITION_BYTES_MAX, "{partition:?}: {bytes}"),
            // Rows of a data folder, which reads them one by one.
            Largest::Each(bytes, what) if partition == Partition::ContentSums => {
                assert!(PARTITION_BYTES_MAX as f64 / bytes > 1_000.0, "{what}");
            }
            Largest::Each(bytes, what) => {
                assert!(PARTITION_BYTES_MAX as f64 / bytes > 500_000.0, "{partition:?}: {what}");
                growing.push(partition);
            }
        }
    }
    let of_these = [Partition::Backlinks, Partition::PastIndex, Partition::Feed];
    assert_eq!(growing, of_these, "docs/scale.md names those that grow");
    let links = Partition::Backlinks.largest(&LibraryOptions::default()).fits().unwrap();
    assert!(links > 100_000_000, "{links} links to one resource");
}

#[test]
fn each_table_of_a_keyspace_has_rules_and_each_rule_is_of_a_table() {
    let plan = SchemaPlan::new("books", &Replication::one("dc1", 1), FormatLevel::NEWEST);
    // A table whose primary key is one column has a row for each partition.
    let of_ranges = plan.statements.iter().filter(|statement| statement.contains("PRIMARY KEY ("));
    let made = of_ranges.filter_map(|statement| statement.strip_prefix("CREATE TABLE IF NOT EXISTS books."));
    let made: BTreeSet<&str> = made.filter_map(|rest| rest.split(' ').next()).collect();
    let with_rules: BTreeSet<&str> = Partition::ALL.iter().map(|partition| partition.table()).collect();
    assert_eq!(made, with_rules);
    assert!(Table::ALL.iter().all(|table| made.contains(table.name())));
}

#[test]
fn a_record_of_work_is_small_beside_the_share_of_a_server_and_a_past_index_beside_what_it_lists() {
    // No key has more than a path and two revisions.
    let largest = PATH_BYTES_MAX + 2 * size_of::<RevisionId>() + Limits::default().value_bytes + ROW_BYTES;
    assert!(80 * largest as u64 <= SHARE_BYTES, "{largest}");
    // A shard is rewritten only once so many of its rows are those of past members.
    let shards = Partition::PastIndex.largest(&LibraryOptions::default()).fits().unwrap();
    let rows = shards * LibraryOptions::default().rewrite_dead_rows_min;
    assert!(rows > 1_000_000_000, "{rows} rows of past members");
}

#[test]
fn the_documentation_has_the_numbers_that_follow_from_the_rules() {
    let scale = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scale.md")).unwrap();
    let rows: Vec<_> =
        Partition::ALL.iter().map(|partition| format!("| `{partition:?}` | {} |", number(*partition))).collect();
    let missing: Vec<_> = rows.iter().filter(|row| !scale.contains(*row)).collect();
    assert!(missing.is_empty(), "docs/scale.md lacks {missing:#?}");
}

/// The kinds of partitions in a store.
fn kinds(faulty: &Faulty) -> BTreeSet<Partition> {
    let mut kinds = BTreeSet::new();
    for table in Table::ALL {
        for partition in faulty.store.partitions(table) {
            for sort in faulty.store.sorts(table, &partition) {
                let kind = Partition::of(table, &partition, &sort);
                let (at, sort) = (partition.escape_ascii(), sort.escape_ascii());
                let kind = kind.unwrap_or_else(|| panic!("no rule for the rows of {table} at {at}, {sort}"));
                assert_eq!(kind.table(), table.name(), "{kind:?}");
                kinds.insert(kind);
            }
        }
    }
    kinds
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_library_stores_has_a_rule() {
    let faulty = with_work().await;
    let library = &faulty.library;
    let somebody = Requester { name: Some("somebody".to_owned()), address: None, request_id: "r1".to_owned() };
    // Many bytes, a container that gives members to another resource, a reference.
    let many = vec![1; library.options().small_content_bytes + 1];
    let source = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(many))]);
    let uploaded = library.repository.upload(&path("bytes"), source, &[]).await.unwrap();
    let bytes = NewResource { kind: NewKind::Binary(uploaded), ..container() };
    library.repository.create(&path("bytes"), &bytes).await.unwrap();
    create(library, "said", "of another").await.unwrap();
    let resource = library.repository.resource(&path("said")).await.unwrap();
    let update = Update::Description {
        description: Bytes::from_static(b"other"),
        membership: Membership::Basic,
        members_for: None,
        refers_to: vec![path("bytes")],
    };
    library.repository.update(&resource, &update).await.unwrap();
    let giving = NewResource { members_for: Some(path("bytes")), ..container() };
    library.repository.create(&path("giving"), &giving).await.unwrap();
    // A transaction, which stages a description and few bytes.
    let (tx, _) = library.repository.begin_transaction("somebody").await.unwrap();
    let inside = library.repository.in_transaction(tx);
    let few = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"few"))]);
    let uploaded = inside.upload(&path("few"), few, &[]).await.unwrap();
    inside.create(&path("few"), &NewResource { kind: NewKind::Binary(uploaded), ..container() }).await.unwrap();
    // A selection, and its audit.
    let wanted = BulkRequest::volumes([id("t.a")]);
    library.volumes.select(&wanted, &somebody, SelectionTerms::default()).await.unwrap();
    library.audit.auditor().requested(&somebody, None, []).await.unwrap();
    let mut seen = kinds(&faulty);
    // Notes of the passes, and damage marks.
    for _ in 0..6 {
        all_passes(library).await;
        seen.extend(kinds(&faulty));
        faulty.clock.advance(library.options().grace + Duration::from_secs(1));
    }
    let version = keys::description_prefix();
    faulty.store.tamper(|_, sort, value| Some(if sort.starts_with(&version) { Bytes::new() } else { value }));
    let resource = library.repository.resource(&path("said")).await.unwrap();
    library.repository.description(&resource).await.unwrap_err();
    seen.extend(kinds(&faulty));
    // Rows that are stored only now and then.
    let (record, path) = (keys::container_job(RevisionId::ZERO, RevisionId::ZERO), "r/a");
    for (table, partition, sort) in [
        (Table::Objects, keys::received(b"r/a"), keys::received_list()),
        (Table::Work, keys::low_water_partition(), keys::low_water("collecting")),
        (Table::Work, keys::emptied_partition(&record), keys::emptied(1)),
        (Table::Work, keys::feed_ends(), keys::feed_newest()),
        (Table::Work, keys::fixity_state(), keys::fixity_pass()),
        (Table::Work, keys::fixity_findings(1), Bytes::from_static(b"r/a")),
        (Table::Work, keys::transaction(tx), keys::made_container(&heads::ResourcePath::root(), RevisionId::ZERO)),
        (Table::Work, keys::webhooks(), Bytes::from_static(b"index")),
        (Table::Work, search::keys::state_partition(), search::keys::state()),
        (Table::Work, search::keys::partition(1, List::Documents, 0), search::keys::document(path, RevisionId::ZERO)),
        (Table::Children, keys::past_index_partition(path, RevisionId::ZERO), keys::past_index(1, 2)),
        (Table::Tokens, Bytes::from_static(b"tokens"), Bytes::from_static(b"importer")),
        // The engines' own, and those of the crate `records`.
        (Table::Contents, Bytes::from_static(&[7; 16]), Bytes::from_static(b"header")),
        (Table::Contents, Bytes::from_static(&[7; 16]), Bytes::from_static(b"sums\0\0\0\x01")),
        (Table::Records, Bytes::from_static(b"user:1"), Bytes::new()),
        (Table::Records, Bytes::from_static(b"user:1"), Bytes::from_static(b"acity")),
    ] {
        seen.extend(Partition::of(table, &partition, &sort));
    }
    assert_eq!(
        Partition::of(Table::Objects, &keys::log_page(b"r/a", 1), &keys::head()),
        None,
        "no row is there by chance"
    );
    // Only one engine knows the table of chunks. It compares its numbers with those of the rule.
    let unseen: Vec<_> = Partition::ALL.into_iter().filter(|kind| !seen.contains(kind)).collect();
    assert_eq!(unseen, [Partition::ContentChunks], "nothing shows the rule of the others");
}
