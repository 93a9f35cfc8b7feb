//! Ranges, conditions and selections: a download that breaks at any byte can be resumed and is
//! byte-identical.
use std::time::Duration;

use crate::support::{Fixture, MACMAHON, Reply, SALMON, cleaned, volume, with_samples};
use ::volumes::Unchanged;
use audit::Requester;
use door_data::DataSettings;
use http::{Method, StatusCode, header};
use proptest::test_runner::{Config, TestRunner};

async fn fixture() -> Fixture {
    with_samples(DataSettings::default(), &[MACMAHON, SALMON]).await
}

fn both() -> String {
    format!("/volumes?volumeIDs={SALMON}|none.such|{MACMAHON}&mets=true")
}

async fn range(fixture: &Fixture, path: &str, range: &str) -> Reply {
    fixture.ask(Method::GET, path).header(header::RANGE, range).answer().await
}

#[test]
fn any_range_is_a_slice_of_the_whole() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let fixture = runtime.block_on(fixture());
    for query in ["", "&level=0", "&concat=true"] {
        let path = both() + query;
        let whole = runtime.block_on(fixture.get(&path));
        let len = whole.body.len();
        let is_a_slice = |(first, count): (usize, usize)| {
            let last = (first + count - 1).min(len - 1);
            let part = runtime.block_on(range(&fixture, &path, &format!("bytes={first}-{}", first + count - 1)));
            assert_eq!(part.status, StatusCode::PARTIAL_CONTENT);
            assert_eq!(part.header("content-range").unwrap(), format!("bytes {first}-{last}/{len}"));
            assert_eq!(part.header("content-length").unwrap(), part.body.len().to_string());
            assert_eq!(part.header("etag"), whole.header("etag"));
            assert!(part.body == whole.body[first..=last], "bytes {first}-{last} of {path}");
        };
        [(0, 1), (len - 1, 1), (len - 22, 22), (0, len)].into_iter().for_each(is_a_slice);
        let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
        runner
            .run(&(0..len, 1..=len), |case| {
                is_a_slice(case);
                Ok(())
            })
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn suffixes_and_several_ranges_are_slices_too() {
    let fixture = fixture().await;
    let whole = fixture.get(&both()).await;
    let len = whole.body.len();
    let suffix = range(&fixture, &both(), "bytes=-1000").await;
    assert_eq!(suffix.body, whole.body[len - 1000..]);
    let several = range(&fixture, &both(), "bytes=100-199, 0-0, -5").await;
    assert_eq!(several.status, StatusCode::PARTIAL_CONTENT);
    assert_eq!(several.header("content-length").unwrap(), several.body.len().to_string());
    let boundary = several.header("content-type").unwrap().strip_prefix("multipart/byteranges; boundary=").unwrap();
    let parts = parts(&several.body, boundary);
    let expected = [(100, 199), (0, 0), (len - 5, len - 1)].map(|(first, last)| {
        let header = format!("Content-Type: application/zip\r\nContent-Range: bytes {first}-{last}/{len}");
        (header, whole.body[first..=last].to_vec())
    });
    assert_eq!(parts, expected);
    let beyond = range(&fixture, &both(), &format!("bytes={len}-")).await;
    assert_eq!(beyond.status, StatusCode::RANGE_NOT_SATISFIABLE);
    assert_eq!(beyond.header("content-range").unwrap(), format!("bytes */{len}"));
}

/// Headers and bytes of each part of a multipart body.
fn parts(body: &[u8], boundary: &str) -> Vec<(String, Vec<u8>)> {
    let find =
        |haystack: &[u8], needle: &str| haystack.windows(needle.len()).position(|part| part == needle.as_bytes());
    let delimiter = format!("\r\n--{boundary}");
    let mut rest = &body[delimiter.len()..];
    let mut parts = Vec::new();
    while !rest.starts_with(b"--\r\n") {
        let headers = find(rest, "\r\n\r\n").unwrap();
        let text = &rest[headers + 4..];
        let end = find(text, &delimiter).unwrap();
        parts.push((String::from_utf8(rest[2..headers].to_vec()).unwrap(), text[..end].to_vec()));
        rest = &text[end + delimiter.len()..];
    }
    parts
}

#[tokio::test(flavor = "multi_thread")]
async fn if_range_and_conditions_compare_the_tag() {
    let fixture = fixture().await;
    let path = format!("/volumes?volumeIDs={SALMON}");
    let whole = fixture.get(&path).await;
    let etag = whole.header("etag").unwrap().to_owned();
    let ask = || fixture.ask(Method::GET, &path).header(header::RANGE, "bytes=5-");
    let same = ask().header(header::IF_RANGE, &etag).answer().await;
    assert_eq!((same.status, &same.body[..]), (StatusCode::PARTIAL_CONTENT, &whole.body[5..]));
    fixture.library.volumes.import(crate::support::sample(SALMON), Unchanged::Force, |_| {}).await.unwrap();
    let changed = ask().header(header::IF_RANGE, &etag).answer().await;
    assert_eq!((changed.status, &changed.body), (StatusCode::OK, &whole.body), "another revision with the same texts");
    assert_ne!(changed.header("etag"), Some(etag.as_str()));
    let refused = fixture.ask(Method::GET, &path).header(header::IF_MATCH, &etag).answer().await;
    assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED);
    let etag = changed.header("etag").unwrap();
    let known = fixture.ask(Method::GET, &path).header(header::IF_NONE_MATCH, etag).answer().await;
    assert_eq!((known.status, known.body.len()), (StatusCode::NOT_MODIFIED, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_ignores_ranges_and_names_the_selection_that_resumes_it() {
    let fixture = fixture().await;
    let form = format!("volumeIDs={MACMAHON}|none.such");
    let ask = fixture.ask(Method::POST, "/data-api/volumes").header(header::RANGE, "bytes=5-");
    let posted =
        ask.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(form.clone()).answer().await;
    assert_eq!(posted.status, StatusCode::OK);
    let address = posted.header("content-location").unwrap();
    assert!(address.starts_with("/data-api/selections/"), "{address}");
    let resumed = range(&fixture, address, "bytes=5-").await;
    assert_eq!((resumed.status, &resumed.body[..]), (StatusCode::PARTIAL_CONTENT, &posted.body[5..]));
    assert_eq!(resumed.header("etag"), posted.header("etag"));
    let level_9 = fixture.post("/volumes", &(form + "&level=9")).await;
    assert_eq!(level_9.header("content-location"), None, "its bytes are not the same a second time");
}

#[tokio::test(flavor = "multi_thread")]
async fn post_selections_can_be_turned_off() {
    let settings = DataSettings { post_selection: false, ..DataSettings::default() };
    let fixture = with_samples(settings, &[SALMON]).await;
    let posted = fixture.post("/volumes", &format!("volumeIDs={SALMON}")).await;
    assert_eq!((posted.status, posted.header("content-location")), (StatusCode::OK, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_stays_the_same_while_its_volumes_change() {
    let fixture = fixture().await;
    let created = fixture.post("/selections", &format!("volumeIDs={MACMAHON}|{SALMON}|none.such&mets=true")).await;
    assert_eq!(created.status, StatusCode::CREATED);
    let address = created.header("location").unwrap();
    let reported = created.json();
    assert_eq!(
        (reported["address"].as_str(), reported["volumes"].as_u64(), reported["missing"].as_u64()),
        (Some(address), Some(2), Some(1))
    );
    let before = fixture.get(address).await;
    assert_eq!(before.header("content-disposition"), Some("attachment; filename=\"selection.zip\""));
    assert_eq!(reported["len_bytes"].as_u64(), Some(before.body.len() as u64));
    assert_eq!(reported["etag"].as_str(), before.header("etag"));

    fixture.library.volumes.import(volume(MACMAHON, &["another text"]), Unchanged::Skip, |_| {}).await.unwrap();
    fixture.library.volumes.delete(&SALMON.parse().unwrap()).await.unwrap();
    let after = fixture.get(address).await;
    assert_eq!((after.header("etag"), &after.body), (before.header("etag"), &before.body));
    assert_eq!(range(&fixture, address, "bytes=40000-").await.body, before.body[40_000..]);
    let head = fixture.head(address).await;
    assert_eq!((head.status, &head.headers), (StatusCode::OK, &after.headers));
    let json = fixture.ask(Method::GET, address).header(header::ACCEPT, "application/json").answer().await;
    assert_eq!(json.json(), reported);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_ends_by_itself_or_when_it_is_deleted() {
    let fixture = fixture().await;
    let form = format!("pageIDs={SALMON}[1,2]&life_s=60");
    let create = async || fixture.post("/selections", &form).await.header("location").unwrap().to_owned();
    let (ends, deleted) = (create().await, create().await);
    assert_eq!(fixture.get(&ends).await.names().len(), 3);
    let delete = async |address: &str| fixture.ask(Method::DELETE, address).answer().await.status;
    assert_eq!(delete(&deleted).await, StatusCode::NO_CONTENT);
    let gone = fixture.get(&deleted).await;
    assert_eq!((gone.status, gone.header("content-type")), (StatusCode::GONE, Some("application/problem+json")));
    assert_eq!(delete(&deleted).await, StatusCode::GONE);
    fixture.clock.advance(Duration::from_secs(59));
    assert_eq!(fixture.get(&ends).await.status, StatusCode::OK);
    fixture.clock.advance(Duration::from_secs(1));
    assert_eq!(fixture.get(&ends).await.status, StatusCode::GONE);
    assert_eq!(fixture.get("/selections/0123456789abcdef0123456789abcdef").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn selections_are_limited_but_a_plain_post_never_fails_because_of_it() {
    let settings = DataSettings { selections_per_requester_max: 2, ..DataSettings::default() };
    let fixture = with_samples(settings, &[SALMON]).await;
    let form = format!("volumeIDs={SALMON}");
    for status in [201, 201, 429] {
        assert_eq!(fixture.post("/selections", &form).await.status.as_u16(), status);
    }
    let posted = fixture.post("/volumes", &format!("{form}&layout=volumes")).await;
    assert_eq!((posted.status, posted.header("content-location")), (StatusCode::OK, None));
    let request = http::Request::post("/selections").header(header::CONTENT_TYPE, "text/plain");
    let mut request = request.body(axum::body::Body::from(SALMON)).unwrap();
    request.extensions_mut().insert(Requester { name: Some("another".to_owned()), ..Requester::default() });
    let response = tower::ServiceExt::oneshot(fixture.router.clone(), request).await.unwrap();
    assert_eq!(response.status(), StatusCode::CREATED, "the limit is each requester's own");
}

#[tokio::test(flavor = "multi_thread")]
async fn posts_of_older_clients_leave_room_for_explicit_selections() {
    let settings = DataSettings { selections_per_requester_max: 4, ..DataSettings::default() };
    let fixture = with_samples(settings, &[SALMON]).await;
    let form = format!("volumeIDs={SALMON}");
    let mut named = Vec::new();
    let other_bytes_each_time = |page: u32| format!("pageIDs={SALMON}[{page}]");
    for page in 1..=5 {
        let posted = fixture.post("/pages", &other_bytes_each_time(page)).await;
        named.extend(posted.header("content-location").map(str::to_owned));
    }
    assert_eq!(named.len(), 2);
    for status in [201, 201, 429] {
        assert_eq!(fixture.post("/selections", &form).await.status.as_u16(), status);
    }
    fixture.clock.advance(Duration::from_secs(24 * 3_600));
    assert_eq!(fixture.get(&named[0]).await.status, StatusCode::GONE, "it lasts for a day");
    assert!(
        fixture.post("/pages", &other_bytes_each_time(6)).await.header("content-location").is_none(),
        "two were asked for, for a week"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_post_again_names_the_same_selection() {
    let fixture = with_samples(DataSettings::default(), &[SALMON]).await;
    let form = format!("volumeIDs={SALMON}");
    let first = fixture.post("/volumes", &form).await;
    let again = fixture.post("/volumes", &form).await;
    assert!(first.header("content-location").is_some());
    assert_eq!(again.header("content-location"), first.header("content-location"));
    assert_eq!(again.body, first.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_impossible_selection_is_refused_with_a_problem() {
    let fixture = fixture().await;
    for (form, status) in
        [("", 400), ("volumeIDs=nodot", 400), ("volumeIDs=a.1&pageIDs=yale.1[1]", 400), ("volumeIDs=a.1&level=3", 400)]
    {
        let answer = fixture.post("/selections", form).await;
        assert_eq!(answer.status.as_u16(), status, "{form}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{form}");
        assert_eq!(answer.json()["status"], status, "{form}");
    }
    for life in ["0", "x", "99999999999"] {
        let answer = fixture.post(&format!("/selections?life_s={life}"), "volumeIDs=a.1").await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{life}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn if_range_with_the_date_of_a_page_gets_all_of_it_because_its_codings_share_the_date() {
    let fixture = fixture().await;
    let path = format!("/volumes/{}/pages/7", cleaned(SALMON));
    let whole = fixture.get(&path).await;
    let ask = || fixture.ask(Method::GET, &path).header(header::RANGE, "bytes=5-");
    for date in [whole.header("last-modified").unwrap(), "Fri, 31 Dec 2100 23:59:59 GMT"] {
        for coding in ["identity", "gzip"] {
            let asked = ask().header(header::IF_RANGE, date).header(header::ACCEPT_ENCODING, coding);
            assert_eq!(asked.answer().await.status, StatusCode::OK, "{coding} of {date}");
        }
    }
    let by_tag = ask().header(header::IF_RANGE, whole.header("etag").unwrap()).answer().await;
    assert_eq!((by_tag.status, &by_tag.body[..]), (StatusCode::PARTIAL_CONTENT, &whole.body[5..]));
}
