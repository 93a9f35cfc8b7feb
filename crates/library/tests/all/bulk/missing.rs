//! Missing parts never break an archive.

use hathi::VolumeId;
use pack::{Layout, Level};
use volumes::{BulkRequest, MissingReason, OnDamage, Wanted};

use super::bench::{bench, entries, entry, names, pages, request, whole_volumes};
use crate::support::id;

const HEADING: &str = "Caught the following errors while generating the ZIP file.  \
                       This ZIP file is likely to be incomplete and missing some entries.\n";
const ABSENT: &str = "edu.indiana.d2i.htrc.access.exception.KeyNotFoundException: Offending key: ";

#[tokio::test(flavor = "multi_thread")]
async fn pages_come_in_the_order_asked_for_and_missing_ones_are_named_at_the_end() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one", "two", "three"]).await;
    let b = bench.add("t.b", &["four"]).await;
    let wanted = vec![pages(&b, &[2, 1]), pages(&id("t.none"), &[5]), pages(&a, &[3, 99, 1])];
    let plan = bench.plan(&request(wanted, Layout::Pages, Level::Frames, false)).await;
    let archive = bench.whole(&plan).await;
    let errors = format!("{HEADING}{ABSENT}t.b[2]\n{ABSENT}t.none[5]\n{ABSENT}t.a[99]\n");
    let expected = [
        ("t.b/", ""),
        ("t.b/00000001.txt", "four"),
        ("t.a/", ""),
        ("t.a/00000003.txt", "three"),
        ("t.a/00000001.txt", "one"),
        ("ERROR.err", &errors),
    ];
    assert_eq!(entries(&archive), expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    assert_eq!(plan.len_bytes, Some(archive.len() as u64));
    assert_eq!((plan.entries, plan.missing.len()), (6, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_many_volumes_run_together_into_one_word_sequence() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one ", "two ", ""]).await;
    let b = bench.add("t.b", &["four"]).await;
    let wanted = vec![Wanted::all(a), pages(&b, &[1])];
    let plan = bench.plan(&request(wanted, Layout::WordSeq, Level::Frames, false)).await;
    assert_eq!(entries(&bench.whole(&plan).await), [("wordseq.txt".to_owned(), "one two four".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_is_found_the_archive_holds_error_err_alone() {
    let bench = bench().await;
    let gone = bench.add("t.gone", &["one"]).await;
    let there = bench.add("t.there", &["one"]).await;
    bench.library.volumes.delete(&gone).await.unwrap();
    for layout in [Layout::Pages, Layout::Volumes, Layout::WordSeq] {
        let wanted = vec![Wanted::all(id("t.never")), Wanted::all(gone.clone()), pages(&there, &[7])];
        let plan = bench.plan(&request(wanted, layout, Level::Frames, layout != Layout::WordSeq)).await;
        let archive = bench.whole(&plan).await;
        assert_eq!(names(&archive), ["ERROR.err"], "{layout:?}");
        let text = format!("{HEADING}{ABSENT}t.never\n{ABSENT}t.gone\n{ABSENT}t.there[7]\n");
        assert_eq!(entry(&archive, "ERROR.err"), text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_sequence_with_mets_contradicts_itself() {
    let bench = bench().await;
    let wanted = request(whole_volumes(&[id("t.a")]), Layout::WordSeq, Level::Frames, true);
    let refused = bench.library.volumes.plan(&wanted, OnDamage::Break).await.unwrap_err();
    assert!(matches!(refused, heads::ObjectsError::Invalid(_)), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_ids_are_planned() {
    let bench = bench().await;
    let there = bench.add("t.50000", &["text"]).await;
    let ids = (0..100_000).map(|n| VolumeId::parse(&format!("t.{n}")).unwrap());
    let plan = bench.plan(&BulkRequest::volumes(ids)).await;
    assert_eq!(plan.missing.len(), 99_999);
    assert!(plan.missing.iter().all(|missing| missing.reason == MissingReason::Absent && missing.volume != there));
    let archive = bench.whole(&plan).await;
    assert_eq!(names(&archive), ["t.50000/", "t.50000/00000001.txt", "ERROR.err"]);
    assert_eq!(entry(&archive, "ERROR.err").lines().count(), 1 + 99_999);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_whose_sequences_have_gaps_are_found() {
    let bench = bench().await;
    let mut parts = crate::support::volume("t.gaps", &["ten", "twenty"]);
    let mets = String::from_utf8(parts.mets).unwrap();
    parts.mets = mets.replace("ORDER=\"1\"", "ORDER=\"10\"").replace("ORDER=\"2\"", "ORDER=\"20\"").into_bytes();
    crate::support::import(&bench.library, parts).await.unwrap();
    let wanted = vec![pages(&id("t.gaps"), &[20, 1, 10])];
    let plan = bench.plan(&request(wanted, Layout::Pages, Level::Frames, false)).await;
    let archive = bench.whole(&plan).await;
    assert_eq!(names(&archive), ["t.gaps/", "t.gaps/00000020.txt", "t.gaps/00000010.txt", "ERROR.err"]);
    let last = bench.library.volumes.page(&id("t.gaps"), hathi::Seq::new(20).unwrap()).await.unwrap();
    assert_eq!(last.text().unwrap(), b"twenty", "also where it is the only one asked for");
}
