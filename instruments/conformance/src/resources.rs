//! The Fedora API Specification 1.0 on the management of resources (section 3, without content
//! stored elsewhere).

use anyhow::{Context, Result, ensure};
use http::{Method, StatusCode};

use crate::sample::{BYTES, CONSTRAINED_BY, LDP, Sample, create_in};
use crate::site::Answer;
use crate::statement::{Statement, statements};

const INBOUND_REFERENCES: &str = "http://fedora.info/definitions/fcrepo#PreferInboundReferences";
const N_TRIPLES: (&str, &str) = ("accept", "application/n-triples");
const TURTLE: (&str, &str) = ("content-type", "text/turtle");
const UPDATE: (&str, &str) = ("content-type", "application/sparql-update");

/// The statements, in the order of sections.
pub const STATEMENTS: &[Statement] = statements! {
    Must "Fedora API, 3.1.1" basic_direct_and_indirect_containers_are_created;
    Must "Fedora API, 3.1.1" containment_as_a_membership_relation_is_a_conflict_or_kept_apart;
    Should "Fedora API, 3.1.2" what_is_created_as_a_non_rdf_source_is_one_whatever_its_media_type;
    Should "Fedora API, 3.2.1" references_to_a_resource_are_listed_if_the_request_prefers_it;
    Must "Fedora API, 3.2.2" an_answer_names_the_preference_that_it_applies;
    Must "Fedora API, 3.2.2" a_description_links_to_the_binary_that_it_describes;
    Must "Fedora API, 3.3" an_answer_to_head_has_no_body;
    Must "Fedora API, 3.3" an_answer_to_head_has_the_digest_of_get;
    Should "Fedora API, 3.3" an_answer_to_head_has_the_headers_of_get;
    Must "Fedora API, 3.4" every_kind_of_resource_answers_options;
    Must "Fedora API, 3.5" every_kind_of_container_takes_post;
    Must "Fedora API, 3.5" the_constraints_name_the_default_interaction_model;
    Must "Fedora API, 3.5" a_new_binary_has_a_description;
    Must "Fedora API, 3.6" a_put_with_a_type_that_is_no_subtype_is_a_conflict;
    Must "Fedora API, 3.6.1" an_rdf_source_is_changed_by_put;
    Must "Fedora API, 3.6.1" a_refused_put_says_what_is_refused_and_names_the_constraint;
    Must "Fedora API, 3.6.2" a_binary_is_replaced_by_put;
    Must "Fedora API, 3.6.2" a_put_of_bytes_with_another_digest_is_a_conflict;
    Should "Fedora API, 3.6.2" a_put_with_an_unknown_digest_algorithm_is_a_bad_request;
    Must "Fedora API, 3.7" an_rdf_source_accepts_sparql_update;
    Must "Fedora API, 3.7" a_refused_patch_says_what_is_refused_and_names_the_constraint;
    Should "Fedora API, 3.7.1" a_patch_of_containment_is_a_conflict;
    Must "Fedora API, 3.7.2" a_patch_of_the_interaction_model_is_a_conflict;
    Must "Fedora API, 3.8.1" a_deletion_that_succeeds_deletes_everything_contained;
};

/// The body of a container whose members are related to it by a predicate.
fn membership(predicate: &str) -> String {
    format!("<> <{LDP}membershipResource> <> ; <{LDP}hasMemberRelation> <{predicate}> .")
}

/// The three kinds of containers: the name of the class and a body.
fn kinds() -> [(&'static str, String); 3] {
    let direct = membership("http://purl.org/dc/terms/hasPart");
    let indirect = format!("{direct} <> <{LDP}insertedContentRelation> <http://purl.org/dc/terms/subject> .");
    [("BasicContainer", String::new()), ("DirectContainer", direct), ("IndirectContainer", indirect)]
}

/// Creates a container of a kind within the container of the sample.
async fn container(sample: &Sample<'_>, (model, body): &(&'static str, String)) -> Result<String> {
    create_in(sample.site, &sample.container, "text/turtle", body, model).await.context(*model)
}

async fn basic(sample: &Sample<'_>) -> Result<String> {
    container(sample, &kinds()[0]).await
}

async fn binary(sample: &Sample<'_>) -> Result<String> {
    create_in(sample.site, &sample.container, "text/plain", BYTES, "NonRDFSource").await
}

/// The description of a binary.
async fn description(sample: &Sample<'_>, binary: &str) -> Result<String> {
    let answer = sample.site.send(Method::HEAD, binary, &[], "").await?;
    sample.site.absolute(&answer.link("describedby").context("the binary has no link `describedby`")?)
}

/// Refuses an answer that refuses a request without an explanation.
fn explains_itself(answer: &Answer) -> Result<()> {
    ensure!(!answer.body.is_empty(), "status {} has no body that says what is refused", answer.status);
    ensure!(answer.link(CONSTRAINED_BY).is_some(), "status {} names no constraint", answer.status);
    Ok(())
}

fn type_link(model: &str) -> String {
    format!("<{LDP}{model}>; rel=\"type\"")
}

async fn basic_direct_and_indirect_containers_are_created(sample: &Sample<'_>) -> Result<()> {
    for kind in &kinds() {
        let made = sample.site.get(&container(sample, kind).await?, &[]).await?;
        ensure!(made.is_of_type(&format!("{LDP}{}", kind.0)), "it is no {}", kind.0);
    }
    Ok(())
}

async fn containment_as_a_membership_relation_is_a_conflict_or_kept_apart(sample: &Sample<'_>) -> Result<()> {
    let body = membership(&format!("{LDP}contains"));
    let link = type_link("DirectContainer");
    let made = sample.site.send(Method::POST, &sample.container, &[TURTLE, ("link", &link)], &body).await?;
    if made.status == StatusCode::CREATED {
        return Ok(());
    }
    made.expect(StatusCode::CONFLICT)?;
    explains_itself(&made)
}

async fn what_is_created_as_a_non_rdf_source_is_one_whatever_its_media_type(sample: &Sample<'_>) -> Result<()> {
    let bytes = "<> <urn:p>    1 .  # these very bytes";
    let made = create_in(sample.site, &sample.container, "text/turtle", bytes, "NonRDFSource").await?;
    let answer = sample.site.get(&made, &[]).await?;
    ensure!(answer.text() == bytes, "{}", answer.text());
    ensure!(answer.is_of_type(&format!("{LDP}NonRDFSource")), "it is no NonRDFSource");
    Ok(())
}

async fn references_to_a_resource_are_listed_if_the_request_prefers_it(sample: &Sample<'_>) -> Result<()> {
    let target = basic(sample).await?;
    let body = format!("<> <urn:refers> <{target}> .");
    let source = create_in(sample.site, &sample.container, "text/turtle", &body, "BasicContainer").await?;
    let preference = format!("return=representation; include=\"{INBOUND_REFERENCES}\"");
    let answer = sample.site.get(&target, &[N_TRIPLES, ("prefer", &preference)]).await?;
    let wanted = format!("<{source}> <urn:refers> <{target}> .");
    ensure!(answer.text().contains(&wanted), "the answer has no {wanted}");
    Ok(())
}

async fn an_answer_names_the_preference_that_it_applies(sample: &Sample<'_>) -> Result<()> {
    let preference = format!("return=representation; include=\"{LDP}PreferMinimalContainer\"");
    let answer = sample.site.get(&sample.container, &[("prefer", &preference)]).await?;
    let applied = answer.header("preference-applied").context("there is no `Preference-Applied`")?;
    ensure!(applied.starts_with("return=representation"), "{applied}");
    Ok(())
}

async fn a_description_links_to_the_binary_that_it_describes(sample: &Sample<'_>) -> Result<()> {
    let description = description(sample, &sample.binary).await?;
    let answer = sample.site.get(&description, &[]).await?;
    let target = answer.link("describes").context("there is no link `describes`")?;
    ensure!(sample.site.absolute(&target)? == sample.binary, "{target}");
    Ok(())
}

async fn an_answer_to_head_has_no_body(sample: &Sample<'_>) -> Result<()> {
    for url in [&sample.container, &sample.original, &sample.binary] {
        let answer = sample.site.send(Method::HEAD, url, &[], "").await?;
        answer.expect(StatusCode::OK)?;
        ensure!(answer.body.is_empty(), "{} bytes", answer.body.len());
    }
    Ok(())
}

async fn an_answer_to_head_has_the_digest_of_get(sample: &Sample<'_>) -> Result<()> {
    for wanted in [&[][..], &[("want-digest", "sha")], &[("want-digest", "sha-256")]] {
        let get = sample.site.get(&sample.binary, wanted).await?;
        let head = sample.site.send(Method::HEAD, &sample.binary, wanted, "").await?;
        let (get, head) = (get.header("digest"), head.header("digest"));
        ensure!(get == head, "{wanted:?}: {get:?} by GET, {head:?} by HEAD");
    }
    Ok(())
}

async fn an_answer_to_head_has_the_headers_of_get(sample: &Sample<'_>) -> Result<()> {
    // Those of this moment, and of the body (RFC 7231, section 3.3; RFC 9530, section 2), may differ.
    let of_moment = ["date", "set-cookie"];
    let of_body = ["content-digest", "content-length", "content-range", "trailer", "transfer-encoding"];
    for url in [&sample.container, &sample.original, &sample.binary] {
        let get = sample.site.get(url, &[]).await?;
        let head = sample.site.send(Method::HEAD, url, &[], "").await?;
        let may_differ = |name: &str| of_moment.contains(&name) || of_body.contains(&name);
        for name in get.headers.keys().filter(|name| !may_differ(name.as_str())) {
            ensure!(head.headers.contains_key(name), "{url}: HEAD has no `{name}`");
        }
    }
    Ok(())
}

async fn every_kind_of_resource_answers_options(sample: &Sample<'_>) -> Result<()> {
    let description = description(sample, &sample.binary).await?;
    for url in [&sample.container, &sample.original, &sample.binary, &description] {
        let answer = sample.site.send(Method::OPTIONS, url, &[], "").await?;
        ensure!(answer.status.is_success(), "{url}: status {}", answer.status);
        ensure!(answer.lists("allow", "OPTIONS"), "{url}: `Allow` has no OPTIONS");
    }
    Ok(())
}

async fn every_kind_of_container_takes_post(sample: &Sample<'_>) -> Result<()> {
    for kind in &kinds() {
        let made = container(sample, kind).await?;
        let body = format!("<> <http://purl.org/dc/terms/subject> <{}> .", sample.original);
        create_in(sample.site, &made, "text/turtle", &body, "BasicContainer").await.context(kind.0)?;
    }
    Ok(())
}

async fn the_constraints_name_the_default_interaction_model(sample: &Sample<'_>) -> Result<()> {
    let made = sample.site.send(Method::POST, &sample.container, &[TURTLE], "<> <urn:p> 1 .").await?;
    made.expect(StatusCode::CREATED)?;
    let refused = format!("INSERT {{ <> a <{LDP}NonRDFSource> }} WHERE {{}}");
    let refused = sample.site.send(Method::PATCH, &sample.container, &[UPDATE], &refused).await?;
    let constraints = made.link(CONSTRAINED_BY).or_else(|| refused.link(CONSTRAINED_BY));
    let constraints = sample.site.absolute(&constraints.context("there is no link to constraints")?)?;
    let constraints = sample.site.get(&constraints, &[]).await?;
    constraints.expect(StatusCode::OK)?;
    let location = sample.site.absolute(made.header("location").context("a new resource has no address")?)?;
    let made = sample.site.get(&location, &[]).await?;
    let models = ["BasicContainer", "RDFSource"].into_iter();
    let model = models.into_iter().find(|model| made.is_of_type(&format!("{LDP}{model}")));
    let model = model.context("what was created without a type has no interaction model")?;
    ensure!(constraints.text().contains(model), "the document of constraints does not name {model}");
    Ok(())
}

async fn a_new_binary_has_a_description(sample: &Sample<'_>) -> Result<()> {
    let description = description(sample, &binary(sample).await?).await?;
    let answer = sample.site.get(&description, &[("accept", "text/turtle")]).await?;
    answer.expect(StatusCode::OK)?;
    ensure!(answer.header("content-type").is_some_and(|it| it.starts_with("text/turtle")), "it is no Turtle");
    Ok(())
}

async fn a_put_with_a_type_that_is_no_subtype_is_a_conflict(sample: &Sample<'_>) -> Result<()> {
    let bytes = binary(sample).await?;
    let graph = basic(sample).await?;
    for (url, model) in [(&bytes, "BasicContainer"), (&graph, "NonRDFSource")] {
        let answer = sample.site.send(Method::PUT, url, &[TURTLE, ("link", &type_link(model))], "").await?;
        answer.expect(StatusCode::CONFLICT).with_context(|| format!("{model} by PUT"))?;
    }
    Ok(())
}

async fn an_rdf_source_is_changed_by_put(sample: &Sample<'_>) -> Result<()> {
    let made = basic(sample).await?;
    let answer = sample.site.send(Method::PUT, &made, &[TURTLE], "<> <urn:p> \"by PUT\" .").await?;
    ensure!(answer.status.is_success(), "status {}", answer.status);
    let answer = sample.site.get(&made, &[N_TRIPLES]).await?;
    ensure!(answer.text().contains("\"by PUT\""), "{}", answer.text());
    Ok(())
}

/// Judges the answer to a request that changes what a container contains. A server may ignore
/// such statements.
async fn containment_is_refused_with_reasons(sample: &Sample<'_>, method: Method, body: &str) -> Result<()> {
    let made = basic(sample).await?;
    let media_type = if method == Method::PUT { TURTLE } else { UPDATE };
    let answer = sample.site.send(method, &made, &[media_type], body).await?;
    if answer.status.is_success() {
        let kept = sample.site.get(&made, &[N_TRIPLES]).await?;
        ensure!(!kept.text().contains("urn:nowhere"), "it contains what was never created");
        return Ok(());
    }
    ensure!(answer.status.is_client_error(), "status {}", answer.status);
    explains_itself(&answer)
}

async fn a_refused_put_says_what_is_refused_and_names_the_constraint(sample: &Sample<'_>) -> Result<()> {
    let body = format!("<> <{LDP}contains> <urn:nowhere> .");
    containment_is_refused_with_reasons(sample, Method::PUT, &body).await
}

async fn a_binary_is_replaced_by_put(sample: &Sample<'_>) -> Result<()> {
    let made = binary(sample).await?;
    let answer = sample.site.send(Method::PUT, &made, &[("content-type", "text/plain")], "other bytes").await?;
    ensure!(answer.status.is_success(), "status {}", answer.status);
    let answer = sample.site.get(&made, &[]).await?;
    ensure!(answer.text() == "other bytes", "{}", answer.text());
    Ok(())
}

async fn put_with_digest(sample: &Sample<'_>, digest: &str) -> Result<Answer> {
    let made = binary(sample).await?;
    sample.site.send(Method::PUT, &made, &[("content-type", "text/plain"), ("digest", digest)], "other bytes").await
}

async fn a_put_of_bytes_with_another_digest_is_a_conflict(sample: &Sample<'_>) -> Result<()> {
    put_with_digest(sample, "sha=2jmj7l5rSw0yVb/vlWAYkK/YBwk=").await?.expect(StatusCode::CONFLICT)
}

async fn a_put_with_an_unknown_digest_algorithm_is_a_bad_request(sample: &Sample<'_>) -> Result<()> {
    put_with_digest(sample, "abc=abc").await?.expect(StatusCode::BAD_REQUEST)
}

async fn an_rdf_source_accepts_sparql_update(sample: &Sample<'_>) -> Result<()> {
    let made = basic(sample).await?;
    let options = sample.site.send(Method::OPTIONS, &made, &[], "").await?;
    ensure!(options.lists("accept-patch", UPDATE.1), "`Accept-Patch` has no {}", UPDATE.1);
    let update = "INSERT { <> <urn:p> \"by PATCH\" } WHERE {}";
    let answer = sample.site.send(Method::PATCH, &made, &[UPDATE], update).await?;
    ensure!(answer.status.is_success(), "status {}", answer.status);
    let answer = sample.site.get(&made, &[N_TRIPLES]).await?;
    ensure!(answer.text().contains("\"by PATCH\""), "{}", answer.text());
    Ok(())
}

async fn a_refused_patch_says_what_is_refused_and_names_the_constraint(sample: &Sample<'_>) -> Result<()> {
    let body = format!("INSERT {{ <> <{LDP}contains> <urn:nowhere> }} WHERE {{}}");
    containment_is_refused_with_reasons(sample, Method::PATCH, &body).await
}

async fn a_patch_of_containment_is_a_conflict(sample: &Sample<'_>) -> Result<()> {
    let body = format!("INSERT {{ <> <{LDP}contains> <urn:nowhere> }} WHERE {{}}");
    sample.site.send(Method::PATCH, &basic(sample).await?, &[UPDATE], &body).await?.expect(StatusCode::CONFLICT)
}

async fn a_patch_of_the_interaction_model_is_a_conflict(sample: &Sample<'_>) -> Result<()> {
    let body = format!("INSERT {{ <> a <{LDP}NonRDFSource> }} WHERE {{}}");
    sample.site.send(Method::PATCH, &basic(sample).await?, &[UPDATE], &body).await?.expect(StatusCode::CONFLICT)
}

async fn a_deletion_that_succeeds_deletes_everything_contained(sample: &Sample<'_>) -> Result<()> {
    let outer = basic(sample).await?;
    let inner = create_in(sample.site, &outer, "text/turtle", "", "BasicContainer").await?;
    let innermost = create_in(sample.site, &inner, "text/plain", BYTES, "NonRDFSource").await?;
    let answer = sample.site.send(Method::DELETE, &outer, &[], "").await?;
    ensure!([StatusCode::OK, StatusCode::NO_CONTENT].contains(&answer.status), "status {}", answer.status);
    for url in [&outer, &inner, &innermost] {
        let answer = sample.site.get(url, &[]).await?;
        let is_gone = [StatusCode::NOT_FOUND, StatusCode::GONE].contains(&answer.status);
        ensure!(is_gone, "{url} is still there: status {}", answer.status);
    }
    Ok(())
}
