//! Copying from one store into another: the promises of [`crate::copying`], for any two engines.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use super::{Shortcuts, Subject, bytes, call, guard, odd_keys, row};
use crate::copying::{Copier, CopyError, Followed, Pass, Patience, followed, unfinished};
use crate::faults::{Damage, Faults, Harm};
use crate::read_only::ReadOnlyGate;
use crate::{
    Clock, ContentId, Expect, Guard, NewRow, Removal, Row, Scan, Stamp, Step, Store, StoreError, Table, read_only,
};

const ORIGIN: &str = "the source";

fn put_in(table: Table, partition: impl AsRef<[u8]>, rows: Vec<NewRow>) -> Step {
    Step::Put { table, partition: bytes(partition), rows }
}

fn remove_in(table: Table, partition: &str, sort: &str) -> Step {
    Step::Remove { table, partition: bytes(partition), rows: Removal::Rows(vec![bytes(sort)]) }
}

fn head(partition: &str, expect: Expect, guard: &Guard, value: &str) -> Step {
    Step::CompareAndWrite {
        table: Table::Objects,
        partition: bytes(partition),
        sort: bytes("head"),
        expect,
        guard: guard.clone(),
        value: bytes(value),
    }
}

async fn fill(subject: &impl Subject) -> (Guard, ContentId) {
    let store = subject.store();
    let first = guard("tag");
    store.applied(vec![put_in(Table::Packs, "object", vec![row("pack", vec![7; 60_000])])]).await;
    store.applied(vec![head("object", Expect::Absent, &first, "v1")]).await;
    store.applied(vec![put_in(Table::Packs, "part", vec![row("pack", vec![7; 60_000])])]).await;
    store.applied(vec![put_in(Table::Objects, "part", vec![row("directory", "v")])]).await;
    for (number, table) in Table::ALL.into_iter().filter(|table| *table != Table::Contents).enumerate() {
        let later = subject.clock().now().plus(std::time::Duration::from_secs(3600));
        let expires_at = table.info().may_expire.then_some(later);
        let rows = vec![row("a", "v"), NewRow { expires_at, ..row("expiring", "v") }];
        store.applied(vec![put_in(table, format!("p{number}"), rows)]).await;
    }
    for key in odd_keys() {
        store.applied(vec![put_in(Table::Children, &key, vec![NewRow::new(key.clone(), key.clone())])]).await;
    }
    // More than one page, and more than one put.
    let many = (0..1500).map(|number| row(format!("{number:05}"), vec![number as u8; 1000])).collect();
    store.applied(vec![put_in(Table::Packs, "unfinished import", many)]).await;
    let content = stream::iter((0..100_u8).map(|number| Ok(Bytes::from(vec![number; 7777])))).boxed();
    let content = store.put_content(call(), bytes("owner"), content).await.unwrap();
    (first, content)
}

/// All rows of a store, with their tables and partitions, except for those that are about this
/// store alone: how far a copy has come, and whether it is read-only.
async fn everything(store: &Arc<dyn Store>) -> Vec<(Table, Bytes, Row)> {
    let mut found = Vec::new();
    for table in Table::ALL.into_iter().filter(|table| *table != Table::Contents) {
        let mut from = None;
        loop {
            let page = store.walk(call(), table, from, 7).await.unwrap();
            let own = |partition: &Bytes| {
                table == Table::Work && (partition == "copying" || *partition == read_only::PARTITION)
            };
            for partition in page.partitions.into_iter().filter(|partition| !own(partition)) {
                let mut rest = Some(Scan::prefix(Bytes::new(), 1 << 20));
                while let Some(scan) = rest {
                    let page = store.scan(call().strong(), table, &partition, scan.clone()).await.unwrap();
                    rest = scan.resumed(page.next);
                    found.extend(page.rows.into_iter().map(|row| (table, partition.clone(), row)));
                }
            }
            from = page.next;
            if from.is_none() {
                break;
            }
        }
    }
    found.sort_by(|one, other| (one.0, &one.1, &one.2.sort).cmp(&(other.0, &other.1, &other.2.sort)));
    found
}

async fn content(store: &Arc<dyn Store>, id: ContentId) -> Option<Vec<Bytes>> {
    let content = store.read_content(call(), id, 0..u64::MAX).await.unwrap()?;
    Some(content.try_collect().await.unwrap())
}

async fn begin(source: &impl Subject, target: &impl Subject) -> Copier {
    Copier::begin(source.store(), target.store(), ORIGIN, Patience::default()).await.unwrap()
}

/// This includes rows, heads with their stamps, expiries, and contents under their ids. The target
/// takes changes afterwards.
pub async fn everything_arrives_unchanged(source: &mut impl Subject, target: &mut impl Subject) {
    let (_, id) = fill(source).await;
    let (from, to) = (source.store(), target.store());
    // Each keeps a row that says that it takes changes again. An empty target may have one.
    for store in [&from, &to] {
        read_only::set(store.as_ref(), Some("it rests")).await.unwrap();
        read_only::set(store.as_ref(), None).await.unwrap();
    }
    let copier = begin(source, target).await;
    assert!(copier.pass().await.unwrap().changed > 0);
    let nothing = Pass { is_whole: true, ..Pass::default() };
    assert_eq!(copier.pass().await.unwrap(), nothing, "a second pass finds something");
    let verified = copier.verify().await.unwrap();
    copier.end().await.unwrap();
    let wanted = everything(&from).await;
    assert_eq!(verified.rows, wanted.len() as u64);
    assert!(everything(&to).await == wanted, "other rows arrived");
    assert_eq!(
        content(&to, id).await.map(|pieces| pieces.concat()),
        content(&from, id).await.map(|pieces| pieces.concat())
    );
    assert!(content(&to, id).await.is_some());
    assert_eq!(read_only::reason(to.as_ref()).await.unwrap(), None);
}

/// The next pass finds rows that were added, changed, removed, or put again with another value. The
/// pass after it finds nothing.
pub async fn the_next_pass_finds_what_changed_meanwhile(source: &mut impl Subject, target: &mut impl Subject) {
    let (first, id) = fill(source).await;
    let (from, to) = (source.store(), target.store());
    let copier = begin(source, target).await;
    copier.pass().await.unwrap();

    let second = guard("another tag");
    from.applied(vec![put_in(Table::Packs, "object", vec![row("pack 2", "v")])]).await;
    from.applied(vec![head("object", Expect::Stamp(first.stamp), &second, "v2")]).await;
    from.applied(vec![remove_in(Table::Packs, "object", "pack")]).await;
    from.applied(vec![remove_in(Table::Children, "a", "a"), put_in(Table::Children, "new", vec![row("a", "v")])]).await;
    from.applied(vec![remove_in(Table::Tokens, "p5", "a"), put_in(Table::Tokens, "p5", vec![row("a", "other")])]).await;
    from.applied(vec![put_in(Table::Audit, "hour", vec![row("a", "v")])]).await;
    assert!(from.condemn_content(call(), id).await.unwrap());
    let new = stream::iter([Ok(bytes("new"))]).boxed();
    let new = from.put_content(call(), bytes("owner"), new).await.unwrap();

    let pass = copier.pass().await.unwrap();
    assert!(!pass.found_nothing() && pass.changed_of_audit == 1, "{pass:?}");
    assert!(copier.pass().await.unwrap().found_nothing());
    copier.verify().await.unwrap();
    copier.end().await.unwrap();
    assert!(everything(&to).await == everything(&from).await, "other rows arrived");
    assert_eq!(content(&to, id).await, None);
    assert_eq!(content(&to, new).await.map(|pieces| pieces.concat()), Some(b"new".to_vec()));
}

/// It goes on whatever the moment, and no head and no directory is ever there without its packs.
pub async fn an_interrupted_copy_goes_on(source: &mut impl Subject, target: &mut impl Subject) {
    fill(source).await;
    let (from, to) = (source.store(), target.store());
    let faults = Arc::new(Faults::new(to.clone()));
    let mut copies = 0;
    for steps in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89] {
        faults.crash_after_steps(steps);
        let copied = async {
            let copier = Copier::begin(from.clone(), faults.clone(), ORIGIN, Patience { tries: 1 }).await?;
            copier.pass().await
        };
        copies += usize::from(copied.await.is_ok());
        faults.revive();
        for (partition, small) in [("object", "head"), ("part", "directory")] {
            let has = async |table, sort| {
                to.get(call().strong(), table, &bytes(partition), &bytes(sort)).await.unwrap().is_some()
            };
            let (has_small, has_pack) = (has(Table::Objects, small).await, has(Table::Packs, "pack").await);
            assert!(has_pack || !has_small, "after {steps} steps the {small} is there without its pack");
        }
        // The lease of an upload that was left there expires.
        target.clock().advance(std::time::Duration::from_secs(120));
    }
    assert!(copies < 5, "the copy was hardly ever interrupted");
    let copier = begin(source, target).await;
    copier.pass().await.unwrap();
    copier.verify().await.unwrap();
    copier.end().await.unwrap();
    assert!(everything(&to).await == everything(&from).await, "other rows arrived");
}

/// Passes keep them: if the source has lost them, they are in the copy still.
pub async fn packs_that_are_all_removed_beside_rows_that_stay_are_removed_at_the_end(
    source: &mut impl Subject,
    target: &mut impl Subject,
) {
    fill(source).await;
    let (from, to) = (source.store(), target.store());
    let copier = begin(source, target).await;
    copier.pass().await.unwrap();
    from.applied(vec![remove_in(Table::Packs, "object", "pack")]).await;
    assert!(copier.pass().await.unwrap().found_nothing());
    let pack = to.get(call().strong(), Table::Packs, &bytes("object"), &bytes("pack")).await.unwrap();
    assert!(pack.is_some(), "a pass removed it");
    copier.verify().await.unwrap();
    copier.end().await.unwrap();
    assert!(everything(&to).await == everything(&from).await, "other rows arrived");
}

/// What changed before the place where the interrupted pass stopped is left to the next one.
pub async fn a_pass_that_goes_on_where_another_stopped_does_not_show_that_nothing_is_left(
    source: &mut impl Subject,
    target: &mut impl Subject,
) {
    let (first, _) = fill(source).await;
    let copier = begin(source, target).await;
    copier.pass().await.unwrap();
    assert!(copier.pass().await.unwrap().found_nothing());
    let mut pages = 0;
    let interrupted = copier.pass_with(async || {
        pages += 1;
        // Contents, objects, packs.
        if pages < 3 { Ok(()) } else { Err(CopyError::Store(StoreError::Unavailable("it was interrupted".to_owned()))) }
    });
    interrupted.await.unwrap_err();
    let second = guard("another tag");
    source.store().applied(vec![head("object", Expect::Stamp(first.stamp), &second, "v2")]).await;
    let copier = begin(source, target).await;
    let rest = copier.pass().await.unwrap();
    assert!(rest.changed == 0 && !rest.found_nothing(), "{rest:?}");
    assert_eq!(copier.pass().await.unwrap().changed, 1);
    assert!(copier.pass().await.unwrap().found_nothing());
}

/// Small ones are read many at once, and a large one page by page.
pub async fn many_partitions_arrive_whether_they_are_small_or_large(
    source: &mut impl Subject,
    target: &mut impl Subject,
) {
    let (from, to) = (source.store(), target.store());
    let name = |number: u32| format!("record {number:03}");
    for number in 0..150 {
        let rows = match number % 50 {
            // Several pages even of a partition that is read alone.
            7 => (0..700).map(|row_number| row(format!("{row_number:03}"), vec![1; 1000])).collect(),
            _ => vec![row("", format!("value {number}"))],
        };
        from.applied(vec![put_in(Table::Records, name(number), rows)]).await;
    }
    let copier = begin(source, target).await;
    assert_eq!(copier.pass().await.unwrap().changed, 150);
    assert!(copier.pass().await.unwrap().found_nothing());
    let seen_of_pass = copier.progress().seen.load(std::sync::atomic::Ordering::Relaxed) / 2;

    from.applied(vec![remove_in(Table::Records, &name(1), "")]).await;
    from.applied(vec![put_in(Table::Records, name(2), vec![row("another", "v")])]).await;
    from.applied(vec![remove_in(Table::Records, &name(57), "699"), remove_in(Table::Records, &name(3), "")]).await;
    from.applied(vec![put_in(Table::Records, name(3), vec![row("", "another value")])]).await;
    assert_eq!(copier.pass().await.unwrap().changed, 4);
    assert!(copier.pass().await.unwrap().found_nothing());
    let verified = copier.verify().await.unwrap();
    assert_eq!((verified.partitions, verified.rows), (seen_of_pass - 1, 146 + 3 * 700));
    copier.end().await.unwrap();
    assert!(everything(&to).await == everything(&from).await, "other rows arrived");
}

/// It is not mistaken for something else.
pub async fn a_finished_copy_is_known_as_such(source: &mut impl Subject, target: &mut impl Subject) {
    fill(source).await;
    assert_eq!(unfinished(target.store().as_ref()).await.unwrap(), None);
    let copier = begin(source, target).await;
    assert_eq!(unfinished(target.store().as_ref()).await.unwrap().as_deref(), Some(ORIGIN));
    copier.pass().await.unwrap();
    assert_eq!(unfinished(target.store().as_ref()).await.unwrap().as_deref(), Some(ORIGIN));
    copier.end().await.unwrap();
    assert_eq!(unfinished(target.store().as_ref()).await.unwrap(), None);
    let again = Copier::begin(source.store(), target.store(), ORIGIN, Patience::default()).await.err().unwrap();
    assert!(matches!(again, CopyError::Finished { .. }), "{again}");
}

/// Copying might overwrite it.
pub async fn a_target_that_holds_something_else_is_refused(source: &mut impl Subject, target: &mut impl Subject) {
    fill(source).await;
    target.store().applied(vec![put_in(Table::Tokens, "p", vec![row("a", "v")])]).await;
    let refused = Copier::begin(source.store(), target.store(), ORIGIN, Patience::default()).await.err().unwrap();
    assert!(matches!(refused, CopyError::NotVacant { .. }), "{refused}");
}

/// The same holds for an unfinished copy of another source.
pub async fn an_unfinished_copy_of_another_store_is_refused(source: &mut impl Subject, target: &mut impl Subject) {
    fill(source).await;
    begin(source, target).await.pass().await.unwrap();
    let refused = Copier::begin(source.store(), target.store(), "another", Patience::default()).await.err().unwrap();
    assert!(matches!(refused, CopyError::NotVacant { .. }), "{refused}");
}

/// That holds for everybody who uses the gate.
pub async fn the_target_takes_no_changes_before_the_copy_ends(source: &mut impl Subject, target: &mut impl Subject) {
    fill(source).await;
    let copier = begin(source, target).await;
    let gate = ReadOnlyGate::new(target.store()).await.unwrap();
    let change = || vec![put_in(Table::Tokens, "mine", vec![row("a", "v")])];
    let refused = gate.run(call(), change()).await.unwrap_err();
    assert!(matches!(&refused, StoreError::ReadOnly(why) if why.contains(ORIGIN)), "{refused}");
    copier.pass().await.unwrap();
    copier.end().await.unwrap();
    gate.look().await.unwrap();
    assert!(gate.run(call(), change()).await.unwrap().is_applied());
}

/// The error names the row: nothing that differs passes for a copy.
pub async fn a_row_that_arrives_changed_is_reported(source: &mut impl Subject, target: &mut impl Subject) {
    fill(source).await;
    let faults = Arc::new(Faults::new(target.store()));
    let copier = Copier::begin(source.store(), faults.clone(), ORIGIN, Patience::default()).await.unwrap();
    copier.pass().await.unwrap();
    faults.damage(Damage {
        table: Table::Packs,
        partition: bytes("object"),
        sort: Some(bytes("pack")),
        harm: Harm::FlippedBit,
        strong_reads_are_whole: false,
    });
    let output = copier.verify().await.unwrap_err();
    assert!(
        matches!(&output, CopyError::Differs { table: Table::Packs, partition } if partition == "object"),
        "{output}"
    );
}

/// Stamps of heads are copied, so a client that read a head in the source can change it in the
/// target.
pub async fn a_head_can_be_changed_from_the_stamp_it_had(source: &mut impl Subject, target: &mut impl Subject) {
    let (first, _) = fill(source).await;
    let copier = begin(source, target).await;
    copier.pass().await.unwrap();
    copier.end().await.unwrap();
    let second = Guard { stamp: Stamp::fresh(), tag: Bytes::new() };
    target.store().applied(vec![head("object", Expect::Stamp(first.stamp), &second, "v2")]).await;
}

/// What is named is copied, and nothing else, and the place of a follower is there until the end.
pub async fn what_is_named_is_copied_alone(source: &mut impl Subject, target: &mut impl Subject) {
    let (_, id) = fill(source).await;
    let (from, to) = (source.store(), target.store());
    let copier = begin(source, target).await;
    assert_eq!(copier.followed().await.unwrap(), None);
    let place = Followed { lineage: "a".to_owned(), cursor: "b".to_owned(), whole: None, until: None };
    copier.set_followed(&place).await.unwrap();

    assert!(copier.copy_named(Table::Objects, &bytes("part")).await.unwrap());
    assert!(!copier.copy_named(Table::Objects, &bytes("part")).await.unwrap(), "it is there already");
    let (import, from_row) = (bytes("unfinished import"), bytes("00010"));
    assert!(copier.copy_rows(Table::Packs, &import, from_row, Some(bytes("00012"))).await.unwrap());
    let row = copier.row(Table::Objects, &bytes("object"), &bytes("head")).await.unwrap().unwrap();
    assert!(copier.copy_head(Table::Objects, &bytes("object"), &row).await.unwrap());
    assert!(copier.copy_content_named(id).await.unwrap());
    assert!(content(&to, id).await.is_some());
    let named = |(table, partition, row): &(Table, Bytes, Row)| match table {
        Table::Objects => *partition == "part" || (*partition == "object" && row.sort == "head"),
        Table::Packs => *partition == "part" || (*partition == "unfinished import" && row.sort[..4] == *b"0001"),
        _ => false,
    };
    let wanted: Vec<_> = everything(&from).await.into_iter().filter(named).collect();
    let is_in_range = |(_, partition, row): &(Table, Bytes, Row)| {
        *partition != "unfinished import" || row.sort == "00010" || row.sort == "00011"
    };
    let wanted: Vec<_> = wanted.into_iter().filter(is_in_range).collect();
    let there = everything(&to).await;
    assert!(there == wanted, "{} rows in the place of {}", there.len(), wanted.len());

    assert_eq!(followed(to.as_ref()).await.unwrap(), Some(place));
    copier.pass().await.unwrap();
    copier.verify().await.unwrap();
    copier.end().await.unwrap();
    assert_eq!(followed(to.as_ref()).await.unwrap(), None);
    assert!(everything(&to).await == everything(&from).await, "other rows arrived");
}
