//! Invalid input gets a clear error and changes nothing.

use std::sync::atomic::{AtomicI64, Ordering};

use budget::{Memory, Party};
use door_ldp::LdpSettings;
use heads::{HistoryTrees, Keep, LibraryOptions};
use http::{Method, StatusCode};
use sha2::{Digest, Sha256};

use crate::support::{ROOT, fixture, fixture_keeping, fixture_with};

#[tokio::test(flavor = "multi_thread")]
async fn path_tricks_are_refused() {
    let fixture = fixture().await;
    let long = format!("/rest/{}", "n".repeat(8_192));
    for (path, status) in [
        ("/rest/a/../b", 400),
        ("/rest/a/%2e%2e/b", 400),
        ("/rest/a%2Fb", 400),
        ("/rest/a//b", 400),
        ("/rest//", 400),
        ("/rest/a/%FF", 400),
        ("/rest/a%00", 400),
        ("/rest/fcr:nothing", 400),
        (&*long, 414),
    ] {
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let answer = fixture.ask(method.clone(), path).answer().await;
            assert_eq!(answer.status.as_u16(), status, "{method} {path}");
            assert!(!answer.detail().is_empty());
        }
    }
    assert_eq!(fixture.get("/rest/").await.objects(ROOT, "contains"), [format!("{ROOT}volumes")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_parameter_of_a_query_is_named_as_one() {
    let fixture = fixture().await;
    fixture.put("/rest/c/a", "").answer().await;
    let zip = [("accept", "application/zip")];
    for (path, headers, named) in [
        ("/rest/c?depth=x", &zip[..], "depth"),
        ("/rest/c?depth=0", &zip, "depth"),
        ("/rest/c?depth=1&depth=2", &zip, "depth"),
        ("/rest/c?Depth=1", &zip, "Depth"),
        ("/rest/c?limit=0", &[], "limit"),
        ("/rest/c?limit=", &[], "limit"),
        ("/rest/c?limit=1&limit=2", &[], "limit"),
        ("/rest/c?after=x", &[], "after"),
        ("/rest/c?before=x", &[], "before"),
        ("/rest/c?after=AAEAAA&before=AAEAAA", &[], "before"),
        ("/rest/c?limit=5&last=yes", &[], "last"),
        ("/rest/volumes?limit=0", &[], "limit"),
        ("/rest/c/fcr:versions?from=x", &[], "from"),
        ("/rest/c/fcr:versions?until=", &[], "until"),
        ("/rest/c/fcr:versions?older=x", &[], "older"),
        ("/rest/c/fcr:versions?limit=0", &[], "limit"),
        ("/rest/c/fcr:versions?form=20250615150640", &[], "form"),
        ("/rest/c/fcr:versions?members=delete", &[], "members"),
        ("/rest/c/fcr:versions?members=deleted&limit=5", &[], "limit"),
        ("/rest/c/fcr:forms?restor=20250615150640", &[], "restor"),
    ] {
        let mut asked = fixture.ask(Method::GET, path);
        for (name, value) in headers {
            asked = asked.header(name, value);
        }
        let refused = asked.answer().await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{path}");
        assert!(refused.text().contains("\"malformed-parameter\""), "{path}: {}", refused.text());
        assert!(refused.detail().contains(&format!("parameter `{named}`")), "{path}: {}", refused.detail());
    }
    let another = fixture.get("/rest/c?limit=5&_=1&utm_source=x").await;
    assert_eq!(another.status, StatusCode::OK, "any client may add a parameter to the address of a resource");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_a_graph_is_reported_with_line_and_column() {
    let fixture = fixture().await;
    let refused = fixture.put("/rest/a", "<> <http://a/b> \"c\" .\n<> <http://a/b> .").answer().await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.detail().contains("line 2, column"), "{}", refused.detail());
    assert!(!refused.links("http://www.w3.org/ns/ldp#constrainedBy").is_empty());
    let remote = fixture.ask(Method::PUT, "/rest/a").header("content-type", "application/ld+json");
    let remote = remote.body("{\"@context\": \"http://example.org/context\", \"a\": 1}").answer().await;
    assert_eq!(remote.status, StatusCode::BAD_REQUEST);
    assert!(remote.detail().contains("http://example.org/context"));
    assert!(remote.detail().contains("http://www.w3.org/ns/anno.jsonld"), "the built-in ones: {}", remote.detail());
    assert_eq!(fixture.get("/rest/a").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_and_graphs_over_the_limit_are_413() {
    let settings = door_ldp::LdpSettings { rdf_bytes_max: 10_000, triples_max: 100, ..Default::default() };
    let fixture = fixture_with(settings).await;
    let long = format!("<> <http://a/b> \"{}\" .", "x".repeat(20_000));
    assert_eq!(fixture.put("/rest/a", &long).answer().await.status, StatusCode::PAYLOAD_TOO_LARGE);
    let many: String = (0..150).map(|n| format!("<> <http://a/b> {n} .\n")).collect();
    assert_eq!(fixture.put("/rest/a", &many).answer().await.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_holds_more_than_it_may_is_413_and_changes_nothing() {
    static HELD: AtomicI64 = AtomicI64::new(0);
    // Each look finds a million bytes more.
    let held: fn() -> i64 = || HELD.fetch_add(1_000_000, Ordering::Relaxed);
    let settings = |update_bytes_max: usize| LdpSettings { held: Some(held), update_bytes_max, ..Default::default() };
    for (update_bytes_max, is_refused) in [(100_000_000, false), (500_000, true)] {
        let fixture = fixture_with(settings(update_bytes_max)).await;
        fixture.make("/rest/a", "RDFSource", "<> <http://a/p> 1 .").await;
        let before = fixture.get("/rest/a").await.etag();
        let remove = "DELETE { <> <http://a/p> 2 } WHERE { <> <http://a/p> 1 }";
        for update in ["INSERT DATA { <> <http://a/p> 2 }", remove] {
            let ask = fixture.ask(Method::PATCH, "/rest/a").header("content-type", "application/sparql-update");
            let answer = ask.body(update).answer().await;
            if is_refused {
                assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE, "{update}");
                let detail = answer.detail();
                assert!(detail.contains("more than 500000 bytes held while it is evaluated"), "{detail}");
                assert!(detail.contains("ldp.update_memory") && detail.contains("limits.memory"), "{detail}");
            } else {
                assert_eq!(answer.status, StatusCode::NO_CONTENT, "{update}: {}", answer.text());
            }
        }
        assert_eq!(fixture.get("/rest/a").await.etag() == before, is_refused);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_that_a_long_requested_name_makes_too_large_is_413() {
    let fixture = fixture().await;
    let objects: Vec<_> = (0..16_000).map(|n| format!("<#{n}>")).collect();
    let body = format!("<> <#p> {} .", objects.join(", "));
    let refused = fixture.post("/rest/", &body).header("slug", &"\u{fc}".repeat(250)).answer().await;
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(refused.detail().contains("once all names are written out"), "{}", refused.detail());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_a_graph_without_a_name_shows_its_iris_as_relative_ones() {
    let fixture = fixture().await;
    let graph = |name: &str| format!(r#"{{"@id": "{name}", "@graph": [{{"@id": "x", "http://a/b": 1}}]}}"#);
    for (body, shown) in [
        (graph(""), "named graph <>"),
        (graph("#g"), "named graph <#g>"),
        (r#"{"@context": "", "http://a/b": 1}"#.to_owned(), "the context <> is not built in"),
    ] {
        let ask = fixture.ask(Method::POST, "/rest/").header("content-type", "application/ld+json");
        let refused = ask.body(body).answer().await;
        assert!(refused.status.is_client_error(), "{}", refused.status);
        assert!(refused.detail().contains(shown), "{}", refused.detail());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_a_graph_is_refused_where_one_is_needed() {
    let fixture = fixture().await;
    let ask = fixture.ask(Method::PUT, "/rest/a").of_class("BasicContainer").header("content-type", "image/png");
    let refused = ask.body("x").answer().await;
    assert_eq!(refused.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert!(refused.header("accept").unwrap().contains("text/turtle"));
    let coded = fixture.put("/rest/a", "").header("content-encoding", "gzip").answer().await;
    assert_eq!(coded.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let patched = fixture.ask(Method::PATCH, "/rest/").header("content-type", "text/plain").body("x").answer().await;
    assert_eq!(patched.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_cannot_be_changed_in_the_repository() {
    let fixture = fixture().await;
    for path in ["/rest/volumes", "/rest/volumes/a.b"] {
        assert_eq!(fixture.put(path, "").answer().await.status, StatusCode::CONFLICT);
    }
    let posted = fixture.post("/rest/", "").header("slug", "volumes").answer().await;
    assert_ne!(posted.header("location"), Some(&*format!("{ROOT}volumes")));
}

#[tokio::test(flavor = "multi_thread")]
async fn charsets_of_old_libraries_are_understood() {
    let fixture = fixture().await;
    let ask = fixture.ask(Method::PUT, "/rest/a").header("content-type", "text/turtle; charset=ISO-8859-1");
    let put =
        ask.body(&b"<> a <http://www.w3.org/ns/ldp#RDFSource> ; <http://purl.org/dc/terms/title> \"caf\xE9\" ."[..]);
    assert_eq!(put.answer().await.status, StatusCode::CREATED);
    assert!(fixture.get("/rest/a").await.says("<a> dc:title \"café\" ."));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_too_deep_or_expand_too_much_are_refused_as_too_large() {
    let fixture = fixture().await;
    let terms: String = (0..2_000).map(|n| format!("\"t{n}\": \"t{}:a\",", n + 1)).collect();
    let chain = format!("{{\"@context\": {{{terms} \"t2000\": \"http://a/\"}}}}");
    let prefix = format!("@prefix a: <http://{}/> . {}", "x".repeat(50_000), "a:s a:p a:o . ".repeat(10_000));
    let nested = format!("<> <p> {}", "[ <p> ".repeat(10_000));
    for (content_type, body) in [("application/ld+json", chain), ("text/turtle", prefix), ("text/turtle", nested)] {
        let refused =
            fixture.ask(Method::PUT, "/rest/a").header("content-type", content_type).body(body).answer().await;
        assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE, "{}", refused.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_could_cost_too_much_is_refused() {
    let fixture = fixture().await;
    fixture.put("/rest/a", "<> <http://a/p> \"x\" .").answer().await;
    let product: String = (0..30).map(|n| format!("VALUES ?v{n} {{ 1 2 }} ")).collect();
    for (pattern, status) in [
        (r"FILTER(REGEX(?o, '(\\p{L}{100}){100}'))", StatusCode::UNPROCESSABLE_ENTITY),
        ("FILTER(REGEX(?o, STR(?p)))", StatusCode::UNPROCESSABLE_ENTITY),
        (&*product, StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let update = format!("INSERT {{ <> <http://a/q> 1 }} WHERE {{ ?s ?p ?o . {pattern} }}");
        let ask = fixture.ask(Method::PATCH, "/rest/a").header("content-type", "application/sparql-update");
        let refused = ask.body(update).answer().await;
        assert_eq!(refused.status, status, "{pattern}: {}", refused.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_makes_more_than_there_is_memory_for_is_refused_for_good_or_for_now() {
    const MEMORY_BYTES: u64 = 4 << 20;
    let fixture = fixture_keeping(LibraryOptions { memory_bytes: MEMORY_BYTES, ..LibraryOptions::default() }).await;
    let memory = &fixture.library.memory;
    fixture.put("/rest/a", "").answer().await;
    let before = fixture.get("/rest/a").await.etag();
    let patch = |change: &str, objects: usize| {
        // Its names make a statement of 10 bytes one of 2 KB.
        let objects: Vec<_> = (0..objects).map(|n| format!("a:{n}")).collect();
        let prefix = format!("PREFIX a: <http://a/{}/>", "x".repeat(1_000));
        let update = format!("{prefix} {change} DATA {{ <> a:p {} }}", objects.join(", "));
        let ask = fixture.ask(Method::PATCH, "/rest/a").header("content-type", "application/sparql-update");
        ask.body(update).answer()
    };
    for change in ["INSERT", "DELETE"] {
        let refused = patch(change, 2_000).await;
        assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE, "{change}: {}", refused.text());
        assert_eq!(memory.taken_bytes(), 0, "{change}");
    }
    let others_bytes = Memory::largest_share(MEMORY_BYTES) - (600 << 10);
    let others = memory.try_reserve(&Party::Local, others_bytes).unwrap();
    for change in ["INSERT", "DELETE"] {
        let refused = patch(change, 200).await;
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{change}: {}", refused.text());
        assert_eq!(memory.taken_bytes(), others_bytes, "{change}");
    }
    assert_eq!(fixture.get("/rest/a").await.etag(), before);
    drop(others);
    let later = patch("INSERT", 200).await;
    assert_eq!(later.status, StatusCode::NO_CONTENT, "{}", later.text());
}

const TITLED: &str = "<> <http://purl.org/dc/terms/title> \"t\" .";
/// SHA-256 of no bytes.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_or_update_with_another_digest_than_announced_is_refused() {
    let fixture = fixture().await;
    let update = "INSERT DATA { <> <http://purl.org/dc/terms/title> \"t\" }";
    fixture.put("/rest/a", "").answer().await;
    fixture.ask(Method::PUT, "/rest/b").header("content-type", "image/png").body("bytes").answer().await;
    let ask = |method: Method, path: &str| match method {
        Method::PATCH => fixture.ask(method, path).header("content-type", "application/sparql-update").body(update),
        method => fixture.ask(method, path).header("content-type", "text/turtle").body(TITLED),
    };
    for (method, path) in [
        (Method::PUT, "/rest/new"),
        (Method::PUT, "/rest/a"),
        (Method::PUT, "/rest/b/fcr:metadata"),
        (Method::POST, "/rest/a"),
        (Method::PATCH, "/rest/a"),
    ] {
        let bytes = if method == Method::PATCH { update } else { TITLED };
        let right = hex::encode(Sha256::digest(bytes));
        for (header, value, status) in [
            ("digest", format!("sha-256={EMPTY_SHA256}"), 409),
            ("digest", "md5=1234".to_owned(), 409),
            ("repr-digest", "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:".to_owned(), 409),
            ("content-digest", "md5=:MTI=:".to_owned(), 409),
            ("digest", "crc32=1234".to_owned(), 400),
            ("digest", format!("sha-256={right}"), 200),
        ] {
            let answer = ask(method.clone(), path).header(header, &value).answer().await;
            match status {
                200 => assert!(answer.status.is_success(), "{method} {path} {value}: {}", answer.text()),
                refused => assert_eq!(answer.status.as_u16(), refused, "{method} {path} {header}: {value}"),
            }
        }
    }
    let many = fixture.ask(Method::POST, "/rest/a").header("content-type", "application/n-quads");
    let refused = many.header("digest", "md5=1234").body("").answer().await;
    assert_eq!(
        refused.status,
        StatusCode::BAD_REQUEST,
        "resources that are created as they arrive cannot be checked before"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_features_are_refused_and_not_ignored() {
    let fixture = fixture().await;
    fixture.put("/rest/c", "").answer().await;
    fixture.ask(Method::PUT, "/rest/b").header("content-type", "image/png").body("bytes").answer().await;
    for link in [
        "<http://test/rest/c/fcr:acl>; rel=\"acl\"",
        "<http://mementoweb.org/ns#Memento>; rel=\"type\"",
        "<http://example.org/Thing>; rel=\"type\"",
        "<http://www.w3.org/ns/ldp#Page>; rel=\"type\"",
    ] {
        for (method, path) in
            [(Method::PUT, "/rest/new"), (Method::PUT, "/rest/c"), (Method::PUT, "/rest/b"), (Method::POST, "/rest/c")]
        {
            let ask = fixture.ask(method.clone(), path).header("content-type", "text/turtle").header("link", link);
            let refused = ask.body(TITLED).answer().await;
            assert_eq!(refused.status, StatusCode::CONFLICT, "{method} {path} {link}: {}", refused.text());
            assert_eq!(
                refused.links(&format!("{}constrainedBy", crate::support::LDP)).len(),
                1,
                "{method} {path} {link}"
            );
        }
    }
    assert_eq!(fixture.get("/rest/new").await.status, StatusCode::NOT_FOUND);
    assert!(fixture.get("/rest/c").await.objects("http://test/rest/c", "contains").is_empty());
    let known =
        "<http://fedora.info/definitions/v4/repository#Container>; rel=\"type\", <http://example.org/>; rel=\"author\"";
    assert_eq!(fixture.put("/rest/new", "").header("link", known).answer().await.status, StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_versioned_resource_is_refused_where_no_versions_are_kept() {
    let tree = |path: &str, keep| (path.parse().unwrap(), keep);
    let history_trees = HistoryTrees::new(vec![tree("off", Keep::None), tree("off/on", Keep::All)]);
    let fixture = fixture_keeping(LibraryOptions { history_trees, ..LibraryOptions::default() }).await;
    let versioned = |method: Method, path: &str, slug: &str| {
        let ask = fixture.ask(method, path).header("slug", slug).header("content-type", "text/turtle");
        ask.header("link", "<http://mementoweb.org/ns#OriginalResource>; rel=\"type\"").body(TITLED).answer()
    };
    // The name that the client wishes is that of a tree without versions.
    assert_eq!(versioned(Method::POST, "/rest/", "off").await.status, StatusCode::CONFLICT);
    for path in ["/rest/c", "/rest/off/c"] {
        fixture.put(path, "").answer().await;
    }
    for (method, path, slug) in [
        (Method::PUT, "/rest/off/new", ""),
        (Method::PUT, "/rest/off/c", ""),
        (Method::POST, "/rest/off/c", ""),
        (Method::POST, "/rest/off/c", "name"),
    ] {
        let refused = versioned(method.clone(), path, slug).await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{method} {path}: {}", refused.text());
        assert!(refused.detail().contains("history.trees"), "{}", refused.detail());
        assert_eq!(refused.links(&format!("{}constrainedBy", crate::support::LDP)).len(), 1, "{method} {path}");
    }
    assert_eq!(fixture.get("/rest/off/new").await.status, StatusCode::NOT_FOUND);
    for (method, path) in [(Method::PUT, "/rest/off/on"), (Method::POST, "/rest/off/on"), (Method::POST, "/rest/c")] {
        let made = versioned(method.clone(), path, "off").await;
        assert_eq!(made.status, StatusCode::CREATED, "{method} {path}: {}", made.text());
    }
}
