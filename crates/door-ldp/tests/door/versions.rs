//! Earlier versions: RFC 7089 (Memento), and the Fedora API, section 4. Tests of normative
//! statements are named after them.

use std::time::Duration;

use heads::{History, Keep, LibraryOptions};
use http::{Method, StatusCode};

use crate::support::{Fixture, ROOT, Reply, fixture, fixture_keeping, fixture_with};

const MEMENTO: &str = "http://mementoweb.org/ns#";
/// When the clock of a fixture begins, and its version.
const BEGIN: &str = "Sun, 15 Jun 2025 15:06:40 GMT";

/// The title that version `n` of a test resource has.
fn titled(n: usize) -> String {
    format!("<> <http://purl.org/dc/terms/title> \"{n}\" .")
}

/// A source at `path` with versions 0, 1, 2…, a minute apart, the last one a minute ago.
async fn versioned(fixture: &Fixture, path: &str, versions: usize) {
    for n in 0..versions {
        let put = fixture.put(path, &titled(n)).of_class("RDFSource").answer().await;
        assert!(put.status.is_success(), "{}", put.text());
        fixture.clock.advance(Duration::from_secs(60));
    }
}

async fn at(fixture: &Fixture, path: &str, datetime: &str) -> Reply {
    fixture.ask(Method::GET, path).header("accept-datetime", datetime).answer().await
}

/// The path of an address here.
fn path_of(iri: &str) -> String {
    iri.strip_prefix("http://test").unwrap().to_owned()
}

async fn follow(fixture: &Fixture, redirection: &Reply) -> Reply {
    assert_eq!(redirection.status, StatusCode::FOUND, "{}", redirection.text());
    fixture.get(&path_of(redirection.header("location").unwrap())).await
}

async fn links_of(fixture: &Fixture, path: &str) -> Reply {
    fixture.ask(Method::GET, path).header("accept", "application/link-format").answer().await
}

/// The addresses in a TimeMap, in order.
async fn listed(fixture: &Fixture, path: &str) -> Vec<String> {
    let map = links_of(fixture, path).await;
    assert_eq!(map.status, StatusCode::OK, "{}", map.text());
    let mementos = map.text().lines().filter(|line| line.contains("memento\""));
    mementos.map(|line| line[1..line.find('>').unwrap()].to_owned()).collect()
}

fn varies(reply: &Reply) -> bool {
    reply.headers.get_all("vary").iter().any(|value| value == "Accept-Datetime")
}

// RFC 7089.

#[tokio::test(flavor = "multi_thread")]
async fn rfc7089_2_1_1_a_malformed_accept_datetime_is_400() {
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 1).await;
    for datetime in
        ["", "yesterday", "Mon, 15 Jun 2025 15:06:40 GMT", "2025-06-15T15:06:40Z", "Sun, 31 Feb 2025 00:00:00 GMT"]
    {
        let refused = at(&fixture, "/rest/a", datetime).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{datetime}");
        assert!(refused.detail().contains("accept-datetime"), "{}", refused.detail());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_different_times_of_accept_datetime_are_400_and_a_repeated_one_is_one() {
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 2).await;
    for (second, status) in [(BEGIN, StatusCode::FOUND), ("Mon, 16 Jun 2025 15:06:40 GMT", StatusCode::BAD_REQUEST)] {
        let ask = fixture.ask(Method::GET, "/rest/a").header("accept-datetime", BEGIN);
        let answer = ask.header("accept-datetime", second).answer().await;
        assert_eq!(answer.status, status, "{second}: {}", answer.text());
        if status == StatusCode::BAD_REQUEST {
            assert!(answer.detail().contains("different values"), "{}", answer.detail());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rfc7089_2_1_1_a_memento_has_its_memento_datetime_and_other_resources_have_none() {
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 2).await;
    let redirection = at(&fixture, "/rest/a", BEGIN).await;
    assert_eq!(redirection.header("memento-datetime"), None);
    assert_eq!(follow(&fixture, &redirection).await.header("memento-datetime"), Some(BEGIN));
    for path in ["/rest/a", "/rest/a/fcr:versions"] {
        assert_eq!(fixture.get(path).await.header("memento-datetime"), None, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rfc7089_2_1_2_a_resource_that_negotiates_in_time_varies_by_accept_datetime() {
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 1).await;
    fixture.ask(Method::PUT, "/rest/b").header("content-type", "text/plain").body("b").answer().await;
    for path in ["/rest/a", "/rest/b", "/rest/b/fcr:metadata", "/rest/"] {
        assert!(varies(&fixture.get(path).await), "{path}");
        let redirection = at(&fixture, path, BEGIN).await;
        assert!(redirection.status == StatusCode::FOUND && varies(&redirection), "{path}");
        assert!(redirection.body.is_empty());
        assert!(!varies(&follow(&fixture, &redirection).await), "{path}: a memento does not negotiate");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rfc7089_2_2_each_role_says_where_the_others_are() {
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 3).await;
    let (original, list) = (vec![format!("{ROOT}a")], vec![format!("{ROOT}a/fcr:versions")]);
    let redirection = at(&fixture, "/rest/a", BEGIN).await;
    let memento = follow(&fixture, &redirection).await;
    for reply in [&fixture.get("/rest/a").await, &redirection, &memento, &fixture.get("/rest/a/fcr:versions").await] {
        assert_eq!(
            (reply.links("original"), reply.links("timegate"), reply.links("timemap")),
            (original.clone(), original.clone(), list.clone())
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rfc7089_2_2_4_a_memento_links_to_first_last_prev_and_next() {
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 4).await;
    let all = listed(&fixture, "/rest/a/fcr:versions").await;
    assert_eq!(all.len(), 4);
    for (n, memento) in all.iter().enumerate() {
        let reply = fixture.get(&path_of(memento)).await;
        let one = |rel: &str| reply.links(&format!("{rel} memento"));
        assert_eq!((one("first"), one("last")), (vec![all[0].clone()], vec![all[3].clone()]));
        assert_eq!(one("prev"), n.checked_sub(1).map(|n| all[n].clone()).into_iter().collect::<Vec<_>>());
        assert_eq!(one("next"), all.get(n + 1).cloned().into_iter().collect::<Vec<_>>());
        let first = reply.headers.get_all("link").iter().find(|link| link.to_str().unwrap().contains("first memento"));
        assert!(first.unwrap().to_str().unwrap().ends_with(&format!("datetime=\"{BEGIN}\"")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rfc7089_4_1_1_the_resource_is_its_own_timegate_and_redirects_to_the_version_in_force() {
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 3).await;
    for (datetime, n) in [
        (BEGIN, 0),
        ("Sun, 15 Jun 2025 15:07:39 GMT", 0),
        ("Sun, 15 Jun 2025 15:07:40 GMT", 1),
        ("Sun, 15 Jun 2025 15:08:39 GMT", 1),
        ("Sun, 15 Jun 2025 15:08:40 GMT", 2),
    ] {
        let memento = follow(&fixture, &at(&fixture, "/rest/a", datetime).await).await;
        assert_eq!(memento.status, StatusCode::OK);
        assert!(memento.says(&format!("<a> dc:title \"{n}\" .")), "{datetime}: {}", memento.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rfc7089_4_5_3_a_time_before_the_first_version_is_answered_with_the_first_and_one_after_the_last_with_the_last()
{
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 3).await;
    for (datetime, n) in [
        ("Sat, 14 Jun 2025 15:06:40 GMT", 0),
        ("Wed, 31 Dec 1969 23:59:59 GMT", 0),
        ("Mon, 01 Jan 0001 00:00:00 GMT", 0),
        ("Mon, 16 Jun 2025 15:06:40 GMT", 2),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 2),
    ] {
        let redirection = at(&fixture, "/rest/a", datetime).await;
        assert_eq!(redirection.status, StatusCode::FOUND, "{datetime}: {}", redirection.text());
        assert!(follow(&fixture, &redirection).await.says(&format!("<a> dc:title \"{n}\" .")), "{datetime}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rfc7089_4_5_5_a_memento_ignores_accept_datetime() {
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 2).await;
    let all = listed(&fixture, "/rest/a/fcr:versions").await;
    let reply = at(&fixture, &path_of(&all[1]), BEGIN).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert!(reply.says("<a> dc:title \"1\" ."));
}

#[tokio::test(flavor = "multi_thread")]
async fn rfc7089_5_a_timemap_lists_the_original_the_timegate_itself_and_all_mementos_with_their_datetimes() {
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 3).await;
    let map = links_of(&fixture, "/rest/a/fcr:versions").await;
    assert_eq!(map.header("content-type"), Some("application/link-format"));
    let until = "Sun, 15 Jun 2025 15:08:40 GMT";
    let own = format!(
        "<{ROOT}a/fcr:versions>; rel=\"self\"; type=\"application/link-format\"; from=\"{BEGIN}\"; until=\"{until}\""
    );
    let memento = |name: &str, rel: &str, datetime: &str| {
        format!("<{ROOT}a/fcr:versions/{name}>; rel=\"{rel}\"; datetime=\"{datetime}\"")
    };
    let lines = [
        format!("<{ROOT}a>; rel=\"original\""),
        format!("<{ROOT}a>; rel=\"timegate\""),
        own,
        memento("20250615150640", "first memento", BEGIN),
        memento("20250615150740", "memento", "Sun, 15 Jun 2025 15:07:40 GMT"),
        memento("20250615150840", "last memento", until),
    ];
    assert_eq!(map.text(), lines.join(",\n") + "\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn rfc7089_5_1_2_a_timemap_comes_in_pages_that_lead_to_each_other() {
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 7).await;
    let all = listed(&fixture, "/rest/a/fcr:versions").await;
    let (mut found, mut next) = (Vec::new(), Some("/rest/a/fcr:versions?limit=3".to_owned()));
    let mut pages = 0;
    while let Some(page) = next {
        found.extend(listed(&fixture, &page).await);
        let reply = links_of(&fixture, &page).await;
        next = reply.links("next").first().map(|next| path_of(next));
        assert_eq!(reply.text().contains("rel=\"timemap\""), next.is_some());
        pages += 1;
    }
    assert_eq!((pages, found), (3, all.clone()));
    let some = listed(&fixture, "/rest/a/fcr:versions?from=20250615150700&until=20250615150840").await;
    assert_eq!(some, all[1..3]);
    assert!(listed(&fixture, "/rest/a/fcr:versions?from=20260101000000").await.is_empty());
    for query in ["limit=0", "limit=10001", "limit=x", "from=x", "until=20251315150640"] {
        let refused = fixture.get(&format!("/rest/a/fcr:versions?{query}")).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_a_date_where_all_versions_are_kept_and_only_a_tag_where_time_removes_them() {
    let days = |days: u64| Duration::from_secs(days * 86_400);
    for (keep, is_dated) in [(Keep::All, true), (Keep::For(days(30)), false)] {
        let fixture = keeping(keep).await;
        versioned(&fixture, "/rest/a", 2).await;
        // No other version can come to this second any more.
        fixture.clock.advance(Duration::from_secs(3_600));
        let before = links_of(&fixture, "/rest/a/fcr:versions").await;
        assert_eq!(before.header("last-modified").is_some(), is_dated, "{before:?}");
        let first = path_of(&listed(&fixture, "/rest/a/fcr:versions").await[0]);
        fixture.clock.advance(days(31));
        let again = |name: &str, value: &str| {
            let ask = fixture.ask(Method::GET, "/rest/a/fcr:versions").header("accept", "application/link-format");
            ask.header(name, value).answer()
        };
        let (of_first, of_list) = match is_dated {
            true => (StatusCode::OK, StatusCode::NOT_MODIFIED),
            false => (StatusCode::NOT_FOUND, StatusCode::OK),
        };
        assert_eq!(fixture.get(&first).await.status, of_first);
        let tag = before.etag();
        for (name, value) in [("if-modified-since", "Mon, 16 Jun 2025 15:06:40 GMT"), ("if-none-match", &*tag)] {
            assert_eq!(again(name, value).await.status, of_list, "{name}");
        }
    }
}

// Fedora API, section 4.

#[tokio::test(flavor = "multi_thread")]
async fn fedora_4_a_resource_that_is_created_as_an_original_resource_is_versioned() {
    for keep in [Keep::All, Keep::Explicit] {
        let fixture = keeping(keep).await;
        fixture.make("/rest/c", "BasicContainer", "").await;
        for class in ["OriginalResource", "TimeGate"] {
            let link = format!("<{MEMENTO}{class}>; rel=\"type\"");
            for (method, path, media_type) in [
                (Method::POST, "/rest/c", "text/turtle"),
                (Method::POST, "/rest/c", "text/plain"),
                (Method::PUT, &*format!("/rest/c/{class}"), "text/turtle"),
            ] {
                let ask = fixture.ask(method.clone(), path).header("content-type", media_type).header("link", &link);
                let made = ask.body(titled(0)).answer().await;
                assert_eq!(made.status, StatusCode::CREATED, "{method} {media_type}: {}", made.text());
                let made = path_of(made.header("location").unwrap());
                let types = fixture.get(&made).await.links("type");
                assert!(types.contains(&format!("{MEMENTO}OriginalResource")), "{types:?}");
                assert_eq!(types.contains(&format!("{}NonRDFSource", crate::support::LDP)), media_type == "text/plain");
                assert_eq!(fixture.get(&format!("{made}/fcr:versions")).await.status, StatusCode::OK);
                // A client may send back the types that it read.
                let put = fixture.ask(Method::PUT, &made).header("content-type", media_type).header("link", &link);
                assert_eq!(put.body(titled(1)).answer().await.status, StatusCode::NO_CONTENT, "{media_type}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fedora_4_3_3_a_refused_request_for_a_version_leads_to_the_rules() {
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 1).await;
    let begun = fixture.ask(Method::POST, "/rest/fcr:tx").answer().await;
    let transaction = begun.header("location").unwrap();
    for (name, value) in [("memento-datetime", BEGIN), ("atomic-id", transaction)] {
        let refused = fixture.ask(Method::POST, "/rest/a/fcr:versions").header(name, value).answer().await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{name}: {}", refused.text());
        assert_eq!(refused.links(&format!("{}constrainedBy", crate::support::LDP)).len(), 1, "{name}: {refused:?}");
    }
    let body = fixture.ask(Method::POST, "/rest/a/fcr:versions").header("content-type", "text/turtle").body(titled(7));
    let made = body.answer().await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    let made = fixture.get(&path_of(made.header("location").unwrap())).await;
    assert!(made.says("<a> dc:title \"0\" .") && !made.says("<a> dc:title \"7\" ."), "{}", made.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn fedora_4_1_1_a_versioned_resource_has_the_types_original_resource_and_timegate() {
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 1).await;
    for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
        let reply = fixture.ask(method, "/rest/a").answer().await;
        for class in ["OriginalResource", "TimeGate"] {
            assert!(reply.links("type").contains(&format!("{MEMENTO}{class}")), "{reply:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fedora_4_2_a_version_is_never_modified() {
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 2).await;
    let memento = path_of(&listed(&fixture, "/rest/a/fcr:versions").await[0]);
    let before = fixture.get(&memento).await;
    for method in [Method::PUT, Method::POST, Method::PATCH, Method::DELETE] {
        let refused =
            fixture.ask(method.clone(), &memento).header("content-type", "text/turtle").body("").answer().await;
        assert_eq!(
            (refused.status, refused.header("allow")),
            (StatusCode::METHOD_NOT_ALLOWED, Some("GET, HEAD, OPTIONS")),
            "{method}"
        );
    }
    versioned(&fixture, "/rest/a", 2).await;
    fixture.ask(Method::DELETE, "/rest/a").answer().await;
    let after = fixture.get(&memento).await;
    assert_eq!((before.body, before.headers.get("etag")), (after.body, after.headers.get("etag")));
}

#[tokio::test(flavor = "multi_thread")]
async fn fedora_4_2_1_a_version_has_the_type_memento_and_offers_only_reading() {
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 1).await;
    let memento = path_of(&listed(&fixture, "/rest/a/fcr:versions").await[0]);
    for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
        let reply = fixture.ask(method.clone(), &memento).answer().await;
        assert_eq!((reply.status, reply.header("allow")), (StatusCode::OK, Some("GET, HEAD, OPTIONS")), "{method}");
        assert!(reply.links("type").contains(&format!("{MEMENTO}Memento")) && reply.is("RDFSource"), "{method}");
        assert!(!reply.headers.contains_key("accept-patch") && !reply.headers.contains_key("accept-post"));
    }
    assert!(fixture.ask(Method::HEAD, &memento).answer().await.body.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn fedora_4_3_the_list_of_versions_is_a_container_and_a_timemap_that_the_original_does_not_contain() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
        let reply = fixture.ask(method, "/rest/c/fcr:versions").answer().await;
        assert_eq!(reply.status, StatusCode::OK);
        assert!(
            reply.links("type").contains(&format!("{MEMENTO}TimeMap"))
                && reply.is("Container")
                && reply.is("RDFSource")
        );
        assert!(reply.header("allow").unwrap().starts_with("GET, HEAD, OPTIONS"));
    }
    for accept in ["text/turtle", "application/ld+json", "application/n-triples"] {
        let map = fixture.ask(Method::GET, "/rest/c/fcr:versions").header("accept", accept).answer().await;
        assert_eq!(map.header("content-type"), Some(accept));
        assert_eq!(
            map.objects(&format!("{ROOT}c/fcr:versions"), "contains"),
            [format!("{ROOT}c/fcr:versions/20250615150640")]
        );
        assert!(map.says("<c/fcr:versions> <http://mementoweb.org/ns#original> <c> ."));
    }
    assert!(fixture.get("/rest/c").await.objects(&format!("{ROOT}c"), "contains").is_empty());
    let text = fixture.ask(Method::GET, "/rest/c/fcr:versions").header("accept", "image/png").answer().await;
    assert_eq!(text.status, StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_of_bytes_have_ranges_digests_and_conditions_and_their_descriptions_have_versions_too() {
    let fixture = fixture().await;
    let put = |body: &'static str| {
        fixture.ask(Method::PUT, "/rest/b").header("content-type", "text/plain").body(body).answer()
    };
    put("first bytes").await;
    fixture.clock.advance(Duration::from_secs(60));
    fixture.put("/rest/b/fcr:metadata", &titled(1)).answer().await;
    fixture.clock.advance(Duration::from_secs(60));
    put("other bytes, and more").await;
    let bytes = listed(&fixture, "/rest/b/fcr:versions").await;
    let described = listed(&fixture, "/rest/b/fcr:metadata/fcr:versions").await;
    assert_eq!((bytes.len(), described.len()), (3, 3), "a change of either is a version of both");
    let first = fixture.get(&path_of(&bytes[0])).await;
    assert_eq!((first.text(), first.header("content-type")), ("first bytes", Some("text/plain")));
    assert_eq!(first.links("describedby"), [described[0].clone()]);
    assert!(first.header("digest").is_some());
    let ask = || fixture.ask(Method::GET, &path_of(&bytes[0]));
    let range = ask().header("range", "bytes=6-").answer().await;
    assert_eq!((range.status, range.text()), (StatusCode::PARTIAL_CONTENT, "bytes"));
    assert_eq!(range.header("memento-datetime"), Some(BEGIN));
    let known = ask().header("if-none-match", &first.etag()).answer().await;
    assert_eq!(known.status, StatusCode::NOT_MODIFIED);
    let then = fixture.get(&path_of(&described[1])).await;
    assert!(then.says("<b> dc:title \"1\" ."));
    assert_eq!(then.links("describes"), [bytes[1].clone()]);
    let before = fixture.get(&path_of(&described[0])).await;
    assert!(!before.says("<b> dc:title \"1\" ."));
    assert_eq!(at(&fixture, "/rest/b/fcr:metadata", BEGIN).await.header("location"), Some(&*described[0]));
    let of_graph = fixture.get("/rest/fcr:metadata/fcr:versions").await;
    assert_eq!(of_graph.status, StatusCode::NOT_FOUND, "a graph has no description of its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_changes_in_one_second_stay_apart_and_reachable_under_addresses_that_never_change() {
    let fixture = fixture().await;
    let mut before = Vec::new();
    for n in 0..5 {
        fixture.put("/rest/a", &titled(n)).of_class("RDFSource").answer().await;
        let now = listed(&fixture, "/rest/a/fcr:versions").await;
        assert_eq!(now[..n], before[..], "no address changes");
        before = now;
        // Two changes come in each millisecond.
        fixture.clock.advance(Duration::from_millis(if n % 2 == 0 { 0 } else { 7 }));
    }
    let name = |name: &str| format!("{ROOT}a/fcr:versions/{name}");
    assert_eq!(before[0], name("20250615150640"));
    assert!(before[1].starts_with(&name("20250615150640-000-")), "{}", before[1]);
    assert_eq!(before[2..], [name("20250615150640-007"), name("20250615150640-007-1"), name("20250615150640-014")]);
    for (n, memento) in before.iter().enumerate() {
        let reply = fixture.get(&path_of(memento)).await;
        assert!(reply.says(&format!("<a> dc:title \"{n}\" .")), "{memento}");
        assert_eq!(reply.header("memento-datetime"), Some(BEGIN));
    }
    assert_eq!(at(&fixture, "/rest/a", BEGIN).await.header("location"), Some(&*before[4]), "the last of the second");
    let other_spelling = fixture.get("/rest/a/fcr:versions/20250615150640-000").await;
    assert_eq!(other_spelling.status, StatusCode::NOT_FOUND, "a version has one name");
    let pages = listed(&fixture, "/rest/a/fcr:versions?from=20250615150640-007&limit=2").await;
    assert_eq!(pages, before[2..4], "a page may begin within a second");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_there_is_not_is_404_and_a_name_that_none_can_have_is_400() {
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 1).await;
    let missing = fixture.get("/rest/a/fcr:versions/20250615150641").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    assert!(missing.detail().contains(&format!("{ROOT}a/fcr:versions")), "it says where to look: {}", missing.detail());
    for name in ["x", "20250615", "20251315150640", "20250615150640-x"] {
        assert_eq!(
            fixture.get(&format!("/rest/a/fcr:versions/{name}")).await.status,
            StatusCode::BAD_REQUEST,
            "{name}"
        );
    }
    for path in ["/rest/never/fcr:versions", "/rest/never/fcr:versions/20250615150640"] {
        assert_eq!(fixture.get(path).await.status, StatusCode::NOT_FOUND);
    }
    assert_eq!(at(&fixture, "/rest/never", BEGIN).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_of_a_deleted_resource_and_of_the_one_before_it_stay_readable() {
    let fixture = fixture().await;
    versioned(&fixture, "/rest/a", 2).await;
    fixture.ask(Method::DELETE, "/rest/a").answer().await;
    let gone = fixture.get("/rest/a").await;
    assert_eq!((gone.status, gone.links("timemap")), (StatusCode::GONE, vec![format!("{ROOT}a/fcr:versions")]));
    assert_eq!(listed(&fixture, "/rest/a/fcr:versions").await.len(), 2);
    let last = follow(&fixture, &at(&fixture, "/rest/a", "Mon, 16 Jun 2025 15:06:40 GMT").await).await;
    assert!(last.says("<a> dc:title \"1\" ."));
    fixture.ask(Method::DELETE, "/rest/a/fcr:tombstone").answer().await;
    assert_eq!(fixture.get("/rest/a").await.status, StatusCode::NOT_FOUND);
    fixture.clock.advance(Duration::from_secs(60));
    fixture.put("/rest/a", &titled(7)).of_class("RDFSource").answer().await;
    assert_eq!(listed(&fixture, "/rest/a/fcr:versions").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_gone_says_where_its_versions_are() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    versioned(&fixture, "/rest/c/a", 2).await;
    let (original, list) = (vec![format!("{ROOT}c/a")], vec![format!("{ROOT}c/a/fcr:versions")]);
    // It went with its container, whose tombstone goes then.
    for (deleted, status) in [("/rest/c", StatusCode::GONE), ("/rest/c/fcr:tombstone", StatusCode::NOT_FOUND)] {
        assert_eq!(fixture.ask(Method::DELETE, deleted).answer().await.status, StatusCode::NO_CONTENT);
        for method in [Method::GET, Method::HEAD] {
            let gone = fixture.ask(method, "/rest/c/a").answer().await;
            assert!(gone.status == status && varies(&gone), "{gone:?}");
            assert_eq!(
                (gone.links("original"), gone.links("timegate"), gone.links("timemap")),
                (original.clone(), original.clone(), list.clone())
            );
        }
        assert!(follow(&fixture, &at(&fixture, "/rest/c/a", BEGIN).await).await.says("<c/a> dc:title \"0\" ."));
    }
    for (path, status) in [("/rest/never", StatusCode::NOT_FOUND), ("/rest/?limit=x", StatusCode::BAD_REQUEST)] {
        let refused = fixture.get(path).await;
        assert!(refused.status == status && varies(&refused), "{refused:?}");
        assert_eq!(refused.links("timemap"), [""; 0], "{path}");
    }
    // What does not negotiate says nothing of that.
    for path in ["/rest/never/fcr:versions", "/rest/c/a/fcr:fixity"] {
        let refused = fixture.get(path).await;
        assert_eq!((refused.status, varies(&refused)), (StatusCode::NOT_FOUND, false), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_can_hide_the_versions_of_deleted_resources() {
    let fixture =
        fixture_with(door_ldp::LdpSettings { deleted_versions: false, ..door_ldp::LdpSettings::default() }).await;
    versioned(&fixture, "/rest/a", 2).await;
    let first = path_of(&listed(&fixture, "/rest/a/fcr:versions").await[0]);
    fixture.ask(Method::DELETE, "/rest/a").answer().await;
    let gone = fixture.get("/rest/a").await;
    assert_eq!((gone.status, gone.links("timemap")), (StatusCode::GONE, vec![]));
    for path in [&first, "/rest/a/fcr:versions"] {
        assert_eq!(fixture.get(path).await.status, StatusCode::GONE, "{path}");
    }
    assert_eq!(at(&fixture, "/rest/a", BEGIN).await.status, StatusCode::GONE);
    fixture.put("/rest/a", &titled(7)).of_class("RDFSource").header("overwrite-tombstone", "true").answer().await;
    assert_eq!(listed(&fixture, "/rest/a/fcr:versions").await.len(), 1);
    assert_eq!(fixture.get(&first).await.status, StatusCode::NOT_FOUND);
    let now = follow(&fixture, &at(&fixture, "/rest/a", BEGIN).await).await;
    assert!(now.says("<a> dc:title \"7\" ."), "the first that is shown");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_said_about_versions_where_none_are_kept() {
    for keep in [Keep::None, Keep::Newest(0)] {
        let fixture = keeping(keep).await;
        versioned(&fixture, "/rest/a", 2).await;
        let reply = at(&fixture, "/rest/a", BEGIN).await;
        assert_eq!(reply.status, StatusCode::OK, "it does not negotiate");
        assert!(!varies(&reply) && reply.links("timegate").is_empty() && reply.links("timemap").is_empty());
        assert!(!reply.links("type").iter().any(|class| class.starts_with(MEMENTO)));
        assert!(!varies(&fixture.get("/rest/never").await));
        for path in ["/rest/a/fcr:versions", "/rest/a/fcr:versions/20250615150640"] {
            let refused = fixture.get(path).await;
            assert_eq!(refused.status, StatusCode::NOT_FOUND);
            assert!(refused.detail().contains("history.resources"), "{}", refused.detail());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_versions_that_are_kept_are_listed_and_found() {
    let fixture = keeping(Keep::Newest(2)).await;
    versioned(&fixture, "/rest/a", 5).await;
    let listed = listed(&fixture, "/rest/a/fcr:versions").await;
    let name = |name: &str| format!("{ROOT}a/fcr:versions/{name}");
    assert_eq!(listed, [name("20250615150840"), name("20250615150940"), name("20250615151040")]);
    assert_eq!(fixture.get("/rest/a/fcr:versions/20250615150640").await.status, StatusCode::NOT_FOUND);
    let first = follow(&fixture, &at(&fixture, "/rest/a", BEGIN).await).await;
    assert!(first.says("<a> dc:title \"2\" ."), "the first that is kept");
}

async fn keeping(resources: Keep) -> Fixture {
    let history = History { resources, ..History::default() };
    fixture_keeping(LibraryOptions { history, ..LibraryOptions::default() }).await
}
