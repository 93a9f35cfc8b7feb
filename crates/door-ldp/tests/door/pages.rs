//! Pages for people.

use axum::body::to_bytes;
use door_ldp::{LdpSettings, SearchSettings};
use http::{Method, StatusCode};

use crate::support::*;

/// What browsers send.
pub const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

pub async fn page(fixture: &Fixture, path: &str) -> Reply {
    let page = fixture.ask(Method::GET, path).header("accept", BROWSER).answer().await;
    assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.text());
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"), "{path}");
    assert!(page.text().contains("name=\"viewport\""), "{path}");
    page
}

pub async fn put_bytes(fixture: &Fixture, path: &str, media_type: &str, bytes: impl Into<axum::body::Body>) {
    let put = fixture.ask(Method::PUT, path).of_class("NonRDFSource").header("content-type", media_type);
    assert_eq!(put.body(bytes).answer().await.status, StatusCode::CREATED, "{path}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_begins_with_the_title_and_has_the_way_up_and_the_statements() {
    let fixture = fixture().await;
    fixture.make("/rest/letters", "BasicContainer", "").await;
    let turtle = "<> <http://purl.org/dc/terms/title> \"A <b>letter</b>\" ;
        <http://purl.org/dc/terms/relation> <other#part>, <javascript:alert(1)> ; <http://a/p> [ <http://a/q> 1 ] .";
    fixture.make("/rest/letters/first", "RDFSource", turtle).await;
    let page = page(&fixture, "/rest/letters/first").await;
    for part in [
        "<h1>A &lt;b&gt;letter&lt;/b&gt;</h1>",
        "<a href=\"/rest/\">Repository</a>",
        "<a href=\"/rest/letters\">letters</a>",
        "<a href=\"http://purl.org/dc/terms/title\">dcterms:title</a>",
        "<a href=\"/rest/letters/other#part\">/letters/other#part</a>",
        "xsd:integer",
        "<dd>javascript:alert(1)</dd>",
        "2025-06-15 15:06:40 UTC",
    ] {
        assert!(page.text().contains(part), "{part} is not in {}", page.text());
    }
    assert!(!page.text().contains("<b>"), "{}", page.text());
    let tag = page.etag();
    let again = fixture.ask(Method::GET, "/rest/letters/first").header("accept", BROWSER);
    assert_eq!(again.header("if-none-match", &tag).answer().await.status, StatusCode::NOT_MODIFIED);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_listed_with_titles_kinds_and_sizes_a_page_at_a_time() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    fixture.make("/rest/c/described", "RDFSource", "<> <http://purl.org/dc/terms/title> \"Of its own\" .").await;
    put_bytes(&fixture, "/rest/c/image", "image/png", vec![0; 2_000]).await;
    let page_of_c = page(&fixture, "/rest/c").await;
    for part in ["Of its own", "Description", "image/png", "2.0 kB", "href=\"/rest/c/image/fcr:metadata\""] {
        assert!(page_of_c.text().contains(part), "{part} is not in {}", page_of_c.text());
    }
    assert!(page_of_c.header("last-modified").is_none(), "titles of members change without the container");
    let tag = page_of_c.etag();
    let again = fixture.ask(Method::GET, "/rest/c").header("accept", BROWSER).header("if-none-match", &tag);
    assert_eq!(again.answer().await.status, StatusCode::OK);

    for number in 0..53 {
        fixture.make(&format!("/rest/c/more-{number}"), "RDFSource", "").await;
    }
    let first = page(&fixture, "/rest/c").await;
    assert_eq!(first.text().matches("<tr>").count(), 51, "fifty, and the headings");
    let next = first.text().split("rel=\"next\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    let next = next.replace("&amp;", "&");
    let second = page(&fixture, &next).await;
    assert_eq!(second.text().matches("<tr>").count(), 6, "{}", second.text());
    assert!(second.text().contains("First page") && !second.text().contains("rel=\"next\""));
    let before = second.text().split("rel=\"prev\" href=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let again = page(&fixture, &before.replace("&amp;", "&")).await;
    let contents = |page: &Reply| page.text().split("<h2>Contents</h2>").nth(1).unwrap().to_owned();
    assert_eq!(contents(&again).split("</table>").next(), contents(&first).split("</table>").next());
    assert!(again.text().contains("<dt>Kind</dt>") && !again.text().contains("rel=\"prev\""), "it is the first one");
    assert!(again.text().contains(&format!("href=\"{}\"", next.replace('&', "&amp;"))), "{}", again.text());
    let many = page(&fixture, "/rest/c?limit=10000").await;
    assert_eq!(many.text().matches("<tr>").count(), 56);
    let last = page(&fixture, "/rest/c?last=true").await;
    assert!(last.text().contains("<h2>Contents</h2>") && !last.text().contains("rel=\"next\""), "{}", last.text());
    assert_eq!(fixture.get("/rest/c?last=true").await.links("first").len(), last.links("first").len());
}

#[tokio::test(flavor = "multi_thread")]
async fn head_of_a_page_of_members_has_the_fields_of_get() {
    let fixture = fixture().await;
    for path in ["/rest/c", "/rest/c/1", "/rest/c/2", "/rest/c/3"] {
        fixture.make(path, "BasicContainer", "").await;
    }
    for accept in [BROWSER, TURTLE] {
        let ask = async |method: Method, path: &str| {
            let mut answer = fixture.ask(method, path).header("accept", accept).answer().await;
            assert_eq!(answer.status, StatusCode::OK, "{path} as {accept}");
            answer.headers.remove("content-length");
            answer
        };
        let next = ask(Method::GET, "/rest/c?limit=2").await.links("next").concat().replace("http://test", "");
        for path in ["/rest/c?limit=2", &next, "/rest/c?limit=2&last=true"] {
            let (get, head) = (ask(Method::GET, path).await, ask(Method::HEAD, path).await);
            assert_eq!(head.headers, get.headers, "{path} as {accept}");
            assert!(get.header("etag").is_none() && get.links("first").len() == 1, "{path} as {accept}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heading_and_the_titles_of_a_list_have_the_languages_of_their_literals() {
    let fixture = fixture().await;
    let titled = |title: &str| format!("<> <http://purl.org/dc/terms/title> {title} .");
    fixture.make("/rest/c", "BasicContainer", &titled("\"Briefe\"@de")).await;
    fixture.make("/rest/c/1", "RDFSource", &titled("\"Lettres\"@fr")).await;
    fixture.make("/rest/c/2", "RDFSource", &titled("\"Plain\"")).await;
    let page = page(&fixture, "/rest/c").await;
    for part in [
        "<html lang=\"en\">",
        "<title lang=\"de\">Briefe</title>",
        "<h1 lang=\"de\">Briefe</h1>",
        "<span class=\"title\" lang=\"fr\">Lettres</span>",
        "<span class=\"title\">Plain</span>",
    ] {
        assert!(page.text().contains(part), "{part} is not in {}", page.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_root_names_the_volumes_and_an_empty_container_says_so() {
    let fixture = fixture().await;
    assert!(page(&fixture, "/rest/").await.text().contains("<a href=\"/rest/volumes\">volumes</a>"));
    fixture.make("/rest/empty", "BasicContainer", "").await;
    assert!(page(&fixture, "/rest/empty").await.text().contains("This container is empty."));
    assert!(page(&fixture, "/rest/volumes").await.text().contains("<h1>Volumes</h1>"));
    let head = fixture.ask(Method::HEAD, "/rest/empty").header("accept", BROWSER).answer().await;
    assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_file_shows_what_browsers_show_and_leads_to_its_bytes() {
    let fixture = fixture().await;
    let cut_in_a_letter = format!("<i>{}ü and more", "x".repeat(4_092));
    put_bytes(&fixture, "/rest/text", "text/plain;charset=utf-8", cut_in_a_letter.clone()).await;
    put_bytes(&fixture, "/rest/broken", "application/xml", vec![b'a', 0xFF, b'b']).await;
    put_bytes(&fixture, "/rest/image", "image/png", "png").await;
    put_bytes(&fixture, "/rest/sound", "audio/ogg", "ogg").await;
    put_bytes(&fixture, "/rest/other", "application/x-other", "other").await;
    put_bytes(&fixture, "/rest/none", "text/plain", "").await;
    for (path, shown) in [
        ("text", "&lt;i&gt;xxx"),
        ("broken", "a\u{FFFD}b</pre>"),
        ("image", "<img src=\"/rest/image\" alt=\"image\""),
        ("sound", "<audio controls preload=\"none\" aria-label=\"sound\""),
        ("other", "application/x-other"),
        ("none", "0 B"),
    ] {
        let page = page(&fixture, &format!("/rest/{path}/fcr:metadata")).await;
        assert!(page.text().contains(shown), "{shown} is not in {}", page.text());
        assert!(page.text().contains(&format!("href=\"/rest/{path}\"")), "{}", page.text());
        assert!(!page.text().contains("<i>"), "{}", page.text());
    }
    put_bytes(&fixture, "/rest/latin", "text/plain; charset=iso-8859-1", &b"\xDCber <i>"[..]).await;
    let latin = page(&fixture, "/rest/latin/fcr:metadata").await;
    assert!(latin.text().contains(">Über &lt;i&gt;</pre>"), "{}", latin.text());
    let text = page(&fixture, "/rest/text/fcr:metadata").await;
    assert!(!text.text().contains('\u{FFFD}') && text.text().contains("The first 4 KiB are shown."));
    let bytes = fixture.ask(Method::GET, "/rest/text").header("accept", BROWSER).answer().await;
    assert_eq!(bytes.text(), cut_in_a_letter, "the address of the bytes is not the page");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_mets_shows_what_it_lists_and_that_of_a_malformed_one_its_text() {
    let fixture = fixture().await;
    let mets =
        "<mets xmlns=\"http://www.loc.gov/METS/\" xmlns:x=\"http://www.w3.org/1999/xlink\" LABEL=\"A &lt;b&gt;\">
        <fileSec><fileGrp><file ID=\"F\"><FLocat x:href=\"&lt;i&gt;.txt\"/></file></fileGrp></fileSec>
        <structMap><div><div ORDER=\"7\" ORDERLABEL=\"iv\"><fptr FILEID=\"F\"/></div></div></structMap></mets>";
    for (path, media_type) in [("one", "application/mets+xml"), ("two", "text/xml"), ("three", "application/xml")] {
        put_bytes(&fixture, &format!("/rest/{path}"), media_type, mets).await;
        let page = page(&fixture, &format!("/rest/{path}/fcr:metadata")).await;
        let title = "<dt>Title</dt><dd>A &lt;b&gt;</dd><dt>Files</dt><dd>1</dd>";
        let row = "<td class=\"number\">7</td><td>iv</td><td><code>&lt;i&gt;.txt</code></td>";
        for part in ["What this METS lists", title, row] {
            assert!(page.text().contains(part), "{part} is not in {}", page.text());
        }
        assert!(!page.text().contains("Beginning") && !page.text().contains("<i>"), "{}", page.text());
    }
    let other = mets.replace("mets", "nets");
    put_bytes(&fixture, "/rest/other", "text/xml", other).await;
    put_bytes(&fixture, "/rest/broken", "application/mets+xml", mets.replace("</mets>", "")).await;
    put_bytes(&fixture, "/rest/empty", "application/mets+xml", "").await;
    for (path, shown) in [("other", "&lt;nets"), ("broken", "&lt;mets"), ("empty", "Beginning")] {
        let page = page(&fixture, &format!("/rest/{path}/fcr:metadata")).await;
        assert!(page.text().contains(shown) && !page.text().contains("What this METS lists"), "{}", page.text());
    }
    // Of one that is too long, the page has what its first MiB lists.
    let entry = |n: u32| format!("<div ORDER=\"{n}\" LABEL=\"{}\"/>", "x".repeat(60));
    let entries: String = (0..20_000).map(entry).collect();
    let long = mets.replace("<structMap>", &format!("<structMap>{entries}"));
    put_bytes(&fixture, "/rest/long", "application/mets+xml", long).await;
    let page = page(&fixture, "/rest/long/fcr:metadata").await;
    for part in ["The first 50 entries are shown.", "The first MiB was read.", "<td class=\"number\">49</td>"] {
        assert!(page.text().contains(part), "{part} is not in {}", page.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_a_limit_of_statements_and_says_how_many_there_are() {
    let fixture = fixture().await;
    let many: String = (0..2_100).map(|number| format!("<> <http://a/p> \"{number}\" .\n")).collect();
    fixture.make("/rest/many", "RDFSource", &many).await;
    let page = page(&fixture, "/rest/many").await;
    assert!(page.text().contains("The first 2000 of 2100 statements are shown."), "{}", page.text().len());
    assert_eq!(page.text().matches("<a href=\"http://a/p\">").count(), 1, "a property is named once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_that_gets_members_from_a_container_leads_to_it() {
    let fixture = fixture().await;
    fixture.make("/rest/book", "RDFSource", "").await;
    let direct = "<> <http://www.w3.org/ns/ldp#membershipResource> </rest/book> ;
        <http://www.w3.org/ns/ldp#hasMemberRelation> <http://purl.org/dc/terms/hasPart> .";
    fixture.make("/rest/parts", "DirectContainer", direct).await;
    let page = page(&fixture, "/rest/book").await;
    assert!(page.text().contains("Its members are in <a href=\"/rest/parts\">/parts</a>"), "{}", page.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_pages_with_the_same_look() {
    let fixture = fixture().await;
    fixture.make("/rest/x", "RDFSource", "<> <http://purl.org/dc/terms/title> \"one\" .").await;
    let here = page(&fixture, "/rest/x").await;
    assert!(here.text().contains("href=\"/rest/x/fcr:versions\""), "{}", here.text());
    let versions = page(&fixture, "/rest/x/fcr:versions").await;
    assert!(versions.text().contains("<h1>Versions of /x</h1>"), "{}", versions.text());
    assert!(!versions.text().contains("Compare"), "there is nothing to compare with");
    let then = page(&fixture, "/rest/x/fcr:versions/20250615150640").await;
    assert!(
        then.text().contains("<dd><span>one</span></dd>") && then.text().contains("<h1>/x, Sun, 15 Jun 2025"),
        "{}",
        then.text()
    );
    for (page, way) in
        [(&versions, "<a href=\"/rest/x\">x</a>"), (&then, "<a href=\"/rest/x/fcr:versions\">Versions</a>")]
    {
        assert!(page.text().contains(way), "{way}: {}", page.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_versions_are_compared_by_statements_and_bytes() {
    let fixture = fixture().await;
    let said =
        |text: &str| format!("<> <http://purl.org/dc/terms/title> \"{text}\" ; <http://a/p> [ <http://a/q> 1 ] .");
    fixture.make("/rest/x", "RDFSource", &said("first")).await;
    fixture.clock.advance(std::time::Duration::from_secs(5));
    assert_eq!(fixture.put("/rest/x", &said("second")).answer().await.status, StatusCode::NO_CONTENT);
    let versions = page(&fixture, "/rest/x/fcr:versions").await;
    assert!(versions.text().contains(">Compare</button>"), "{}", versions.text());
    assert_eq!(versions.text().matches("checked").count(), 2, "the last two are proposed");
    let changed = page(&fixture, "/rest/x/fcr:versions?older=20250615150640&newer=20250615150645").await;
    let (removed, added) = changed.text().split_once("Added statements").unwrap();
    assert!(removed.contains("first") && !removed.contains("second") && !removed.contains("http://a/p"), "{removed}");
    assert!(added.contains("second") && !added.contains("first") && !added.contains("http://a/p"), "{added}");
    let same = page(&fixture, "/rest/x/fcr:versions?older=20250615150640&newer=20250615150640").await;
    assert!(same.text().contains("same description"), "{}", same.text());
    let turned = page(&fixture, "/rest/x/fcr:versions?older=20250615150645&newer=20250615150640").await;
    assert_eq!(turned.text(), changed.text(), "the older one is the one that was before");

    put_bytes(&fixture, "/rest/b", "text/plain", "one").await;
    fixture.clock.advance(std::time::Duration::from_secs(5));
    let tag = page(&fixture, "/rest/b/fcr:metadata").await.etag();
    let put = fixture.ask(Method::PUT, "/rest/b").header("content-type", "text/plain").body("two and more");
    assert_eq!(put.answer().await.status, StatusCode::NO_CONTENT);
    let again = fixture.ask(Method::GET, "/rest/b/fcr:metadata").header("accept", BROWSER);
    let described = again.header("if-none-match", &tag).answer().await;
    assert_eq!(described.status, StatusCode::OK, "the bytes are others");
    assert!(described.text().contains("two and more"), "{}", described.text());
    let changed = page(&fixture, "/rest/b/fcr:versions?older=20250615150645&newer=20250615150650").await;
    assert!(changed.text().contains("<td>3 B</td><td>12 B</td>"), "{}", changed.text());
    assert_eq!(changed.text().matches("<td><code>").count(), 2, "digests break as code: {}", changed.text());

    // The page of a version shows the bytes that it had, and leads to them.
    let then = page(&fixture, "/rest/b/fcr:metadata/fcr:versions/20250615150645").await;
    for part in
        [">one</pre>", "<dd>3 B</dd>", "<a class=\"button primary\" href=\"/rest/b/fcr:versions/20250615150645\">"]
    {
        assert!(then.text().contains(part), "{part} is not in {}", then.text());
    }
    assert!(!then.text().contains("two and more"), "{}", then.text());

    for query in ["older=nonsense&newer=20250615150650", "older=19990101000000&newer=20250615150650"] {
        let refused = fixture.ask(Method::GET, &format!("/rest/b/fcr:versions?{query}")).header("accept", BROWSER);
        assert!(refused.answer().await.status.is_client_error(), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_versions_of_a_short_text_are_compared_line_by_line() {
    let fixture = fixture().await;
    put_bytes(&fixture, "/rest/b", "text/plain", "same\n<i>old</i>\n").await;
    let long = "x".repeat((64 << 10) + 1);
    let latin = "text/plain; charset=iso-8859-1";
    for (media_type, bytes) in [
        ("text/plain", "same\n<i>Über</i>\n".as_bytes()),
        (latin, b"same\n<i>\xDCber</i>\n"),
        ("text/plain", long.as_bytes()),
        ("application/octet-stream", b"same\n"),
    ] {
        fixture.clock.advance(std::time::Duration::from_secs(5));
        let put = fixture.ask(Method::PUT, "/rest/b").header("content-type", media_type).body(bytes.to_vec());
        assert_eq!(put.answer().await.status, StatusCode::NO_CONTENT);
    }
    let compared = async |older: &str, newer: &str| {
        let query = format!("older=202506151506{older}&newer=2025061515{newer}");
        page(&fixture, &format!("/rest/b/fcr:versions?{query}")).await.text().to_owned()
    };
    let changed = compared("40", "0645").await;
    for part in [
        "  same\n",
        "<del><span class=\"visually-hidden\">Removed: </span>- &lt;i&gt;old&lt;/i&gt;\n</del>",
        "<ins><span class=\"visually-hidden\">Added: </span>+ &lt;i&gt;Über&lt;/i&gt;\n</ins>",
    ] {
        assert!(changed.contains(part) && !changed.contains("<i>"), "{part} is not in {changed}");
    }
    let in_other_bytes = compared("45", "0650").await;
    assert!(in_other_bytes.contains("the text is the same") && in_other_bytes.contains(latin), "{in_other_bytes}");
    for newer in ["0655", "0700"] {
        let not_compared = compared("40", newer).await;
        assert!(not_compared.contains("<h2>Bytes</h2>") && !not_compared.contains("<del>"), "{not_compared}");
    }
    let same_bytes = compared("40", "0640").await;
    assert!(same_bytes.contains("the same bytes") && !same_bytes.contains("the text is"), "{same_bytes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_in_which_nodes_without_a_name_are_connected_in_another_way_are_not_the_same() {
    let fixture = fixture().await;
    let people = |[one, other]: [(&str, &str); 2]| {
        let node = |(name, role): (&str, &str)| format!("[ <http://a/name> \"{name}\" ; <http://a/role> \"{role}\" ]");
        format!("<> <http://a/by> {}, {} .", node(one), node(other))
    };
    fixture.make("/rest/x", "RDFSource", &people([("A", "editor"), ("B", "author")])).await;
    for turned in [[("A", "author"), ("B", "editor")], [("B", "editor"), ("A", "author")]] {
        fixture.clock.advance(std::time::Duration::from_secs(5));
        assert_eq!(fixture.put("/rest/x", &people(turned)).answer().await.status, StatusCode::NO_CONTENT);
    }
    let compared = async |older: &str, newer: &str| {
        let query = format!("older=202506151506{older}&newer=202506151506{newer}");
        page(&fixture, &format!("/rest/x/fcr:versions?{query}")).await.text().to_owned()
    };
    let turned = compared("40", "45").await;
    assert!(turned.contains("Nodes without a name are connected in another way."), "{turned}");
    assert!(!turned.contains("the same description"), "{turned}");
    let same = compared("45", "50").await;
    assert!(same.contains("the same description") && !same.contains("Nodes without a name"), "{same}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_holds_its_share_of_the_memory_until_it_is_sent() {
    let fixture = fixture().await;
    fixture.make("/rest/x", "RDFSource", "").await;
    fixture.clock.advance(std::time::Duration::from_secs(5));
    assert_eq!(fixture.put("/rest/x", "<> <http://a/p> 1 .").answer().await.status, StatusCode::NO_CONTENT);
    for path in [
        "/rest/",
        "/rest/x",
        "/rest/x/fcr:versions",
        "/rest/x/fcr:versions?older=20250615150640&newer=20250615150645",
        "/rest/x/fcr:versions/20250615150640",
        "/rest/fcr:versions?members=deleted",
    ] {
        let response = fixture.ask(Method::GET, path).header("accept", BROWSER).response().await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let taken_bytes = fixture.library.memory.taken_bytes();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert_eq!(taken_bytes, body.len() as u64, "{path}");
        drop(body);
        assert_eq!(fixture.library.memory.taken_bytes(), 0, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_from_outside_are_no_markup_wherever_they_are_shown() {
    let fixture = fixture().await;
    let evil = "<img src=x onerror=alert(1)>";
    fixture.make("/rest/c", "BasicContainer", "").await;
    let title = format!("<> <http://purl.org/dc/terms/title> \"{evil}\" .");
    fixture.make("/rest/c/%3Cimg%20src=x%3E", "RDFSource", &title).await;
    let put = fixture.ask(Method::PUT, "/rest/c/file").of_class("NonRDFSource").header("content-type", "text/plain");
    let put = put.header("content-disposition", "attachment; filename=\"<img src=y>.txt\"").body(evil);
    assert_eq!(put.answer().await.status, StatusCode::CREATED);
    fixture.clock.advance(std::time::Duration::from_secs(5));
    fixture.put("/rest/c/%3Cimg%20src=x%3E", "<> <http://a/p> \"<img src=z>\" .").answer().await;
    for path in [
        "/rest/c",
        "/rest/c/%3Cimg%20src=x%3E",
        "/rest/c/file/fcr:metadata",
        "/rest/c/%3Cimg%20src=x%3E/fcr:versions",
        "/rest/c/%3Cimg%20src=x%3E/fcr:versions?older=20250615150640&newer=20250615150645",
    ] {
        let page = page(&fixture, path).await;
        assert!(page.text().contains("&lt;img") && !page.text().contains("<img"), "{path}: {}", page.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_cuts_long_names_and_types_of_files() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    let put = fixture.ask(Method::PUT, "/rest/c/file").of_class("NonRDFSource");
    let put = put.header("content-type", &format!("text/plain; x={}", "t".repeat(5_000)));
    let put = put.header("content-disposition", &format!("attachment; filename=\"{}\"", "n".repeat(5_000)));
    assert_eq!(put.body("bytes").answer().await.status, StatusCode::CREATED);
    let of_container = page(&fixture, "/rest/c").await;
    for letter in ["t", "n"] {
        assert!(of_container.text().contains(&letter.repeat(150)), "{}", of_container.text());
        assert!(!of_container.text().contains(&letter.repeat(201)), "{}", of_container.text());
    }
    let of_file = page(&fixture, "/rest/c/file/fcr:metadata").await;
    assert!(of_file.text().contains(&format!("<h1>{}…</h1>", "n".repeat(200))), "{}", of_file.text());
}

/// An address of each kind of page.
async fn of_each_kind(fixture: &Fixture) -> Vec<&'static str> {
    fixture.make("/rest/c", "BasicContainer", "").await;
    put_bytes(fixture, "/rest/c/b", "text/plain", "bytes").await;
    fixture.clock.advance(std::time::Duration::from_secs(5));
    assert_eq!(fixture.put("/rest/c", "<> <http://a/p> 1 .").answer().await.status, StatusCode::NO_CONTENT);
    vec![
        "/rest/",
        "/rest/c",
        "/rest/c/b/fcr:metadata",
        "/rest/c/b/fcr:fixity",
        "/rest/c/fcr:versions",
        "/rest/c/fcr:versions?older=20250615150640&newer=20250615150645",
        "/rest/c/fcr:versions/20250615150640",
        "/rest/c/fcr:versions?members=deleted",
        "/rest/c/fcr:forms",
        "/rest/volumes",
        "/rest/fcr:search",
        "/rest/fcr:constraints",
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_page_has_a_box_that_searches_for_a_path_if_there_is_a_search() {
    let search = SearchSettings { is_kept: false, ..SearchSettings::default() };
    let without = fixture_with(LdpSettings { search, ..LdpSettings::default() }).await;
    // Where servers share a store, another one may keep the index.
    let is_shared = without.library.store().capabilities().is_shared;
    for (fixture, has_search) in [(fixture().await, true), (without, is_shared)] {
        for path in of_each_kind(&fixture).await {
            let page = fixture.ask(Method::GET, path).header("accept", BROWSER).answer().await;
            let header = page.text().split("</header>").next().unwrap();
            let form =
                "<form class=\"search\" role=\"search\" aria-label=\"Search by path\" action=\"/rest/fcr:search\">";
            assert_eq!(header.matches(form).count(), usize::from(has_search), "{path}: {header}");
            assert_eq!(header.matches("name=\"fedora_id\"").count(), usize::from(has_search), "{path}: {header}");
            assert_eq!(header.contains(">Search</a>"), has_search, "{path}: {header}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_form_has_an_empty_address() {
    let fixture = fixture().await;
    for path in of_each_kind(&fixture).await {
        let page = fixture.ask(Method::GET, path).header("accept", BROWSER).answer().await;
        assert!(page.text().contains("<form") && !page.text().contains("action=\"\""), "{path}: {}", page.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_bytes_do_not_hide_what_is_known_of_them() {
    let fixture = fixture().await;
    put_bytes(&fixture, "/rest/b", "text/plain", vec![b'x'; 300_000]).await;
    fixture.flip_bit("b", 1_000).await;
    let page = page(&fixture, "/rest/b/fcr:metadata").await;
    assert!(page.text().contains("The bytes are damaged.") && page.text().contains("300.0 kB"), "{}", page.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_of_the_repository_are_a_page() {
    let fixture = fixture().await;
    assert!(page(&fixture, "/rest/fcr:constraints").await.text().contains("<h1>What this repository refuses</h1>"));
}
