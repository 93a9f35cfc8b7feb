//! `PUT /volumes/{id}`: valid volumes are imported; invalid ones change nothing and are reported.
use std::io::{Cursor, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{MACMAHON, SALMON, empty, empty_with, form, sample, sample_pages, volume};
use axum::body::Body;
use bytes::Bytes;
use door_data::{DataSettings, segment};
use hathi::VolumeParts;
use heads::LibraryOptions;
use http::{Method, StatusCode, header};

fn path(id: &str) -> String {
    format!("/volumes/{}", segment(&id.parse().unwrap()))
}

fn parts_of(source: &VolumeParts<Cursor<Vec<u8>>>) -> Vec<u8> {
    let mut parts = vec![("zip", source.zip.get_ref().as_slice()), ("mets", &source.mets)];
    parts.extend(source.record.as_deref().map(|record| ("record", record)));
    form(&parts)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_new_then_unchanged_then_replaced() {
    let fixture = empty(DataSettings::default()).await;
    let body = parts_of(&sample(MACMAHON));
    let under_the_prefix = format!("/data-api{}", path(MACMAHON));
    let new = fixture.put(&under_the_prefix, body.clone()).await;
    assert_eq!((new.status, new.header("penates-import")), (StatusCode::CREATED, Some("new")));
    assert_eq!(new.header("location"), Some(under_the_prefix.as_str()));
    let (seq, text) = &sample_pages(MACMAHON)[20];
    assert_eq!(fixture.get(&format!("{}/pages/{seq}", path(MACMAHON))).await.text(), text);
    let revision = async || fixture.get(&path(MACMAHON)).await.json()["revision"].clone();
    let first = revision().await;
    let again = fixture.put(&path(MACMAHON), body.clone()).await;
    assert_eq!((again.status, again.header("penates-import")), (StatusCode::NO_CONTENT, Some("unchanged")));
    assert_eq!(revision().await, first);
    let forced = fixture.put(&format!("{}?force=true", path(MACMAHON)), body).await;
    assert_eq!((forced.status, forced.header("penates-import")), (StatusCode::NO_CONTENT, Some("replaced")));
    assert_ne!(revision().await, first);
    let other = fixture.put(&path(MACMAHON), parts_of(&volume(MACMAHON, &["another"]))).await;
    assert_eq!(other.header("penates-import"), Some("replaced"));
    assert_eq!(fixture.get(&format!("{}/pages/1", path(MACMAHON))).await.text(), "another");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_with_replaced_pages_is_imported_as_they_are_if_the_request_says_so() {
    let fixture = empty(DataSettings::default()).await;
    fixture.put(&path("t.a"), parts_of(&volume("t.a", &["one", "two"]))).await;
    let page = |id: &str| format!("{}/pages/", path(id));
    let put = fixture.ask(Method::PUT, &format!("{}2", page("t.a"))).header(header::CONTENT_TYPE, "text/plain");
    assert_eq!(put.body("a longer text").answer().await.status, StatusCode::NO_CONTENT);
    let replaced = fixture.get(&page("t.a")).await.text().to_owned();
    fixture.ask(Method::DELETE, &path("t.a")).answer().await;

    let zip = zip_of(&[("00000001.txt", b"one"), ("00000002.txt", b"a longer text")]);
    let source = VolumeParts { zip: Cursor::new(zip), ..volume("t.a", &["one", "two"]) };
    let refused = fixture.put(&path("t.a"), parts_of(&source)).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    let replacing = format!("{}?replaced=true", path("t.a"));
    assert_eq!(fixture.put(&replacing, parts_of(&source)).await.status, StatusCode::CREATED);
    assert_eq!(fixture.get(&page("t.a")).await.text(), replaced, "it is not what replacing a page stores");
    assert_eq!(fixture.put(&replacing, parts_of(&source)).await.header("penates-import"), Some("unchanged"));
    let verified = fixture.ask(Method::POST, &format!("{}/verify", path("t.a"))).answer().await;
    assert_eq!(verified.json()["sound"], true);

    // Everything else is checked as ever.
    let long = vec![b'x'; 17 << 20];
    for (entries, kind) in [
        (vec![("00000001.txt", b"one".as_slice())], "missing-page"),
        (vec![("00000001.txt", b"one"), ("00000002.txt", &long)], "bomb"),
    ] {
        let source = VolumeParts { zip: Cursor::new(zip_of(&entries)), ..volume("t.a", &["one", "two"]) };
        let refused = fixture.put(&replacing, parts_of(&source)).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(refused.text().contains(kind), "{}", refused.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_stores_nothing() {
    let fixture = empty(DataSettings::default()).await;
    let checked = fixture.put(&format!("{}?check=true", path(SALMON)), parts_of(&sample(SALMON))).await;
    assert_eq!((checked.status, checked.header("penates-import")), (StatusCode::NO_CONTENT, None));
    assert_eq!(fixture.get(&path(SALMON)).await.status, StatusCode::NOT_FOUND);
    let mut source = sample(SALMON);
    source.mets = sample(MACMAHON).mets;
    let wrong = fixture.put(&format!("{}?check=true", path(SALMON)), parts_of(&source)).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
}

/// A ZIP with entries of these names and contents.
fn zip_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_source_is_422_with_its_kind_and_leaves_nothing_behind() {
    let fixture = empty(DataSettings::default()).await;
    let good = volume("t.a", &["one", "two"]);
    let (zip, mets) = (good.zip.get_ref().clone(), String::from_utf8(good.mets.clone()).unwrap());
    let bomb = vec![b'x'; 17 << 20];
    let bomb_mets = String::from_utf8(volume("t.a", &[std::str::from_utf8(&bomb).unwrap()]).mets).unwrap();
    for (kind, zip, mets) in [
        ("zip", zip[..zip.len() - 30].to_vec(), mets.clone()),
        ("zip", b"no zip at all".to_vec(), mets.clone()),
        ("mets", zip.clone(), "<no mets".to_owned()),
        ("id-mismatch", zip.clone(), mets.replace("OBJID=\"t.a\"", "OBJID=\"t.b\"")),
        ("checksum", zip.clone(), mets.replace(&hex::encode(md5_of("one")), &hex::encode(md5_of("uno")))),
        ("missing-page", zip_of(&[("a/00000001.txt", b"one")]), mets.clone()),
        ("zip-slip", zip_of(&[("../00000001.txt", b"one"), ("a/00000002.txt", b"two")]), mets.clone()),
        ("bomb", zip_of(&[("a/00000001.txt", &bomb)]), bomb_mets),
    ] {
        let answer = fixture.put(&path("t.a"), form(&[("zip", &zip), ("mets", mets.as_bytes())])).await;
        assert_eq!((answer.status, &answer.json()["kind"]), (StatusCode::UNPROCESSABLE_ENTITY, &kind.into()), "{kind}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(fixture.get(&path("t.a")).await.status, StatusCode::NOT_FOUND, "{kind}");
        assert_eq!(fixture.get("/volumes/").await.text(), "", "{kind}");
    }
    let elsewhere = fixture.put(&path("t.other"), parts_of(&good)).await;
    assert_eq!((elsewhere.status.as_u16(), &elsewhere.json()["kind"]), (422, &"id-mismatch".into()));
}

fn md5_of(text: &str) -> [u8; 16] {
    use md5::Digest;
    md5::Md5::digest(text).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zip_damaged_in_transit_is_reported_even_if_the_volume_is_stored_already() {
    let fixture = empty(DataSettings::default()).await;
    let source = sample(SALMON);
    fixture.put(&path(SALMON), parts_of(&source)).await;
    let mut broken = sample(SALMON);
    // Within the data of a page: the directory at the end still describes the stored pages.
    broken.zip.get_mut()[3_000..3_050].iter_mut().for_each(|byte| *byte ^= 0xff);
    let answer = fixture.put(&path(SALMON), parts_of(&broken)).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["kind"]), (422, &"zip".into()));
    assert_eq!(fixture.put(&path(SALMON), parts_of(&source)).await.header("penates-import"), Some("unchanged"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_replacement_changes_nothing() {
    let fixture = empty(DataSettings::default()).await;
    fixture.put(&path("t.a"), parts_of(&volume("t.a", &["one", "two"]))).await;
    let mut broken = volume("t.a", &["uno", "due"]);
    broken.mets = volume("t.a", &["uno", "tre"]).mets;
    assert_eq!(fixture.put(&path("t.a"), parts_of(&broken)).await.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(fixture.get("/volumes/t.a/pages/2").await.text(), "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_an_upload_is_refused() {
    let fixture = empty(DataSettings { import_bytes_max: 10_000, ..DataSettings::default() }).await;
    let (zip, mets): (&[u8], &[u8]) = (b"zip", b"mets");
    for (body, status, kind) in [
        (form(&[("mets", mets)]), 400, "missing-part"),
        (form(&[("zip", zip)]), 400, "missing-part"),
        (form(&[("zip", zip), ("zip", zip), ("mets", mets)]), 400, "multipart"),
        (form(&[("zip", zip), ("mets", mets), ("other", b"x")]), 400, "multipart"),
        (b"no multipart".to_vec(), 400, "multipart"),
        (form(&[("zip", zip)])[..60].to_vec(), 400, "multipart"),
        (form(&[("zip", &[0; 10_001]), ("mets", mets)]), 413, "too-large"),
        (form(&[("zip", zip), ("mets", mets), ("record", &[0; (1 << 20) + 1])]), 413, "too-large"),
    ] {
        let answer = fixture.put(&path("t.a"), body).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["kind"]), (status, &kind.into()), "{}", answer.text());
    }
    let json = fixture.ask(Method::PUT, &path("t.a")).header(header::CONTENT_TYPE, "application/json").body("{}");
    assert_eq!(json.answer().await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let untyped = fixture.ask(Method::PUT, &path("t.a")).body("{}");
    assert_eq!(untyped.answer().await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let no_boundary = fixture.ask(Method::PUT, &path("t.a")).header(header::CONTENT_TYPE, "multipart/form-data");
    assert_eq!(no_boundary.answer().await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_never_fits_into_the_memory_is_too_large_and_not_refused_for_now() {
    // A request gets 3.5 MiB of it at most.
    let options = LibraryOptions { memory_bytes: 8 << 20, ..LibraryOptions::default() };
    let fixture = empty_with(DataSettings::default(), options).await;
    let mut source = volume("t.a", &["one"]);
    // It takes twice its length, and its share is doubled as it arrives.
    source.mets.resize(5 << 18, b' ');
    assert_eq!(fixture.put(&path("t.a"), parts_of(&source)).await.status, StatusCode::CREATED);
    source.mets.resize(2 << 20, b' ');
    let refused = fixture.put(&path("t.a"), parts_of(&source)).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["kind"]), (413, &"too-large".into()), "{}", refused.text());
    assert_eq!(fixture.library.memory.taken_bytes(), 0);
}

/// A body that begins like this and goes on for 64 MiB, and how many bytes of it were asked for.
fn long(start: &'static str) -> (Body, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let rest = std::iter::repeat_n(Bytes::from_static(&[b'a'; 16 << 10]), 4 << 10);
    let pieces = std::iter::once(Bytes::from_static(start.as_bytes())).chain(rest).map(move |piece| {
        count.fetch_add(piece.len(), Ordering::Relaxed);
        Ok::<_, std::io::Error>(piece)
    });
    (Body::from_stream(futures::stream::iter(pieces)), asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn little_is_read_of_an_upload_that_never_gets_to_a_part() {
    let fixture = empty(DataSettings::default()).await;
    for start in ["", "------a-boundary\r\nA: "] {
        let (body, asked) = long(start);
        let answer = fixture.put(&path("t.a"), body).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["kind"]), (413, &"too-large".into()), "{}", answer.text());
        let asked = asked.load(Ordering::Relaxed);
        assert!(asked < 128 << 10, "{start}: {asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_disappears_leaves_nothing_behind() {
    let fixture = empty(DataSettings::default()).await;
    let body = parts_of(&sample(SALMON));
    let sent = Bytes::copy_from_slice(&body[..body.len() / 2]);
    let broken = futures::stream::iter([Ok(sent), Err(std::io::Error::other("the connection broke"))]);
    let answer = fixture.put(&path(SALMON), Body::from_stream(broken)).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["kind"]), (400, &"body-broken".into()));
    assert_eq!(fixture.get("/volumes/").await.text(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zip_too_large_for_memory_is_imported() {
    let fixture = empty(DataSettings::default()).await;
    // Text that does not compress, so that the ZIP does not fit into its memory.
    let mut state = 1_u64;
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + (state >> 33) as u8 % 94)
    };
    let texts: Vec<String> = (0..4).map(|_| (0..2_000_000).map(|_| word()).collect()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let source = volume("t.big", &texts);
    assert!(source.zip.get_ref().len() > 4 << 20);
    assert_eq!(fixture.put(&path("t.big"), parts_of(&source)).await.status, StatusCode::CREATED);
    assert_eq!(fixture.get("/volumes/t.big/pages/4").await.text(), texts[3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_importers_each_get_their_outcome_and_no_mixture_is_stored() {
    for round in 0..5 {
        let fixture = empty(DataSettings::default()).await;
        let (one, two) = (["one", "1", "I"], ["two", "2", "II", "ii"]);
        let put = async |texts: &[&str]| fixture.put(&path("t.a"), parts_of(&volume("t.a", texts))).await;
        let (a, b) = tokio::join!(put(&one), put(&two));
        for answer in [&a, &b] {
            assert!([201, 204, 409].contains(&answer.status.as_u16()), "round {round}: {}", answer.status);
        }
        assert!(a.status.is_success() || b.status.is_success(), "round {round}");
        let entries = fixture.get("/volumes?volumeIDs=t.a").await.entries();
        let texts: Vec<&str> = entries[1..].iter().map(|(_, text)| text.as_str()).collect();
        assert!(texts == one || texts == two, "round {round}: {texts:?}");
        assert_eq!(fixture.get("/volumes/").await.text(), "t.a\n", "listed once");
    }
}
