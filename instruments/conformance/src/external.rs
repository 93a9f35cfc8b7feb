//! The Fedora API Specification 1.0 on content stored elsewhere (section 3.9). Most statements need
//! the address of content to which the server may link.

use anyhow::{Context, Result, ensure};
use http::{Method, StatusCode};

use crate::sample::{CONSTRAINED_BY, LDP, Sample};
use crate::site::Answer;
use crate::statement::{Statement, statements};

const EXTERNAL_CONTENT: &str = "http://fedora.info/definitions/fcrepo#ExternalContent";
const HANDLINGS: &str = "accept-external-content-handling";
/// A media type that no server finds out by itself.
const MEDIA_TYPE: &str = "text/x-conformance";

/// The statements of any server.
pub const REFUSALS: &[Statement] = statements! {
    Must "Fedora API, 3.9" a_link_with_an_unknown_handling_is_refused_and_names_the_constraint;
    Must "Fedora API, 3.9" a_link_without_a_handling_is_refused_and_names_the_constraint;
};

/// Those that need content to link to.
pub const STATEMENTS: &[Statement] = statements! {
    Should "Fedora API, 3.9" a_binary_is_created_whose_content_is_elsewhere;
    Must "Fedora API, 3.9" the_handlings_that_the_server_accepts_are_advertised;
    Must "Fedora API, 3.9" the_type_of_the_link_is_the_media_type;
    Must "Fedora API, 3.9" copied_content_is_the_server_s_own;
    Must "Fedora API, 3.9.2" proxied_content_is_answered_with_200;
    Should "Fedora API, 3.9.2" proxied_content_names_its_location;
    Must "Fedora API, 3.9.2" a_redirection_is_302_or_307;
    Must "Fedora API, 3.9.2" content_elsewhere_has_the_digest_that_is_asked_for;
};

/// Creates a binary with a link whose parameters follow its relation.
async fn linked(sample: &Sample<'_>, content: &str, parameters: &str) -> Result<Answer> {
    let model = format!("<{LDP}NonRDFSource>; rel=\"type\"");
    let link = format!("<{content}>; rel=\"{EXTERNAL_CONTENT}\"{parameters}");
    sample.site.send(Method::POST, &sample.container, &[("link", &model), ("link", &link)], "").await
}

/// Creates a binary with the content that the server may link to. Returns its address.
async fn handled(sample: &Sample<'_>, handling: &str) -> Result<String> {
    let content = sample.site.external().context("no content to link to is known")?;
    let parameters = format!("; handling=\"{handling}\"; type=\"{MEDIA_TYPE}\"");
    let made = linked(sample, content, &parameters).await?;
    ensure!(made.status == StatusCode::CREATED, "{handling}: status {}: {}", made.status, made.text());
    sample.site.absolute(made.header("location").context("a new resource has no address")?)
}

/// Whether a server says that it handles content in a way.
async fn is_offered(sample: &Sample<'_>, handling: &str) -> Result<bool> {
    Ok(sample.site.send(Method::OPTIONS, &sample.container, &[], "").await?.lists(HANDLINGS, handling))
}

async fn is_refused(sample: &Sample<'_>, parameters: &str) -> Result<()> {
    let content = sample.site.external().unwrap_or("http://127.0.0.1:9/nothing");
    let answer = linked(sample, content, parameters).await?;
    ensure!(answer.status.is_client_error(), "status {}", answer.status);
    ensure!(answer.link(CONSTRAINED_BY).is_some(), "status {} names no constraint", answer.status);
    Ok(())
}

async fn a_link_with_an_unknown_handling_is_refused_and_names_the_constraint(sample: &Sample<'_>) -> Result<()> {
    is_refused(sample, "; handling=\"imagine\"").await
}

async fn a_link_without_a_handling_is_refused_and_names_the_constraint(sample: &Sample<'_>) -> Result<()> {
    is_refused(sample, "").await
}

async fn a_binary_is_created_whose_content_is_elsewhere(sample: &Sample<'_>) -> Result<()> {
    handled(sample, "proxy").await.map(|_| ())
}

async fn the_handlings_that_the_server_accepts_are_advertised(sample: &Sample<'_>) -> Result<()> {
    for handling in ["copy", "redirect", "proxy"] {
        let is_accepted = handled(sample, handling).await.is_ok();
        let is_offered = is_offered(sample, handling).await?;
        ensure!(is_accepted == is_offered, "{handling}: accepted: {is_accepted}, advertised: {is_offered}");
    }
    Ok(())
}

async fn the_type_of_the_link_is_the_media_type(sample: &Sample<'_>) -> Result<()> {
    for handling in ["copy", "proxy"] {
        let made = handled(sample, handling).await?;
        let answer = sample.site.send(Method::HEAD, &made, &[], "").await?;
        let media_type = answer.header("content-type");
        ensure!(media_type == Some(MEDIA_TYPE), "{handling}: {media_type:?}");
    }
    Ok(())
}

async fn copied_content_is_the_server_s_own(sample: &Sample<'_>) -> Result<()> {
    let answer = sample.site.get(&handled(sample, "copy").await?, &[]).await?;
    answer.expect(StatusCode::OK)?;
    ensure!(!answer.body.is_empty(), "it is empty");
    ensure!(answer.header("content-location").is_none(), "it names another location");
    Ok(())
}

async fn proxied_content_is_answered_with_200(sample: &Sample<'_>) -> Result<()> {
    let answer = sample.site.get(&handled(sample, "proxy").await?, &[]).await?;
    answer.expect(StatusCode::OK)?;
    ensure!(!answer.body.is_empty(), "it is empty");
    Ok(())
}

async fn proxied_content_names_its_location(sample: &Sample<'_>) -> Result<()> {
    let made = handled(sample, "proxy").await?;
    for method in [Method::GET, Method::HEAD] {
        let answer = sample.site.send(method.clone(), &made, &[], "").await?;
        let location = answer.header("content-location");
        ensure!(location == sample.site.external(), "{method}: {location:?}");
    }
    Ok(())
}

async fn a_redirection_is_302_or_307(sample: &Sample<'_>) -> Result<()> {
    let answer = sample.site.get(&handled(sample, "redirect").await?, &[]).await?;
    let is_redirection = [StatusCode::FOUND, StatusCode::TEMPORARY_REDIRECT].contains(&answer.status);
    ensure!(is_redirection, "status {}", answer.status);
    ensure!(answer.header("location") == sample.site.external(), "{:?}", answer.header("location"));
    Ok(())
}

async fn content_elsewhere_has_the_digest_that_is_asked_for(sample: &Sample<'_>) -> Result<()> {
    for handling in ["copy", "proxy", "redirect"] {
        let made = handled(sample, handling).await?;
        for method in [Method::GET, Method::HEAD] {
            let answer = sample.site.send(method.clone(), &made, &[("want-digest", "sha")], "").await?;
            let digest = answer.header("digest").with_context(|| format!("{handling}, {method}: no `Digest`"))?;
            ensure!(digest.starts_with("sha="), "{handling}, {method}: {digest}");
        }
    }
    Ok(())
}
