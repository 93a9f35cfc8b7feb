//! Fedora 6's documentation of its search (`fcr:search`, "Simple Search"), a statement each. Its
//! index may lag, so the resources are waited for.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::StatusCode;
use serde_json::Value;

use crate::sample::{BYTES, Sample};
use crate::statement::{Statement, statements};

/// How long a resource may take until it is found.
const PATIENCE: Duration = Duration::from_secs(20);

/// The pause between two searches.
const PAUSE: Duration = Duration::from_millis(50);

/// The statements.
pub const STATEMENTS: &[Statement] = statements! {
    Must "Fedora 6, search" a_search_is_answered_with_its_pagination_and_its_items;
    Must "Fedora 6, search" a_page_has_a_hundred_results_unless_max_results_says_otherwise;
    Must "Fedora 6, search" a_fedora_id_is_written_in_four_ways;
    Must "Fedora 6, search" a_star_stands_for_any_text_in_a_fedora_id;
    Must "Fedora 6, search" a_resource_is_found_by_the_time_of_its_change;
    Must "Fedora 6, search" a_resource_is_found_by_the_time_of_its_creation;
    Must "Fedora 6, search" a_binary_is_found_by_its_size;
    Must "Fedora 6, search" a_binary_is_found_by_its_mime_type;
    Must "Fedora 6, search" a_resource_is_found_by_its_rdf_type;
    Must "Fedora 6, search" all_conditions_must_hold;
    Must "Fedora 6, search" a_result_has_the_fields_that_are_asked_for;
    Must "Fedora 6, search" a_description_of_bytes_is_a_result_of_its_own;
    Must "Fedora 6, search" offset_leaves_results_out_at_the_beginning;
    Must "Fedora 6, search" order_by_and_order_sort_the_results;
    Must "Fedora 6, search" results_are_counted_if_the_request_wants_it;
    Must "Fedora 6, search" a_deleted_resource_is_not_found;
    Must "Fedora 6, search" a_condition_without_an_operator_is_a_bad_request;
    Must "Fedora 6, search" an_order_that_is_neither_asc_nor_desc_is_a_bad_request;
    Must "Fedora 6, search" a_time_that_is_none_is_a_bad_request;
    Should "Fedora 7, search" an_unknown_field_in_a_condition_is_a_bad_request;
};

/// Everything that is not kept as it is in a query.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn address(sample: &Sample<'_>, conditions: &[&str], rest: &str) -> String {
    let conditions = conditions.iter().map(|condition| format!("condition={}&", encoded(condition)));
    let root = sample.site.container().trim_end_matches('/');
    format!("{root}/fcr:search?{}{rest}", conditions.collect::<String>())
}

async fn search(sample: &Sample<'_>, conditions: &[&str], rest: &str) -> Result<Value> {
    let answer = sample.site.get(&address(sample, conditions, rest), &[("accept", "application/json")]).await?;
    answer.expect(StatusCode::OK)?;
    Ok(serde_json::from_slice(&answer.body)?)
}

fn ids(found: &Value) -> Vec<&str> {
    let items = found["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item["fedora_id"].as_str()).collect()
}

/// Searches until a resource is found.
async fn until_found(sample: &Sample<'_>, conditions: &[&str], rest: &str, id: &str) -> Result<Value> {
    let begun = Instant::now();
    loop {
        let found = search(sample, conditions, rest).await?;
        if ids(&found).contains(&id) {
            return Ok(found);
        }
        ensure!(begun.elapsed() < PATIENCE, "{id} is not found: {found}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// The conditions that leave one resource alone.
fn only(id: &str) -> String {
    format!("fedora_id={id}")
}

/// A result about the RDF source, which was changed last, and the name of the resource.
async fn item(sample: &Sample<'_>) -> Result<Value> {
    let found = until_found(sample, &[&only(&sample.original)], "", &sample.original).await?;
    found["items"].get(0).cloned().context("no item")
}

async fn a_search_is_answered_with_its_pagination_and_its_items(sample: &Sample<'_>) -> Result<()> {
    let found = search(sample, &[], "").await?;
    ensure!(found["items"].is_array(), "{found}");
    let pagination = found["pagination"].as_object().context("no pagination")?;
    for name in ["offset", "maxResults", "totalResults"] {
        ensure!(pagination.get(name).is_some_and(Value::is_i64), "no {name}: {found}");
    }
    Ok(())
}

async fn a_page_has_a_hundred_results_unless_max_results_says_otherwise(sample: &Sample<'_>) -> Result<()> {
    item(sample).await?;
    ensure!(search(sample, &[], "").await?["pagination"]["maxResults"] == 100);
    let one = search(sample, &[], "max_results=1").await?;
    ensure!(one["pagination"]["maxResults"] == 1 && ids(&one).len() == 1, "{one}");
    Ok(())
}

async fn a_fedora_id_is_written_in_four_ways(sample: &Sample<'_>) -> Result<()> {
    let root = sample.site.container().trim_end_matches('/');
    let name = sample.original.strip_prefix(root).context("the container is not the root")?.trim_start_matches('/');
    for id in [name.to_owned(), format!("/{name}"), format!("info:fedora/{name}"), sample.original.clone()] {
        until_found(sample, &[&only(&id)], "", &sample.original).await?;
    }
    Ok(())
}

async fn a_star_stands_for_any_text_in_a_fedora_id(sample: &Sample<'_>) -> Result<()> {
    let (begin, _) = sample.original.split_at(sample.original.len() - 2);
    until_found(sample, &[&only(&format!("{begin}*"))], "", &sample.original).await?;
    Ok(())
}

async fn found_by_time(sample: &Sample<'_>, field: &str) -> Result<()> {
    let time = item(sample).await?[field].as_str().context("no time")?.to_owned();
    let id = only(&sample.original);
    for (condition, is_met) in [
        (format!("{field}>=2000-01-01"), true),
        (format!("{field}<={time}"), true),
        (format!("{field}>={time}"), true),
        (format!("{field}<2000-01-01T00:00:00Z"), false),
        (format!("{field}>2100-01-01"), false),
    ] {
        let found = search(sample, &[&id, &condition], "").await?;
        ensure!(ids(&found).is_empty() != is_met, "{condition}: {found}");
    }
    Ok(())
}

async fn a_resource_is_found_by_the_time_of_its_change(sample: &Sample<'_>) -> Result<()> {
    found_by_time(sample, "modified").await
}

async fn a_resource_is_found_by_the_time_of_its_creation(sample: &Sample<'_>) -> Result<()> {
    found_by_time(sample, "created").await
}

async fn binary_is_found(sample: &Sample<'_>, conditions: &[(String, bool)]) -> Result<()> {
    let id = only(&sample.binary);
    until_found(sample, &[&id], "", &sample.binary).await?;
    for (condition, is_met) in conditions {
        let found = search(sample, &[&id, condition], "").await?;
        ensure!(ids(&found).contains(&&*sample.binary) == *is_met, "{condition}: {found}");
    }
    Ok(())
}

async fn a_binary_is_found_by_its_size(sample: &Sample<'_>) -> Result<()> {
    let size = BYTES.len();
    let conditions = [("=", true), (">=", true), ("<=", true), ("<", false), (">", false)];
    binary_is_found(sample, &conditions.map(|(operator, is_met)| (format!("content_size{operator}{size}"), is_met)))
        .await
}

async fn a_binary_is_found_by_its_mime_type(sample: &Sample<'_>) -> Result<()> {
    let conditions = [("text/plain", true), ("text/*", true), ("image/*", false)];
    binary_is_found(sample, &conditions.map(|(value, is_met)| (format!("mime_type={value}"), is_met))).await
}

async fn a_resource_is_found_by_its_rdf_type(sample: &Sample<'_>) -> Result<()> {
    let conditions = [
        ("http://www.w3.org/ns/ldp#NonRDFSource", true),
        ("*NonRDFSource", true),
        ("http://fedora.info/definitions/v4/repository#Binary", true),
        ("http://www.w3.org/ns/ldp#Container", false),
    ];
    binary_is_found(sample, &conditions.map(|(value, is_met)| (format!("rdf_type={value}"), is_met))).await
}

async fn all_conditions_must_hold(sample: &Sample<'_>) -> Result<()> {
    item(sample).await?;
    let other = search(sample, &[&only(&sample.original), "mime_type=text/plain"], "").await?;
    ensure!(ids(&other).is_empty(), "{other}");
    Ok(())
}

async fn a_result_has_the_fields_that_are_asked_for(sample: &Sample<'_>) -> Result<()> {
    let all = item(sample).await?;
    for field in ["fedora_id", "created", "modified", "content_size", "mime_type", "rdf_type"] {
        ensure!(all.get(field).is_some(), "no {field}: {all}");
    }
    let some = search(sample, &[&only(&sample.original)], "fields=fedora_id,modified").await?;
    let some = some["items"][0].as_object().context("no item")?;
    ensure!(some.len() == 2 && some.contains_key("fedora_id") && some.contains_key("modified"), "{some:?}");
    Ok(())
}

async fn a_description_of_bytes_is_a_result_of_its_own(sample: &Sample<'_>) -> Result<()> {
    let description = format!("{}/fcr:metadata", sample.binary);
    until_found(sample, &[&only(&format!("{}*", sample.binary))], "", &description).await?;
    Ok(())
}

async fn offset_leaves_results_out_at_the_beginning(sample: &Sample<'_>) -> Result<()> {
    let both = only(&format!("{}*", sample.binary));
    let rest = "order_by=fedora_id&max_results=1";
    let description = format!("{}/fcr:metadata", sample.binary);
    until_found(sample, &[&both], "", &description).await?;
    let first = search(sample, &[&both], rest).await?;
    let second = search(sample, &[&both], &format!("{rest}&offset=1")).await?;
    ensure!(ids(&first) == [&*sample.binary] && ids(&second) == [&*description], "{first} {second}");
    Ok(())
}

async fn order_by_and_order_sort_the_results(sample: &Sample<'_>) -> Result<()> {
    item(sample).await?;
    for (order, is_ascending) in [("asc", true), ("desc", false)] {
        let found = search(sample, &[], &format!("order_by=created&order={order}&max_results=20")).await?;
        let created = found["items"].as_array().context("no items")?.iter().map(|item| item["created"].as_str());
        // A full second may have no fraction: without the `Z` it comes before those that have one.
        let times: Vec<_> = created.map(|time| time.unwrap_or_default().trim_end_matches('Z')).collect();
        let is_sorted = if is_ascending { times.is_sorted() } else { times.iter().rev().is_sorted() };
        ensure!(times.len() > 1 && is_sorted, "{order}: {times:?}");
    }
    Ok(())
}

async fn results_are_counted_if_the_request_wants_it(sample: &Sample<'_>) -> Result<()> {
    item(sample).await?;
    let id = only(&sample.original);
    let counted = search(sample, &[&id], "max_results=0&include_total_result_count=true").await?;
    ensure!(counted["pagination"]["totalResults"] == 1 && ids(&counted).is_empty(), "{counted}");
    let not_counted = search(sample, &[&id], "").await?;
    ensure!(not_counted["pagination"]["totalResults"] == -1, "{not_counted}");
    Ok(())
}

async fn a_deleted_resource_is_not_found(sample: &Sample<'_>) -> Result<()> {
    item(sample).await?;
    let found = search(sample, &[&only(&format!("{}*", sample.deleted))], "").await?;
    ensure!(ids(&found).is_empty(), "{found}");
    Ok(())
}

async fn refused(sample: &Sample<'_>, conditions: &[&str], rest: &str) -> Result<()> {
    sample.site.get(&address(sample, conditions, rest), &[]).await?.expect(StatusCode::BAD_REQUEST)
}

async fn a_condition_without_an_operator_is_a_bad_request(sample: &Sample<'_>) -> Result<()> {
    refused(sample, &["fedora_id"], "").await
}

async fn an_order_that_is_neither_asc_nor_desc_is_a_bad_request(sample: &Sample<'_>) -> Result<()> {
    refused(sample, &[], "order_by=created&order=sideways").await
}

async fn a_time_that_is_none_is_a_bad_request(sample: &Sample<'_>) -> Result<()> {
    refused(sample, &["created>yesterday"], "").await
}

async fn an_unknown_field_in_a_condition_is_a_bad_request(sample: &Sample<'_>) -> Result<()> {
    refused(sample, &["colour=red"], "").await
}
