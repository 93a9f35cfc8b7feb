//! Replaces pages and METS of existing volumes.
use crate::support::*;
use door_data::DataSettings;
use http::{HeaderName, Method, StatusCode, header};

fn page(seq: u32) -> String {
    format!("/volumes/{}/pages/{seq}", cleaned(SALMON))
}

fn mets() -> String {
    format!("/volumes/{}/mets", cleaned(SALMON))
}

async fn replace(fixture: &Fixture, path: &str, body: &str, condition: Option<&str>) -> Reply {
    let media_type = if path.ends_with("/mets") { "application/xml" } else { "text/plain; charset=utf-8" };
    let ask = fixture.ask(Method::PUT, path).header(header::CONTENT_TYPE, media_type).body(body.to_owned());
    match condition {
        Some(condition) => ask.header(header::IF_MATCH, condition).answer().await,
        None => ask.answer().await,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_page_is_in_the_next_archive_and_nothing_else_changes() {
    let fixture = with_samples(DataSettings::default(), &[SALMON]).await;
    let bulk = format!("/volumes?volumeIDs={SALMON}&mets=true");
    let (before, first) = (fixture.get(&bulk).await, fixture.get(&page(7)).await);
    let etag = first.header("etag").unwrap().to_owned();
    let replaced = replace(&fixture, &page(7), "What stood here was misread.", Some(&etag)).await;
    assert_eq!(replaced.status, StatusCode::NO_CONTENT, "{}", replaced.text());

    let now = fixture.get(&page(7)).await;
    assert_eq!(now.text(), "What stood here was misread.");
    assert_eq!(now.header("etag"), replaced.header("etag"));
    let after = fixture.get(&bulk).await;
    assert_ne!(before.header("etag"), after.header("etag"));
    let (before, after) = (before.entries(), after.entries());
    assert_eq!(before.len(), after.len());
    let changed: Vec<_> = before.iter().zip(&after).filter(|(before, after)| before != after).collect();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].1.1, "What stood here was misread.");
    let verified = fixture.library.volumes.verify(&SALMON.parse().unwrap()).await.unwrap();
    assert!(verified.damaged.is_empty(), "{verified:?}");
    // An import of the original restores it.
    fixture.library.volumes.import(sample(SALMON), volumes::Unchanged::Skip, |_| {}).await.unwrap();
    assert_eq!(fixture.get(&page(7)).await.text(), first.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_replaced_under_a_condition_that_cannot_be_read() {
    let fixture = with_samples(DataSettings::default(), &[SALMON]).await;
    let before = fixture.get(&page(7)).await;
    let ask = fixture.ask(Method::PUT, &page(7)).header(header::CONTENT_TYPE, "text/plain; charset=utf-8");
    let refused = ask.header(header::IF_NONE_MATCH, "unquoted").body("another").answer().await;
    assert_eq!((refused.status, &refused.json()["kind"]), (StatusCode::BAD_REQUEST, &"malformed-header".into()));
    assert_eq!(fixture.get(&page(7)).await.text(), before.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_mets_changes_labels_and_order() {
    let fixture = empty(DataSettings::default()).await;
    let parts = volume("a.b", &["one", "two", "three"]);
    let mets = String::from_utf8(parts.mets.clone()).unwrap();
    fixture.library.volumes.import(parts, volumes::Unchanged::Skip, |_| {}).await.unwrap();
    // The files change places, and one changes its label.
    let new = mets.replace(r#"ORDER="1" ORDERLABEL="p1"#, r#"ORDER="9" ORDERLABEL="last"#);
    let replaced = replace(&fixture, "/volumes/a.b/mets", &new, None).await;
    assert_eq!(replaced.status, StatusCode::NO_CONTENT, "{}", replaced.text());
    assert_eq!(fixture.get("/volumes/a.b/mets").await.text(), new);
    let pages = fixture.get("/volumes/a.b/pages/").await.json();
    let reported: Vec<_> =
        pages.as_array().unwrap().iter().map(|page| (page["seq"].clone(), page["label"].clone())).collect();
    assert_eq!(reported, [(2.into(), "p2".into()), (3.into(), "p3".into()), (9.into(), "last".into())]);
    assert_eq!(fixture.get("/volumes/a.b/pages/9").await.text(), "one");
    assert_eq!(fixture.get("/volumes/a.b/pages/1").await.status, StatusCode::NOT_FOUND);
    assert_eq!(fixture.get("/volumes?volumeIDs=a.b&layout=wordseq").await.entries()[0].1, "twothreeone");
    // The same METS again changes nothing visible.
    assert_eq!(replace(&fixture, "/volumes/a.b/mets", &new, None).await.status, StatusCode::NO_CONTENT);
    assert!(fixture.library.volumes.verify(&"a.b".parse().unwrap()).await.unwrap().damaged.is_empty());
}

/// A volume of three pages with one file for the first two.
fn of_two_files() -> hathi::VolumeParts<std::io::Cursor<Vec<u8>>> {
    let mut parts = volume("a.b", &["one", "one", "three"]);
    let mets = String::from_utf8(parts.mets).unwrap();
    parts.mets = mets.replace(r#"href="00000002.txt""#, r#"href="00000001.txt""#).into_bytes();
    parts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mets_that_names_one_page_twice_and_another_never_is_refused() {
    let fixture = empty(DataSettings::default()).await;
    let parts = volume("a.b", &["one", "two"]);
    let mets = String::from_utf8(parts.mets.clone()).unwrap();
    fixture.library.volumes.import(parts, volumes::Unchanged::Skip, |_| {}).await.unwrap();
    let twice = mets.replace(r#"href="00000002.txt""#, r#"href="00000001.txt""#);
    let refused = replace(&fixture, "/volumes/a.b/mets", &twice, None).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());
    assert!(refused.text().contains("names 00000001.txt for more pages than a.b has"), "{}", refused.text());
    assert_eq!(fixture.get("/volumes/a.b/pages/2").await.text(), "two");
    // One page fewer is refused too.
    let page = mets.find("<div TYPE=\"page\" ORDER=\"2\"").unwrap();
    let file = mets.find("<file ID=\"T2\"").unwrap();
    let without = |at: usize, end: &str| at..at + mets[at..].find(end).unwrap() + end.len();
    let mut fewer = mets.clone();
    fewer.replace_range(without(page, "</div>"), "");
    fewer.replace_range(without(file, "</file>"), "");
    assert_eq!(replace(&fixture, "/volumes/a.b/mets", &fewer, None).await.status, StatusCode::CONFLICT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_page_keeps_its_text_under_a_new_mets_though_another_page_is_of_the_same_file() {
    let fixture = empty(DataSettings::default()).await;
    let parts = of_two_files();
    let mets = String::from_utf8(parts.mets.clone()).unwrap();
    fixture.library.volumes.import(parts, volumes::Unchanged::Skip, |_| {}).await.unwrap();
    assert_eq!(replace(&fixture, "/volumes/a.b/pages/2", "two", None).await.status, StatusCode::NO_CONTENT);
    let order = |before: u32, after: u32| (format!("ORDER=\"{before}\""), format!("ORDER=\"{after}\""));
    let with = |changes: &[(u32, u32)]| {
        let change = |mets: String, &(before, after): &(u32, u32)| {
            let (before, after) = order(before, after);
            mets.replace(&before, &after)
        };
        changes.iter().fold(mets.clone(), change)
    };
    // The page that keeps its sequence is the same. Then both change, and keep their order.
    for (new, seqs) in [(with(&[]), [1, 2]), (with(&[(1, 7)]), [7, 2]), (with(&[(1, 4), (2, 5)]), [5, 4])] {
        let replaced = replace(&fixture, "/volumes/a.b/mets", &new, None).await;
        assert_eq!(replaced.status, StatusCode::NO_CONTENT, "{}", replaced.text());
        for (seq, text) in seqs.into_iter().zip(["one", "two"]) {
            assert_eq!(fixture.get(&format!("/volumes/a.b/pages/{seq}")).await.text(), text, "page {seq} of {seqs:?}");
        }
        assert_eq!(fixture.get("/volumes/a.b/pages/3").await.text(), "three");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_replacement_is_refused_and_changes_nothing() {
    let fixture = with_samples(DataSettings::default(), &[SALMON]).await;
    let revision = async || fixture.library.volumes.volume(&SALMON.parse().unwrap()).await.unwrap().revision;
    let before = revision().await;
    let stale = replace(&fixture, &page(7), "x", Some("\"0\"")).await;
    assert_eq!(stale.status, StatusCode::PRECONDITION_FAILED);
    assert_eq!(replace(&fixture, &page(999), "x", None).await.status, StatusCode::NOT_FOUND);
    assert_eq!(replace(&fixture, "/volumes/no.such/pages/1", "x", None).await.status, StatusCode::NOT_FOUND);
    let original = fixture.get(&mets()).await.text().to_owned();
    for (mets, status) in [
        // As in an import.
        ("<mets", StatusCode::UNPROCESSABLE_ENTITY),
        (&*original.replacen("00000007.txt", "00000777.txt", 1), StatusCode::CONFLICT),
        (&*original.replacen(SALMON, "psia.another", 1), StatusCode::CONFLICT),
    ] {
        let refused = replace(&fixture, &self::mets(), mets, None).await;
        assert_eq!(refused.status, status, "{}", refused.text());
    }
    let ask = |media_type: &str| fixture.ask(Method::PUT, &page(7)).header(header::CONTENT_TYPE, media_type);
    assert_eq!(ask("image/png").body("x").answer().await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(ask("text/plain; charset=utf-16").body("x").answer().await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(ask("text/plain").body(vec![0xFF]).answer().await.status, StatusCode::BAD_REQUEST);
    let over = ask("text/plain").body(vec![b'x'; (16 << 20) + 1]).answer().await;
    assert_eq!(over.status, StatusCode::PAYLOAD_TOO_LARGE);
    let wrong = ask("text/plain").header(HeaderName::from_static("digest"), "md5=00000000000000000000000000000000");
    assert_eq!(wrong.body("x").answer().await.status, StatusCode::CONFLICT);
    assert_eq!(revision().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_not_copied_and_a_damaged_page_can_be_replaced() {
    let fixture = empty(DataSettings::default()).await;
    // Each page fills packs of its own.
    let noise = |mut state: u64| -> String {
        let letter = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + ((state >> 33) % 26) as u8)
        };
        (0..150_000).map(letter).collect()
    };
    let (one, two) = (noise(1), noise(7));
    fixture.library.volumes.import(volume("a.b", &[&one, &two]), volumes::Unchanged::Skip, |_| {}).await.unwrap();
    fixture.damage_a_pack("a.b", store::faults::Harm::FlippedBit, false).await;
    let refused = replace(&fixture, "/volumes/a.b/pages/2", "new", None).await;
    assert_eq!(refused.status, StatusCode::INTERNAL_SERVER_ERROR, "the first page would be lost: {}", refused.text());
    let healed = replace(&fixture, "/volumes/a.b/pages/1", "new", None).await;
    assert_eq!(healed.status, StatusCode::NO_CONTENT, "{}", healed.text());
    assert_eq!(fixture.get("/volumes/a.b/pages/1").await.text(), "new");
    assert_eq!(fixture.get("/volumes/a.b/pages/2").await.text(), two);
}
