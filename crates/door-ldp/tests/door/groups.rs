//! Archival groups: containers whose contents belong together, as in Fedora.

use std::time::Duration;

use http::{Method, StatusCode};

use crate::support::{Ask, Fixture, LDP, ROOT, Reply, fixture, parsed};

const GROUP: &str = "http://fedora.info/definitions/v4/repository#ArchivalGroup";
/// The links by which Fedora's clients ask for one.
const LINK: &str = "<http://fedora.info/definitions/v4/repository#ArchivalGroup>; rel=\"type\"";

/// Longer than a transaction lasts by the clock of any server.
const EXPIRED: Duration = Duration::from_secs(500);

async fn make_group(fixture: &Fixture, path: &str) {
    let made = fixture.put(path, "").header("link", LINK).answer().await;
    assert_eq!(made.status, StatusCode::CREATED, "{path}: {}", made.text());
}

fn is_group(reply: &Reply) -> bool {
    reply.links("type").contains(&GROUP.to_owned())
}

fn says_group(reply: &Reply, path: &str) -> bool {
    reply.says(&format!("<{path}> a <{GROUP}>, ldp:Container ."))
}

async fn begin(fixture: &Fixture) -> String {
    let begun = fixture.ask(Method::POST, "/rest/fcr:tx").answer().await;
    begun.header("location").unwrap().to_owned()
}

async fn of(ask: Ask<'_>, transaction: &str) -> Reply {
    ask.header("atomic-id", transaction).answer().await
}

async fn end(fixture: &Fixture, method: Method, transaction: &str) {
    let ended = fixture.ask(method, transaction.strip_prefix("http://test").unwrap()).answer().await;
    assert_eq!(ended.status, StatusCode::NO_CONTENT, "{}", ended.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_of_each_kind_is_an_archival_group_if_its_creator_says_so() {
    let fixture = fixture().await;
    make_group(&fixture, "/rest/g").await;
    for (model, method) in [
        ("BasicContainer", Method::PUT),
        ("DirectContainer", Method::PUT),
        ("IndirectContainer", Method::POST),
        ("Container", Method::POST),
    ] {
        let at = if method == Method::PUT { format!("/rest/{model}") } else { "/rest/".to_owned() };
        let ask = fixture.ask(method, &at).header("slug", model).header("content-type", "text/turtle");
        let made = ask.header("link", &format!("{LINK}, <{LDP}{model}>; rel=\"type\"")).body("").answer().await;
        assert_eq!(made.status, StatusCode::CREATED, "{model}: {}", made.text());
        let class = if model == "Container" { "BasicContainer" } else { model };
        let head = fixture.ask(Method::HEAD, &format!("/rest/{model}")).answer().await;
        assert!(is_group(&head) && head.is(class), "{model}: {:?}", head.headers);
        let read = fixture.get(&format!("/rest/{model}")).await;
        assert!(says_group(&read, model) && read.says(&format!("<{model}> a ldp:{class} .")), "{}", read.text());
    }
    let bare = fixture.ask(Method::PUT, "/rest/bare").header("link", LINK).answer().await;
    assert_eq!(bare.status, StatusCode::CREATED, "a container needs no body: {}", bare.text());
    fixture.put("/rest/g/part/file", "").answer().await;
    for plain in ["/rest/", "/rest/g/part", "/rest/g/part/file"] {
        assert!(!is_group(&fixture.get(plain).await), "{plain}");
    }
    let page = fixture.ask(Method::GET, "/rest/").header("accept", "text/html").answer().await;
    assert!(page.text().contains("Archival Group"), "{}", page.text());
    let page = fixture.ask(Method::GET, "/rest/g").header("accept", "text/html").answer().await;
    assert!(page.text().contains("ArchivalGroup"), "{}", page.text());
    let bytes = fixture.ask(Method::PUT, "/rest/bytes").header("content-type", "image/png").body("pixels");
    let refused = bytes.header("link", &format!("{LINK}, <{LDP}NonRDFSource>; rel=\"type\"")).answer().await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "bytes contain nothing: {}", refused.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_within_a_group_is_refused_and_the_outer_one_named() {
    let fixture = fixture().await;
    make_group(&fixture, "/rest/a/g").await;
    fixture.put("/rest/a/g/part", "").answer().await;
    for (method, at) in [
        (Method::PUT, "/rest/a/g/inner"),
        (Method::PUT, "/rest/a/g/part/inner"),
        (Method::PUT, "/rest/a/g/missing/inner"),
        (Method::POST, "/rest/a/g"),
        (Method::POST, "/rest/a/g/part"),
    ] {
        let ask = fixture.ask(method.clone(), at).header("content-type", "text/turtle").header("link", LINK);
        let refused = ask.body("").answer().await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{method} {at}: {}", refused.text());
        assert!(refused.detail().contains("/a/g, which is an archival group"), "{}", refused.detail());
        assert_eq!(refused.links(&format!("{LDP}constrainedBy")).len(), 1, "{method} {at}");
    }
    let part = fixture.get("/rest/a/g/part").await;
    assert!(part.objects(&format!("{ROOT}a/g/part"), "contains").is_empty());
    assert_eq!(fixture.get("/rest/a/g/missing").await.status, StatusCode::NOT_FOUND);
    make_group(&fixture, "/rest/a/beside").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_would_be_in_another_one_leaves_the_tombstone_at_its_address() {
    let fixture = fixture().await;
    make_group(&fixture, "/rest/g").await;
    fixture.put("/rest/g/part/inner", "").answer().await;
    assert_eq!(fixture.ask(Method::DELETE, "/rest/g/part/inner").answer().await.status, StatusCode::NO_CONTENT);
    let overwrite = || fixture.put("/rest/g/part/inner", "").header("overwrite-tombstone", "true");
    let refused = overwrite().header("link", LINK).answer().await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());
    assert!(refused.detail().contains("/g, which is an archival group"), "{}", refused.detail());
    assert_eq!(fixture.get("/rest/g/part/inner").await.status, StatusCode::GONE);
    assert_eq!(overwrite().answer().await.status, StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_neither_becomes_a_group_nor_stops_being_one() {
    let fixture = fixture().await;
    make_group(&fixture, "/rest/g").await;
    fixture.put("/rest/c", "").answer().await;
    let put = |path, body: &str| fixture.put(path, body);
    let refused = put("/rest/c", "").header("link", LINK).answer().await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());
    let refused = put("/rest/c", &format!("<> a <{GROUP}> .")).answer().await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());
    for model in ["NonRDFSource", "DirectContainer"] {
        let refused = put("/rest/g", "").header("link", &format!("<{LDP}{model}>; rel=\"type\"")).answer().await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{model}: {}", refused.text());
    }
    let titled = "<> <http://purl.org/dc/terms/title> \"letters\" .";
    for link in [LINK.to_owned(), format!("<{LDP}BasicContainer>; rel=\"type\""), format!("<{LDP}Resource>; rel=type")]
    {
        let replaced = put("/rest/g", titled).header("link", &link).answer().await;
        assert_eq!(replaced.status, StatusCode::NO_CONTENT, "{link}: {}", replaced.text());
    }
    let read = fixture.get("/rest/g").await;
    assert_eq!(put("/rest/g", read.text()).answer().await.status, StatusCode::NO_CONTENT, "what was read comes back");
    let patch = fixture.ask(Method::PATCH, "/rest/g").header("content-type", "application/sparql-update");
    let update = "INSERT DATA { <> <http://purl.org/dc/terms/creator> \"A\" }";
    assert_eq!(patch.body(update).answer().await.status, StatusCode::NO_CONTENT);
    let read = fixture.get("/rest/g").await;
    assert!(is_group(&read) && says_group(&read, "g") && read.says("<g> dc:creator \"A\" ."), "{}", read.text());
    let known = fixture.ask(Method::GET, "/rest/g").header("accept", "text/turtle");
    let known = known
        .header("prefer", "return=representation; omit=\"http://fedora.info/definitions/v4/repository#ServerManaged\"");
    let own = known.answer().await.graph();
    assert_eq!(own, parsed("<g> dc:title \"letters\" ; dc:creator \"A\" ."), "it is no statement of the client");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_of_a_group_is_one_and_comes_back_as_one_with_what_was_in_it() {
    let fixture = fixture().await;
    make_group(&fixture, "/rest/g").await;
    fixture.clock.advance(Duration::from_secs(10));
    fixture.put("/rest/g/part", "<> <http://purl.org/dc/terms/title> \"one\" .").answer().await;
    fixture.clock.advance(Duration::from_secs(10));
    let list = fixture.ask(Method::GET, "/rest/g/fcr:versions").header("accept", "application/link-format");
    let list = list.answer().await;
    assert_eq!(list.text().matches("memento\"").count(), 1, "a change in it is no version of it: {}", list.text());
    let then = fixture.ask(Method::GET, "/rest/g").header("accept-datetime", "Sun, 15 Jun 2025 15:06:50 GMT");
    let then = then.answer().await;
    let memento = fixture.get(then.header("location").unwrap().strip_prefix("http://test").unwrap()).await;
    assert!(is_group(&memento) && says_group(&memento, "g"), "{}", memento.text());
    assert_eq!(memento.objects(&format!("{ROOT}g"), "contains"), [format!("{ROOT}g/part")]);

    let deleted = fixture.ask(Method::DELETE, "/rest/g").answer().await;
    assert_eq!(deleted.status, StatusCode::NO_CONTENT, "{}", deleted.text());
    assert_eq!(fixture.get("/rest/g/part").await.status, StatusCode::GONE);
    fixture.clock.advance(Duration::from_secs(10));
    let restored = fixture.ask(Method::POST, "/rest/g/fcr:versions?restore=").answer().await;
    assert_eq!(restored.status, StatusCode::CREATED, "{}", restored.text());
    assert!(is_group(&fixture.get("/rest/g").await));
    assert!(fixture.get("/rest/g/part").await.says("<g/part> dc:title \"one\" ."));
    fixture.ask(Method::DELETE, "/rest/g").answer().await;
    fixture.ask(Method::DELETE, "/rest/g/fcr:tombstone").answer().await;
    fixture.put("/rest/g", "").answer().await;
    assert!(!is_group(&fixture.get("/rest/g").await), "another resource of the same name is what its creator says");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_transactions_do_not_change_the_same_group() {
    let fixture = fixture().await;
    make_group(&fixture, "/rest/g").await;
    fixture.put("/rest/g/a", "").answer().await;
    fixture.put("/rest/g/b", "").answer().await;
    let (one, two) = (begin(&fixture).await, begin(&fixture).await);
    assert_eq!(of(fixture.put("/rest/g/a", "<> <urn:p> 1 ."), &one).await.status, StatusCode::NO_CONTENT);
    assert_eq!(of(fixture.put("/rest/g/new/deep", ""), &one).await.status, StatusCode::CREATED);
    let posted =
        of(fixture.ask(Method::POST, "/rest/g").header("content-type", "image/png").body("pixels"), &one).await;
    assert_eq!(posted.status, StatusCode::CREATED, "{}", posted.text());
    let delete = |path| fixture.ask(Method::DELETE, path);
    let post = || fixture.ask(Method::POST, "/rest/g/b").header("content-type", "image/png").body("pixels");
    for (what, refused) in [
        ("a new part", of(fixture.put("/rest/g/c", ""), &two).await),
        ("a new part of a part", of(post(), &two).await),
        ("a change of another part", of(fixture.put("/rest/g/b", "<> <urn:p> 1 ."), &two).await),
        ("the deletion of a part", of(delete("/rest/g/b"), &two).await),
        ("a change of the group", of(fixture.put("/rest/g", "<> <urn:p> 1 ."), &two).await),
        ("the deletion of the group", of(delete("/rest/g"), &two).await),
    ] {
        assert_eq!(refused.status, StatusCode::CONFLICT, "{what}: {}", refused.text());
        let detail = refused.detail();
        assert!(
            detail.starts_with("/g is held by a transaction of ") && detail.contains(" until "),
            "{what}: {detail}"
        );
    }
    // The other transaction goes on.
    assert_eq!(of(fixture.put("/rest/beside", ""), &two).await.status, StatusCode::CREATED);
    let versions = || async {
        fixture.get("/rest/g/fcr:versions").await.objects(&format!("{ROOT}g/fcr:versions"), "contains").len()
    };
    let before = versions().await;
    end(&fixture, Method::PUT, &one).await;
    assert_eq!(versions().await, before, "the group itself is as it was");
    assert!(fixture.get("/rest/g/a").await.says("<g/a> <urn:p> 1 ."));
    assert_eq!(fixture.get("/rest/g/new/deep").await.status, StatusCode::OK);
    assert_eq!(of(fixture.put("/rest/g/c", ""), &two).await.status, StatusCode::CREATED, "the group is free again");
    end(&fixture, Method::DELETE, &two).await;
    assert_eq!(fixture.put("/rest/g", "<> <urn:p> 3 .").answer().await.status, StatusCode::NO_CONTENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_transaction_changes_nothing_in_a_group_that_one_holds() {
    let fixture = fixture().await;
    make_group(&fixture, "/rest/g").await;
    for path in ["/rest/g/a", "/rest/g/b", "/rest/g/gone", "/rest/beside"] {
        fixture.put(path, "").answer().await;
    }
    assert_eq!(fixture.ask(Method::DELETE, "/rest/g/gone").answer().await.status, StatusCode::NO_CONTENT);
    let tx = begin(&fixture).await;
    assert_eq!(of(fixture.put("/rest/g/a", "<> <urn:p> 1 ."), &tx).await.status, StatusCode::NO_CONTENT);
    let versions = fixture.get("/rest/g/b/fcr:versions").await;
    let version = versions.objects(&format!("{ROOT}g/b/fcr:versions"), "contains")[0].clone();
    let version = version.rsplit('/').next().unwrap();
    let second = fixture.beside().await;
    for server in [&fixture, &second] {
        let ask = |method: Method, path: &str| server.ask(method, path);
        let bytes = |method, path| ask(method, path).header("content-type", "image/png").body("pixels".repeat(9_000));
        let update = "INSERT DATA { <> <urn:p> 2 }";
        for (what, request) in [
            ("a change", server.put("/rest/g/b", "<> <urn:p> 2 .")),
            (
                "an update",
                ask(Method::PATCH, "/rest/g/b").header("content-type", "application/sparql-update").body(update),
            ),
            ("a deletion", ask(Method::DELETE, "/rest/g/b")),
            ("a new part", server.put("/rest/g/c", "")),
            ("new bytes", bytes(Method::PUT, "/rest/g/bytes")),
            ("a part in a new container", server.put("/rest/g/new/deep", "")),
            ("a part with a name of the server", bytes(Method::POST, "/rest/g")),
            ("a part of a part", server.post("/rest/g/b", "")),
            ("a version", ask(Method::POST, "/rest/g/b/fcr:versions")),
            ("an earlier version", ask(Method::POST, &format!("/rest/g/b/fcr:versions?restore={version}"))),
            ("the return of what was deleted", ask(Method::POST, "/rest/g/gone/fcr:versions?restore=")),
            ("the deletion of a tombstone", ask(Method::DELETE, "/rest/g/gone/fcr:tombstone")),
            ("another resource at a tombstone", server.put("/rest/g/gone", "").header("overwrite-tombstone", "true")),
            ("a change of the group", server.put("/rest/g", "<> <urn:p> 2 .")),
            ("a deletion of the group", ask(Method::DELETE, "/rest/g")),
        ] {
            let refused = request.answer().await;
            assert_eq!(refused.status, StatusCode::CONFLICT, "{what}: {}", refused.text());
            let held = "/g is held by a transaction of local until 2025-06-15T15:09:40Z";
            assert_eq!(refused.detail(), held, "{what}");
        }
        assert_eq!(server.library.repository.transaction_counts().conflicts, 15);
        assert_eq!(server.put("/rest/beside", "<> <urn:p> 2 .").answer().await.status, StatusCode::NO_CONTENT);
        assert!(!server.get("/rest/g/b").await.says("<g/b> <urn:p> 2 ."));
    }
    assert_eq!(fixture.contents().await, 0, "bytes that are refused are given back");
    assert_eq!(fixture.get("/rest/g/gone").await.status, StatusCode::GONE);
    let group = fixture.get("/rest/g").await.objects(&format!("{ROOT}g"), "contains");
    assert_eq!(group, [format!("{ROOT}g/a"), format!("{ROOT}g/b")]);
    end(&fixture, Method::PUT, &tx).await;
    assert_eq!(second.put("/rest/g/b", "<> <urn:p> 2 .").answer().await.status, StatusCode::NO_CONTENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_free_for_requests_without_a_transaction_however_that_which_held_it_ends() {
    let fixture = fixture().await;
    for path in ["/rest/g", "/rest/other"] {
        make_group(&fixture, path).await;
        fixture.put(&format!("{path}/a"), "").answer().await;
    }
    // A change of the group itself holds what is in it, and so does its deletion.
    for (method, at) in [(Method::PUT, "/rest/g"), (Method::PUT, "/rest/g/a"), (Method::DELETE, "/rest/g")] {
        for end_by in [Some(Method::DELETE), None] {
            let tx = begin(&fixture).await;
            let ask = match method {
                Method::PUT => fixture.put(at, "<> <urn:p> 1 ."),
                _ => fixture.ask(method.clone(), at),
            };
            assert_eq!(of(ask, &tx).await.status, StatusCode::NO_CONTENT);
            let change = |group: &str| fixture.put(&format!("/rest/{group}/b"), "<> <urn:p> 2 .").answer();
            assert_eq!(change("g").await.status, StatusCode::CONFLICT, "{method} {at}");
            assert!(change("other").await.status.is_success(), "{method} {at}");
            match end_by {
                Some(end_by) => end(&fixture, end_by, &tx).await,
                None => fixture.clock.advance(EXPIRED),
            }
            assert!(change("g").await.status.is_success(), "{method} {at}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_creates_changes_and_deletes_groups_with_what_is_in_them() {
    let fixture = fixture().await;
    make_group(&fixture, "/rest/old").await;
    fixture.put("/rest/old/part", "").answer().await;
    let tx = begin(&fixture).await;
    assert_eq!(of(fixture.put("/rest/g", "").header("link", LINK), &tx).await.status, StatusCode::CREATED);
    assert_eq!(of(fixture.put("/rest/g", "<> <urn:p> 1 ."), &tx).await.status, StatusCode::NO_CONTENT);
    assert_eq!(of(fixture.put("/rest/g/part", ""), &tx).await.status, StatusCode::CREATED);
    let refused = of(fixture.put("/rest/g/part/inner", "").header("link", LINK), &tx).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());
    let seen = of(fixture.ask(Method::GET, "/rest/g"), &tx).await;
    assert!(is_group(&seen) && seen.says("<g> <urn:p> 1 ; ldp:contains <g/part> ."), "{}", seen.text());
    // First what is in it, then the group.
    assert_eq!(of(fixture.put("/rest/old/part", "<> <urn:p> 1 ."), &tx).await.status, StatusCode::NO_CONTENT);
    assert_eq!(of(fixture.put("/rest/old", "<> <urn:p> 1 ."), &tx).await.status, StatusCode::NO_CONTENT);
    assert!(is_group(&of(fixture.ask(Method::GET, "/rest/old"), &tx).await));
    assert_eq!(of(fixture.ask(Method::DELETE, "/rest/old"), &tx).await.status, StatusCode::NO_CONTENT);
    end(&fixture, Method::PUT, &tx).await;
    let read = fixture.get("/rest/g").await;
    assert!(is_group(&read) && read.says("<g> <urn:p> 1 ; ldp:contains <g/part> ."), "{}", read.text());
    assert_eq!(fixture.get("/rest/old").await.status, StatusCode::GONE);
    assert_eq!(fixture.get("/rest/old/part").await.status, StatusCode::GONE);
}
