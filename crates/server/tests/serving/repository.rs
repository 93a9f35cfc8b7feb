//! The repository over real sockets: clients that stop, lie about lengths, are slow, send nothing
//! at all, or take nothing of a stream of the feed.

use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use http::{Method, StatusCode};
use server::config::Access;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpStream, UnixStream};

use crate::support::{
    PATIENCE, Server, VOLUME, import_from, import_samples, on_free_ports, open_store, samples, soon, until,
};

/// More than fits into a row.
const LARGE_BYTES: usize = 300_000;

async fn open_to_writers() -> (Server, tempfile::TempDir) {
    Server::start(|config| {
        config.auth.write = Access::Open;
        config.limits.body_pause = Duration::from_millis(300);
    })
    .await
}

/// Files of contents in a data folder.
fn content_files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { content_files(&path) } else { 1 }).sum()
}

/// Sends the head of a PUT and some of its body. Returns the connection.
async fn begin_put(server: &Server, name: &str, announced_bytes: usize, sent_bytes: usize) -> TcpStream {
    let mut client = TcpStream::connect(server.http()).await.unwrap();
    let head = format!(
        "PUT /rest/{name} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-bytes\r\ncontent-length: {announced_bytes}\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(&vec![b'x'; sent_bytes]).await.unwrap();
    client
}

#[tokio::test]
async fn a_client_that_stops_half_way_through_a_gigabyte_leaves_nothing() {
    let (server, folder) = open_to_writers().await;
    let contents = folder.path().join("contents");
    for name in ["closed", "silent"] {
        let mut client = begin_put(&server, name, 1 << 30, 8 << 20).await;
        until("bytes that came in", async || content_files(&contents) > 0).await;
        match name {
            "closed" => drop(client),
            _ => {
                let mut answer = Vec::new();
                soon("a response to a silent client", client.read_to_end(&mut answer)).await.unwrap();
                assert!(answer.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&answer));
            }
        }
        until("its space given back", async || content_files(&contents) == 0).await;
        assert_eq!(server.get(&format!("/rest/{name}")).await.status, StatusCode::NOT_FOUND);
    }
    server.end().await;
}

#[tokio::test]
async fn a_body_shorter_than_announced_is_not_stored_and_the_next_request_is_separate() {
    let (server, _folder) = open_to_writers().await;
    let mut client = begin_put(&server, "short", LARGE_BYTES, LARGE_BYTES - 1).await;
    client.shutdown().await.unwrap();
    let mut answer = Vec::new();
    soon("the end", client.read_to_end(&mut answer)).await.unwrap();
    assert!(!answer.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(server.get("/rest/short").await.status, StatusCode::NOT_FOUND);

    let mut client = begin_put(&server, "exact", 4, 4).await;
    client.write_all(b"GET /rest/exact HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answers = String::new();
    soon("two answers", client.read_to_string(&mut answers)).await.unwrap();
    assert!(answers.starts_with("HTTP/1.1 201") && answers.ends_with("\r\n\r\nxxxx"), "{answers}");
    for length in ["-1", "x", "1, 2", "18446744073709551616"] {
        let mut client = TcpStream::connect(server.http()).await.unwrap();
        let head = format!("PUT /rest/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\nx");
        client.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        soon("an answer", client.read_to_end(&mut answer)).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 400"), "{length}: {}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(server.get("/rest/a").await.status, StatusCode::NOT_FOUND);
    server.end().await;
}

#[tokio::test]
async fn slow_and_silent_clients_keep_nobody_else_waiting() {
    let (server, _folder) = Server::start(|config| {
        config.auth.write = Access::Open;
        config.limits.connections = Some(64);
        config.limits.header_time = Duration::from_millis(200);
    })
    .await;
    // Bytes that arrive one by one are slow, and arrive all the same.
    let mut slow = begin_put(&server, "slow", 20, 0).await;
    // Five times as many as there are places: each is dropped when it has sent nothing for a while.
    let mut idle = Vec::new();
    for _ in 0..320 {
        idle.push(TcpStream::connect(server.http()).await.unwrap());
    }
    let page = format!("/rest/volumes/{VOLUME}/pages/7");
    let (sent, read) = tokio::join!(
        async {
            for _ in 0..20 {
                slow.write_all(b"s").await.unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let mut answer = [0; 12];
            soon("an answer to the slow sender", slow.read_exact(&mut answer)).await.unwrap();
            answer
        },
        server.get(&page),
    );
    assert_eq!(&sent, b"HTTP/1.1 201");
    assert_eq!(read.status, StatusCode::OK);
    assert_eq!(server.get("/rest/slow").await.text(), "s".repeat(20));
    drop(idle);

    // A client that reads nothing of a large response blocks nobody either.
    let mut large = begin_put(&server, "large", 8 << 20, 8 << 20).await;
    let mut answer = [0; 12];
    soon("an answer to the large one", large.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 201");
    let mut reader = TcpStream::connect(server.http()).await.unwrap();
    reader.write_all(b"GET /rest/large HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    assert_eq!(server.get("/rest/slow").await.status, StatusCode::OK);
    let mut all = Vec::new();
    tokio::time::timeout(PATIENCE, reader.read_to_end(&mut all)).await.unwrap().unwrap();
    assert!(all.ends_with(b"xxxx") && all.len() > 8 << 20);
    server.end().await;
}

/// Asks for the stream of the feed behind the event with an id; if that is empty, from its
/// beginning. Returns the status line, and the lines after it. The buffers of a Unix socket, unlike
/// those of TCP, do not grow. HTTP/1.0 puts no lengths of chunks between the lines.
async fn follow(server: &Server, last_id: &str) -> (String, Lines<BufReader<UnixStream>>) {
    let mut stream = UnixStream::connect(server.addresses.socket.as_ref().unwrap()).await.unwrap();
    let request = format!(
        "GET /feed?after=start HTTP/1.0\r\nhost: localhost\r\naccept: text/event-stream\r\nlast-event-id: {last_id}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    let status = lines.next_line().await.unwrap().unwrap();
    (status, lines)
}

/// The id of the next event that arrives whole (HTML, section 9.2.6); `None`: the stream ends.
async fn next_event(lines: &mut Lines<BufReader<UnixStream>>) -> Option<String> {
    let (mut id, mut has_data) = (String::new(), false);
    while let Ok(Some(line)) = lines.next_line().await {
        if line.is_empty() && has_data {
            return Some(id);
        }
        has_data |= line.starts_with("data: ");
        if let Some(of_event) = line.strip_prefix("id: ") {
            id = of_event.to_owned();
        }
    }
    None
}

#[tokio::test]
async fn a_follower_of_the_feed_that_takes_nothing_is_cut_off_gives_its_place_back_and_resumes_without_a_gap() {
    let (server, _folder) = Server::start(|config| {
        config.auth.write = Access::Open;
        config.feed.consumers_max = 1;
        config.limits.stall = Duration::from_millis(200);
    })
    .await;
    // Each event has 6 KB, so that few are more than the socket and the server hold.
    let name = "%E4%B8%AD".repeat(160);
    let container = format!("/rest/{name}/{name}/{name}/{name}");
    let put = |number: usize| {
        let (server, path) = (&server, format!("{container}/{number}"));
        async move {
            let made = server.ask(Method::PUT, &path, &[("content-type", "text/turtle")]).await;
            assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
        }
    };
    // It makes the containers, for which the others would race.
    put(0).await;
    futures::stream::iter(1..160).map(put).buffer_unordered(16).collect::<Vec<()>>().await;
    let page = server.get("/feed?after=start&limit=500").await;
    assert!(page.body.len() > 900_000, "{} bytes", page.body.len());
    let page = page.json();
    assert!(page["next"].is_null(), "all events are in one page");
    let items = page["orderedItems"].as_array().unwrap().iter();
    let made: Vec<_> = items.map(|item| item["id"].as_str().unwrap().split_once('#').unwrap().1.to_owned()).collect();

    let (status, mut stalled) = soon("the first stream", follow(&server, "")).await;
    assert!(status.contains("200"), "{status}");
    let mut taken: Vec<_> = soon("an event", next_event(&mut stalled)).await.into_iter().collect();
    // From here on nobody reads the first stream. On a slow machine others may be cut off too.
    let resumed = async {
        while taken.len() < made.len() {
            let (status, mut stream) = follow(&server, taken.last().unwrap()).await;
            if status.contains("503") {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            }
            assert!(status.contains("200"), "{status}");
            while taken.len() < made.len()
                && let Some(id) = next_event(&mut stream).await
            {
                taken.push(id);
            }
        }
    };
    soon("all events", resumed).await;
    assert_eq!(taken, made);
    let mut arrived = vec![taken[0].clone()];
    let rest = async {
        while let Some(id) = next_event(&mut stalled).await {
            arrived.push(id);
        }
    };
    soon("the end of the first stream", rest).await;
    assert!(arrived.len() < made.len() && made.starts_with(&arrived), "{arrived:?}");
    server.end().await;
}

/// A copy of a sample volume with another title.
fn retitled(folder: &Path, title: &str) {
    let sample = "uc2/pairtree_root/ar/k+/=1/39/60/=t/8f/f3/zh/99/ark+=13960=t8ff3zh99";
    std::fs::create_dir_all(folder.join(sample)).unwrap();
    for file in std::fs::read_dir(samples().join(sample)).unwrap() {
        let file = file.unwrap().path();
        let copy = folder.join(sample).join(file.file_name().unwrap());
        std::fs::copy(&file, &copy).unwrap();
        if copy.extension().is_some_and(|extension| extension == "json") {
            let record = std::fs::read_to_string(&copy).unwrap();
            std::fs::write(&copy, record.replace("An introduction to Combinatory analysis", title)).unwrap();
        }
    }
}

#[tokio::test]
async fn the_page_of_all_volumes_has_titles_and_leads_from_page_to_page() {
    let (folder, changed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open_store(folder.path());
    import_samples(store.clone(), &["t0ks80527"]).await;
    retitled(changed.path(), "<img src=x> of analysis");
    import_from(store.clone(), changed.path(), &["t8ff3zh99"]).await;
    let server = Server::serve(on_free_ports(), store).await;
    let page = async |path: &str| {
        let page = server.ask(http::Method::GET, path, &[("accept", "text/html")]).await;
        assert_eq!((page.status, page.header("content-type")), (StatusCode::OK, "text/html; charset=utf-8"), "{path}");
        page.text()
    };
    let all = page("/rest/volumes").await;
    for shown in [
        "Salmon fry production",
        "&lt;img src=x&gt; of analysis, by P.A. MacMahon",
        "href=\"/rest/volumes/uc2.ark+=13960=t8ff3zh99\"",
        "<td>1920</td><td>eng</td><td class=\"number\">92</td>",
        "href=\"/volumes/?format=html\">Find volumes</a>",
        "<form method=\"post\" action=\"/volumes\">",
        "name=\"volumeIDs\" value=\"uc2.ark:/13960/t8ff3zh99\" aria-label=\"Choose &lt;img src=x&gt; of analysis",
        "<option value=\"wordseq\">",
        "href=\"/volumes/?format=html&amp;sort=title\">Title</a>",
        "href=\"/volumes/?format=html&amp;sort=year\">Date</a>",
    ] {
        assert!(all.contains(shown), "{shown}: {all}");
    }
    for (by, first) in [("title", "&lt;img src=x&gt;"), ("year", "t0ks80527")] {
        let sorted = page(&format!("/volumes/?format=html&sort={by}")).await;
        assert!(sorted.contains(first) && sorted.matches("<tr>").count() >= 3, "the heads lead to it: {sorted}");
    }
    assert!(!all.contains("<img") && !all.contains("class=\"row pager\""), "{all}");

    let (mut rows, mut pages) = (0, vec![page("/rest/volumes?limit=1").await]);
    while let Some(next) = pages.last().unwrap().split("rel=\"next\" href=\"").nth(1) {
        rows += pages.last().unwrap().matches("scope=\"row\"").count();
        pages.push(page(&next.split('"').next().unwrap().replace("&amp;", "&")).await);
    }
    assert_eq!(rows + pages.last().unwrap().matches("scope=\"row\"").count(), 2);
    assert_eq!(pages.iter().filter(|page| page.contains("Salmon fry")).count(), 1, "each volume is there once");
    assert!(!pages[0].contains("First page") && pages[1].contains("First page"), "{}", pages[1]);
    let rows_of = |page: &str| page.split("<tbody>").nth(1).unwrap().split("</tbody>").next().unwrap().to_owned();
    let mut back = pages.last().unwrap().clone();
    for earlier in pages.iter().rev().skip(1) {
        let before = back.split("rel=\"prev\" href=\"").nth(1).unwrap().split('"').next().unwrap();
        back = page(&before.replace("&amp;", "&")).await;
        assert_eq!(rows_of(&back), rows_of(earlier), "the way back has the same pages");
    }
    assert!(!back.contains("rel=\"prev\""), "{back}");
    assert!(page("/rest/volumes?last=true&limit=1").await.contains("scope=\"row\""));
    // Those that people choose are one ZIP.
    let form = ("content-type", "application/x-www-form-urlencoded");
    let chosen = "volumeIDs=uc2.ark%3A%2F13960%2Ft8ff3zh99&volumeIDs=psia.ark%3A%2F13960%2Ft0ks80527&layout=volumes";
    let zip = server.ask_with(http::Method::POST, "/volumes", &[form], chosen).await;
    assert_eq!((zip.status, zip.header("content-type")), (StatusCode::OK, "application/zip"), "{}", zip.text());
    let zip = zip.text();
    assert!(zip.contains("uc2.ark+=13960=t8ff3zh99") && zip.contains("psia.ark+=13960=t0ks80527"));
    let head = server.ask(http::Method::HEAD, "/rest/volumes", &[("accept", "text/html")]).await;
    assert_eq!((head.status, head.text()), (StatusCode::OK, String::new()));
    server.end().await;
}

#[tokio::test]
async fn the_page_of_a_volume_has_its_record_and_its_pages_with_printed_numbers() {
    let (folder, changed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open_store(folder.path());
    retitled(changed.path(), "<img src=x> of analysis");
    import_from(store.clone(), changed.path(), &["t8ff3zh99"]).await;
    let server = Server::serve(on_free_ports(), store).await;
    let address = "/rest/volumes/uc2.ark+=13960=t8ff3zh99";
    let page = async |query: &str| {
        let answer = server.ask(http::Method::GET, &format!("{address}{query}"), &[("accept", "text/html")]).await;
        assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, "text/html; charset=utf-8"));
        assert_eq!(answer.header("preference-applied"), "");
        answer.text()
    };
    let first = page("?limit=40").await;
    for shown in [
        "<h1>&lt;img src=x&gt; of analysis",
        "<dt>Date</dt><dd>1920</dd><dt>Language</dt><dd>eng</dd>",
        "<dt>Pages</dt><dd>92</dd>",
        "href=\"/volumes?volumeIDs=uc2.ark",
        "&amp;layout=volumes\">ZIP, one text file</a>",
        "&amp;mets=true\">ZIP with METS</a>",
        "href=\"/volumes/uc2.ark+=13960=t8ff3zh99/text\">Plain text</a>",
        "<dt>Revision</dt>",
        &format!("href=\"{address}/pages/1\">Read</a>"),
        &format!("href=\"{address}/mets\""),
        &format!("<th scope=\"row\"><a href=\"{address}/pages/40\">40</a></th>"),
    ] {
        assert!(first.contains(shown), "{shown}: {first}");
    }
    assert!(!first.contains("<img") && !first.contains("/pages/41\""), "{first}");
    // Each page is listed once, in order, and printed numbers are beside some of them.
    let (mut listed, mut last) = (Vec::new(), first);
    loop {
        let rows: Vec<_> = last.split("<th scope=\"row\">").skip(1).map(str::to_owned).collect();
        listed.extend(rows);
        let Some(next) = last.split("rel=\"next\" href=\"").nth(1) else { break };
        let next = next.split('"').next().unwrap().replace("&amp;", "&");
        last = page(next.strip_prefix(address).unwrap()).await;
        assert!(!last.contains("<dt>Date</dt>") && last.contains("rel=\"prev\""), "{last}");
    }
    assert_eq!(listed.len(), 92);
    let numbered = |row: &&String| row.contains("</a></th><td>") && !row.contains("</a></th><td></td>");
    assert!(listed.iter().filter(numbered).count() > 10, "{listed:?}");
    assert!(page("?after=92").await.contains("There are no pages here."));
    // The list that finds volumes leads there, and to the other places.
    let found = server.ask(http::Method::GET, "/volumes/?format=html", &[]).await.text();
    for to in ["rest/volumes/uc2.ark", "rest/\">Repository", "rest/fcr:search\">Search", "sign-in\">Account"] {
        assert!(found.contains(to), "{to}: {found}");
    }
    let there = server.ask(http::Method::GET, &format!("{address}?page=12"), &[("accept", "text/html")]).await;
    let to_page = format!("{address}/pages/12");
    assert_eq!((there.status, there.header("location")), (StatusCode::SEE_OTHER, to_page.as_str()));
    for wrong in ["?after=x", "?limit=501", "?limit=0", "?page=0", "?page=x", "?page="] {
        let answer = server.ask(http::Method::GET, &format!("{address}{wrong}"), &[("accept", "text/html")]).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
    let head = server.ask(http::Method::HEAD, address, &[("accept", "text/html")]).await;
    assert_eq!((head.status, head.text()), (StatusCode::OK, String::new()));
    server.end().await;
}

#[tokio::test]
async fn volumes_are_listed_in_pages_with_a_tag_as_preferred() {
    let (server, _folder) = open_to_writers().await;
    let get = |path: &'static str, headers: &'static [(&str, &str)]| server.ask(http::Method::GET, path, headers);
    let whole = get("/rest/volumes", &[("accept", "application/n-triples")]).await;
    let volumes = whole.text().matches("ldp#contains>").count();
    assert!(volumes > 0, "{}", whole.text());
    let tag = whole.header("etag").to_owned();
    assert!(tag.starts_with("W/"), "{tag}");
    let again = [("accept", "application/n-triples"), ("if-none-match", tag.as_str())];
    assert_eq!(server.ask(http::Method::GET, "/rest/volumes", &again).await.status, StatusCode::NOT_MODIFIED);
    for path in ["/rest/volumes", "/rest/"] {
        let head = server.ask(http::Method::HEAD, path, &[]).await;
        assert_eq!((head.status, head.header("content-length")), (StatusCode::OK, ""), "{path}");
    }

    let minimal = get("/rest/volumes", &[("prefer", "return=minimal")]).await;
    assert_eq!((minimal.status, minimal.header("preference-applied")), (StatusCode::OK, "return=minimal"));
    assert!(!minimal.text().contains("contains"), "{}", minimal.text());
    let paged = get("/rest/volumes", &[("prefer", "return=representation; max-member-count=\"20000\"")]).await;
    assert_eq!(paged.status, StatusCode::SEE_OTHER);
    let location = paged.header("location");
    let first = server.get(&location[location.find("/rest").unwrap()..]).await;
    assert_eq!(first.status, StatusCode::OK, "{}", first.text());

    let (mut reported, mut path) = (0, "/rest/volumes?limit=1".to_owned());
    loop {
        let page = server.ask(http::Method::GET, &path, &[("accept", "application/n-triples")]).await;
        assert_eq!((page.status, page.header("etag")), (StatusCode::OK, ""));
        reported += page.text().matches("ldp#contains>").count();
        let links = page.headers.get_all("link").iter().map(|link| link.to_str().unwrap());
        let Some(next) = links.into_iter().find(|link| link.contains("rel=\"next\"")) else { break };
        let iri = &next[1..next.find('>').unwrap()];
        path = iri[iri.find("/rest").unwrap()..].to_owned();
    }
    assert_eq!(reported, volumes);
    let bare = server.ask(http::Method::GET, &format!("/rest/volumes/{VOLUME}"), &[("prefer", "return=minimal")]).await;
    assert!(bare.text().contains("title") && !bare.text().contains("contains"), "{}", bare.text());
    server.end().await;
}

#[tokio::test]
async fn members_of_a_volume_list_their_allowed_methods() {
    let (server, _folder) = open_to_writers().await;
    for (member, allowed) in
        [("pages/7", "GET, HEAD, OPTIONS, PUT"), ("mets", "GET, HEAD, OPTIONS, PUT"), ("record", "GET, HEAD, OPTIONS")]
    {
        let path = format!("/rest/volumes/{VOLUME}/{member}");
        for method in [http::Method::OPTIONS, http::Method::GET, http::Method::HEAD] {
            let answer = server.ask(method.clone(), &path, &[]).await;
            assert_eq!((answer.status, answer.header("allow")), (StatusCode::OK, allowed), "{method} {member}");
            let links = answer.headers.get_all("link").iter().map(|link| link.to_str().unwrap());
            assert!(links.into_iter().any(|link| link.contains("ldp#NonRDFSource")), "{method} {member}");
        }
    }
    let described = async |path: &str, method: http::Method| {
        let answer = server.ask(method, path, &[]).await;
        let links = answer.headers.get_all("link").iter().map(|link| link.to_str().unwrap().to_owned());
        let described = links.filter(|link| link.ends_with("; rel=\"describedby\"")).collect::<Vec<_>>();
        described.iter().map(|link| link[1..link.find('>').unwrap()].to_owned()).collect::<Vec<_>>()
    };
    let volume = format!("/rest/volumes/{VOLUME}");
    for method in [http::Method::OPTIONS, http::Method::GET, http::Method::HEAD] {
        assert_eq!(described(&format!("{volume}/pages/7"), method.clone()).await, [format!("{volume}/mets")]);
        let members = ["mets", "record"].map(|member| format!("http://localhost{volume}/{member}"));
        assert_eq!(described(&volume, method.clone()).await, members);
        assert!(described(&format!("{volume}/mets"), method).await.is_empty());
    }
    let absent = server.ask(http::Method::OPTIONS, "/rest/volumes/no.such/mets", &[]).await;
    assert_eq!(absent.status, StatusCode::NOT_FOUND);
    server.end().await;
}

#[tokio::test]
async fn members_of_a_volume_are_replaced_only_under_a_condition_if_one_is_required() {
    let (server, _folder) = Server::start(|config| {
        config.auth.write = Access::Open;
        config.ldp.require_condition = true;
    })
    .await;
    let put = async |path: &str, headers: &[(&str, &str)]| {
        server.ask(http::Method::PUT, path, &[&[("content-type", "text/plain")], headers].concat()).await
    };
    for member in ["pages/7", "mets"] {
        let path = format!("/rest/volumes/{VOLUME}/{member}");
        let tag = server.get(&path).await.header("etag").to_owned();
        for without in [&[][..], &[("if-unmodified-since", "Fri, 31 Dec 9999 23:59:59 GMT")]] {
            let refused = put(&path, without).await;
            assert_eq!(refused.status, StatusCode::PRECONDITION_REQUIRED, "{member}: {}", refused.text());
            let mut links = refused.headers.get_all("link").iter().map(|link| link.to_str().unwrap());
            assert!(links.any(|link| link.contains("ldp#constrainedBy")), "{:?}", refused.headers);
        }
        assert_eq!(server.get(&path).await.header("etag"), tag, "a refused request changes nothing");
    }
    let page = format!("/rest/volumes/{VOLUME}/pages/7");
    assert_eq!(put(&page, &[("if-match", "\"other\"")]).await.status, StatusCode::PRECONDITION_FAILED);
    let tag = server.get(&page).await.header("etag").to_owned();
    assert_eq!(put(&page, &[("if-match", &tag)]).await.status, StatusCode::NO_CONTENT);
    let by_the_data_door = put(&format!("/volumes/{VOLUME}/pages/7"), &[]).await;
    assert_eq!(by_the_data_door.status, StatusCode::NO_CONTENT, "the rule does not apply to its clients");
    server.end().await;
}

#[tokio::test]
async fn a_page_replaced_in_the_repository_is_in_the_next_archive() {
    let (server, _folder) = open_to_writers().await;
    let mut client = TcpStream::connect(server.http()).await.unwrap();
    let head = format!(
        "PUT /rest/volumes/{VOLUME}/pages/7 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: text/plain\r\n\
         content-length: 5\r\n\r\nanew!"
    );
    client.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon("an answer", client.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 204") && answer.contains("ldp#NonRDFSource"), "{answer}");
    assert_eq!(server.get(&format!("/rest/volumes/{VOLUME}/pages/7")).await.text(), "anew!");
    let archive = server.get("/volumes?volumeIDs=psia.ark:/13960/t0ks80527&level=0").await;
    assert!(archive.body.windows(5).any(|window| window == b"anew!"));
    let volume =
        server.ask(http::Method::GET, &format!("/rest/volumes/{VOLUME}"), &[("accept", "application/zip")]).await;
    assert_eq!(volume.status, StatusCode::SEE_OTHER);
    assert_eq!(server.get(volume.header("location")).await.header("content-type"), "application/zip");
    server.end().await;
}

#[tokio::test]
async fn volumes_are_read_beside_a_transaction_and_not_changed_in_one() {
    let (server, _folder) = open_to_writers().await;
    let begun = server.ask(Method::POST, "/rest/fcr:tx", &[]).await;
    assert_eq!(begun.status, StatusCode::CREATED, "{}", begun.text());
    let open = begun.header("location").to_owned();
    let unknown = open.rsplit_once('/').unwrap().0.to_owned() + "/00000000-0000-0000-0000-000000000000";
    let volume = format!("/rest/volumes/{VOLUME}");
    let page = format!("{volume}/pages/7");
    let before = server.get(&page).await.text();
    for path in ["/rest/volumes", &volume, &page, &format!("{volume}/mets"), &format!("{volume}/record")] {
        for method in [Method::GET, Method::OPTIONS] {
            let seen = server.ask(method.clone(), path, &[("atomic-id", &open)]).await;
            assert_eq!(seen.status, StatusCode::OK, "{method} {path}: {}", seen.text());
            assert_eq!(seen.header("atomic-id"), open, "{method} {path}");
            let refused = server.ask(method.clone(), path, &[("atomic-id", &unknown)]).await;
            assert_eq!(refused.status, StatusCode::CONFLICT, "{method} {path}");
        }
    }
    let mets = server.get(&format!("{volume}/mets")).await.text();
    for (transaction, why) in
        [(&open, "volumes are not changed in a transaction"), (&unknown, "there is no transaction")]
    {
        for (path, media_type, body) in [(&page, "text/plain", "new"), (&format!("{volume}/mets"), "text/xml", &mets)] {
            let headers = [("atomic-id", &**transaction), ("content-type", media_type)];
            let refused = server.ask_with(Method::PUT, path, &headers, body).await;
            assert_eq!(refused.status, StatusCode::CONFLICT, "{path}: {}", refused.text());
            assert!(refused.text().contains(why), "{path}: {}", refused.text());
        }
    }
    // The other doors have no transactions.
    for path in [format!("/volumes/{VOLUME}/pages/7"), format!("/data-api/volumes/{VOLUME}/pages/7")] {
        let headers = [("atomic-id", &*open), ("content-type", "text/plain")];
        let refused = server.ask_with(Method::PUT, &path, &headers, "new").await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{path}: {}", refused.text());
        assert_eq!(refused.json()["kind"], "not-in-transaction", "{path}");
    }
    assert_eq!(server.get(&page).await.text(), before);
}
