//! The Fedora API Specification 1.0 on versions (section 4) and on the fixity of binaries (section
//! 7).

use anyhow::{Context, Result, ensure};
use http::{Method, StatusCode};

use crate::sample::{BYTES, CONSTRAINED_BY, LDP, SECOND, Sample, VERSIONED, change, create_in, listed_in, timemap_of};
use crate::site::Answer;
use crate::statement::{Statement, statements};

const MEMENTO: &str = "http://mementoweb.org/ns#";
/// A time before the resources are created.
const LONG_AGO: &str = "Sat, 01 Jan 2000 00:00:00 GMT";

/// The statements, in the order of sections.
pub const STATEMENTS: &[Statement] = statements! {
    Must "Fedora API, 4" a_resource_that_is_created_as_an_original_resource_is_versioned;
    Must "Fedora API, 4.1.1" a_versioned_resource_has_the_types_original_resource_and_timegate;
    Must "Fedora API, 4.1.1" a_versioned_resource_is_its_own_original_and_timegate;
    Must "Fedora API, 4.1.1" a_versioned_resource_links_to_the_list_of_its_versions;
    Should "Fedora API, 4.1.1" a_time_before_the_first_version_is_not_acceptable;
    Must "Fedora API, 4.1.2" a_versioned_resource_is_changed_by_put;
    Must "Fedora API, 4.2" a_version_stays_as_it_was_after_a_change;
    Must "Fedora API, 4.2.1" the_timegate_of_a_version_is_its_original;
    Must "Fedora API, 4.2.1" a_version_has_the_type_memento;
    Must "Fedora API, 4.2.2" a_version_offers_get_head_and_options;
    Must "Fedora API, 4.2.3" a_version_takes_no_post;
    Must "Fedora API, 4.2.4" a_version_takes_no_put;
    Must "Fedora API, 4.2.5" a_version_takes_no_patch;
    Must "Fedora API, 4.2.6" a_version_that_is_deleted_leaves_the_list;
    Must "Fedora API, 4.3" a_resource_does_not_contain_the_list_of_its_versions;
    Must "Fedora API, 4.3.1" a_list_of_versions_has_the_type_timemap;
    Must "Fedora API, 4.3.1" a_list_of_versions_has_the_type_container;
    Must "Fedora API, 4.3.1" a_list_of_versions_offers_get_head_and_options;
    Must "Fedora API, 4.3.1" an_answer_to_get_of_a_list_that_offers_post_names_what_it_accepts;
    Must "Fedora API, 4.3.2" a_list_of_versions_answers_options;
    Must "Fedora API, 4.3.2" a_list_of_versions_that_offers_post_names_what_it_accepts;
    Must "Fedora API, 4.3.3" a_post_to_the_list_makes_a_version_or_names_the_constraint;
    Must "Fedora API, 4.3.3" a_post_to_the_list_ignores_its_body;
    Must "Fedora API, 4.3.3" a_post_with_a_memento_datetime_makes_that_version_or_names_the_constraint;
    Must "Fedora API, 4.3.4" a_list_of_versions_is_not_replaced;
    Should "Fedora API, 4.3.6" a_list_of_versions_that_is_deleted_takes_versioning_along;
    Must "Fedora API, 7.1" bytes_with_another_digest_are_a_conflict;
    Must "Fedora API, 7.1" an_unknown_digest_algorithm_is_a_bad_request;
    Must "Fedora API, 7.2" a_binary_reports_the_digest_that_is_asked_for;
};

async fn a_resource_that_is_created_as_an_original_resource_is_versioned(sample: &Sample<'_>) -> Result<()> {
    for (model, media_type) in [("BasicContainer", "text/turtle"), ("NonRDFSource", "text/plain")] {
        let link = format!("<{LDP}{model}>; rel=\"type\"");
        let headers = [("content-type", media_type), ("link", link.as_str()), ("link", VERSIONED)];
        let created = sample.site.send(Method::POST, &sample.container, &headers, "").await?;
        created.expect(StatusCode::CREATED).context(model)?;
        let made = sample.site.absolute(created.header("location").context("a new resource has no address")?)?;
        let made = sample.site.get(&made, &[]).await?;
        ensure!(made.is_of_type(&format!("{MEMENTO}OriginalResource")), "the {model} is no OriginalResource");
        let list = made.link("timemap").with_context(|| format!("the {model} has no list of versions"))?;
        let list = sample.site.get(&list, &[]).await?;
        list.expect(StatusCode::OK)?;
        ensure!(list.is_of_type(&format!("{MEMENTO}TimeMap")), "the list of the {model} is no TimeMap");
    }
    Ok(())
}

async fn a_versioned_resource_has_the_types_original_resource_and_timegate(sample: &Sample<'_>) -> Result<()> {
    let answer = sample.site.get(&sample.original, &[]).await?;
    for class in ["OriginalResource", "TimeGate"] {
        ensure!(answer.is_of_type(&format!("{MEMENTO}{class}")), "it is no {class}");
    }
    Ok(())
}

async fn a_versioned_resource_is_its_own_original_and_timegate(sample: &Sample<'_>) -> Result<()> {
    let answer = sample.site.get(&sample.original, &[]).await?;
    for relation in ["original", "timegate"] {
        let target = answer.link(relation).with_context(|| format!("there is no link `{relation}`"))?;
        ensure!(sample.site.absolute(&target)? == sample.original, "{relation}: {target}");
    }
    Ok(())
}

async fn a_versioned_resource_links_to_the_list_of_its_versions(sample: &Sample<'_>) -> Result<()> {
    for url in [&sample.original, &sample.binary] {
        let list = sample.site.get(&timemap_of(sample.site, url).await?, &[]).await?;
        list.expect(StatusCode::OK).with_context(|| url.clone())?;
    }
    Ok(())
}

async fn a_time_before_the_first_version_is_not_acceptable(sample: &Sample<'_>) -> Result<()> {
    sample.at(LONG_AGO).await?.expect(StatusCode::NOT_ACCEPTABLE)
}

async fn a_versioned_resource_is_changed_by_put(sample: &Sample<'_>) -> Result<()> {
    let made = create_in(sample.site, &sample.container, "text/turtle", "", "BasicContainer").await?;
    let answer = sample.site.send(Method::OPTIONS, &made, &[], "").await?;
    ensure!(answer.lists("allow", "PUT"), "`Allow` has no PUT");
    change(sample.site, &made, "<> <urn:p> \"by PUT\" .").await?;
    let answer = sample.site.get(&made, &[("accept", "application/n-triples")]).await?;
    ensure!(answer.text().contains("\"by PUT\""), "{}", answer.text());
    ensure!(answer.link("timemap").is_some(), "it has no list of versions");
    Ok(())
}

async fn the_timegate_of_a_version_is_its_original(sample: &Sample<'_>) -> Result<()> {
    let of_binary = sample.first_of_binary().await?;
    for (version, original) in [(&sample.first().0, &sample.original), (&of_binary, &sample.binary)] {
        let timegate = sample.site.get(version, &[]).await?.link("timegate");
        let timegate = timegate.with_context(|| format!("{version} has no link `timegate`"))?;
        ensure!(sample.site.absolute(&timegate)? == *original, "{version}: {timegate}");
    }
    Ok(())
}

async fn a_version_has_the_type_memento(sample: &Sample<'_>) -> Result<()> {
    let answer = sample.site.get(&sample.first().0, &[]).await?;
    ensure!(answer.is_of_type(&format!("{MEMENTO}Memento")), "it is no Memento");
    Ok(())
}

async fn offers(sample: &Sample<'_>, url: &str, method: Method) -> Result<()> {
    let answer = sample.site.send(method, url, &[], "").await?;
    ensure!(answer.status.is_success(), "status {}", answer.status);
    for method in ["GET", "HEAD", "OPTIONS"] {
        ensure!(answer.lists("allow", method), "`Allow` has no {method}");
    }
    Ok(())
}

async fn a_version_offers_get_head_and_options(sample: &Sample<'_>) -> Result<()> {
    offers(sample, &sample.first().0, Method::OPTIONS).await
}

/// Judges the answer of a version to a request that would change it.
async fn takes_no(sample: &Sample<'_>, method: Method, media_type: &str, body: &str) -> Result<()> {
    let headers = [("content-type", media_type)];
    let answer = sample.site.send(method, &sample.first().0, &headers, body).await?;
    ensure!(answer.status.is_client_error(), "status {}", answer.status);
    Ok(())
}

async fn a_version_takes_no_post(sample: &Sample<'_>) -> Result<()> {
    takes_no(sample, Method::POST, "text/turtle", "<> <urn:p> 1 .").await
}

async fn a_version_takes_no_put(sample: &Sample<'_>) -> Result<()> {
    takes_no(sample, Method::PUT, "text/turtle", "<> <urn:p> 1 .").await
}

async fn a_version_takes_no_patch(sample: &Sample<'_>) -> Result<()> {
    takes_no(sample, Method::PATCH, "application/sparql-update", "INSERT { <> <urn:p> 1 } WHERE {}").await
}

/// Whether a server says that a resource is deleted by `DELETE`.
async fn offers_delete(sample: &Sample<'_>, url: &str) -> Result<bool> {
    Ok(sample.site.send(Method::OPTIONS, url, &[], "").await?.lists("allow", "DELETE"))
}

/// A server may leave it out.
async fn a_version_that_is_deleted_leaves_the_list(sample: &Sample<'_>) -> Result<()> {
    if !offers_delete(sample, &sample.first().0).await? {
        return Ok(());
    }
    // Of a resource of its own: the versions of the sample stay as they are.
    let resource = create_in(sample.site, &sample.container, "text/turtle", "", "BasicContainer").await?;
    change(sample.site, &resource, "<> <urn:p> 1 .").await?;
    let list = timemap_of(sample.site, &resource).await?;
    let mut versions = listed_in(sample.site, &list).await?;
    if versions.len() < 2 {
        // This server keeps one version of a second.
        tokio::time::sleep(SECOND).await;
        change(sample.site, &resource, "<> <urn:p> 2 .").await?;
        versions = listed_in(sample.site, &list).await?;
    }
    let (deleted, _) = versions.first().context("the resource has no version")?;
    let answer = sample.site.send(Method::DELETE, deleted, &[], "").await?;
    ensure!(answer.status.is_success(), "status {} of the deletion", answer.status);
    let gone = sample.site.get(deleted, &[]).await?;
    ensure!(gone.status.is_client_error(), "status {} of the deleted version", gone.status);
    ensure!(!listed_in(sample.site, &list).await?.iter().any(|(version, _)| version == deleted), "it is listed");
    let contained = sample.site.get(&list, &[("accept", "application/n-triples")]).await?;
    ensure!(!contained.text().contains(&format!("<{LDP}contains> <{deleted}>")), "it is contained");
    Ok(())
}

async fn a_version_stays_as_it_was_after_a_change(sample: &Sample<'_>) -> Result<()> {
    let answer = sample.site.get(&sample.first().0, &[("accept", "application/n-triples")]).await?;
    ensure!(answer.text().contains("state 1"), "{}", answer.text());
    ensure!(!answer.text().contains("state 3"), "{}", answer.text());
    Ok(())
}

async fn a_resource_does_not_contain_the_list_of_its_versions(sample: &Sample<'_>) -> Result<()> {
    let answer = sample.site.get(&sample.original, &[("accept", "application/n-triples")]).await?;
    answer.expect(StatusCode::OK)?;
    let contained = format!("<{LDP}contains> <{}>", sample.timemap);
    ensure!(!answer.text().contains(&contained), "{}", answer.text());
    Ok(())
}

async fn a_list_of_versions_has_the_type_timemap(sample: &Sample<'_>) -> Result<()> {
    let answer = sample.site.get(&sample.timemap, &[]).await?;
    ensure!(answer.is_of_type(&format!("{MEMENTO}TimeMap")), "it is no TimeMap");
    Ok(())
}

async fn a_list_of_versions_has_the_type_container(sample: &Sample<'_>) -> Result<()> {
    let answer = sample.site.get(&sample.timemap, &[]).await?;
    ensure!(answer.is_of_type(&format!("{LDP}Container")), "it is no Container");
    Ok(())
}

async fn a_list_of_versions_offers_get_head_and_options(sample: &Sample<'_>) -> Result<()> {
    offers(sample, &sample.timemap, Method::GET).await
}

async fn a_list_of_versions_answers_options(sample: &Sample<'_>) -> Result<()> {
    offers(sample, &sample.timemap, Method::OPTIONS).await
}

/// Judges the list's answer to a request with a method.
async fn names_what_it_accepts(sample: &Sample<'_>, method: Method) -> Result<()> {
    let answer = sample.site.send(method, &sample.timemap, &[], "").await?;
    for (method, header) in [("POST", "accept-post"), ("PATCH", "accept-patch")] {
        ensure!(!answer.lists("allow", method) || answer.header(header).is_some(), "there is no `{header}`");
    }
    Ok(())
}

async fn an_answer_to_get_of_a_list_that_offers_post_names_what_it_accepts(sample: &Sample<'_>) -> Result<()> {
    names_what_it_accepts(sample, Method::GET).await
}

async fn a_list_of_versions_that_offers_post_names_what_it_accepts(sample: &Sample<'_>) -> Result<()> {
    names_what_it_accepts(sample, Method::OPTIONS).await
}

/// Judges the version of the current state that an answer says is made.
async fn is_current_state(sample: &Sample<'_>, answer: &Answer) -> Result<()> {
    answer.expect(StatusCode::CREATED)?;
    let made = sample.site.absolute(answer.header("location").context("the new version has no address")?)?;
    let made = sample.site.get(&made, &[("accept", "application/n-triples")]).await?;
    let is_current = made.text().contains("state 3") && !made.text().contains("of the body");
    ensure!(is_current, "it is not the current state: {}", made.text());
    Ok(())
}

async fn a_post_to_the_list_makes_a_version_or_names_the_constraint(sample: &Sample<'_>) -> Result<()> {
    let answer = sample.site.send(Method::POST, &sample.timemap, &[], "").await?;
    if answer.status.is_client_error() {
        ensure!(answer.link(CONSTRAINED_BY).is_some(), "status {} names no constraint", answer.status);
        return Ok(());
    }
    is_current_state(sample, &answer).await
}

async fn a_post_to_the_list_ignores_its_body(sample: &Sample<'_>) -> Result<()> {
    let headers = [("content-type", "text/turtle")];
    let body = "<> <urn:p> \"of the body\" .";
    let answer = sample.site.send(Method::POST, &sample.timemap, &headers, body).await?;
    if answer.status.is_client_error() {
        let without = sample.site.send(Method::POST, &sample.timemap, &[], "").await?;
        ensure!(without.status.is_client_error(), "status {} with a body, {} without", answer.status, without.status);
        return Ok(());
    }
    is_current_state(sample, &answer).await
}

async fn a_post_with_a_memento_datetime_makes_that_version_or_names_the_constraint(sample: &Sample<'_>) -> Result<()> {
    // Of a resource of its own: the versions of the sample stay as they are.
    let resource = create_in(sample.site, &sample.container, "text/turtle", "", "BasicContainer").await?;
    let timemap = timemap_of(sample.site, &resource).await?;
    let headers = [("memento-datetime", LONG_AGO), ("content-type", "text/turtle")];
    let answer = sample.site.send(Method::POST, &timemap, &headers, "<> <urn:p> 1 .").await?;
    if answer.status.is_client_error() {
        ensure!(answer.link(CONSTRAINED_BY).is_some(), "status {} names no constraint", answer.status);
        return Ok(());
    }
    answer.expect(StatusCode::CREATED)?;
    let made = sample.site.absolute(answer.header("location").context("the new version has no address")?)?;
    let said = sample.site.get(&made, &[]).await?;
    ensure!(said.header("memento-datetime") == Some(LONG_AGO), "{:?}", said.header("memento-datetime"));
    ensure!(said.text().contains("urn:p"), "it has another state than the body: {}", said.text());
    Ok(())
}

async fn a_list_of_versions_is_not_replaced(sample: &Sample<'_>) -> Result<()> {
    let headers = [("content-type", "text/turtle")];
    let answer = sample.site.send(Method::PUT, &sample.timemap, &headers, "<> <urn:p> 1 .").await?;
    ensure!(answer.status.is_client_error(), "status {}", answer.status);
    Ok(())
}

/// A server may leave it out.
async fn a_list_of_versions_that_is_deleted_takes_versioning_along(sample: &Sample<'_>) -> Result<()> {
    if !offers_delete(sample, &sample.timemap).await? {
        return Ok(());
    }
    let resource = create_in(sample.site, &sample.container, "text/turtle", "", "BasicContainer").await?;
    let list = timemap_of(sample.site, &resource).await?;
    let answer = sample.site.send(Method::DELETE, &list, &[], "").await?;
    ensure!(answer.status.is_success(), "status {} of the deletion", answer.status);
    let gone = sample.site.get(&list, &[]).await?;
    ensure!(gone.status.is_client_error(), "status {} of the deleted list", gone.status);
    let left = sample.site.get(&resource, &[]).await?;
    ensure!(!left.is_of_type(&format!("{MEMENTO}OriginalResource")), "the resource is an OriginalResource");
    Ok(())
}

async fn posted_with_digest(sample: &Sample<'_>, digest: &str) -> Result<StatusCode> {
    let link = format!("<{LDP}NonRDFSource>; rel=\"type\"");
    let headers = [("content-type", "text/plain"), ("link", link.as_str()), ("digest", digest)];
    Ok(sample.site.send(Method::POST, sample.site.container(), &headers, BYTES).await?.status)
}

async fn bytes_with_another_digest_are_a_conflict(sample: &Sample<'_>) -> Result<()> {
    let status = posted_with_digest(sample, "sha=2jmj7l5rSw0yVb/vlWAYkK/YBwk=").await?;
    ensure!(status == StatusCode::CONFLICT, "status {status}");
    Ok(())
}

async fn an_unknown_digest_algorithm_is_a_bad_request(sample: &Sample<'_>) -> Result<()> {
    let status = posted_with_digest(sample, "abc=abc").await?;
    ensure!(status == StatusCode::BAD_REQUEST, "status {status}");
    Ok(())
}

async fn a_binary_reports_the_digest_that_is_asked_for(sample: &Sample<'_>) -> Result<()> {
    for method in [Method::GET, Method::HEAD] {
        let answer = sample.site.send(method.clone(), &sample.binary, &[("want-digest", "sha")], "").await?;
        let digest = answer.header("digest").with_context(|| format!("{method}: there is no `Digest`"))?;
        ensure!(digest.starts_with("sha="), "{method}: {digest}");
    }
    Ok(())
}
