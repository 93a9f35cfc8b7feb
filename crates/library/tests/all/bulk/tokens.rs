//! Token counts as a ZIP. The unit tests define tokens; these tests show what is counted, named and
//! left out.

use std::sync::Arc;

use futures::StreamExt;
use hathi::VolumeId;
use heads::{LibraryOptions, ObjectsError};
use library::Library;
use store::faults::Harm;
use volumes::{Missing, SortBy, TokenCount, TokenLevel, TokenOrder, TokenRequest, TokenRows, Tokenization};

use super::bench::{bench, entries, entry, names, read, somebody, until};
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

/// Rows of a thousand bytes.
#[derive(Debug)]
struct LongRows;

impl TokenRows for LongRows {
    fn begin(&self) -> Vec<u8> {
        Vec::new()
    }

    fn counts(&self, _: &VolumeId, _: Option<u32>, counts: &[TokenCount]) -> Vec<u8> {
        counts.iter().flat_map(|(token, _)| format!("{token:>1000}").into_bytes()).collect()
    }

    fn missing(&self, _: &Missing) -> Vec<u8> {
        Vec::new()
    }

    fn end(&self) -> Vec<u8> {
        b"end".to_vec()
    }
}

/// So many different tokens of five bytes.
fn tokens(count: usize) -> String {
    (0..count).map(|number| format!("{number:05} ")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_rows_are_made_in_pieces_and_their_counts_take_memory_until_then() {
    let bench = bench().await;
    bench.add("t.a", &[tokens(8_000).as_str()]).await;
    for level in [TokenLevel::Volume, TokenLevel::Page] {
        let rows: Option<Arc<dyn TokenRows>> = Some(Arc::new(LongRows));
        let wanted = TokenRequest { rows, ..request(&["t.a"], level, TokenOrder::default()) };
        let mut stream = bench.library.volumes.token_counts(wanted, somebody()).await.unwrap();
        let first = stream.next().await.unwrap().unwrap();
        // Not all rows are made ahead of the client.
        let taken = bench.library.memory.taken_bytes();
        assert!(taken > 8_000 * 64, "{taken}");
        let mut sent = first.to_vec();
        while let Some(piece) = stream.next().await {
            let piece = piece.unwrap();
            assert!(piece.len() <= 512 << 10, "{}", piece.len());
            sent.extend_from_slice(&piece);
        }
        assert_eq!(sent.len(), 8_000 * 1_000 + 3);
        for (row, token) in sent.chunks_exact(1_000).zip(tokens(8_000).split_whitespace()) {
            assert!(row.ends_with(token.as_bytes()), "{token}");
        }
        drop(stream);
        until(|| async { bench.library.memory.taken_bytes() == 0 }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_for_which_there_is_no_memory_are_refused_or_broken_off() {
    let bench = bench().await;
    let long = format!("t.{}", "x".repeat(900));
    bench.add(&long, &["one"; 500]).await;
    bench.add("t.b", &[tokens(10_000).as_str()]).await;
    let options = LibraryOptions { memory_bytes: 512 << 10, ..LibraryOptions::default() };
    let library = Library::open(bench.faults.clone(), bench.clock.clone(), options).await.unwrap();
    let counts = async |id: &str, level| {
        library.volumes.token_counts(request(&[id], level, TokenOrder::default()), somebody()).await
    };
    // The central directory has 500 long names.
    let refused = counts(&long, TokenLevel::Page).await.unwrap_err();
    assert!(matches!(refused, ObjectsError::Overloaded(_)), "{refused}");
    let (archive, error) = read(counts(&long, TokenLevel::Volume).await.unwrap()).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(entries(&archive)[0].1, "one 500\n");
    let (_, error) = read(counts("t.b", TokenLevel::Volume).await.unwrap()).await;
    assert!(matches!(error, Some(ObjectsError::Overloaded(_))), "{error:?}");
    until(|| async { library.memory.taken_bytes() == 0 }).await;
}
