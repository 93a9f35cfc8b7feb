//! One volume, one page, and the list of volumes.
use std::io::Read;

use crate::support::{
    Fixture, MACMAHON, Reply, SALMON, TAYLOR, cleaned, empty, sample, sample_pages, volume, with_samples,
};
use ::volumes::Unchanged;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use door_data::{DataSettings, segment};
use http::{Method, StatusCode, header};
use md5::Md5;
use sha2::{Digest, Sha256};
use store::faults::Harm;

async fn fixture() -> Fixture {
    with_samples(DataSettings::default(), &[SALMON, TAYLOR]).await
}

fn path(id: &str) -> String {
    format!("/volumes/{}", segment(&id.parse().unwrap()))
}

fn sha256(bytes: &[u8]) -> String {
    STANDARD.encode(Sha256::digest(bytes))
}

fn assert_digests(answer: &Reply) {
    let expected = sha256(&answer.body);
    assert_eq!(answer.header("repr-digest").unwrap(), format!("sha-256=:{expected}:"));
    assert_eq!(answer.header("digest").unwrap(), format!("sha-256={expected}"));
}

fn gunzipped(bytes: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_text_with_a_tag_and_a_digest() {
    let fixture = fixture().await;
    for (seq, text) in sample_pages(SALMON) {
        let answer = fixture.get(&format!("{}/pages/{seq}", path(SALMON))).await;
        assert_eq!((answer.status, answer.text()), (StatusCode::OK, text.as_str()));
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(answer.header("content-length").unwrap(), text.len().to_string());
        assert_eq!(answer.header("content-encoding"), None);
        assert_digests(&answer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gzip_page_decodes_and_has_a_tag_and_a_digest_of_its_own() {
    let fixture = fixture().await;
    for (seq, text) in sample_pages(SALMON) {
        let page = format!("{}/pages/{seq}", path(SALMON));
        let gzip = fixture.ask(Method::GET, &page).header(header::ACCEPT_ENCODING, "gzip, deflate, br").answer().await;
        assert_eq!(gzip.header("content-encoding"), Some("gzip"));
        assert_eq!(gzip.header("vary"), Some("accept-encoding"));
        assert_eq!(gunzipped(&gzip.body), text, "page {seq}");
        assert_digests(&gzip);
        assert_ne!(gzip.header("etag"), fixture.get(&page).await.header("etag"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_raw_id_as_one_segment_and_the_cleaned_id_name_the_same() {
    let fixture = fixture().await;
    let expected = &sample_pages(SALMON)[4].1;
    for id in ["psia.ark%3A%2F13960%2Ft0ks80527", "psia.ark:%2f13960%2ft0ks80527", "psia.ark+=13960=t0ks80527"] {
        for mount in ["", "/data-api"] {
            let answer = fixture.get(&format!("{mount}/volumes/{id}/pages/5")).await;
            assert_eq!((answer.status, answer.text()), (StatusCode::OK, expected.as_str()), "{mount} {id}");
        }
    }
    for id in ["nodot", ".x", "x.%FF", "a%2Fb.c", "a.%00", "x.^4a"] {
        let answer = fixture.get(&format!("/volumes/{id}/pages/5")).await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (StatusCode::BAD_REQUEST, Some("application/problem+json")),
            "{id}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_found_by_their_sequence_even_if_file_names_differ() {
    let fixture = fixture().await;
    let pages = sample_pages(TAYLOR);
    for (seq, text) in [&pages[0], &pages[9], &pages[411]] {
        assert_eq!(fixture.get(&format!("{}/pages/{seq}", path(TAYLOR))).await.text(), text);
    }
    for seq in ["0", "413", "+1", "x", "99999999999", "-1"] {
        let answer = fixture.get(&format!("{}/pages/{seq}", path(TAYLOR))).await;
        assert_eq!((answer.status, &answer.json()["kind"]), (StatusCode::NOT_FOUND, &"absent".into()), "{seq}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_the_client_has_is_not_sent_again() {
    let fixture = fixture().await;
    let page = format!("{}/pages/5", path(SALMON));
    let first = fixture.get(&page).await;
    let (etag, modified) = (first.header("etag").unwrap(), first.header("last-modified").unwrap());
    assert_eq!(modified, "Sun, 15 Jun 2025 15:06:40 GMT");
    for (name, value, status) in [
        (header::IF_NONE_MATCH, etag, 304),
        (header::IF_NONE_MATCH, "\"another\"", 200),
        (header::IF_MODIFIED_SINCE, modified, 304),
        (header::IF_MODIFIED_SINCE, "Sun, 15 Jun 2025 15:06:39 GMT", 200),
        (header::IF_MATCH, etag, 200),
        (header::IF_MATCH, "\"another\"", 412),
        (header::ACCEPT, "text/*", 200),
        (header::ACCEPT, "image/png", 406),
        (header::ACCEPT_ENCODING, "identity;q=0", 406),
    ] {
        let answer = fixture.ask(Method::GET, &page).header(name.clone(), value).answer().await;
        assert_eq!(answer.status.as_u16(), status, "{name}: {value}");
        if status == 304 {
            assert_eq!((answer.header("etag"), answer.body.len()), (Some(etag), 0));
        }
    }
    // The tag depends on the text: the same text in a new revision has the same tag.
    fixture.library.volumes.import(sample(SALMON), Unchanged::Force, |_| {}).await.unwrap();
    assert_eq!(fixture.get(&page).await.header("etag"), Some(etag));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_ranges_of_its_selected_representation() {
    let fixture = fixture().await;
    let page = format!("{}/pages/5", path(SALMON));
    for coding in ["identity", "gzip"] {
        let ask = || fixture.ask(Method::GET, &page).header(header::ACCEPT_ENCODING, coding);
        let whole = ask().answer().await;
        let part = ask().header(header::RANGE, "bytes=10-20").answer().await;
        assert_eq!((part.status, &part.body[..]), (StatusCode::PARTIAL_CONTENT, &whole.body[10..21]), "{coding}");
        assert_eq!(part.header("repr-digest"), whole.header("repr-digest"), "of the whole, not of the part");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_described_with_its_metadata() {
    let fixture = fixture().await;
    let info = fixture.get(&path(SALMON)).await.json();
    let texts = sample_pages(SALMON);
    assert_eq!(info["id"], SALMON);
    assert_eq!(info["cleaned_id"], cleaned(SALMON));
    assert_eq!(info["pages"], 24);
    assert_eq!(info["size_bytes"], texts.iter().map(|(_, text)| text.len()).sum::<usize>());
    assert_eq!((&info["rights"], &info["access_profile"]), (&"pd".into(), &"open".into()));
    assert_eq!((&info["imported"], &info["damaged"]), (&"2025-06-15T15:06:40Z".into(), &0.into()));
    assert!(info["title"].as_str().unwrap().starts_with("Salmon fry production"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_pages_matches_mets() {
    let fixture = fixture().await;
    let list = fixture.get(&format!("{}/pages/", path(TAYLOR))).await.json();
    let mets = hathi::Mets::parse(&sample(TAYLOR).mets).unwrap();
    let texts = sample_pages(TAYLOR);
    assert_eq!(list.as_array().unwrap().len(), 412, "more than are read at a time");
    for ((page, expected), (seq, text)) in list.as_array().unwrap().iter().zip(&mets.pages).zip(&texts) {
        assert_eq!((&page["seq"], &page["size_bytes"]), (&(*seq).into(), &text.len().into()));
        assert_eq!(
            (&page["label"], &page["features"]),
            (&serde_json::json!(expected.label), &serde_json::json!(expected.features))
        );
        assert_eq!(page["file_name"], expected.file_name);
        assert_eq!(page["md5"], hex::encode(Md5::digest(text)));
        assert_eq!(page["sha256"], hex::encode(Sha256::digest(text)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_volume_is_its_pages_joined_and_has_ranges() {
    let fixture = fixture().await;
    for id in [SALMON, TAYLOR] {
        let whole: String = sample_pages(id).into_iter().map(|(_, text)| text).collect();
        let address = format!("{}/text", path(id));
        let answer = fixture.get(&address).await;
        assert_eq!((answer.status, answer.text() == whole), (StatusCode::OK, true));
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        let head = fixture.head(&address).await;
        assert_eq!(head.header("content-length").unwrap(), whole.len().to_string());
        let etag = answer.header("etag").unwrap();
        assert_eq!(head.header("etag"), Some(etag));
        let known = fixture.ask(Method::GET, &address).header(header::IF_NONE_MATCH, etag).answer().await;
        assert_eq!(known.status, StatusCode::NOT_MODIFIED);
        let end = whole.len() - 1;
        for (from, to) in [(0, 0), (0, 4_999), (5_000, 20_000), (end - 10, end), (end, end), (1, end)] {
            let range = format!("bytes={from}-{to}");
            let part = fixture.ask(Method::GET, &address).header(header::RANGE, &range).answer().await;
            assert_eq!(part.status, StatusCode::PARTIAL_CONTENT, "{range}");
            assert!(part.body[..] == whole.as_bytes()[from..=to], "{range}");
        }
    }
    assert_eq!(fixture.get("/volumes/none.such/text").await.status, StatusCode::NOT_FOUND);
    fixture.damage_a_pack(SALMON, Harm::FlippedBit, false).await;
    let (_, _, body) = fixture.ask(Method::GET, &format!("{}/text", path(SALMON))).sent().await;
    assert!(axum::body::to_bytes(body, usize::MAX).await.is_err(), "it breaks off");
    let again = fixture.get(&format!("{}/text", path(SALMON))).await;
    assert_eq!(again.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(again.text().contains("damaged"), "{}", again.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn mets_and_record_are_returned_as_imported() {
    let fixture = fixture().await;
    let source = sample(SALMON);
    let mets = fixture.get(&format!("{}/mets", path(SALMON))).await;
    assert_eq!((mets.header("content-type"), &mets.body[..]), (Some("application/xml"), &source.mets[..]));
    assert_digests(&mets);
    let record = fixture.get(&format!("{}/record", path(SALMON))).await;
    assert_eq!(
        (record.header("content-type"), &record.body[..]),
        (Some("application/json"), &source.record.unwrap()[..])
    );
    fixture.library.volumes.import(volume("t.a", &["x"]), Unchanged::Skip, |_| {}).await.unwrap();
    assert_eq!(fixture.get("/volumes/t.a/record").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn absent_and_deleted_volumes_are_distinguished() {
    let fixture = fixture().await;
    for (id, status) in [("none.such".to_owned(), 404), (SALMON.to_owned(), 204), (SALMON.to_owned(), 410)] {
        let answer = fixture.ask(Method::DELETE, &path(&id)).answer().await;
        assert_eq!(answer.status.as_u16(), status, "{id}");
    }
    for rest in ["", "/pages/", "/pages/1", "/mets", "/record"] {
        assert_eq!(fixture.get(&format!("{}{rest}", path(SALMON))).await.status, StatusCode::GONE, "{rest}");
        assert_eq!(fixture.get(&format!("/volumes/none.such{rest}")).await.status, StatusCode::NOT_FOUND, "{rest}");
    }
    let verify = fixture.ask(Method::POST, &format!("{}/verify", path(SALMON))).answer().await;
    assert_eq!(verify.status, StatusCode::GONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn verifying_reports_that_everything_is_sound() {
    let fixture = fixture().await;
    let report = fixture.ask(Method::POST, &format!("{}/verify", path(SALMON))).answer().await.json();
    assert_eq!((&report["sound"], &report["damaged"]), (&true.into(), &serde_json::json!([])));
    assert_eq!(report["members"], 26, "24 pages, METS and record");
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_listed_in_the_requested_format() {
    let fixture = with_samples(DataSettings::default(), &[SALMON, TAYLOR, MACMAHON]).await;
    let accepting =
        |media_type| fixture.ask(Method::GET, "/volumes/?fields=id").header(header::ACCEPT, media_type).answer();
    let text = fixture.get("/volumes/").await;
    assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
    let listed: Vec<&str> = text.text().lines().collect();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [SALMON, MACMAHON, TAYLOR]);
    let objects: Vec<_> = listed.iter().map(|id| serde_json::json!({ "id": id })).collect();
    let json = accepting("application/json").await;
    assert_eq!(json.json(), serde_json::json!({ "volumes": objects, "next": null }));
    let lines = accepting("application/x-ndjson").await;
    let parsed: Vec<serde_json::Value> = lines.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(parsed, objects);
    let html = accepting("text/html,application/xhtml+xml,*/*;q=0.8").await;
    assert_eq!(html.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(html.text().contains("<tr><td><a href=\"psia.ark%3A%2F13960%2Ft0ks80527\">psia.ark:/13960/t0ks80527</a>"));
    assert_eq!(accepting("image/png").await.status, StatusCode::NOT_ACCEPTABLE);
    assert_eq!(fixture.get("/data-api/volumes/?format=json&fields=id").await.json(), json.json());
    assert_eq!(fixture.get("/volumes/?format=xml").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_can_be_read_in_parts() {
    let fixture = empty(DataSettings::default()).await;
    for number in 0..7 {
        fixture
            .library
            .volumes
            .import(volume(&format!("t.{number}<&>"), &["x"]), Unchanged::Skip, |_| {})
            .await
            .unwrap();
    }
    let whole = fixture.get("/volumes/").await;
    let mut path = "/volumes/?limit=3&format=json".to_owned();
    let mut stretches: Vec<Vec<String>> = Vec::new();
    loop {
        let answer = fixture.get(&path).await;
        let json = answer.json();
        let ids = json["volumes"].as_array().unwrap().iter().map(|volume| volume["id"].as_str().unwrap().to_owned());
        stretches.push(ids.collect());
        let Some(next) = json["next"].as_str() else {
            assert_eq!(answer.header("link"), None);
            break;
        };
        let link = format!("<?after={next}&limit=3&format=json>; rel=\"next\"");
        assert_eq!(answer.header("link"), Some(link.as_str()), "it leads to the same form");
        path = format!("/volumes/?limit=3&format=json&after={next}");
    }
    assert!(stretches.iter().all(|stretch| stretch.len() <= 3) && stretches.len() >= 3);
    let joined: Vec<String> = stretches.concat();
    assert_eq!(joined, whole.text().lines().collect::<Vec<_>>());
    let html = fixture.get("/volumes/?format=html").await;
    assert!(html.text().contains("t.0&lt;&amp;&gt;</a>") && !html.text().contains("<&>"));
    let stretch = fixture.get("/volumes/?format=html&limit=3").await;
    assert!(stretch.text().contains("&amp;limit=3&amp;format=html\">Next page</a>"), "{}", stretch.text());
    assert!(!html.text().contains("Next page") && !html.text().contains("Previous page"), "{}", html.text());
    for query in ["limit=0", "limit=10001", "limit=x", "after=%00"] {
        assert_eq!(fixture.get(&format!("/volumes/?{query}")).await.status, StatusCode::BAD_REQUEST, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_library_is_an_empty_list() {
    let fixture = empty(DataSettings::default()).await;
    assert_eq!(fixture.get("/volumes/").await.text(), "");
    assert_eq!(fixture.get("/volumes/?format=json").await.json(), serde_json::json!({ "volumes": [], "next": null }));
}
