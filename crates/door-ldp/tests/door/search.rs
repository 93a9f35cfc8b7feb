//! `fcr:search`: Fedora's answer, what is refused, and the page for people.

use area::{Area, Limit};
use axum::body::to_bytes;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use door_ldp::{LdpDoor, LdpSettings, Routes, SearchSettings, own_types, routes};
use heads::LibraryOptions;
use http::{Method, StatusCode};
use search::{Pacing, Turn};
use serde_json::Value;

use crate::support::{Fixture, ROOT, fixture, fixture_keeping};

/// Lets the index have everything.
pub async fn index(fixture: &Fixture) {
    let library = fixture.library.clone();
    if library.store().capabilities().is_shared {
        fixture.clock.advance(std::time::Duration::from_secs(3_600));
    }
    let mut indexer = library.search.indexer(library.repository, library.feed, own_types, Pacing::default());
    assert_eq!(indexer.catch_up().await.unwrap(), Turn::Idle);
}

async fn filled() -> Fixture {
    let fixture = fixture().await;
    fixture
        .make(
            "/rest/c",
            "BasicContainer",
            "<> a <urn:t>, <http://test/rest/types#own> ; <http://purl.org/dc/terms/title> \"A <b>title</b>\"@de .",
        )
        .await;
    let put = fixture.ask(Method::PUT, "/rest/c/b%20%C3%BC").header("content-type", "text/plain").body("four");
    assert_eq!(put.answer().await.status, StatusCode::CREATED);
    index(&fixture).await;
    fixture
}

async fn found(fixture: &Fixture, query: &str) -> Value {
    let reply = fixture.get(&format!("/rest/fcr:search?{query}")).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/json"));
    serde_json::from_str(reply.text()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_search_for_one_path_leads_to_wider_searches() {
    let fixture = filled().await;
    let page = async |query: &str| {
        let asked = fixture.ask(Method::GET, &format!("/rest/fcr:search?{query}")).header("accept", "text/html");
        asked.answer().await.text().to_owned()
    };
    let narrow = page("fedora_id=%2F%C3%BC&mime_type=text/plain").await;
    assert!(narrow.contains("Nothing was found."), "{narrow}");
    let contains = "href=\"?mime_type=text%2Fplain&amp;fedora_id=*%C3%BC*\"";
    let begins = "href=\"?mime_type=text%2Fplain&amp;fedora_id=%C3%BC*\"";
    assert!(narrow.contains(contains) && narrow.contains(begins), "{narrow}");
    let wider = page("mime_type=text%2Fplain&fedora_id=*%C3%BC*").await;
    assert!(wider.contains("href=\"/rest/c/b%20%C3%BC/fcr:metadata\""), "{wider}");
    for query in
        ["fedora_id=*%C3%BC*", "mime_type=text/plain", "fedora_id=http://test/rest/c", "fedora_id=info:fedora/c"]
    {
        assert!(!page(query).await.contains("begins with it"), "{query}");
    }
    let hostile = page("fedora_id=%22%3E%3Cimg%20src=x%3E").await;
    assert!(!hostile.contains("<img"), "{hostile}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_is_answered_as_fedora_answers_it() {
    let fixture = filled().await;
    let answer = found(&fixture, "").await;
    let binary = format!("{ROOT}c/b%20%C3%BC");
    let ids: Vec<_> =
        answer["items"].as_array().unwrap().iter().map(|item| item["fedora_id"].as_str().unwrap()).collect();
    assert_eq!(ids, [format!("{ROOT}c"), binary.clone(), format!("{binary}/fcr:metadata")]);
    assert_eq!(answer["pagination"], serde_json::json!({ "offset": 0, "maxResults": 100, "totalResults": -1 }));
    let container = &answer["items"][0];
    assert_eq!((&container["content_size"], &container["mime_type"]), (&(-1).into(), &Value::Null));
    let types = container["rdf_type"].as_array().unwrap();
    for class in ["http://www.w3.org/ns/ldp#BasicContainer", "urn:t", "http://test/rest/types#own"] {
        assert!(types.contains(&class.into()), "{class}: {types:?}");
    }
    assert_eq!(answer["items"][1]["content_size"], 4);
    for query in [
        "condition=fedora_id%3Dc/b%20%C3%BC",
        "condition=fedora_id%3Dhttp://test/rest/c/b%2520%25C3%25BC",
        "condition=mime_type%3Dtext/*&condition=content_size%3E3",
        "condition=rdf_type%3Dldp:NonRDFSource",
    ] {
        assert_eq!(found(&fixture, query).await["items"][0]["fedora_id"], binary, "{query}");
    }
    let own = found(&fixture, "condition=rdf_type%3Dhttp://test/rest/types%23own&fields=fedora_id").await;
    assert_eq!(own["items"], serde_json::json!([{ "fedora_id": format!("{ROOT}c") }]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_description_is_among_what_is_not_before_its_own_id() {
    let fixture = filled().await;
    let description = format!("{ROOT}c/b%20%C3%BC/fcr:metadata");
    for (operator, found_ids) in [("%3E%3D", vec![&description]), ("%3E", Vec::new())] {
        let query = format!("condition=fedora_id{operator}c/b%20%C3%BC/fcr:metadata");
        let answer = found(&fixture, &query).await;
        let items = answer["items"].as_array().unwrap();
        assert_eq!(items.iter().map(|item| &item["fedora_id"]).collect::<Vec<_>>(), found_ids, "{operator}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_that_was_chosen_as_the_last_one_is_included() {
    // All of it is of this day.
    let fixture = filled().await;
    for (query, count) in [
        ("modified_to=2025-06-15", 3),
        ("created_to=2025-06-15", 3),
        ("modified_to=2025-06-14", 0),
        ("condition=modified%3C%3D2025-06-15", 0),
    ] {
        assert_eq!(found(&fixture, query).await["items"].as_array().unwrap().len(), count, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_ends_while_it_counts_says_that_there_is_no_total() {
    let mut fixture = fixture().await;
    for number in 0..9 {
        let put = fixture.ask(Method::PUT, &format!("/rest/f{number}")).header("content-type", "text/plain").body("x");
        assert_eq!(put.answer().await.status, StatusCode::CREATED);
    }
    index(&fixture).await;
    let query = "max_results=1&include_total_result_count=true";
    let counted = found(&fixture, query).await;
    assert_eq!(counted["pagination"]["totalResults"], 18);
    assert!(counted["pagination"]["incomplete"].is_null(), "{counted:#}");
    let settings =
        LdpSettings { search: SearchSettings { rows_max: 1, ..SearchSettings::default() }, ..LdpSettings::default() };
    let Routes { read, .. } = routes(std::sync::Arc::new(LdpDoor::new(fixture.library.clone(), settings)));
    fixture.router = read;
    let cut = found(&fixture, query).await;
    assert_eq!((cut["items"].as_array().unwrap().len(), &cut["pagination"]["totalResults"]), (1, &(-1).into()));
    let why = cut["pagination"]["incomplete"].as_str().unwrap();
    assert!(why.contains("not all counted"), "{why}");
    let page = fixture.ask(Method::GET, &format!("/rest/fcr:search?{query}")).header("accept", "text/html");
    let page = page.answer().await;
    assert!(page.text().contains("There is no total"), "{}", page.text());
    // Whoever asks for no count lacks nothing.
    let uncounted = found(&fixture, "max_results=1").await;
    assert!(uncounted["pagination"]["incomplete"].is_null(), "{uncounted:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn archival_groups_are_found_by_their_type() {
    let fixture = fixture().await;
    let link = "<http://fedora.info/definitions/v4/repository#ArchivalGroup>; rel=\"type\"";
    let made = fixture.put("/rest/group", "<> a <urn:t> .").header("link", link).answer().await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    fixture.make("/rest/group/part", "BasicContainer", "").await;
    index(&fixture).await;
    let groups = found(&fixture, "condition=rdf_type%3Dfedora:ArchivalGroup").await;
    let items = groups["items"].as_array().unwrap();
    assert_eq!(items.iter().map(|item| &item["fedora_id"]).collect::<Vec<_>>(), [&format!("{ROOT}group")]);
    let types = items[0]["rdf_type"].as_array().unwrap();
    for class in ["ldp#BasicContainer", "repository#ArchivalGroup", "urn:t"] {
        assert!(types.iter().any(|known| known.as_str().unwrap().ends_with(class)), "{class}: {types:?}");
    }
    assert_eq!(found(&fixture, "condition=rdf_type%3Dldp:BasicContainer").await["items"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_lead_on_by_the_link_next() {
    let fixture = filled().await;
    let (mut at, mut ids) =
        ("/rest/fcr:search?max_results=1&order_by=modified&order=desc&fields=fedora_id".to_owned(), Vec::new());
    loop {
        let reply = fixture.get(&at).await;
        let answer: Value = serde_json::from_str(reply.text()).unwrap();
        ids.extend(answer["items"].as_array().unwrap().iter().map(|item| item["fedora_id"].clone()));
        let Some(next) = reply.links("next").pop() else { break };
        at = next.strip_prefix("http://test").unwrap().to_owned();
    }
    ids.sort_by_key(|id| id.to_string());
    let distinct: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!((ids.len(), distinct.len()), (3, 3), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_search_is_refused_and_others_than_get_are_not_allowed() {
    let fixture = fixture().await;
    for query in [
        "condition=colour%3Dred",
        "condition=fedora_id",
        "condition=created%3Eyesterday",
        "offset=-1",
        "max_results=-1",
        "order=sideways",
        "fields=colour",
        "nonsense=1",
    ] {
        let reply = fixture.get(&format!("/rest/fcr:search?{query}")).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{query}");
        assert!(!reply.detail().is_empty());
    }
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
        let reply = fixture.ask(method.clone(), "/rest/fcr:search").answer().await;
        assert_eq!(
            (reply.status, reply.header("allow")),
            (StatusCode::METHOD_NOT_ALLOWED, Some("GET, HEAD, OPTIONS")),
            "{method}"
        );
    }
    index(&fixture).await;
    for cursor in ["AA", "AQD_", "!", "", &"A".repeat(10_000)] {
        let reply = fixture.get(&format!("/rest/fcr:search?cursor={cursor}&max_results=1")).await;
        let is_ignored = cursor.is_empty();
        assert_eq!(reply.status == StatusCode::OK, is_ignored, "{cursor}: {}", reply.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_index_a_search_is_not_available() {
    let fixture = fixture().await;
    let none = fixture.get("/rest/fcr:search").await;
    assert_eq!(none.status, StatusCode::SERVICE_UNAVAILABLE, "there is no index yet: {}", none.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_agent_may_not_read_is_not_found() {
    let mut fixture = filled().await;
    let Routes { read, .. } =
        routes(std::sync::Arc::new(LdpDoor::new(fixture.library.clone(), LdpSettings::default())));
    let area = Area::within(["rest:/c/b%20%C3%BC".parse::<Limit>().unwrap()]);
    fixture.router = read.layer(axum::Extension(area));
    let answer = found(&fixture, "include_total_result_count=true").await;
    let items = answer["items"].as_array().unwrap();
    assert_eq!(answer["pagination"]["totalResults"], items.len());
    let is_within = |item: &Value| item["fedora_id"].as_str().unwrap().starts_with(&format!("{ROOT}c/b"));
    assert!(!items.is_empty() && items.iter().all(is_within), "{answer:#}");

    // Nor does the link `next` show where the search has been.
    let settings =
        LdpSettings { search: SearchSettings { rows_max: 1, ..SearchSettings::default() }, ..LdpSettings::default() };
    let Routes { read, .. } = routes(std::sync::Arc::new(LdpDoor::new(fixture.library.clone(), settings)));
    fixture.router = read.layer(axum::Extension(Area::within(["rest:/none".parse::<Limit>().unwrap()])));
    let mut at = "/rest/fcr:search?order_by=modified".to_owned();
    for _ in 0..10 {
        let reply = fixture.get(&at).await;
        assert!(reply.text().contains("\"items\":[]"), "{}", reply.text());
        let Some(next) = reply.links("next").pop() else { break };
        let cursor = next.rsplit("cursor=").next().unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(cursor).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("c/b"), "{next}");
        at = next.strip_prefix("http://test").unwrap().to_owned();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn people_get_a_form_and_a_table_and_nothing_in_it_is_markup_of_others() {
    let fixture = filled().await;
    let page = async |query: &str| {
        fixture.ask(Method::GET, &format!("/rest/fcr:search{query}")).header("accept", "text/html").answer().await
    };
    let form = page("").await;
    assert!(form.text().contains("<form") && !form.text().contains("<table"), "{}", form.text());
    let results = page("?fedora_id=c*&mime_type=").await;
    assert!(
        results.text().contains("href=\"/rest/c\"")
            && results.text().contains("<span class=\"title\" lang=\"de\">A &lt;b&gt;title&lt;/b&gt;</span>"),
        "{}",
        results.text()
    );
    let hostile = page("?fedora_id=%22%3E%3Cscript%3Ealert(1)%3C/script%3E").await;
    assert!(!hostile.text().contains("<script"), "{}", hostile.text());
    let refused = page("?size_from=%3Cscript%3E").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(!refused.text().contains("<script") && refused.text().contains("<form"), "{}", refused.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_with_a_wrong_field_keeps_what_was_typed_into_all_fields() {
    let fixture = fixture().await;
    let query = "fedora_id=letters%2F*&rdf_type=&mime_type=image%2F*&modified_from=2026-01-31&size_from=many&\
                 order_by=modified&order=desc";
    let asked = fixture.ask(Method::GET, &format!("/rest/fcr:search?{query}")).header("accept", "text/html");
    let refused = asked.answer().await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text());
    for part in [
        "role=\"alert\"",
        "name=\"fedora_id\" value=\"letters/*\"",
        "name=\"rdf_type\" value=\"\"",
        "name=\"mime_type\" value=\"image/*\"",
        "name=\"modified_from\" value=\"2026-01-31\"",
        "name=\"size_from\" value=\"many\"",
        "<option value=\"modified\" selected>",
        "<option value=\"desc\" selected>",
    ] {
        assert!(refused.text().contains(part), "{part} is not in {}", refused.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_hold_their_share_of_the_memory_until_they_are_sent() {
    let fixture = filled().await;
    let memory = &fixture.library.memory;
    for accept in ["application/json", "text/html"] {
        let asked = fixture.ask(Method::GET, "/rest/fcr:search?fedora_id=c*").header("accept", accept);
        let response = asked.response().await;
        assert_eq!(response.status(), StatusCode::OK, "{accept}");
        let taken_bytes = memory.taken_bytes();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert_eq!(taken_bytes, body.len() as u64, "{accept}");
        drop(body);
        assert_eq!(memory.taken_bytes(), 0, "{accept}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_far_offset_takes_no_more_memory_than_the_first_page() {
    // Enough for the results of a page, and not for thousands of them.
    let options = LibraryOptions { memory_bytes: 24 << 20, ..LibraryOptions::default() };
    let fixture = fixture_keeping(options).await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    index(&fixture).await;
    for (query, count) in [("", 1), ("offset=1", 0), ("offset=10000", 0)] {
        for order in ["fedora_id", "modified"] {
            let query = format!("{query}&order_by={order}&condition=fedora_id%3Dc*");
            assert_eq!(found(&fixture, &query).await["items"].as_array().unwrap().len(), count, "{query}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_nobody_keeps_up_to_date_says_that_results_may_be_missing() {
    let mut fixture = filled().await;
    let settings = LdpSettings {
        search: SearchSettings { is_kept: false, ..SearchSettings::default() },
        ..LdpSettings::default()
    };
    let Routes { read, .. } = routes(std::sync::Arc::new(LdpDoor::new(fixture.library.clone(), settings)));
    assert!(found(&fixture, "").await["pagination"]["incomplete"].is_null());
    fixture.router = read;
    let is_shared = fixture.library.store().capabilities().is_shared;
    assert_eq!(found(&fixture, "").await["pagination"]["incomplete"].is_null(), is_shared);
}
