//! Creates resources in containers, and lists their contents.

use std::time::Duration;

use http::{Method, StatusCode};

use crate::support::{Fixture, ROOT, Reply, fixture};

#[tokio::test(flavor = "multi_thread")]
async fn the_root_is_a_basic_container_that_cannot_be_deleted() {
    let fixture = fixture().await;
    for path in ["/rest", "/rest/"] {
        let root = fixture.get(path).await;
        assert_eq!(root.status, StatusCode::OK);
        assert!(root.is("Resource") && root.is("Container") && root.is("BasicContainer"));
        assert!(root.says(&format!("<{ROOT}> a ldp:BasicContainer .")));
    }
    let refused = fixture.ask(Method::DELETE, "/rest/").answer().await;
    assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(!refused.header("allow").unwrap().contains("DELETE"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_posted_resource_is_contained_at_once_under_the_proposed_name() {
    let fixture = fixture().await;
    let made = fixture.post("/rest/", "<> dc:title \"Letters\" .").header("slug", "My letters").answer().await;
    assert_eq!(made.status, StatusCode::BAD_REQUEST, "the prefix is not known: {}", made.text());
    let made = fixture
        .post("/rest/", "<> <http://purl.org/dc/terms/title> \"Letters\" .")
        .header("slug", "My letters")
        .answer()
        .await;
    assert_eq!((made.status, made.header("location")), (StatusCode::CREATED, Some(&*format!("{ROOT}My-letters"))));
    let root = fixture.get("/rest/").await;
    assert_eq!(root.objects(ROOT, "contains"), [format!("{ROOT}My-letters"), format!("{ROOT}volumes")]);
    let letters = fixture.get("/rest/My-letters").await;
    assert!(letters.says("<My-letters> dc:title \"Letters\" ; a ldp:BasicContainer ."));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_used_or_missing_name_gives_a_fresh_one() {
    let fixture = fixture().await;
    let mut locations = Vec::new();
    for slug in ["a", "a", "a", "..", ""] {
        let made = fixture.post("/rest/", "").header("slug", slug).answer().await;
        assert_eq!(made.status, StatusCode::CREATED);
        locations.push(made.header("location").unwrap().to_owned());
    }
    assert_eq!(locations[0], format!("{ROOT}a"));
    assert!(locations[1].starts_with(&format!("{ROOT}a-")) && locations[2].starts_with(&format!("{ROOT}a-")));
    locations.push(format!("{ROOT}volumes"));
    locations.sort();
    assert_eq!(fixture.get("/rest/").await.objects(ROOT, "contains"), locations, "each once, all of them");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_makes_the_containers_above_it() {
    let fixture = fixture().await;
    let made = fixture.put("/rest/a/b/c", "").answer().await;
    assert_eq!((made.status, made.header("location")), (StatusCode::CREATED, Some(&*format!("{ROOT}a/b/c"))));
    assert_eq!(fixture.get("/rest/a").await.objects(&format!("{ROOT}a"), "contains"), [format!("{ROOT}a/b")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_container_can_have_children() {
    let fixture = fixture().await;
    fixture.make("/rest/source", "RDFSource", "").await;
    let posted = fixture.post("/rest/source", "").answer().await;
    assert_eq!(posted.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(!posted.header("allow").unwrap().contains("POST"));
    assert_eq!(fixture.put("/rest/source/child", "").answer().await.status, StatusCode::CONFLICT);
    let bytes = fixture.put("/rest/source/child", "").of_class("NonRDFSource").answer().await;
    assert_eq!(bytes.status, StatusCode::CONFLICT);
    assert_eq!(fixture.get("/rest/source/child").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tag_of_a_container_changes_with_each_child_that_comes_and_goes() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    let mut tags = vec![fixture.get("/rest/c").await.etag()];
    for n in 0..6 {
        fixture.put(&format!("/rest/c/{n}"), "").answer().await;
        tags.push(fixture.get("/rest/c").await.etag());
    }
    for n in 0..6 {
        fixture.ask(Method::DELETE, &format!("/rest/c/{n}")).answer().await;
        tags.push(fixture.get("/rest/c").await.etag());
    }
    let count = tags.len();
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), count, "{tags:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_not_revalidated_by_a_date_within_whose_second_another_child_may_come() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    fixture.make("/rest/c/1", "RDFSource", "").await;
    let date = fixture.get("/rest/c").await.header("last-modified").unwrap().to_owned();
    fixture.make("/rest/c/2", "RDFSource", "").await;
    for (path, members) in [("/rest/c?limit=10", 2), ("/rest/volumes?limit=10", 0)] {
        for (name, date) in [("if-modified-since", &*date), ("if-unmodified-since", "Sun, 06 Nov 1994 08:49:37 GMT")] {
            let page = fixture.ask(Method::GET, path).header(name, date).answer().await;
            assert_eq!((page.status, page.header("last-modified")), (StatusCode::OK, None), "{path}: {name}");
            assert_eq!(page.objects(&format!("{ROOT}c"), "contains").len(), members, "{path}: {name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_of_a_child_does_not_change_a_container() {
    let fixture = fixture().await;
    fixture.put("/rest/a/b", "").answer().await;
    let tag = fixture.get("/rest/a").await.etag();
    fixture.put("/rest/a/b/c", "").answer().await;
    assert_eq!(fixture.get("/rest/a").await.etag(), tag);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_prefer_a_container_without_its_contents() {
    let fixture = fixture().await;
    fixture.put("/rest/a/b", "").answer().await;
    let a = format!("{ROOT}a");
    for (prefer, applied, contained) in [
        ("return=minimal", "return=minimal", 0),
        (
            "return=representation; include=\"http://www.w3.org/ns/ldp#PreferMinimalContainer\"",
            "return=representation",
            0,
        ),
        ("return=representation; omit=\"http://www.w3.org/ns/ldp#PreferContainment\"", "return=representation", 0),
        ("return=representation; include=\"http://www.w3.org/ns/ldp#PreferContainment\"", "return=representation", 1),
    ] {
        let answer = fixture.ask(Method::GET, "/rest/a").header("prefer", prefer).answer().await;
        assert_eq!(answer.header("preference-applied"), Some(applied));
        assert_eq!(answer.objects(&a, "contains").len(), contained, "{prefer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn n_quads_make_a_resource_for_each_graph_with_a_line_for_each() {
    let fixture = fixture().await;
    fixture.put("/rest/q/there", "").answer().await;
    let mut body = String::new();
    for n in 0..200 {
        let iri = format!("{ROOT}q/{n}");
        body += &format!(
            "<{iri}> <http://purl.org/dc/terms/title> \"{n}\" <{iri}> .\n_:b <http://a/b> <{iri}> <{iri}> .\n"
        );
    }
    for iri in ["http://test/rest/elsewhere", "http://example.org/x", "http://test/rest/q/there"] {
        body += &format!("<{iri}> <http://a/b> \"x\" <{iri}> .\n");
    }
    body += "nonsense\n";
    let ask = fixture.ask(Method::POST, "/rest/q").header("content-type", "application/n-quads").of_class("RDFSource");
    let answer = ask.body(body).answer().await;
    assert_eq!(answer.status, StatusCode::OK);
    let lines: Vec<serde_json::Value> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines[..200].iter().all(|line| line["status"] == 201), "{}", answer.text());
    let rest: Vec<_> = lines[200..].iter().map(|line| line["status"].as_u64().unwrap()).collect();
    assert_eq!(rest[..2], [409, 409], "outside the container");
    assert_eq!(*rest.last().unwrap(), 400, "a malformed statement ends the request");
    assert_eq!(fixture.get("/rest/q").await.objects(&format!("{ROOT}q"), "contains").len(), 201);
    assert!(fixture.get("/rest/q/17").await.says("<q/17> dc:title \"17\" ; a ldp:RDFSource ."));
    assert_eq!(fixture.get("/rest/elsewhere").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn n_quads_that_make_no_resource_have_a_line_with_the_reason() {
    let fixture = fixture().await;
    fixture.make("/rest/q", "BasicContainer", "").await;
    let quad = |title: &str, graph: &str| {
        format!("<http://test/rest/q/s> <http://purl.org/dc/terms/title> \"{title}\" {graph} .\n")
    };
    let named = |name: &str| format!("<http://test/rest/q/{name}>");
    let body = [
        quad("1", &named("a")),
        quad("2", &named("b")),
        quad("3", &named("a")),
        quad("4", "_:blank"),
        quad("5", &named("c")),
        quad("6", &named("d")),
        "nonsense\n".to_owned(),
        quad("7", &named("e")),
    ];
    let ask = fixture.ask(Method::POST, "/rest/q").header("content-type", "application/n-quads").of_class("RDFSource");
    let answer = ask.body(body.concat()).answer().await;
    let lines: Vec<serde_json::Value> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = [
        (Some("a"), 201, ""),
        (Some("b"), 201, ""),
        (Some("a"), 400, "must be contiguous"),
        (None, 400, "does not name the resource"),
        (Some("c"), 201, ""),
        (Some("d"), 400, "nothing after it was read"),
    ];
    assert_eq!(lines.len(), expected.len(), "{}", answer.text());
    for (line, (name, status, why)) in lines.iter().zip(expected) {
        let resource = name.map(|name| format!("http://test/rest/q/{name}"));
        assert_eq!((line["resource"].as_str(), line["status"].as_u64()), (resource.as_deref(), Some(status)), "{line}");
        assert!(line["detail"].as_str().unwrap_or_default().contains(why), "{line}");
    }
    assert!(fixture.get("/rest/q/a").await.says("<q/s> dc:title \"1\" ."));
    assert!(!fixture.get("/rest/q/a").await.says("<q/s> dc:title \"3\" ."));
    for name in ["d", "e"] {
        assert_eq!(fixture.get(&format!("/rest/q/{name}")).await.status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_resources_are_made_while_nobody_reads_the_response() {
    let fixture = fixture().await;
    fixture.make("/rest/q", "BasicContainer", "").await;
    let quads: String =
        (0..300).map(|n| format!("<http://test/rest/q/{n}> <http://a/b> \"x\" <http://test/rest/q/{n}> .\n")).collect();
    let ask = fixture.ask(Method::POST, "/rest/q").header("content-type", "application/n-quads").body(quads);
    let response = ask.response().await;
    let line = |n: i32| format!("{{\"resource\":\"http://test/rest/q/{n}\",\"status\":201}}\n");
    let lines: String = (0..300).map(line).collect();
    let memory = &fixture.library.memory;
    // What waits for the client has a share of the memory, which grows in few steps.
    let made = async {
        while fixture.get("/rest/q/299").await.status != StatusCode::OK
            || memory.taken_bytes() != lines.len().next_power_of_two() as u64
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), made).await.unwrap();
    let reported = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    assert_eq!(String::from_utf8(reported.to_vec()).unwrap(), lines);
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_json_ld_make_a_resource_each_with_a_line_for_each() {
    let fixture = fixture().await;
    fixture.make("/rest/j/there", "RDFSource", "").await;
    let lines = [
        r#"{"@id": "a", "http://purl.org/dc/terms/title": "A", "http://purl.org/dc/terms/relation": {"@id": "b"}}"#,
        r#"{"@context": {"title": "http://purl.org/dc/terms/title"}, "@id": "deep/b", "title": "B"}"#,
        r#"{"http://purl.org/dc/terms/title": "Fresh"}"#,
        r#"{"@id": "there", "http://purl.org/dc/terms/title": "Again"}"#,
        r#"{"@id": "../outside"}"#,
        r#"{"@id": "http://example.org/x"}"#,
        r#"{"@context": "http://example.org/context", "@id": "c"}"#,
        "[]",
        "nonsense",
        r#"{"@id": "d"}"#,
    ];
    let ask = fixture.ask(Method::POST, "/rest/j").header("content-type", "application/x-ndjson").of_class("RDFSource");
    let answer = ask.body(lines.join("\n")).answer().await;
    assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, Some("application/x-ndjson")));
    let reported: Vec<serde_json::Value> =
        answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let statuses: Vec<_> = reported.iter().map(|line| line["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [201, 201, 201, 409, 409, 409, 400, 400, 400, 201], "{}", answer.text());
    assert!(fixture.get("/rest/j/a").await.says("<j/a> dc:title \"A\" ; dc:relation <j/b> ; a ldp:RDFSource ."));
    assert!(fixture.get("/rest/j/deep/b").await.says("<j/deep/b> dc:title \"B\" ."));
    let fresh = reported[2]["resource"].as_str().unwrap();
    let read = fixture.get(fresh.strip_prefix("http://test").unwrap()).await;
    assert!(read.says(&format!("<{fresh}> dc:title \"Fresh\" .")), "{}", read.text());
    assert_eq!(fixture.get("/rest/j").await.objects(&format!("{ROOT}j"), "contains").len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_and_their_containers_follow_the_web_annotation_protocol() {
    let fixture = fixture().await;
    let profile = "application/ld+json; profile=\"http://www.w3.org/ns/anno.jsonld\"";
    let post =
        |path: &str, body: &'static str| fixture.ask(Method::POST, path).header("content-type", profile).body(body);
    let container = r#"{"@context": ["http://www.w3.org/ns/anno.jsonld", "http://www.w3.org/ns/ldp.jsonld"],
                        "type": ["BasicContainer", "AnnotationCollection"], "id": "", "label": "Annotations"}"#;
    let made = post("/rest/", container).header("slug", "annotations").answer().await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    let annotation = r#"{"@context": "http://www.w3.org/ns/anno.jsonld", "id": "", "type": "Annotation",
                         "body": "http://example.org/post1", "target": "http://example.com/page1"}"#;
    let made = post("/rest/annotations", annotation).header("slug", "a").of_class("RDFSource").answer().await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    let read = fixture.get("/rest/annotations/a").await;
    assert!(read.says(
        "<annotations/a> a <http://www.w3.org/ns/oa#Annotation> ; <http://www.w3.org/ns/oa#hasBody> <http://example.org/post1> ; \
         <http://www.w3.org/ns/oa#hasTarget> <http://example.com/page1> ."
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_of_thousands_is_a_stream_in_every_format_and_whole() {
    let fixture = fixture().await;
    fixture.make("/rest/big", "BasicContainer", "").await;
    let container = "big".parse().unwrap();
    for n in 0..2_500 {
        let new = repository::NewResource::empty_container();
        let make = |_: &_, _: &_| Ok::<_, repository::ResourceError>(new.clone());
        fixture.library.repository.create_in(&container, Some(&format!("n{n}")), make).await.unwrap();
    }
    for accept in ["text/turtle", "application/ld+json", "application/n-triples", "application/rdf+xml"] {
        let answer = fixture.ask(Method::GET, "/rest/big").header("accept", accept).answer().await;
        assert_eq!(answer.header("content-length"), None, "{accept}: it is streamed without a length");
        assert_eq!(answer.objects(&format!("{ROOT}big"), "contains").len(), 2_500, "{accept}");
    }
    // Pages of a size that the client chooses; each child is on one of them.
    let first = fixture
        .ask(Method::GET, "/rest/big")
        .header("prefer", "return=representation; max-member-count=\"1000\"")
        .answer()
        .await;
    assert_eq!(first.status, StatusCode::SEE_OTHER);
    let mut address = Some(first.header("location").unwrap().to_owned());
    let (mut children, mut sizes) = (Vec::new(), Vec::new());
    let (mut last_address, mut before) = (None, None);
    while let Some(page) = address {
        let page = fixture.get(page.strip_prefix("http://test").unwrap()).await;
        assert!(page.is("Page"));
        assert_eq!(page.links("canonical"), [format!("{ROOT}big")]);
        let reported = page.objects(&format!("{ROOT}big"), "contains");
        sizes.push(reported.len());
        last_address = page.links("last").pop();
        before = page.links("prev").pop();
        assert_eq!(page.links("first").len(), 1);
        children.extend(reported);
        address = page.links("next").pop();
    }
    // The way back has the same pages. Only the first one describes the container.
    let (mut way_back, mut describe) = (Vec::new(), Vec::new());
    while let Some(page) = before {
        let page = fixture.get(page.strip_prefix("http://test").unwrap()).await;
        way_back.push(page.objects(&format!("{ROOT}big"), "contains"));
        describe.push(page.text().contains("BasicContainer"));
        assert_eq!(page.links("next").len(), 1);
        before = page.links("prev").pop();
    }
    way_back.reverse();
    assert_eq!((way_back.concat(), describe), (children[..2_000].to_vec(), vec![false, true]));
    let last = fixture.get(last_address.unwrap().strip_prefix("http://test").unwrap()).await;
    let reported = last.objects(&format!("{ROOT}big"), "contains");
    assert!(last.links("next").is_empty() && !reported.is_empty() && reported.len() <= 1_000, "{}", reported.len());
    assert!(reported.iter().all(|child| children.contains(child)));
    // With one member per page, the last page has the last member that a client gets page by page.
    let one = fixture.get("/rest/big?limit=1&last=true").await.objects(&format!("{ROOT}big"), "contains");
    assert_eq!(one.len(), 1);
    assert!(reported.contains(&one[0]));
    children.sort();
    children.dedup();
    assert_eq!((children.len(), sizes), (2_500, vec![1_000, 1_000, 500]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposed_name_may_have_any_letters() {
    let fixture = fixture().await;
    for (slug, name) in [("Übersicht", "%C3%9Cbersicht"), ("%C3%84rger", "%C3%84rger"), ("日本", "%E6%97%A5%E6%9C%AC")]
    {
        let made = fixture.post("/rest/", "").header("slug", slug).answer().await;
        assert_eq!(made.header("location"), Some(&*format!("http://test/rest/{name}")), "{slug}");
    }
}

/// A request for a representation that includes or omits what these IRIs name.
async fn preferring(fixture: &Fixture, path: &str, preference: &str) -> Reply {
    let wish = format!("return=representation; {preference}");
    let answer = fixture.ask(Method::GET, path).header("prefer", &wish).answer().await;
    assert_eq!(answer.status, StatusCode::OK, "{path} {preference}: {}", answer.text());
    answer
}

const SERVER_MANAGED: &str = "http://fedora.info/definitions/v4/repository#ServerManaged";
const CONTAINED: &str = "http://www.w3.org/ns/oa#PreferContainedDescriptions";
const MINIMAL: &str = "http://www.w3.org/ns/ldp#PreferMinimalContainer";
const APPLIED: Option<&str> = Some("return=representation");

#[tokio::test(flavor = "multi_thread")]
async fn omitted_statements_are_left_out_and_only_then_reported_as_omitted() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "<> <http://purl.org/dc/terms/title> \"t\" .").await;
    fixture.make("/rest/c/child", "RDFSource", "").await;
    let (title, class, contains) =
        ("<c> dc:title \"t\" .", "<c> a ldp:BasicContainer .", "<c> ldp:contains <c/child> .");
    let contained = "http://www.w3.org/ns/ldp#PreferContainment";
    let mut tags = std::collections::HashSet::new();
    for (preference, reported, applied) in [
        (format!("include=\"{MINIMAL}\""), [true, true, false], APPLIED),
        (format!("omit=\"{MINIMAL}\""), [false, false, true], APPLIED),
        (format!("omit=\"{SERVER_MANAGED}\""), [true, false, true], APPLIED),
        (format!("omit=\"{SERVER_MANAGED} {contained}\""), [true, false, false], APPLIED),
        (format!("omit=\"{MINIMAL}\"; include=\"{SERVER_MANAGED}\""), [false, true, true], APPLIED),
        (format!("omit=\"{contained} http://example.org/unknown\""), [true, true, false], None),
        ("include=\"http://example.org/unknown\"".to_owned(), [true; 3], None),
    ] {
        let answer = preferring(&fixture, "/rest/c", &preference).await;
        let said = [title, class, contains].map(|statement| answer.says(statement));
        assert_eq!(said, reported, "{preference}: {}", answer.text());
        assert_eq!(answer.header("preference-applied"), applied, "{preference}");
        tags.insert(answer.etag());
    }
    assert_eq!(tags.len(), 7, "as many as there are representations: {tags:?}");
    let root = preferring(&fixture, "/rest/", &format!("omit=\"{SERVER_MANAGED}\"")).await;
    assert!(root.says("<> ldp:contains <volumes> .") && !root.text().contains("RepositoryRoot"));
    let volumes = preferring(&fixture, "/rest/volumes", &format!("include=\"{CONTAINED}\"")).await;
    assert_eq!(volumes.header("preference-applied"), None, "volumes are not described there");
}

#[tokio::test(flavor = "multi_thread")]
async fn descriptions_of_children_are_included_on_request() {
    let fixture = fixture().await;
    let with_blank = |title: &str| {
        format!("<> <http://purl.org/dc/terms/creator> [ <http://purl.org/dc/terms/title> \"{title}\" ] .")
    };
    fixture.make("/rest/c", "BasicContainer", &with_blank("own")).await;
    for n in 0..20 {
        fixture.make(&format!("/rest/c/{n}"), "RDFSource", &with_blank(&format!("of {n}"))).await;
    }
    fixture.ask(Method::PUT, "/rest/c/bytes").header("content-type", "image/png").body("bytes").answer().await;
    fixture.ask(Method::DELETE, "/rest/c/0").answer().await;
    let whole = preferring(&fixture, "/rest/c", &format!("include=\"{CONTAINED}\"")).await;
    assert_eq!(whole.header("preference-applied"), APPLIED);
    assert!(whole.says("<c/bytes> a ldp:NonRDFSource . <c> ldp:contains <c/1> . <c/1> a ldp:RDFSource ."));
    let graph = whole.graph();
    // Each has its own creator, although all their blank nodes had the same label.
    for (subject, title) in
        (1..20).map(|n| (format!("{ROOT}c/{n}"), format!("of {n}"))).chain([(format!("{ROOT}c"), "own".to_owned())])
    {
        let of = |node: &rdf::NamedOrBlankNode, relation: &str| {
            let fits = |triple: &&rdf::Triple| triple.subject == *node && triple.predicate.as_str().ends_with(relation);
            graph.iter().filter(fits).map(|triple| triple.object.clone()).collect::<Vec<_>>()
        };
        let creators = of(&rdf::NamedNode::new_unchecked(&subject).into(), "terms/creator");
        let [rdf::Term::BlankNode(creator)] = &creators[..] else { panic!("{subject}: {creators:?}") };
        let titles = of(&creator.clone().into(), "terms/title");
        assert_eq!(titles, [rdf::Literal::from(title.as_str()).into()], "{subject}");
    }
    let again = preferring(&fixture, "/rest/c", &format!("include=\"{CONTAINED}\"")).await;
    assert_ne!(again.etag(), whole.etag(), "nobody knows when all of these changed");
    let wish = format!("return=representation; include=\"{CONTAINED}\"");
    let known = fixture.ask(Method::GET, "/rest/c").header("prefer", &wish).header("if-none-match", &whole.etag());
    let known = known.header("if-modified-since", "Fri, 31 Dec 9999 23:59:59 GMT").answer().await;
    assert_eq!(known.status, StatusCode::OK);
    let put = fixture.put("/rest/c", "").header("if-match", &whole.etag()).answer().await;
    assert_eq!(put.status, StatusCode::NO_CONTENT, "a writer of the container can use its tag: {}", put.text());

    let page = fixture.ask(Method::GET, "/rest/c?limit=5").header("prefer", &wish).answer().await;
    let contained = page.objects(&format!("{ROOT}c"), "contains");
    assert_eq!(contained.len(), 5);
    let typed = |graph: &rdf::Graph, iri: &str| {
        let subject = rdf::NamedNode::new_unchecked(iri);
        graph.objects(subject.as_ref().into(), rdf::vocab::rdf::TYPE).count() > 0
    };
    let graph = page.graph();
    assert!(contained.iter().all(|child| typed(&graph, child)), "{}", page.text());
    assert_eq!(
        (1..20).filter(|n| typed(&graph, &format!("{ROOT}c/{n}"))).count() as u64
            + u64::from(typed(&graph, &format!("{ROOT}c/bytes"))),
        5
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn references_to_a_resource_are_included_on_request() {
    const INBOUND: &str = "include=\"http://fedora.info/definitions/fcrepo#PreferInboundReferences\"";
    let fixture = fixture().await;
    let part_of = |target: &str| format!("<> <http://purl.org/dc/terms/isPartOf> <http://test/rest/{target}> .");
    fixture.make("/rest/book", "RDFSource", &part_of("book")).await;
    fixture.ask(Method::PUT, "/rest/bytes").header("content-type", "image/png").body("bytes").answer().await;
    for (path, target) in
        [("c/one", "book"), ("two", "book#chapter"), ("three", "books"), ("four", "book"), ("five", "bytes")]
    {
        fixture.make(&format!("/rest/{path}"), "RDFSource", &part_of(target)).await;
    }
    fixture.make("/rest/gone", "RDFSource", &part_of("book")).await;
    fixture.ask(Method::DELETE, "/rest/gone").answer().await;
    fixture.put("/rest/six", "").answer().await;
    let patch = fixture.ask(Method::PATCH, "/rest/six").header("content-type", "application/sparql-update");
    let update = "INSERT DATA { [] <http://purl.org/dc/terms/references> <http://test/rest/book> }";
    assert_eq!(patch.body(update).answer().await.status, StatusCode::NO_CONTENT);
    // The subjects of all statements about the book or the bytes; blank nodes as `_`.
    let refers = |answer: &Reply| {
        let graph = answer.graph();
        let is_about = |triple: &&rdf::Triple| triple.object.to_string().starts_with("<http://test/rest/b");
        let name = |triple: &rdf::Triple| match &triple.subject {
            rdf::NamedOrBlankNode::NamedNode(node) => node.as_str().replace(ROOT, ""),
            rdf::NamedOrBlankNode::BlankNode(_) => "_".to_owned(),
        };
        let mut subjects: Vec<_> = graph.iter().filter(is_about).map(name).collect();
        subjects.sort();
        subjects
    };
    assert_eq!(refers(&fixture.get("/rest/book").await), ["book"], "only clients that prefer it get them");
    let book = preferring(&fixture, "/rest/book", INBOUND).await;
    assert_eq!(book.header("preference-applied"), APPLIED);
    assert_eq!(refers(&book), ["_", "book", "c/one", "four", "two"], "{}", book.text());
    let bytes = preferring(&fixture, "/rest/bytes/fcr:metadata", INBOUND).await;
    assert_eq!(refers(&bytes), ["five"]);

    fixture.put("/rest/four", &part_of("three")).answer().await;
    fixture.put("/rest/three", &part_of("book")).answer().await;
    fixture.make("/rest/later", "RDFSource", &part_of("book")).await;
    let book = preferring(&fixture, "/rest/book", INBOUND).await;
    assert_eq!(refers(&book), ["_", "book", "c/one", "later", "three", "two"], "the present statements");
    fixture.put("/rest/four", &part_of("book")).answer().await;
    let book = preferring(&fixture, "/rest/book", INBOUND).await;
    assert!(refers(&book).contains(&"four".to_owned()), "and again: {}", book.text());
    assert_ne!(preferring(&fixture, "/rest/book", INBOUND).await.etag(), book.etag());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_may_refer_to_more_others_than_fit_into_a_list_of_steps() {
    const INBOUND: &str = "include=\"http://fedora.info/definitions/fcrepo#PreferInboundReferences\"";
    let fixture = fixture().await;
    let part = |n: usize| format!("<> <http://purl.org/dc/terms/hasPart> <http://test/rest/p{n}> . ");
    let parts = |from: usize| (from..from + 1_500).map(part).collect::<String>();
    fixture.make("/rest/many", "RDFSource", &parts(0)).await;
    let replaced = fixture.put("/rest/many", &parts(1_400)).answer().await;
    assert_eq!(replaced.status, StatusCode::NO_CONTENT, "{}", replaced.text());
    for n in [0, 1_399, 1_400, 2_899] {
        let path = format!("/rest/p{n}");
        fixture.make(&path, "RDFSource", "").await;
        let answer = preferring(&fixture, &path, INBOUND).await;
        assert_eq!(answer.says(&format!("<many> dc:hasPart <p{n}> .")), n >= 1_400, "{n}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_empty_body_makes_a_container() {
    let fixture = fixture().await;
    let pieces = |pieces: &[&'static str]| {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok::<_, std::io::Error>(*piece)).collect();
        axum::body::Body::from_stream(futures::stream::iter(pieces))
    };
    let put = |path: &str, body| fixture.ask(Method::PUT, path).of_class("BasicContainer").body(body).answer();
    assert_eq!(put("/rest/none", pieces(&[])).await.status, StatusCode::CREATED);
    assert_eq!(put("/rest/empty", pieces(&["", ""])).await.status, StatusCode::CREATED);
    assert!(fixture.get("/rest/none").await.is("BasicContainer"));
    assert_eq!(put("/rest/some", pieces(&["", "x"])).await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let typed = fixture.ask(Method::PUT, "/rest/typed").of_class("BasicContainer").header("content-type", "image/png");
    assert_eq!(typed.answer().await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}
