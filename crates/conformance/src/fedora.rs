//! The Fedora API Specification 1.0 on versions (section 4) and on the fixity of binaries (section
//! 7).

use anyhow::{Context, Result, ensure};
use http::{Method, StatusCode};

use crate::sample::{BYTES, CONSTRAINED_BY, LDP, Sample};
use crate::statement::{Statement, statements};

const MEMENTO: &str = "http://mementoweb.org/ns#";

/// The statements, in the order of sections.
pub const STATEMENTS: &[Statement] = statements! {
    Must "Fedora API, 4.1.1" a_versioned_resource_has_the_types_original_resource_and_timegate;
    Must "Fedora API, 4.1.1" a_versioned_resource_is_its_own_original_and_timegate;
    Must "Fedora API, 4.2.1" a_version_has_the_type_memento;
    Must "Fedora API, 4.2.2" a_version_offers_get_head_and_options;
    Must "Fedora API, 4.2" a_version_is_never_modified_by_put_post_or_patch;
    Must "Fedora API, 4.2" a_version_stays_as_it_was_after_a_change;
    Must "Fedora API, 4.3" a_resource_does_not_contain_the_list_of_its_versions;
    Must "Fedora API, 4.3.1" a_list_of_versions_has_the_type_timemap;
    Must "Fedora API, 4.3.1" a_list_of_versions_has_the_type_container;
    Must "Fedora API, 4.3.1" a_list_of_versions_offers_get_head_and_options;
    Must "Fedora API, 4.3.2" a_list_of_versions_answers_options;
    Must "Fedora API, 4.3.2" a_list_of_versions_that_offers_post_names_what_it_accepts;
    Must "Fedora API, 4.3.3" a_post_to_the_list_makes_a_version_or_is_not_allowed;
    Must "Fedora API, 4.3.3" a_post_with_a_memento_datetime_makes_that_version_or_names_the_constraint;
    Must "Fedora API, 4.3.4" a_list_of_versions_is_not_replaced;
    Must "Fedora API, 7.1" bytes_with_another_digest_are_a_conflict;
    Must "Fedora API, 7.1" an_unknown_digest_algorithm_is_a_bad_request;
    Must "Fedora API, 7.2" a_binary_reports_the_digest_that_is_asked_for;
};

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

async fn a_version_is_never_modified_by_put_post_or_patch(sample: &Sample<'_>) -> Result<()> {
    for (method, media_type, body) in [
        (Method::PUT, "text/turtle", "<> <urn:p> 1 ."),
        (Method::POST, "text/turtle", "<> <urn:p> 1 ."),
        (Method::PATCH, "application/sparql-update", "INSERT { <> <urn:p> 1 } WHERE {}"),
    ] {
        let headers = [("content-type", media_type)];
        let answer = sample.site.send(method.clone(), &sample.first().0, &headers, body).await?;
        ensure!(answer.status.is_client_error(), "{method}: {}", answer.status);
    }
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

async fn a_list_of_versions_that_offers_post_names_what_it_accepts(sample: &Sample<'_>) -> Result<()> {
    let answer = sample.site.send(Method::OPTIONS, &sample.timemap, &[], "").await?;
    for (method, header) in [("POST", "accept-post"), ("PATCH", "accept-patch")] {
        ensure!(!answer.lists("allow", method) || answer.header(header).is_some(), "there is no `{header}`");
    }
    Ok(())
}

async fn a_post_to_the_list_makes_a_version_or_is_not_allowed(sample: &Sample<'_>) -> Result<()> {
    let answer = sample.site.send(Method::POST, &sample.timemap, &[], "").await?;
    if answer.status == StatusCode::METHOD_NOT_ALLOWED {
        return Ok(());
    }
    answer.expect(StatusCode::CREATED)?;
    let made = sample.site.absolute(answer.header("location").context("the new version has no address")?)?;
    let answer = sample.site.get(&made, &[("accept", "application/n-triples")]).await?;
    ensure!(answer.text().contains("state 3"), "it is not the current state: {}", answer.text());
    Ok(())
}

async fn a_post_with_a_memento_datetime_makes_that_version_or_names_the_constraint(sample: &Sample<'_>) -> Result<()> {
    let time = "Sat, 01 Jan 2000 00:00:00 GMT";
    let headers = [("memento-datetime", time), ("content-type", "text/turtle")];
    let answer = sample.site.send(Method::POST, &sample.timemap, &headers, "<> <urn:p> 1 .").await?;
    if answer.status.is_client_error() {
        ensure!(answer.link(CONSTRAINED_BY).is_some(), "status {} names no constraint", answer.status);
        return Ok(());
    }
    answer.expect(StatusCode::CREATED)?;
    let made = sample.site.absolute(answer.header("location").context("the new version has no address")?)?;
    let said = sample.site.get(&made, &[]).await?;
    ensure!(said.header("memento-datetime") == Some(time), "{:?}", said.header("memento-datetime"));
    Ok(())
}

async fn a_list_of_versions_is_not_replaced(sample: &Sample<'_>) -> Result<()> {
    let headers = [("content-type", "text/turtle")];
    let answer = sample.site.send(Method::PUT, &sample.timemap, &headers, "<> <urn:p> 1 .").await?;
    ensure!(answer.status.is_client_error(), "status {}", answer.status);
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
