//! Replaces and updates, with conditions and without.

use std::time::Duration;

use door_ldp::LdpSettings;
use http::{Method, StatusCode};
use proptest::prelude::*;

use crate::support::{Fixture, fixture, fixture_with};

const TITLE: &str = "<> <http://purl.org/dc/terms/title> ";

const TITLE_OF_ALL: &str = "<> <http://purl.org/dc/terms/title> \"t\" .";

async fn with_source() -> Fixture {
    let fixture = fixture().await;
    fixture.make("/rest/s", "RDFSource", &format!("{TITLE} \"first\" .")).await;
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_replaces_and_its_tag_serves_the_next_write() {
    let fixture = with_source().await;
    let mut tag = fixture.get("/rest/s").await.etag();
    for title in ["second", "third"] {
        let put = fixture.put("/rest/s", &format!("{TITLE} \"{title}\" .")).header("if-match", &tag).answer().await;
        assert_eq!(put.status, StatusCode::NO_CONTENT, "{}", put.text());
        tag = put.etag();
    }
    let read = fixture.get("/rest/s").await;
    assert!(read.says("<s> dc:title \"third\" .") && !read.says("<s> dc:title \"second\" ."));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minimal_response_to_a_change_says_so_on_request() {
    let fixture = with_source().await;
    for path in ["/rest/s", "/rest/new"] {
        let put = fixture.put(path, &format!("{TITLE} \"t\" .")).header("prefer", "return=minimal").answer().await;
        assert!(put.status.is_success() && put.body.is_empty(), "{put:?}");
        assert_eq!(put.header("preference-applied"), Some("return=minimal"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_on_a_date_holds_only_if_nothing_changed_after_it() {
    let fixture = with_source().await;
    let put = |date: &str| fixture.put("/rest/s", TITLE_OF_ALL).header("if-unmodified-since", date).answer();
    assert_eq!(put("Sun, 06 Nov 1994 08:49:37 GMT").await.status, StatusCode::PRECONDITION_FAILED);
    assert_eq!(put("Fri, 31 Dec 9999 23:59:59 GMT").await.status, StatusCode::NO_CONTENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_update_is_impossible() {
    let fixture = with_source().await;
    let tag = fixture.get("/rest/s").await.etag();
    let put = |title: &str| fixture.put("/rest/s", &format!("{TITLE} \"{title}\" .")).header("if-match", &tag);
    let (one, other) = tokio::join!(put("one").answer(), put("other").answer());
    let mut statuses = [one.status, other.status];
    statuses.sort();
    assert_eq!(statuses, [StatusCode::NO_CONTENT, StatusCode::PRECONDITION_FAILED]);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_children_do_not_fail_a_writer_of_their_containers_description() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    let read = fixture.get("/rest/c").await;
    for n in 0..5 {
        fixture.put(&format!("/rest/c/{n}"), "").answer().await;
    }
    let put = fixture.put("/rest/c", &format!("{TITLE} \"t\" .")).header("if-match", &read.etag()).answer().await;
    assert_eq!(put.status, StatusCode::NO_CONTENT);
    assert_eq!(fixture.get("/rest/c").await.objects("http://test/rest/c", "contains").len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_on_an_absent_resource_report_the_absence() {
    let fixture = with_source().await;
    let put = |path, name, value| fixture.put(path, "").header(name, value).answer();
    let refused = put("/rest/new", "if-match", "*").await;
    assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED);
    assert_eq!(refused.detail(), "the condition `If-Match` does not hold: the resource does not exist");
    assert_eq!(fixture.get("/rest/new").await.status, StatusCode::NOT_FOUND);
    assert_eq!(put("/rest/new", "if-none-match", "*").await.status, StatusCode::CREATED);
    let refused = put("/rest/new", "if-none-match", "*").await;
    assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED);
    assert!(refused.detail().starts_with("the condition `If-None-Match` does not hold: "), "{}", refused.detail());
    let revision = fixture.get("/rest/new").await.etag();
    let revision = revision.trim_start_matches("W/\"").split('-').next().unwrap().to_owned();
    let refused = put("/rest/new", "if-match", "\"other\"").await;
    assert!(refused.detail().contains("`If-Match`") && refused.detail().contains(&revision), "{}", refused.detail());
    let refused = put("/rest/new", "if-unmodified-since", "Sun, 06 Nov 1994 08:49:37 GMT").await;
    assert!(refused.detail().contains("`If-Unmodified-Since`"), "{}", refused.detail());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_condition_cannot_be_read_is_not_made() {
    let fixture = with_source().await;
    let before = fixture.get("/rest/s").await;
    let unquoted = before.etag().trim_start_matches("W/").trim_matches('"').to_owned();
    for path in ["/rest/s", "/rest/new"] {
        let refused = fixture.put(path, TITLE_OF_ALL).header("if-none-match", &unquoted).answer().await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{path}");
        let why = "`If-None-Match` is neither `*` nor a list of entity tags in double quotes";
        assert_eq!(refused.detail(), why, "{path}");
    }
    let refused = fixture.ask(Method::DELETE, "/rest/s").header("if-none-match", &unquoted).answer().await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(fixture.get("/rest/s").await.etag(), before.etag());
    assert_eq!(fixture.get("/rest/new").await.status, StatusCode::NOT_FOUND);
    let read = fixture.ask(Method::GET, "/rest/s").header("if-none-match", "\"").answer().await;
    assert_eq!(read.status, StatusCode::OK, "for a read it matches nothing");
    // RFC 9110, section 13.1.4: a date that cannot be read is ignored.
    let put = fixture.put("/rest/s", TITLE_OF_ALL).header("if-unmodified-since", "yesterday").answer().await;
    assert_eq!(put.status, StatusCode::NO_CONTENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_can_be_required() {
    let fixture = fixture_with(LdpSettings { require_condition: true, ..LdpSettings::default() }).await;
    assert_eq!(fixture.put("/rest/s", "").answer().await.status, StatusCode::CREATED);
    let refused = fixture.put("/rest/s", "").answer().await;
    assert_eq!(refused.status, StatusCode::PRECONDITION_REQUIRED);
    assert_eq!(refused.links("http://www.w3.org/ns/ldp#constrainedBy"), ["http://test/rest/fcr:constraints"]);
    let tag = fixture.get("/rest/s").await.etag();
    assert_eq!(fixture.put("/rest/s", "").header("if-match", &tag).answer().await.status, StatusCode::NO_CONTENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_server_managed_statements_are_refused_by_name() {
    let fixture = fixture().await;
    fixture.put("/rest/c/child", "").answer().await;
    let contains = |child: &str| format!("<> <http://www.w3.org/ns/ldp#contains> <http://test/rest/c/{child}> .");
    let changed = fixture.put("/rest/c", &contains("stranger")).answer().await;
    assert_eq!(changed.status, StatusCode::CONFLICT);
    assert!(changed.detail().contains("stranger"), "{}", changed.detail());
    let page = changed.links("http://www.w3.org/ns/ldp#constrainedBy").pop().unwrap();
    let page = fixture.get(page.strip_prefix("http://test").unwrap()).await;
    assert!(page.text().contains("ldp:contains"));
    assert_eq!(fixture.put("/rest/c", &contains("child")).answer().await.status, StatusCode::NO_CONTENT);
    let literal = fixture.put("/rest/c", "<> <http://www.w3.org/ns/ldp#contains> \"child\" .").answer().await;
    assert_eq!(literal.status, StatusCode::CONFLICT);
    assert!(literal.detail().contains("<http://test/rest/c>"), "named by its address: {}", literal.detail());
    let other = "<> a <http://www.w3.org/ns/ldp#DirectContainer> .";
    assert_eq!(fixture.put("/rest/c", other).answer().await.status, StatusCode::CONFLICT);
    let lenient = fixture.put("/rest/c", &contains("stranger")).header("prefer", "handling=lenient").answer().await;
    assert_eq!(lenient.status, StatusCode::NO_CONTENT);
    assert!(!fixture.get("/rest/c").await.text().contains("stranger"));
}

/// Server-managed statements with wrong values: from old copies, and from libraries that write
/// times differently.
const MANAGED: &str = "@prefix fedora: <http://fedora.info/definitions/v4/repository#> . @prefix ldp: <http://www.w3.org/ns/ldp#> . \
     <> a ldp:Resource, ldp:RDFSource, ldp:Page, fedora:Resource, fedora:Binary ; fedora:created \"2001-01-01T00:00:51.999000+00:00\" ; \
     fedora:lastModified \"2001-01-01\", 1 ; fedora:createdBy \"stranger\" ; fedora:writable true ; ";

#[tokio::test(flavor = "multi_thread")]
async fn server_managed_properties_in_a_body_are_ignored_and_never_stored() {
    let fixture = with_source().await;
    fixture.put("/rest/c/child", "").answer().await;
    fixture.ask(Method::PUT, "/rest/b").header("content-type", "image/png").body("bytes").answer().await;
    let of_bytes = "<http://www.loc.gov/premis/rdf/v1#hasSize> 1 ; <http://www.loc.gov/premis/rdf/v1#hasMessageDigest> <urn:md5:0> ; \
                    <http://www.ebu.ch/metadata/ontologies/ebucore/ebucore#hasMimeType> \"text/x-other\" ; a ldp:NonRDFSource ; ";
    let title = "<http://purl.org/dc/terms/title> \"kept\" .";
    for (path, more) in [("/rest/s", ""), ("/rest/c", "a ldp:BasicContainer ; "), ("/rest/b/fcr:metadata", of_bytes)] {
        let before = fixture.get(path).await;
        let put = fixture.put(path, &format!("{MANAGED}{more}{title}")).answer().await;
        assert_eq!(put.status, StatusCode::NO_CONTENT, "{path}: {}", put.text());
        let after = fixture.get(path).await;
        assert!(after.text().contains("kept"), "{}", after.text());
        for strange in ["2001-01-01", "stranger", "writable", "Page", "md5", "text/x-other"] {
            assert!(!after.text().contains(strange), "{path}: {strange}: {}", after.text());
        }
        assert_eq!(before.text().contains("#Binary"), after.text().contains("#Binary"), "{path}");
        let name = path.strip_prefix("/rest/").unwrap();
        let update = "PREFIX fedora: <http://fedora.info/definitions/v4/repository#> \
                      DELETE { <> fedora:lastModified ?t ; a ?class } INSERT { <> fedora:lastModified \"2001-01-01\" ; \
                      <http://purl.org/dc/terms/date> ?t } WHERE { <> fedora:lastModified ?t ; a ?class }";
        let patch = fixture.ask(Method::PATCH, path).header("content-type", "application/sparql-update").body(update);
        let patch = patch.answer().await;
        assert_eq!(patch.status, StatusCode::NO_CONTENT, "{path}: {}", patch.text());
        let after = fixture.get(path).await;
        assert!(after.text().contains("/terms/date") || after.text().contains("dcterms:date"), "{}", after.text());
        assert!(after.is("Resource") && !after.text().contains("2001-01-01"), "{}", after.text());
        let name = name.strip_suffix("/fcr:metadata").unwrap_or(name);
        assert!(after.says(&format!("<{name}> a ldp:Resource .")), "{}", after.text());
    }
    let made = fixture.put("/rest/new", &format!("{MANAGED}{title}")).answer().await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    assert!(!fixture.get("/rest/new").await.text().contains("2001-01-01"));
    let of_no_bytes =
        fixture.put("/rest/s", &format!("<> {}", &of_bytes.replace("a ldp:NonRDFSource ; ", title))).answer().await;
    assert_eq!(of_no_bytes.status, StatusCode::NO_CONTENT);
    assert!(
        fixture.get("/rest/s").await.text().contains("text/x-other"),
        "the statement is the client's own unless the resource is bytes"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_copy_can_be_put_again_and_again() {
    let fixture = with_source().await;
    fixture.put("/rest/c/child", "").answer().await;
    for path in ["/rest/s", "/rest/c"] {
        let copy = fixture.get(path).await;
        for _ in 0..2 {
            fixture.clock.advance(Duration::from_secs(3));
            let put = fixture.put(path, copy.text()).answer().await;
            assert_eq!(put.status, StatusCode::NO_CONTENT, "{path}: {}", put.text());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_means_another_model_is_refused() {
    let fixture = with_source().await;
    fixture.put("/rest/c", "").answer().await;
    fixture.ask(Method::PUT, "/rest/b").header("content-type", "image/png").body("bytes").answer().await;
    let archival = "http://fedora.info/definitions/v4/repository#ArchivalGroup";
    for (path, class) in [
        ("/rest/s", "http://www.w3.org/ns/ldp#Container"),
        ("/rest/s", "http://www.w3.org/ns/ldp#NonRDFSource"),
        ("/rest/c", "http://www.w3.org/ns/ldp#IndirectContainer"),
        ("/rest/c", archival),
        ("/rest/new", archival),
        ("/rest/b/fcr:metadata", "http://www.w3.org/ns/ldp#BasicContainer"),
    ] {
        let refused = fixture.put(path, &format!("<> a <{class}> .")).answer().await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{path} as {class}");
        assert!(refused.detail().contains(class), "{}", refused.detail());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_changes_statements_and_nothing_else() {
    let fixture = with_source().await;
    let patch = |text: &'static str| {
        fixture.ask(Method::PATCH, "/rest/s").header("content-type", "application/sparql-update").body(text).answer()
    };
    let changed = patch(
        "PREFIX dc: <http://purl.org/dc/terms/> DELETE { <> dc:title ?t } INSERT { <> dc:title \"new\", ?t2 } \
         WHERE { <> dc:title ?t BIND(CONCAT(?t, \"!\") AS ?t2) } ; INSERT DATA { <#x> dc:title \"part\" }",
    )
    .await;
    assert_eq!(changed.status, StatusCode::NO_CONTENT, "{}", changed.text());
    let read = fixture.get("/rest/s").await;
    assert!(read.says("<s> dc:title \"new\", \"first!\" . <s#x> dc:title \"part\" ."), "{}", read.text());
    assert!(!read.says("<s> dc:title \"first\" ."));
    for (text, status) in [
        ("DELETE DATA {", StatusCode::BAD_REQUEST),
        ("LOAD <http://example.org/>", StatusCode::UNPROCESSABLE_ENTITY),
        ("INSERT DATA { <> a <http://www.w3.org/ns/ldp#BasicContainer> }", StatusCode::CONFLICT),
        ("INSERT DATA { <> <http://www.w3.org/ns/ldp#contains> <x> }", StatusCode::CONFLICT),
    ] {
        let refused = patch(text).await;
        assert_eq!(refused.status, status, "{text}: {}", refused.text());
    }
    assert_eq!(fixture.get("/rest/s").await.etag(), read.etag(), "a refused update changes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_updates_without_a_condition_are_all_carried_out() {
    let fixture = with_source().await;
    let patches = (0..20).map(|n| {
        let update = format!("INSERT DATA {{ <> <http://purl.org/dc/terms/subject> \"{n}\" }}");
        fixture.ask(Method::PATCH, "/rest/s").header("content-type", "application/sparql-update").body(update).answer()
    });
    for answer in futures::future::join_all(patches).await {
        assert_eq!(answer.status, StatusCode::NO_CONTENT, "{}", answer.text());
    }
    let read = fixture.get("/rest/s").await;
    let subjects: String = (0..20).map(|n| format!("<s> dc:subject \"{n}\" . ")).collect();
    assert!(read.says(&subjects), "{}", read.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_keeps_its_model() {
    let fixture = with_source().await;
    for class in ["BasicContainer", "NonRDFSource"] {
        assert_eq!(fixture.put("/rest/s", "").of_class(class).answer().await.status, StatusCode::CONFLICT, "{class}");
    }
    let bytes = fixture.ask(Method::PUT, "/rest/s").header("content-type", "image/png").body("x").answer().await;
    assert_eq!(bytes.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// In any interleaving of writers each acknowledged write stays visible, and a condition fails
    /// only if two writers changed the same description.
    #[test]
    fn any_interleaving_of_writers_loses_nothing(writers in prop::collection::vec((0..3_u8, 0..3_u8), 2..12)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let fixture = fixture().await;
            fixture.make("/rest/c", "BasicContainer", "").await;
            let works = writers.iter().enumerate().map(|(n, (kind, name))| {
                let fixture = &fixture;
                async move {
                    match kind {
                        0 => fixture.post("/rest/c", "").header("slug", &format!("p{name}")).answer().await,
                        1 => fixture.put(&format!("/rest/c/u{n}"), "").answer().await,
                        _ => {
                            let add = format!("INSERT DATA {{ <> <http://purl.org/dc/terms/title> \"w{n}\" }}");
                            let ask = fixture.ask(Method::PATCH, "/rest/c").body(add);
                            ask.header("content-type", "application/sparql-update").answer().await
                        }
                    }
                }
            });
            let answers = futures::future::join_all(works).await;
            let read = fixture.get("/rest/c").await;
            let contained = read.objects("http://test/rest/c", "contains");
            for (n, (answer, (kind, _))) in answers.iter().zip(&writers).enumerate() {
                match kind {
                    0 | 1 => {
                        assert_eq!(answer.status, StatusCode::CREATED);
                        assert!(contained.contains(&answer.header("location").unwrap().to_owned()));
                    }
                    _ => {
                        assert_eq!(answer.status, StatusCode::NO_CONTENT, "{}", answer.text());
                        assert!(read.says(&format!("<c> dc:title \"w{n}\" .")));
                    }
                }
            }
            let creations = writers.iter().filter(|(kind, _)| *kind < 2).count();
            assert_eq!(contained.len(), creations, "each once");
        });
    }
}
