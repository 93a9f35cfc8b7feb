//! Token counts as a ZIP. The unit tests define tokens; these tests show what is counted, named and
//! left out.

use store::faults::Harm;
use volumes::{SortBy, TokenLevel, TokenOrder, TokenRequest, Tokenization};

use super::bench::{bench, entries, entry, names, read, somebody};
use crate::support::id;

/// Made by hand.
const PAGES: [&str; 2] = ["the cat and the exam-\n", "ple of a cat"];

fn request(ids: &[&str], level: TokenLevel, order: TokenOrder) -> TokenRequest {
    TokenRequest {
        volumes: ids.iter().map(|text| id(text)).collect(),
        level,
        order,
        tokenization: Tokenization::default(),
        rows: None,
        as_of: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_of_volumes_and_of_pages_are_as_counted_by_hand() {
    let bench = bench().await;
    bench.add("t.a/b", &PAGES).await;
    bench.add("t.empty", &[""]).await;
    let by_count = TokenOrder { by: SortBy::Count, descending: true };
    let counts = async |level, order| {
        let wanted = request(&["t.a/b", "t.none", "t.empty"], level, order);
        let (archive, error) = read(bench.library.volumes.token_counts(wanted, somebody()).await.unwrap()).await;
        assert!(error.is_none(), "{error:?}");
        let mut counts = entries(&archive);
        let (name, errors) = counts.pop().unwrap();
        assert_eq!(name, "ERROR.err");
        assert!(errors.ends_with("KeyNotFoundException: Offending key: t.none\n"));
        counts
    };
    let owned = |expected: &[(&str, &str)]| {
        expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect::<Vec<_>>()
    };
    let volumes = [("t.a=b.count", "cat 2\nthe 2\na 1\nand 1\nexam-ple 1\nof 1\n"), ("t.empty.count", "")];
    assert_eq!(counts(TokenLevel::Volume, by_count).await, owned(&volumes));
    let pages = [
        ("t.a=b/00000001.count", "and 1\ncat 1\nexam- 1\nthe 2\n"),
        ("t.a=b/00000002.count", "a 1\ncat 1\nof 1\nple 1\n"),
        ("t.empty/00000001.count", ""),
    ];
    assert_eq!(counts(TokenLevel::Page, TokenOrder::default()).await, owned(&pages));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_would_lack_a_page_is_left_out_and_named() {
    let bench = bench().await;
    let ids = bench.add_samples(110).await;
    bench.harm_pack(&ids[3], 1, Harm::FlippedBit, false).await;
    let texts: Vec<_> = ids.iter().map(|id| id.as_str()).collect();
    let counts = async |level| {
        let wanted = request(&texts, level, TokenOrder::default());
        let (archive, error) = read(bench.library.volumes.token_counts(wanted, somebody()).await.unwrap()).await;
        assert!(error.is_none(), "{error:?}");
        archive
    };
    // The damage is unknown the first time and known the second time.
    for _ in 0..2 {
        let archive = counts(TokenLevel::Volume).await;
        let expected = [0, 1, 2].map(|index: usize| format!("{}.count", ids[index].cleaned()));
        assert_eq!(names(&archive), [&expected[..], &["ERROR.err".to_owned()]].concat());
        let line = format!("RepositoryException: damaged: {}\n", ids[3]);
        assert!(entry(&archive, "ERROR.err").contains(&line));
    }
    let archive = counts(TokenLevel::Page).await;
    let folder = format!("{}/", ids[3].cleaned());
    let counted = names(&archive).iter().filter(|name| name.starts_with(&folder)).count() as u64;
    let damaged = entry(&archive, "ERROR.err").lines().count() as u64 - 1;
    let page_count = bench.library.volumes.volume(&ids[3]).await.unwrap().body.pages.count;
    assert!(damaged > 0 && counted > 0);
    assert_eq!(counted + damaged, page_count);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_tells_of_token_counts() {
    let bench = bench().await;
    bench.add("t.a", &PAGES).await;
    let wanted = request(&["t.a", "t.none"], TokenLevel::Volume, TokenOrder::default());
    read(bench.library.volumes.token_counts(wanted, somebody()).await.unwrap()).await;
    let records = bench.audit().await;
    let reported: Vec<_> = records.iter().map(|record| (record.action.as_str(), record.volumes.len())).collect();
    assert_eq!(reported, [("REQUESTED", 2), ("TOKEN_COUNT_ACCESSED", 1)]);
}
