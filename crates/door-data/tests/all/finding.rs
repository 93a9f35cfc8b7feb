//! Finding volumes by what is known of them.
use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::support::{Fixture, MACMAHON, Reply, SALMON, TAYLOR, empty, volume, with_samples};
use area::{Area, Limit};
use axum::Extension;
use door_data::DataSettings;
use futures::{FutureExt, StreamExt, stream};
use http::{Method, StatusCode, header};
use store::faults::{Fault, Harm, Kind, Rates};
use volumes::Unchanged;

/// Bounds every wait.
const PATIENCE: Duration = Duration::from_secs(30);

async fn samples() -> Fixture {
    with_samples(DataSettings::default(), &[SALMON, TAYLOR, MACMAHON]).await
}

/// A volume of one page with a record.
async fn import(fixture: &Fixture, id: &str, record: serde_json::Value) {
    let mut parts = volume(id, &["x"]);
    let mut whole = serde_json::json!({ "volumeIdentifier": id });
    whole.as_object_mut().unwrap().extend(record.as_object().unwrap().clone());
    parts.record = Some(whole.to_string().into_bytes());
    fixture.library.volumes.import(parts, Unchanged::Skip, |_| {}).await.unwrap();
}

/// The ids in a list of JSON.
fn ids(list: &serde_json::Value) -> Vec<String> {
    let volumes = list["volumes"].as_array().unwrap().iter();
    volumes.map(|volume| volume["id"].as_str().unwrap().to_owned()).collect()
}

/// The address to which a response links as the next part.
fn next_part(answer: &Reply) -> Option<String> {
    let (address, relation) = answer.header("link")?.strip_prefix('<')?.split_once('>')?;
    assert_eq!(relation, "; rel=\"next\"");
    Some(format!("/volumes/{address}"))
}

/// The ids that a query finds, sorted.
async fn found(fixture: &Fixture, query: &str) -> Vec<String> {
    let answer = fixture.get(&format!("/volumes/?format=text&{query}")).await;
    assert_eq!(answer.status, StatusCode::OK, "{query}: {}", answer.text());
    let mut ids: Vec<String> = answer.text().lines().map(str::to_owned).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_found_by_the_fields_of_their_records() {
    let fixture = samples().await;
    for (query, expected) in [
        ("title=SALMON", &[SALMON][..]),
        ("title=salmon&title=gravel", &[SALMON]),
        ("title=salmon&title=zachary", &[]),
        ("author=macmahon", &[MACMAHON]),
        ("author=frost&year=..1900", &[TAYLOR]),
        ("year=..1900", &[TAYLOR]),
        ("year=1847..1920", &[MACMAHON, TAYLOR]),
        ("year=1974", &[SALMON]),
        ("language=ENG&pages=..100", &[SALMON, MACMAHON]),
        ("rights=pd&title=", &[SALMON, MACMAHON, TAYLOR]),
        ("id=yale.", &[TAYLOR]),
        ("where=year%3C1900", &[TAYLOR]),
        ("where=title~%27combinatory+analysis%27+and+pages%3E90&language=eng", &[MACMAHON]),
        ("bytes=..1", &[]),
    ] {
        assert_eq!(found(&fixture, query).await, expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_the_fields_of_the_records_in_each_format() {
    let fixture = samples().await;
    let expected = serde_json::json!({
        "id": TAYLOR,
        "title": "Life of Major General Zachary Taylor; with notices of the war in New Mexico, California, and in southern Mexico; and biographical sketches of officers who have distinguished themselves in the war with Mexico",
        "author": "Frost, John 1800-1859",
        "year": 1847, "language": "eng", "rights": "pd", "pages": 412,
    });
    let accepting = async |media_type: &str| {
        fixture.ask(Method::GET, "/volumes/?id=yale").header(header::ACCEPT, media_type).answer().await
    };
    let json = accepting("application/json").await.json()["volumes"][0].clone();
    let mut without_bytes = json.clone();
    assert!(without_bytes.as_object_mut().unwrap().remove("bytes").unwrap().as_u64().unwrap() > 500_000);
    let mut expected = expected;
    expected["title"] = json["title"].clone();
    assert!(json["title"].as_str().unwrap().starts_with("Life of Major General Zachary Taylor;"));
    assert_eq!(without_bytes, expected);
    let line: serde_json::Value = serde_json::from_str(accepting("application/x-ndjson").await.text().trim()).unwrap();
    assert_eq!(line, json);
    let csv = accepting("text/csv").await;
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8; header=present"));
    let lines: Vec<&str> = csv.text().split("\r\n").collect();
    assert_eq!(lines[0], "id,title,author,year,language,rights,pages,bytes");
    let author = "\"Frost, John 1800-1859\",1847,eng,pd,412,";
    assert!(lines[1].starts_with(TAYLOR) && lines[1].contains(author), "{}", lines[1]);
    let some = fixture.get("/volumes/?format=csv&fields=year,id&id=yale").await;
    assert_eq!(some.text(), format!("year,id\r\n1847,{TAYLOR}\r\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_can_be_sorted_and_says_how_many_there_are() {
    let fixture = samples().await;
    import(&fixture, "t.undated", serde_json::json!({ "title": "No date" })).await;
    let sorted = async |query: &str| {
        let json = fixture.get(&format!("/volumes/?format=json&fields=id&{query}")).await.json();
        let ids = ids(&json);
        assert_eq!((&json["total"], json["next"].is_null()), (&4.into(), ids.len() == 4), "{query}");
        ids
    };
    assert_eq!(sorted("sort=year").await, [TAYLOR, MACMAHON, SALMON, "t.undated"]);
    assert_eq!(sorted("sort=-year").await, [SALMON, MACMAHON, TAYLOR, "t.undated"]);
    assert_eq!(sorted("sort=author").await, [SALMON, TAYLOR, MACMAHON, "t.undated"]);
    assert_eq!(sorted("sort=-pages&limit=2").await, [TAYLOR, MACMAHON]);
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_a_search_follow_each_other_without_a_gap() {
    let fixture = empty(DataSettings::default()).await;
    for number in 0..40 {
        let year = if number % 3 == 0 { "1850" } else { "1950" };
        import(&fixture, &format!("t.{number}"), serde_json::json!({ "pubDate": year })).await;
    }
    let whole = found(&fixture, "year=..1900").await;
    assert_eq!(whole.len(), 14);
    for limit in [1, 3, 14, 15] {
        let parts = parts(&fixture, &format!("limit={limit}&format=json&year=..1900&fields=id")).await;
        assert!(parts.iter().all(|part| part.len() <= limit), "in parts of {limit}");
        let mut ids = parts.concat();
        ids.sort_unstable();
        assert_eq!(ids, whole, "in parts of {limit}");
    }
}

/// The ids in each part of a list of JSON.
async fn parts(fixture: &Fixture, query: &str) -> Vec<Vec<String>> {
    let (mut parts, mut next) = (Vec::new(), Some(format!("/volumes/?{query}")));
    while let Some(address) = next {
        let answer = fixture.get(&address).await;
        assert_eq!(answer.status, StatusCode::OK, "{address}: {}", answer.text());
        let list = answer.json();
        next = next_part(&answer);
        let token = list["next"].as_str().map(|token| format!("?after={token}&"));
        assert_eq!(token.is_some(), next.is_some(), "{address}");
        assert!(token.is_none_or(|token| next.as_ref().unwrap().contains(&token)), "{address}: {next:?}");
        parts.push(ids(&list));
    }
    parts
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_a_sorted_list_have_every_volume_once_and_in_order() {
    let fixture = empty(DataSettings::default()).await;
    let mut expected = Vec::new();
    for number in 0..20 {
        let id = format!("t.{number:02}");
        let year = ["1850", "1950", "1900", "n.d."][number % 4];
        let title = ["Beta", "alpha", "ALPHA", "", "gamma"][number % 5];
        import(&fixture, &id, serde_json::json!({ "pubDate": year, "title": title, "names": [title] })).await;
        expected.push((year, id));
    }
    expected.sort_unstable();
    let by_year: Vec<String> = expected.into_iter().map(|(_, id)| id).collect();
    for order in ["year", "-year", "title", "author", "-pages", "-id"] {
        let query = |limit: usize| format!("format=json&fields=id&sort={order}&limit={limit}");
        let whole = parts(&fixture, &query(20)).await;
        assert_eq!(whole.len(), 1, "{order}");
        for limit in [3, 19] {
            let parts = parts(&fixture, &query(limit)).await;
            assert_eq!(parts.concat(), whole[0], "{order} in parts of {limit}");
            assert_eq!(parts.len(), 20_usize.div_ceil(limit), "{order} in parts of {limit}");
        }
        match order {
            "year" => assert_eq!(whole[0], by_year),
            "-pages" => assert!(whole[0].is_sorted(), "all have one page"),
            _ => assert_eq!(whole[0].iter().collect::<HashSet<_>>().len(), 20, "{order}"),
        }
    }
    let csv = fixture.get("/volumes/?format=csv&fields=id&sort=year&year=..1900&limit=9").await;
    assert_eq!(csv.text().lines().skip(1).collect::<Vec<_>>(), by_year[..9]);
    let rest = fixture.get(&next_part(&csv).unwrap()).await;
    assert_eq!(rest.text().lines().collect::<Vec<_>>(), ["id", by_year[9].as_str()]);
    assert_eq!(next_part(&rest), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sorted_list_goes_on_after_a_volume_that_is_gone() {
    let fixture = empty(DataSettings::default()).await;
    for number in 0..5 {
        import(&fixture, &format!("t.{number}"), serde_json::json!({ "pubDate": "1850" })).await;
    }
    let first = fixture.get("/volumes/?format=json&sort=year&limit=2").await;
    let (next, token) = (next_part(&first).unwrap(), first.json()["next"].as_str().unwrap().to_owned());
    for other in ["sort=-year", "sort=title", "fields=id"] {
        let answer = fixture.get(&format!("/volumes/?format=json&{other}&after={token}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{other}");
        assert!(answer.text().contains("an earlier part of the same list"), "{other}: {}", answer.text());
    }
    let page = |place: &str| format!("/volumes/?format=html&fields=id&sort=year&limit=2&{place}={token}");
    let delete = async |id: &str| fixture.library.volumes.delete(&id.parse().unwrap()).await.unwrap();
    delete("t.1").await;
    assert_eq!(ids(&fixture.get(&next).await.json()), ["t.2", "t.3"]);
    for id in ["t.2", "t.3", "t.4"] {
        delete(id).await;
    }
    let after = fixture.get(&page("after")).await;
    assert!(rows(after.text()).contains("There are no more.") && after.text().contains("Previous page"));
    assert!(!after.text().contains("Next page"), "{}", after.text());
    let before = fixture.get(&page("before")).await;
    assert!(rows(before.text()).contains("t.0</a>") && !before.text().contains("pager"), "{}", before.text());
    let nothing = fixture.get("/volumes/?format=html&year=1").await;
    assert!(rows(nothing.text()).contains("There are none."), "{}", nothing.text());
}

/// The rows of a page for people.
fn rows(page: &str) -> &str {
    page.split("</thead>").nth(1).unwrap().split("</table>").next().unwrap()
}

/// The address that follows a text on a page for people.
fn address_behind(page: &str, text: &str) -> Option<String> {
    let (_, rest) = page.split_once(text)?;
    Some(rest.split('"').next()?.replace("&amp;", "&"))
}

/// How many volumes the pages of a list for people have. They are read to the last one, and back.
async fn there_and_back(fixture: &Fixture, query: &str) -> Vec<usize> {
    let get = async |query: String| {
        let page = fixture.get(&format!("/volumes/{query}")).await;
        assert_eq!(page.status, StatusCode::OK, "{query}: {}", page.text());
        page.text().to_owned()
    };
    let mut pages = vec![get(query.to_owned()).await];
    while let Some(next) = address_behind(pages.last().unwrap(), "rel=\"next\" href=\"") {
        pages.push(get(next).await);
    }
    let mut back = pages.last().unwrap().clone();
    if let Some(first) = address_behind(&back, ">Previous page</a><a href=\"") {
        assert_eq!(get(first).await, pages[0], "{query}");
    }
    for earlier in pages.iter().rev().skip(1) {
        back = get(address_behind(&back, "rel=\"prev\" href=\"").unwrap()).await;
        assert_eq!(rows(&back), rows(earlier), "{query}");
    }
    assert!(!back.contains("Previous page") && !back.contains("First page"), "{query}: {back}");
    pages.iter().map(|page| rows(page).matches("<tr>").count()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_for_people_lead_back_to_those_before_them() {
    async fn import_texts(fixture: &Fixture, id: String, texts: &[&str]) {
        fixture.library.volumes.import(volume(&id, texts), Unchanged::Skip, |_| {}).await.unwrap();
    }
    let mut fixture = empty(DataSettings::default()).await;
    // They are more than the way back searches at a time.
    let import = |number: u32| import_texts(&fixture, format!("t.{number}"), &["x"]);
    stream::iter(0..270).for_each_concurrent(32, import).await;
    let listed = fixture.get("/volumes/").await;
    let listed: Vec<&str> = listed.text().lines().collect();
    for at in [0, 268, 269] {
        import_texts(&fixture, listed[at].to_owned(), &["x", "y"]).await;
    }
    for (query, expected) in [
        ("?format=html&fields=id", &[100, 100, 70][..]),
        ("?format=html&fields=id,year&limit=110", &[110, 110, 50]),
        ("?format=html&fields=id,pages&id=t.1&limit=40", &[40, 40, 31]),
        ("?format=html&where=pages%3E1&limit=1", &[1, 1, 1]),
        ("?format=html&fields=id&sort=-id&limit=100", &[100, 100, 70]),
        ("?format=html&fields=id,pages&sort=-pages&limit=90&id=t.1", &[90, 21]),
        ("?format=html&fields=id&sort=year", &[270]),
    ] {
        assert_eq!(there_and_back(&fixture, query).await, expected, "{query}");
    }
    // A client that is limited to some volumes gets pages of those.
    let within = Area::within(["volumes:t.1*".parse::<Limit>().unwrap()]);
    fixture.router = fixture.router.clone().layer(Extension(within));
    assert_eq!(there_and_back(&fixture, "?format=html&fields=id&limit=40").await, [40, 40, 31]);
    assert_eq!(there_and_back(&fixture, "?format=html&fields=id&sort=id&limit=60").await, [60, 51]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_list_does_not_understand_is_refused() {
    let fixture = samples().await;
    for (query, reason) in [
        ("q=salmon", "no parameter q"),
        ("year=abc", "year"),
        ("year=..", "year"),
        ("sort=size", "sort"),
        ("fields=id,size", "fields"),
        ("format=json&fields=id,year,id", "each once"),
        ("format=text&fields=title", "fields"),
        ("where=year%3Cabc", "column 6"),
        ("where=%FF", "column 1"),
        ("sort=year&after=AAEAAA", "after"),
        ("sort=year&format=html&before=AAEAAA", "before"),
        ("format=json&before=AAEAAA", "only pages for people"),
        ("format=html&before=x", "before"),
        ("format=html&after=AAEAAA&before=AAEAAA", "`after` is given too"),
    ] {
        let answer = fixture.get(&format!("/volumes/?{query}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{query}");
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(reason), "{query}: {detail}");
    }
    let many = |count| format!("/volumes/?format=text&{}", vec!["title=a"; count].join("&"));
    assert_eq!(fixture.get(&many(32)).await.status, StatusCode::OK);
    let too_many = fixture.get(&many(33)).await;
    assert_eq!(too_many.status, StatusCode::BAD_REQUEST);
    assert!(too_many.json()["detail"].as_str().unwrap().contains("at most 32 conditions"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_holds_its_memory_until_it_is_sent() {
    let fixture = samples().await;
    let memory = &fixture.library.memory;
    for query in ["limit=2", "sort=year"] {
        let answer = fixture.ask(Method::GET, &format!("/volumes/?format=csv&{query}")).sent().await;
        assert!(memory.taken_bytes() > 0, "{query}");
        drop(answer);
        assert_eq!(memory.taken_bytes(), 0, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_any_length_holds_no_more_than_some_hundred_volumes() {
    let fixture = empty(DataSettings::default()).await;
    let import = async |number: u32| {
        let id = format!("t.{number}");
        fixture.library.volumes.import(volume(&id, &["x"]), Unchanged::Skip, |_| {}).await.unwrap();
    };
    stream::iter(0..260).for_each_concurrent(32, import).await;
    let memory = &fixture.library.memory;
    let (status, _, body) = fixture.ask(Method::GET, "/volumes/?format=csv&fields=id,pages").sent().await;
    assert_eq!(status, StatusCode::OK);
    let (mut pieces, mut lines, mut most) = (body.into_data_stream(), 0, 0);
    while let Some(piece) = pieces.next().await {
        let of_piece = piece.unwrap().iter().filter(|byte| **byte == b'\n').count();
        assert!(of_piece <= 256, "{of_piece} volumes at once");
        lines += of_piece;
        most = most.max(memory.taken_bytes());
    }
    // Two reads of the store, and the same share for both.
    assert_eq!((lines, most), (261, 1 << 20));
    drop(pieces);
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_records_can_do_no_harm_in_a_table_or_a_page() {
    let fixture = empty(DataSettings::default()).await;
    let evil = serde_json::json!({
        "title": "=HYPERLINK(\"http://evil\")\u{7}\n<script>", "names": ["@SUM(A1)", "-1"], "pubDate": "[18--]",
        "language": "\"><img src=x>",
    });
    import(&fixture, "t.evil", evil).await;
    let csv = fixture.get("/volumes/?format=csv").await;
    let line = csv.text().split_once("\r\n").unwrap().1;
    let expected = "t.evil,\"'=HYPERLINK(\"\"http://evil\"\")  <script>\",'@SUM(A1); -1,,\"\"\"><img src=x>\",,1,1\r\n";
    assert_eq!(line, expected);
    let page = fixture.get("/volumes/?format=html&title=%22%3E%3Cb%3E&year=1").await;
    assert!(page.text().contains("value=\"&quot;&gt;&lt;b&gt;\"") && !page.text().contains("<b>"));
    let page = fixture.get("/volumes/?format=html").await;
    assert!(
        page.text().contains("&lt;script&gt;") && !page.text().contains("<script>") && !page.text().contains("<img")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_for_people_searches_and_sorts() {
    let fixture = samples().await;
    let page = fixture.get("/volumes/?format=html&year=..1950&sort=year").await;
    let at = |text: &str| page.text().find(text).unwrap_or_else(|| panic!("{text}: {}", page.text()));
    assert!(at("1847") < at("1920") && !page.text().contains("1974"));
    at("href=\"?format=html&amp;sort=-year&amp;year=..1950\"");
    at("value=\"..1950\"");
    at("<p>2 in all.</p>");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_whose_record_is_damaged_is_listed_without_its_author() {
    let fixture = samples().await;
    fixture.damage_a_pack(SALMON, Harm::FlippedBit, false).await;
    let answer = fixture.get("/volumes/?format=json&id=psia").await.json();
    assert_eq!(answer["volumes"][0]["id"], SALMON);
    assert!(answer["volumes"][0]["title"].as_str().unwrap().starts_with("Salmon fry"));
}

#[tokio::test(flavor = "multi_thread")]
async fn token_counts_are_rows_of_csv_and_json_and_say_what_is_missing() {
    let fixture = empty(DataSettings::default()).await;
    fixture
        .library
        .volumes
        .import(volume("t.a", &["The the =1 e-\n", "nd the."]), Unchanged::Skip, |_| {})
        .await
        .unwrap();
    let csv = fixture.get("/tokencount?volumeIDs=t.a|t.none&format=csv&tokens=words&sortBy=count&sortOrder=desc").await;
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8; header=present"));
    let expected =
        ["volume,token,count,problem", "t.none,,,it is not in the store", "t.a,the,3,", "t.a,1,1,", "t.a,end,1,", ""];
    assert_eq!(csv.text().split("\r\n").collect::<Vec<_>>(), expected);
    let written = fixture.get("/tokencount?volumeIDs=t.a&format=csv").await;
    assert!(written.text().contains("t.a,'=1,1,\r\n") && written.text().contains("t.a,e-nd,1,\r\n"));
    let pages = fixture.get("/tokencount?volumeIDs=t.a&format=csv&level=page&tokens=words").await;
    assert!(pages.text().starts_with("volume,seq,token,count,problem\r\nt.a,1,1,1,\r\n"), "{}", pages.text());
    let asking = fixture.ask(Method::GET, "/tokencount?volumeIDs=t.a|t.none&level=page&tokens=words");
    let json = asking.header(header::ACCEPT, "application/json").answer().await.json();
    let rows = json.as_array().unwrap();
    assert_eq!(rows[0], serde_json::json!({ "volume": "t.none", "problem": "it is not in the store" }));
    assert_eq!(rows[1], serde_json::json!({ "volume": "t.a", "seq": 1, "token": "1", "count": 1 }));
    assert_eq!(rows.len(), 1 + 3 + 2);
    let nothing = fixture.get("/tokencount?volumeIDs=t.none&format=ndjson").await;
    assert_eq!(nothing.text(), "{\"problem\":\"it is not in the store\",\"volume\":\"t.none\"}\n");
    let zip = fixture.get("/tokencount?volumeIDs=t.a").await;
    assert_eq!((zip.header("content-type"), zip.names()), (Some("application/zip"), vec!["t.a.count".to_owned()]));
    for wrong in ["tokens=letters", "format=xml"] {
        let answer = fixture.get(&format!("/tokencount?volumeIDs=t.a&{wrong}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
    fixture.damage_a_pack("t.a", Harm::FlippedBit, false).await;
    let damaged = fixture.get("/tokencount?volumeIDs=t.a&format=csv").await;
    assert_eq!(damaged.text(), "volume,token,count,problem\r\nt.a,,,it is damaged\r\n");
}

/// The client leaves while the heads are read.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_ends_when_its_client_leaves_and_what_it_took_comes_back() {
    let fixture = samples().await;
    let (faults, memory) = (&fixture.faults, &fixture.library.memory);
    let stuck = Rates { delay: 1.0, max_delay: Duration::from_secs(1 << 40), ..Rates::default() };
    let deadline = Instant::now() + PATIENCE;
    for reads in 0..3 {
        (0..reads).for_each(|_| faults.next(Kind::Read, Fault::Delay(Duration::ZERO)));
        faults.set_rates(1, stuck);
        let mut answer = Box::pin(fixture.ask(Method::GET, "/volumes/?format=csv&sort=year").sent());
        while faults.delayed() == 0 || faults.is_scripted() {
            assert!((&mut answer).now_or_never().is_none(), "after {reads} reads there is an answer");
            assert!(Instant::now() < deadline, "after {reads} reads nothing happens");
            tokio::task::yield_now().await;
        }
        assert!(memory.taken_bytes() > 0, "a search has its share of the memory");
        drop(answer);
        faults.set_rates(1, Rates::default());
        while faults.delayed() > 0 || memory.taken_bytes() > 0 {
            assert!(Instant::now() < deadline, "after {reads} reads it goes on without its client");
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(found(&fixture, "year=1974").await, [SALMON]);
}
