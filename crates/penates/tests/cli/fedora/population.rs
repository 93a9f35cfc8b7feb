//! What is made in a Fedora, so that its storage root has every case.

use super::server::Site;

/// The media types of bodies.
const TURTLE: &str = "text/turtle";
const UPDATE: &str = "application/sparql-update";
const TEXT: &str = "text/plain";

const EXTERNAL: &str = "http://fedora.info/definitions/fcrepo#ExternalContent";
const GROUP: &str = "http://fedora.info/definitions/v4/repository#ArchivalGroup";
const TITLE: &str = "http://purl.org/dc/terms/title";

/// Resources that a Fedora which makes versions of its own accord has, with whether they are bytes.
pub const VERSIONED: [(&str, bool); 32] = [
    ("", false),
    ("letters", false),
    ("letters/1.txt", true),
    ("letters/a%20b%20%C3%A4", false),
    ("letters/a/b", false),
    ("letters/100%25", false),
    ("letters/p+q", false),
    ("letters/by-alice", false),
    ("gh/ost/deep", false),
    ("direct", false),
    ("direct/m1", false),
    ("direct-default", false),
    ("indirect", false),
    ("indirect/p", false),
    ("typed", false),
    ("group", false),
    ("group/sub", false),
    ("group/sub/b.bin", true),
    ("group/sub/c.bin", true),
    ("group/sub/new", false),
    ("gone", false),
    ("gone/child", true),
    ("gone/other", false),
    ("again", false),
    ("snap", false),
    ("same", true),
    ("bytes.nt", true),
    ("empty", true),
    ("named", true),
    ("in-one", true),
    ("redirected", true),
    ("proxied", true),
];

/// The one that was made with its description in one version.
pub const IN_ONE: &str = "in-one";

/// Resources that a Fedora which makes versions on request has.
pub const ON_REQUEST: [(&str, bool); 7] = [
    ("a", false),
    ("a/b.txt", true),
    ("never", false),
    ("gone", false),
    ("group", false),
    ("group/sub", false),
    ("group/sub/b", true),
];

fn title(text: &str) -> String {
    format!("<> <{TITLE}> \"{text}\" .")
}

fn insert(text: &str) -> String {
    format!("INSERT {{ <> <{TITLE}> \"{text}\" }} WHERE {{}}")
}

fn acl(of: &str) -> String {
    format!(
        "@prefix acl: <http://www.w3.org/ns/auth/acl#> . <#a> a acl:Authorization ; acl:agent \"alice\" ; \
         acl:mode acl:Read, acl:Write ; acl:accessTo <{of}> ; acl:default <{of}> ."
    )
}

fn model(name: &str) -> String {
    format!("Link: <http://www.w3.org/ns/ldp#{name}>; rel=\"type\"")
}

/// Makes resources in a Fedora that makes a version of each change.
/// `elsewhere` is the address of a server with other content.
pub fn versioned(site: &Site, elsewhere: &str) {
    let put = |path: &str, media_type: &str, body: &str| site.send("PUT", path, &[&typed(media_type)], body);
    let update = |path: &str, body: &str| site.send("PATCH", path, &[&typed(UPDATE)], body);
    let root = &site.root;
    let graph = format!(
        "@prefix dc: <http://purl.org/dc/terms/> . <> dc:title \"Letters\"@en ; dc:creator [ dc:title \"A\\nB\" ] ; \
         dc:hasPart <letters/1.txt>, <letters#part>, <{root}other> ; a <http://example.org/Box> . \
         <#part> dc:title \"{root}letters\" ."
    );
    put("letters", TURTLE, &graph);
    let named = "Content-Disposition: attachment; filename=\"one.txt\"";
    site.send("PUT", "letters/1.txt", &[&typed(TEXT), named], "a letter");
    let about =
        format!("INSERT {{ <> <{TITLE}> \"One\" . <{root}letters/1.txt> <urn:about> <{root}letters> }} WHERE {{}}");
    update("letters/1.txt/fcr:metadata", &about);
    site.next_second();
    put("letters/1.txt", TEXT, "a longer letter");
    update("letters", &insert("Briefe"));
    let itself = format!("<> <urn:of> <{root}letters/a%20b%20%C3%A4> .");
    put("letters/a%20b%20%C3%A4", TURTLE, &itself);
    for path in ["letters/a%2Fb", "letters/100%25", "letters/p+q"] {
        put(path, TURTLE, "");
    }
    // Fedora's version of a container has the members that it gets until the end of the second.
    site.next_second();
    put("gh/ost/deep", TURTLE, &title("deep"));
    let ldp = "@prefix ldp: <http://www.w3.org/ns/ldp#> . @prefix dc: <http://purl.org/dc/terms/> . ";
    let members = format!("{ldp} <> ldp:membershipResource <{root}letters> ; ldp:hasMemberRelation ");
    site.send("PUT", "direct", &[&typed(TURTLE), &model("DirectContainer")], &format!("{members} dc:relation ."));
    put("direct/m1", TURTLE, "");
    site.send("PUT", "direct-default", &[&typed(TURTLE), &model("DirectContainer")], "");
    let inserted = format!("{members} dc:references ; ldp:insertedContentRelation dc:source .");
    site.send("PUT", "indirect", &[&typed(TURTLE), &model("IndirectContainer")], &inserted);
    put("indirect/p", TURTLE, "<> <http://purl.org/dc/terms/source> <http://example.org/x> .");
    put("typed", TURTLE, "<> <http://www.ebu.ch/metadata/ontologies/ebucore/ebucore#filename> \"x\" ; a <urn:class> .");
    for path in ["letters", "letters/1.txt"] {
        put(&format!("{path}/fcr:acl"), TURTLE, &acl(&format!("{root}{path}")));
    }
    site.send_as("alice", "PUT", "letters/by-alice", &[&typed(TURTLE)], "");
    group(site);
    put("gone", TURTLE, &title("gone"));
    put("gone/child", "image/png", "png");
    put("gone/other", TURTLE, "");
    site.delete("gone/other");
    site.delete("gone");
    for text in ["first", "again"] {
        put("again", TURTLE, &title(text));
        if text == "first" {
            site.delete("again");
            site.delete("again/fcr:tombstone");
        }
    }
    put("snap", TURTLE, &title("snap"));
    site.next_second();
    site.send("POST", "snap/fcr:versions", &[], "");
    for (media_type, body) in [(TEXT, "same"), (TEXT, "same"), ("text/html", "same")] {
        put("same", media_type, body);
    }
    site.send("PUT", "bytes.nt", &[&typed("application/n-triples"), &model("NonRDFSource")], "<a:b> <a:c> <a:d> .");
    put("empty", "application/octet-stream", "");
    let named = "Content-Disposition: attachment; filename=\"_.txt\"; filename*=UTF-8''%C3%A4%22.txt";
    site.send("PUT", "named", &[&typed(TEXT), named], "named");
    update("", &insert("Root"));
    let transaction = site.begin();
    let within = format!("Atomic-ID: {transaction}");
    site.send("PUT", "in-one", &[&typed(TEXT), &within], "in one");
    site.send("PATCH", "in-one/fcr:metadata", &[&typed(UPDATE), &within], &insert("in one"));
    site.commit(&transaction);
    let link = |handling: &str| {
        format!("Link: <{elsewhere}1.txt>; rel=\"{EXTERNAL}\"; handling=\"{handling}\"; type=\"text/plain\"")
    };
    site.send("PUT", "redirected", &[&link("redirect")], "");
    site.send("PUT", "proxied", &[&link("proxy")], "");
    put("volumes", TURTLE, "");
    put("volumes/v", TURTLE, "");
}

/// Changes some of them later.
pub fn later(site: &Site) {
    site.next_second();
    site.send("PATCH", "letters", &[&typed(UPDATE)], &insert("later"));
    site.send("PUT", "letters/1.txt", &[&typed(TEXT)], "a last letter");
    site.send("PUT", "group/sub/new", &[&typed(TURTLE)], &title("new"));
    site.delete("again");
}

/// An Archival Group that changes several times within a second.
fn group(site: &Site) {
    site.send("PUT", "group", &[&typed(TURTLE), &format!("Link: <{GROUP}>; rel=\"type\"")], &title("Group"));
    site.send("PUT", "group/sub", &[&typed(TURTLE)], &title("sub"));
    for name in ["group/sub/b.bin", "group/sub/c.bin"] {
        site.send("PUT", name, &[&typed("application/octet-stream")], "the same bytes");
    }
    site.send("PATCH", "group/sub/b.bin/fcr:metadata", &[&typed(UPDATE)], &insert("bytes"));
    for number in 0..4 {
        site.send("PATCH", "group/sub", &[&typed(UPDATE)], &insert(&number.to_string()));
    }
    site.delete("group/sub/c.bin");
    site.send("POST", "group/fcr:versions", &[], "");
}

/// Makes resources in a Fedora that makes versions on request.
pub fn on_request(site: &Site) {
    let put = |path: &str, media_type: &str, body: &str| site.send("PUT", path, &[&typed(media_type)], body);
    let update = |path: &str, body: &str| site.send("PATCH", path, &[&typed(UPDATE)], body);
    let version = |path: &str| site.send("POST", &format!("{path}/fcr:versions"), &[], "");
    put("a", TURTLE, &title("one"));
    put("a/b.txt", TEXT, "one");
    version("a/b.txt");
    version("a");
    site.next_second();
    update("a", &insert("two"));
    update("a/b.txt/fcr:metadata", &insert("B"));
    put("a/b.txt", TEXT, "two");
    version("a/b.txt");
    site.next_second();
    put("a/b.txt", TEXT, "three");
    update("a", &insert("three"));
    put("never", TURTLE, &title("never a version"));
    put("unseen", TURTLE, &title("unseen"));
    site.delete("unseen");
    put("gone", TURTLE, &title("gone"));
    version("gone");
    site.delete("gone");
    site.send("PUT", "group", &[&typed(TURTLE), &format!("Link: <{GROUP}>; rel=\"type\"")], &title("Group"));
    put("group/sub", TURTLE, &title("sub"));
    version("group");
    put("group/sub/b", TEXT, "b");
    put("group/fcr:acl", TURTLE, &acl(&format!("{}group", site.root)));
}

fn typed(media_type: &str) -> String {
    format!("Content-Type: {media_type}")
}
