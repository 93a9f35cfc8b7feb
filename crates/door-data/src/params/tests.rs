#![allow(clippy::unwrap_used)]
use axum::body::Body;
use hathi::Seq;
use http::HeaderValue;
use proptest::prelude::*;

use super::*;

fn volumes(query: &str) -> Result<BulkRequest, DoorError> {
    Params::of_query(Some(query)).bulk(Retrieval::Volumes, || true)
}

fn pages(query: &str) -> Result<BulkRequest, DoorError> {
    Params::of_query(Some(query)).bulk(Retrieval::Pages, || true)
}

fn refusal(request: Result<BulkRequest, DoorError>) -> String {
    request.unwrap_err().to_string()
}

fn ids(request: &BulkRequest) -> Vec<&str> {
    request.wanted.iter().map(|wanted| wanted.volume.as_str()).collect()
}

async fn posted(content_type: Option<&'static str>, body: impl Into<Body>) -> Result<Params, DoorError> {
    let mut request = Request::new(body.into());
    *request.method_mut() = Method::POST;
    if let Some(content_type) = content_type {
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    let memory = Memory::new(1 << 20);
    Ok(Params::of_request(request, 1_000, &memory, &Party::Local).await?.0)
}

#[tokio::test]
async fn no_list_names_more_than_its_separators_say_whatever_ends_its_lines() {
    for ends in ["\n", "\r", "\r\n", "|"] {
        let list = ["a.bc[1]", "a.bd[1]", "a.be[1]"].join(ends);
        let params = posted(Some("text/plain"), list).await.unwrap();
        assert_eq!(params.named_at_most(), 3, "{ends:?}");
        assert_eq!(params.pages(|| true).unwrap().len(), 3, "{ends:?}");
    }
}

#[test]
fn a_missing_parameter_is_named() {
    assert_eq!(refusal(volumes("concat=true")), "Missing required parameter volumeIDs");
    assert_eq!(refusal(pages("volumeIDs=a.1")), "Missing required parameter pageIDs");
}

#[test]
fn an_empty_list_is_malformed_with_the_whole_string_as_its_token() {
    assert_eq!(refusal(volumes("volumeIDs=")), "Malformed Volume ID list. Offending token: ");
    assert_eq!(refusal(volumes("volumeIDs=|+|")), "Malformed Volume ID list. Offending token: | |");
    assert_eq!(refusal(pages("pageIDs=|")), "Malformed Page ID list. Offending token: |");
}

#[test]
fn ids_are_separated_by_literal_or_encoded_bars() {
    assert_eq!(
        ids(&volumes("volumeIDs=a.1|b.2%7Cuc2.ark%3A%2F13960%2Ft8ff3zh99|a.1").unwrap()),
        ["a.1", "b.2", "uc2.ark:/13960/t8ff3zh99"]
    );
    assert_eq!(ids(&volumes("volumeIDs=b.2&volumeIDs=a.1").unwrap()), ["b.2", "a.1"]);
}

#[test]
fn pages_are_in_the_requested_order() {
    let request = pages("pageIDs=yale.1[4,2]|yale.2%5B1%5D|yale.1[2,9]").unwrap();
    let numbers =
        |wanted: &Wanted| wanted.pages.as_ref().unwrap().iter().map(|seq: &Seq| seq.get()).collect::<Vec<_>>();
    assert_eq!(ids(&request), ["yale.1", "yale.2"]);
    assert_eq!(request.wanted.iter().map(numbers).collect::<Vec<_>>(), [vec![4, 2, 9], vec![1]]);
}

#[test]
fn concat_is_the_older_form_of_layout() {
    assert_eq!(volumes("volumeIDs=a.1").unwrap().layout, Layout::Pages);
    assert_eq!(volumes("volumeIDs=a.1&concat=True").unwrap().layout, Layout::Volumes);
    assert_eq!(volumes("volumeIDs=a.1&concat=false&layout=pages").unwrap().layout, Layout::Pages);
    assert_eq!(volumes("volumeIDs=a.1&concat=true&layout=volumes").unwrap().layout, Layout::Volumes);
    assert_eq!(volumes("volumeIDs=a.1&layout=wordseq").unwrap().layout, Layout::WordSeq);
    assert_eq!(pages("pageIDs=yale.1[1]&concat=TRUE").unwrap().layout, Layout::WordSeq);
    assert_eq!(pages("pageIDs=yale.1[1]&layout=volumes&mets=true").unwrap().layout, Layout::Volumes);
    assert!(volumes("volumeIDs=a.1&concat=true&mets=true").unwrap().mets, "a volume's text and its METS go together");
}

#[test]
fn every_layout_is_known_by_its_name_and_named_when_another_is_asked_for() {
    let refused = refusal(volumes("volumeIDs=a.1&layout=zip"));
    for layout in Layout::ALL {
        assert_eq!(volumes(&format!("volumeIDs=a.1&layout={}", layout.name())).unwrap().layout, layout);
        assert!(refused.contains(layout.name()), "{refused}");
    }
}

#[test]
fn contradictions_are_named() {
    let page = |names: &str| format!("Conflicting parameters in page retrieval. Offending Parameters: {names}");
    let volume = |names: &str| format!("Conflicting parameters in volume retrieval. Offending Parameters: {names}");
    assert_eq!(refusal(pages("pageIDs=yale.1[1]&concat=true&mets=true")), page("concat, mets"));
    assert_eq!(refusal(pages("pageIDs=yale.1[1]&layout=wordseq&mets=true")), page("layout, mets"));
    assert_eq!(refusal(pages("pageIDs=yale.1[1]&layout=volumes&concat=true")), page("layout, concat"));
    assert_eq!(refusal(volumes("volumeIDs=a.1&layout=wordseq&concat=true")), volume("layout, concat"));
    assert_eq!(refusal(volumes("volumeIDs=a.1&layout=volumes&concat=false")), volume("layout, concat"));
    assert_eq!(refusal(volumes("volumeIDs=a.1&layout=wordseq&mets=1")), volume("layout, mets"));
}

#[test]
fn levels_are_auto_or_one_digit() {
    let level = |text: &str| volumes(&format!("volumeIDs=a.1&level={text}")).map(|request| request.level);
    assert_eq!(level("AUTO").unwrap(), Level::Frames);
    assert_eq!(level("0").unwrap(), Level::Stored);
    assert_eq!(level("9").unwrap(), Level::Recompressed(9));
    for text in ["", "10", "-1", "00", "best", "1.0"] {
        let expected = format!("Malformed parameter level. Offending value: {text} (expected auto or 0 to 9)");
        assert_eq!(level(text).unwrap_err().to_string(), expected);
    }
}

#[test]
fn an_invalid_boolean_is_refused() {
    let expected = "Malformed parameter mets. Offending value: perhaps (expected true or false)";
    assert_eq!(refusal(volumes("volumeIDs=a.1&mets=perhaps")), expected);
    assert!(volumes("volumeIDs=a.1&version=7&mets=true&surplus=x").unwrap().mets);
}

#[test]
fn a_parameter_that_is_empty_or_repeated_is_refused_and_does_not_mean_its_default() {
    for name in ["layout", "concat", "mets", "level", "as_of"] {
        for value in ["", "+"] {
            let refused = refusal(volumes(&format!("volumeIDs=a.1&{name}={value}")));
            assert!(
                refused.starts_with(&format!("Malformed parameter {name}. Offending value:  (expected ")),
                "{refused}"
            );
        }
    }
    for query in ["layout=pages&layout=volumes", "as_of=2025-01-01T00:00:00Z&as_of=2026-01-01T00:00:00Z", "mets=&mets="]
    {
        let name = query.split('=').next().unwrap();
        let expected = format!("Malformed parameter {name}. It is given more than once");
        assert_eq!(refusal(volumes(&format!("volumeIDs=a.1&{query}"))), expected);
    }
}

#[test]
fn unknown_parameters_are_ignored_as_in_the_original_service_unless_a_known_one_is_misspelt() {
    let spelling = |query: &str| Params::of_query(Some(query)).check_spelling();
    for query in ["volumeIDs=a.1&version=7", "alt=zip&_=1&as=of", "as_of=&as_of=", &"x=1&".repeat(1_000)] {
        assert!(spelling(query).is_ok(), "{query}");
    }
    for (query, meant) in
        [("asOf=x", "as_of"), ("a=1&as-of=x", "as_of"), ("volumeIds=a.1", "volumeIDs"), ("sort_by=", "sortBy")]
    {
        let refused = spelling(query).unwrap_err().to_string();
        assert!(refused.ends_with(&format!(". It is written {meant}")), "{refused}");
    }
}

#[tokio::test]
async fn a_form_may_have_literal_bars_and_any_charset_parameter() {
    for content_type in [Some(FORM), Some("Application/X-WWW-Form-Urlencoded; charset=UTF-8"), None] {
        let params = posted(content_type, "volumeIDs=a.1|b.2&concat=true").await.unwrap();
        let request = params.bulk(Retrieval::Volumes, || true).unwrap();
        assert_eq!((ids(&request), request.layout), (vec!["a.1", "b.2"], Layout::Volumes));
    }
}

#[tokio::test]
async fn plain_text_is_one_id_per_line() {
    let params = posted(Some("text/plain; charset=utf-8"), "\u{feff}b.2\r\n\r\n a.1 \nb.2\n").await.unwrap();
    assert_eq!(ids(&params.bulk(Retrieval::Volumes, || true).unwrap()), ["b.2", "a.1"]);
    let params = posted(Some(PLAIN), "yale.1[3,1]\nyale.2[1]\n").await.unwrap();
    assert_eq!(ids(&params.bulk(Retrieval::Pages, || true).unwrap()), ["yale.1", "yale.2"]);
    assert!(matches!(posted(Some(PLAIN), vec![b'a', b'.', 0xff]).await, Err(DoorError::NotUtf8(_))));
}

#[tokio::test]
async fn a_body_over_the_limit_or_of_another_type_is_refused() {
    assert!(posted(Some(PLAIN), "x".repeat(1_000)).await.is_ok());
    let error = posted(Some(PLAIN), "x".repeat(1_001)).await.unwrap_err();
    assert!(matches!(error, DoorError::TooLarge { max_bytes: 1_000, .. }));
    let error = posted(Some("application/json"), "{}").await.unwrap_err();
    assert!(matches!(error, DoorError::UnsupportedMediaType { found, .. } if found == "application/json"));
}

#[tokio::test]
async fn a_list_is_not_read_to_its_end_for_a_client_that_has_left() {
    for retrieval in [Retrieval::Volumes, Retrieval::Pages] {
        for (content_type, list) in [(Some(PLAIN), "yale.1[1]"), (Some(FORM), "volumeIDs=a.1&pageIDs=yale.1[1]")] {
            let params = posted(content_type, list).await.unwrap();
            let error = params.bulk(retrieval, || false).unwrap_err();
            assert!(matches!(error, DoorError::List(hathi::ListError::Stopped)), "{error}");
        }
    }
}

#[test]
fn a_selection_is_of_volumes_or_of_pages_but_not_of_both() {
    let retrieval = |query: &str| Params::of_query(Some(query)).retrieval();
    assert_eq!(retrieval("volumeIDs=a.1").unwrap(), Retrieval::Volumes);
    assert_eq!(retrieval("pageIDs=a.1").unwrap(), Retrieval::Pages);
    assert_eq!(retrieval("ids=pages").unwrap(), Retrieval::Pages);
    assert_eq!(retrieval("").unwrap(), Retrieval::Volumes);
    assert!(retrieval("volumeIDs=a.1&pageIDs=yale.1[1]").is_err());
}

proptest! {
    #[test]
    fn any_query_is_read_or_refused(query in ".{0,200}") {
        let params = Params::of_query(Some(&query));
        let _ = (params.bulk(Retrieval::Volumes, || true), params.bulk(Retrieval::Pages, || true), params.retrieval());
    }

    #[test]
    fn each_id_is_listed_once_in_the_order_of_first_mention(numbers in prop::collection::vec(0_u8..20, 1..60)) {
        let list: Vec<String> = numbers.iter().map(|number| format!("x.{number}")).collect();
        let request = volumes(&format!("volumeIDs={}", list.join("|"))).unwrap();
        let mut expected: Vec<&str> = Vec::new();
        for id in &list {
            if !expected.contains(&id.as_str()) {
                expected.push(id);
            }
        }
        prop_assert_eq!(ids(&request), expected);
    }
}
