//! Tokens that are limited to some volumes and resources.

use http::{Method, StatusCode};
use serde_json::Value;
use server::config::Access;

use crate::openapi::sample;
use crate::support::{Reply, Server, VOLUME, import_samples, on_free_ports, open_store};

/// The id of the sample volume, in a query and as a segment of a path.
const ID: &str = "psia.ark:/13960/t0ks80527";

/// Another volume, which the tokens of these tests must not reach.
const OTHER: &str = "yale.39002015008130";

/// Routes that reveal nothing of what is stored.
const OF_EVERYBODY: [&str; 5] = ["/healthz", "/readyz", "/openapi.json", "/openapi", "/rest/fcr:constraints"];

/// Lists of which a limited client gets its part.
const FILTERED: [&str; 2] = ["/volumes/", "/feed"];

/// Where a browser shows its own token or forgets it.
const SIGNING: [&str; 2] = ["/sign-in", "/sign-out"];

/// It asks for each result whether the client may read it.
const SEARCH: &str = "/rest/fcr:search";

const TURTLE: (&str, &str) = ("content-type", "text/turtle");

/// A server with two volumes. Reading is open, because limits hold there too.
async fn server() -> (Server, tempfile::TempDir) {
    server_with(|_| {}).await
}

async fn server_with(change: impl FnOnce(&mut server::config::Config)) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    import_samples(store.clone(), &["t0ks80527", "39002015008130"]).await;
    let mut config = on_free_ports();
    config.auth.write = Access::Open;
    change(&mut config);
    (Server::serve(config, store).await, folder)
}

impl Server {
    async fn get_as(&self, token: &str, path: &str) -> Reply {
        self.send(token, Method::GET, path, &[], "").await
    }

    /// Stores a graph without a token.
    async fn put_graph(&self, path: &str, model: &str, turtle: &str) {
        let link = format!("<http://www.w3.org/ns/ldp#{model}>; rel=\"type\"");
        let headers = [TURTLE, ("link", &*link)];
        let made = self.send("", Method::PUT, path, &headers, turtle).await;
        assert_eq!(made.status, StatusCode::CREATED, "{path}: {}", made.text());
    }
}

fn is_refused(answer: &Reply, what: &str) {
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{what}: {}", answer.text());
    assert!(answer.header("www-authenticate").contains("insufficient_scope"), "{what}");
}

#[tokio::test]
async fn no_route_gives_a_limited_token_what_is_outside() {
    let (server, _folder) = server_with(|config| config.auth.copy = vec!["limited".to_owned()]).await;
    let token = server.token_for("limited", "read write volumes:none.* rest:/none").await;
    let selected = server.ask(Method::POST, &format!("/selections?volumeIDs={ID}"), &[]).await;
    let selection = selected.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(server.send("", Method::PUT, "/rest/x", &[TURTLE], "").await.status, StatusCode::CREATED);

    let document: Value = serde_json::from_str(include_str!("../../assets/openapi.json")).unwrap();
    let mut requests = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            requests.push((method.to_uppercase(), path.clone()));
        }
    }
    // What has no place in that document: other addresses of the same, and what copies read.
    for (method, path) in [
        ("GET", "/rest"),
        ("GET", "/rest/fcr:versions"),
        ("GET", "/rest/x/fcr:metadata/fcr:versions"),
        ("POST", "/rest/fcr:verify?path=x"),
        ("GET", "/admin/store"),
        ("POST", "/admin/store"),
        ("GET", "/admin/store/changes"),
    ] {
        requests.push((method.to_owned(), path.to_owned()));
    }
    assert!(requests.len() > 100, "{}", requests.len());
    for (method, path) in requests {
        let route = path.as_str();
        let ids = match route {
            "/volumes" | "/tokencount" | "/selections" => format!("?volumeIDs={ID}"),
            "/pages" => format!("?pageIDs={ID}[1]"),
            _ => String::new(),
        };
        let filled = sample(&format!("{path}{ids}").replace("{selection}", &selection));
        let is_of_data =
            ["/volumes", "/pages", "/tokencount", "/selections"].iter().any(|start| path.starts_with(start));
        for prefix in if is_of_data { ["", "/data-api"].as_slice() } else { &[""] } {
            let (what, address) = (format!("{method} {prefix}{filled}"), format!("{prefix}{filled}"));
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let answer = server.send(&token, method, &address, &[("accept", "*/*")], "").await;
            if SIGNING.contains(&route) {
                continue;
            }
            if route == SEARCH {
                assert!(!answer.text().contains("/rest/x"), "{what}: {}", answer.text());
            } else if OF_EVERYBODY.contains(&route) || FILTERED.contains(&route) {
                assert_eq!(answer.status, StatusCode::OK, "{what}");
                let stored = answer.text();
                let tells =
                    route != "/openapi.json" && ["psia", "yale", "/rest/x"].iter().any(|id| stored.contains(id));
                assert!(!tells, "{what}: {stored}");
            } else {
                is_refused(&answer, &what);
            }
        }
    }
    assert_eq!(server.get(&format!("/volumes/{VOLUME}")).await.status, StatusCode::OK, "nothing was changed");
    assert_eq!(server.get("/rest/x").await.status, StatusCode::OK);
    assert_eq!(server.get(&format!("/selections/{selection}")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_token_for_some_volumes_reads_and_changes_those() {
    let (server, _folder) = server().await;
    let token = server.token_for("psia", "write volumes:psia.*").await;
    for path in [
        format!("/volumes/{VOLUME}"),
        format!("/data-api/volumes/{VOLUME}/pages/1"),
        format!("/volumes/{VOLUME}/text"),
        format!("/volumes/{VOLUME}/versions/"),
        format!("/volumes?volumeIDs={ID}"),
        format!("/pages?pageIDs={ID}[1]"),
        format!("/tokencount?volumeIDs={ID}"),
        format!("/rest/volumes/{VOLUME}"),
        format!("/rest/volumes/{VOLUME}/mets"),
    ] {
        let answer = server.get_as(&token, &path).await;
        assert!(matches!(answer.status, StatusCode::OK | StatusCode::NOT_FOUND), "{path}: {}", answer.text());
        assert!(answer.status == StatusCode::OK || path.ends_with("versions/"), "{path}: {}", answer.text());
    }
    for other in ["absent.1", OTHER] {
        // It makes no difference whether there is such a volume.
        let single = server.get_as(&token, &format!("/volumes/{other}")).await;
        is_refused(&single, other);
        let mixed = server.get_as(&token, &format!("/volumes?volumeIDs={ID}|{other}")).await;
        is_refused(&mixed, other);
        assert_eq!(mixed.text(), format!("your token is limited, and the volume `{other}` is not within its limits"));
    }
    let listed = server.get_as(&token, "/volumes/").await;
    assert_eq!(listed.text(), format!("{ID}\n"));
    let found = server.get_as(&token, "/volumes/?format=json&fields=id&limit=1&sort=id").await.json();
    assert_eq!((&found["volumes"][0]["id"], &found["total"], &found["next"]), (&ID.into(), &1.into(), &Value::Null));
    let first = server.get_as(&token, "/volumes/?format=json&fields=id&limit=1").await.json();
    let rest = match first["next"].as_str() {
        Some(next) => {
            server.get_as(&token, &format!("/volumes/?format=json&fields=id&limit=1&after={next}")).await.text()
        }
        None => String::new(),
    };
    assert!(first["volumes"][0]["id"] == ID && !rest.contains("yale"), "{first} {rest}");

    let selected = server.send(&token, Method::POST, &format!("/selections?volumeIDs={ID}"), &[], "").await;
    let own = format!("/selections/{}", selected.json()["id"].as_str().unwrap());
    assert_eq!(server.get_as(&token, &own).await.status, StatusCode::OK);
    let both = server.ask(Method::POST, &format!("/selections?volumeIDs={ID}|{OTHER}"), &[]).await;
    let both = format!("/selections/{}", both.json()["id"].as_str().unwrap());
    for (method, accept) in [(Method::GET, "*/*"), (Method::GET, "application/json"), (Method::DELETE, "*/*")] {
        let answer = server.send(&token, method, &both, &[("accept", accept)], "").await;
        is_refused(&answer, &both);
        assert!(!answer.text().contains(OTHER), "{}", answer.text());
    }

    let delete = async |id: &str| server.send(&token, Method::DELETE, &format!("/volumes/{id}"), &[], "").await;
    is_refused(&delete(OTHER).await, OTHER);
    assert_eq!(delete(VOLUME).await.status, StatusCode::NO_CONTENT);
    is_refused(&server.get_as(&token, "/rest/").await, "it has no tree");
}

#[tokio::test]
async fn a_token_for_reading_a_tree_reads_nothing_else_and_changes_nothing() {
    let (server, _folder) = server().await;
    for path in ["/rest/a/b/c", "/rest/ab", "/rest/a;x=1", "/rest/%C3%A4/1"] {
        server.put_graph(path, "Resource", "").await;
    }
    let token = server.token_for("reader", "read rest:/a rest:/%25C3%25A4/").await;
    for path in [
        "/rest/a",
        "/rest/a/b",
        "/rest/a/b/c",
        "/rest/%61/b",
        "/rest/a/b/fcr:versions",
        "/rest/%C3%A4/1",
        "/rest/%c3%a4",
        "/rest/fcr:constraints",
    ] {
        let answer = server.get_as(&token, path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text());
    }
    let zip = server.send(&token, Method::GET, "/rest/a", &[("accept", "application/zip")], "").await;
    assert_eq!(zip.status, StatusCode::OK);
    for path in ["/rest/", "/rest", "/rest/ab", "/rest/a;x=1", "/rest/A", "/rest/none", "/rest/none/b"] {
        is_refused(&server.get_as(&token, path).await, path);
    }
    for path in [
        "/rest/a/../ab",
        "/rest/a/%2e%2e/ab",
        "/rest/a%2F..%2Fab",
        "/rest//ab",
        "/rest/a//b",
        "/rest/./ab",
        "/rest/a/..;/ab",
        "/rest/a/b/%00",
        "/rest/a/fcr:versions/../../ab",
    ] {
        let answer = server.get_as(&token, path).await;
        assert!(answer.status.is_client_error(), "{path}: {} {}", answer.status, answer.text());
    }
    for method in [Method::PUT, Method::POST, Method::PATCH, Method::DELETE] {
        is_refused(&server.send(&token, method.clone(), "/rest/a/b", &[TURTLE], "").await, method.as_str());
    }
}

#[tokio::test]
async fn a_token_for_writing_a_tree_changes_nothing_outside() {
    let (server, _folder) = server().await;
    server.put_graph("/rest/maps/old", "BasicContainer", "").await;
    server.put_graph("/rest/secret", "BasicContainer", "<> <http://purl.org/dc/terms/title> \"hidden\" .").await;
    server.put_graph("/rest/secret/member", "Resource", "").await;
    let members_of = |resource: &str| {
        format!(
            "<> <http://www.w3.org/ns/ldp#membershipResource> <{resource}> ; \
             <http://www.w3.org/ns/ldp#hasMemberRelation> <http://example.org/has> ."
        )
    };
    server.put_graph("/rest/maps/outward", "DirectContainer", &members_of("/rest/secret")).await;
    server.put_graph("/rest/secret/inward", "DirectContainer", &members_of("/rest/maps/old")).await;
    server.put_graph("/rest/secret/inward/one", "Resource", "<> <http://example.org/about> </rest/maps/old> .").await;
    let token = server.token_for("mapper", "write rest:/maps rest:/new rest:/deep/down").await;
    let send = async |method, path, body: &str| server.send(&token, method, path, &[TURTLE], body).await;

    assert_eq!(send(Method::PUT, "/rest/maps/new", "").await.status, StatusCode::CREATED);
    assert_eq!(send(Method::POST, "/rest/maps", "").await.status, StatusCode::CREATED);
    assert_eq!(send(Method::PUT, "/rest/new/a/b", "").await.status, StatusCode::CREATED, "the tree is made");
    is_refused(&send(Method::PUT, "/rest/deep/down/a", "").await, "it would make /deep");
    assert_eq!(server.get("/rest/deep").await.status, StatusCode::NOT_FOUND);
    for (method, path) in [
        (Method::PUT, "/rest/other"),
        (Method::PUT, "/rest/secret/a"),
        (Method::POST, "/rest/secret"),
        (Method::DELETE, "/rest/secret"),
        (Method::PATCH, "/rest/secret"),
        (Method::POST, "/rest/"),
    ] {
        is_refused(&send(method, path, "").await, path);
    }

    // Members of a resource are statements about it.
    is_refused(&send(Method::POST, "/rest/maps/outward", "").await, "a member of /secret");
    is_refused(&send(Method::PUT, "/rest/maps/outward/x", "").await, "a member of /secret");
    is_refused(&send(Method::PUT, "/rest/maps/outward/x/y", "").await, "a member of /secret, made in passing");
    is_refused(&send(Method::DELETE, "/rest/maps/outward", "").await, "all members of /secret");
    is_refused(&send(Method::PUT, "/rest/maps/outward", &members_of("/rest/maps")).await, "all members of /secret");
    let direct = [TURTLE, ("link", "<http://www.w3.org/ns/ldp#DirectContainer>; rel=\"type\"")];
    let gives = server.send(&token, Method::PUT, "/rest/maps/own", &direct, &members_of("/rest/secret")).await;
    is_refused(&gives, "a container that gives members to /secret");
    let gives = server.send(&token, Method::PUT, "/rest/maps/own", &direct, &members_of("/rest/maps/new")).await;
    assert_eq!(gives.status, StatusCode::CREATED, "{}", gives.text());
    server.put_graph("/rest/maps/outward/one", "Resource", "").await;
    is_refused(&send(Method::DELETE, "/rest/maps", "").await, "all members of /secret, with what they are in");
    assert_eq!(server.get("/rest/maps/outward/one").await.status, StatusCode::OK);
    for (path, what) in [("/rest/maps/own", "its members are those of /maps/new"), ("/rest/new", "it gives none")] {
        assert_eq!(send(Method::DELETE, path, "").await.status, StatusCode::NO_CONTENT, "{what}");
    }
    let all = server.send("", Method::DELETE, "/rest/maps/outward", &[], "").await;
    assert_eq!(all.status, StatusCode::NO_CONTENT, "who has no limits may");

    // It cannot state what a container outside would state, whether that is true or not.
    for member in ["secret/inward/one", "maps/new"] {
        let forged = format!("<> <http://example.org/has> </rest/{member}> .");
        let refused = send(Method::PUT, "/rest/maps/old", &forged).await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{member}: {}", refused.text());
    }
    let patch = [("content-type", "application/sparql-update")];
    let forged = "INSERT DATA { <> <http://example.org/has> </rest/maps/new> }";
    let refused = server.send(&token, Method::PATCH, "/rest/maps/old", &patch, forged).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());
    let own = "<> <http://example.org/hasnot> </rest/maps/new> .";
    assert_eq!(send(Method::PUT, "/rest/maps/old", own).await.status, StatusCode::NO_CONTENT);

    // Many in one request are all in the container.
    let quads = "<http://localhost/rest/maps/q> <http://a.b/c> \"1\" <http://localhost/rest/maps/q> .\n\
                 <http://localhost/rest/secret/q> <http://a.b/c> \"1\" <http://localhost/rest/secret/q> .\n";
    let many = server.send(&token, Method::POST, "/rest/maps", &[("content-type", "application/n-quads")], quads).await;
    assert_eq!(many.text().matches("\"status\":201").count(), 1, "{}", many.text());
    assert_eq!(server.get("/rest/secret/q").await.status, StatusCode::NOT_FOUND);

    // What others say of a resource inside is not shown.
    let inbound = "return=representation; include=\"http://fedora.info/definitions/fcrepo#PreferInboundReferences \
                   http://www.w3.org/ns/ldp#PreferMembership\"";
    let headers = [("accept", "application/n-triples"), ("prefer", inbound)];
    let all = server.send("", Method::GET, "/rest/maps/old", &headers, "").await.text();
    assert!(all.contains("example.org/has") && all.contains("example.org/about"), "{all}");
    for accept in ["application/n-triples", "text/html"] {
        let headers = [("accept", accept), ("prefer", inbound)];
        let own = server.send(&token, Method::GET, "/rest/maps/old", &headers, "").await;
        assert_eq!(own.status, StatusCode::OK);
        assert!(!own.text().contains("secret"), "{}", own.text());
    }
}

#[tokio::test]
async fn a_limited_token_gets_the_events_of_what_it_may_read() {
    let (server, _folder) = server().await;
    for path in ["/rest/a/1", "/rest/b/1"] {
        server.put_graph(path, "Resource", "").await;
    }
    let token = server.token_for("follower", "read rest:/b volumes:psia.*").await;
    let page = server.get_as(&token, "/feed?after=start").await.json();
    let about = |page: &Value| -> Vec<String> {
        let items = page["orderedItems"].as_array().unwrap();
        items.iter().map(|item| item["object"]["id"].as_str().unwrap().replace("http://localhost", "")).collect()
    };
    let mut events = about(&page);
    events.sort();
    assert_eq!(events, ["/rest/b", "/rest/b/1", &format!("/rest/volumes/{VOLUME}")]);
    // Pages go on behind what is left out.
    let (mut path, mut by_ones) = ("/feed?after=start&limit=1".to_owned(), Vec::new());
    for _ in 0..20 {
        let page = server.get_as(&token, &path).await.json();
        by_ones.extend(about(&page));
        let Some(next) = page["next"].as_str() else { break };
        path = next.replace("http://localhost", "");
    }
    by_ones.sort();
    assert_eq!(by_ones, events);
}

#[tokio::test]
async fn limits_that_cannot_be_are_refused() {
    let (server, _folder) = server().await;
    for scope in ["volumes:a.*", "admin%20rest:/a", "read%20rest:/a/../b", "read%20rest:/volumes/a", "read%20volumes:"]
    {
        let answer = server.admin(Method::POST, &format!("/admin/tokens?name=a&scope={scope}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{scope}: {}", answer.text());
    }
    let many: String = (0..2_000).map(|n| format!("%20rest:/{n}")).collect();
    let answer = server.admin(Method::POST, &format!("/admin/tokens?name=a&scope=read{many}")).await;
    assert!(
        answer.status == StatusCode::BAD_REQUEST && answer.text().contains("at most 64 limits"),
        "{}",
        answer.text()
    );
}
