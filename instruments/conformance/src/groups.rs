//! Archival groups, as the documentation of Fedora 6 describes them: containers that are stored as
//! one object with all that is in them ("Fedora OCFL Object Structure"), and the notes of the
//! changes that brought them, their locks and the rule about their tombstones.

use anyhow::{Context, Result, ensure};
use http::{Method, StatusCode};

use crate::link::Link;
use crate::sample::{BYTES, LDP, SECOND, Sample, create_in};
use crate::site::{Answer, Site};
use crate::statement::{Statement, statements};
use crate::transactions::Open;

const GROUP: &str = "http://fedora.info/definitions/v4/repository#ArchivalGroup";
const TURTLE: (&str, &str) = ("content-type", "text/turtle");
const TITLED: &str = "<> <http://purl.org/dc/terms/title> \"changed\" .";

/// The statements.
pub const STATEMENTS: &[Statement] = statements! {
    Must "Fedora 6, archival groups" a_container_is_created_as_an_archival_group_if_a_link_says_so;
    Must "Fedora 6, archival groups" an_archival_group_names_its_type_in_its_links;
    Must "Fedora 6, archival groups" an_archival_group_contains_containers_and_binaries_at_any_depth;
    Must "Fedora 6, archival groups" an_archival_group_within_another_one_is_a_conflict;
    Must "Fedora 6, archival groups" bytes_are_not_created_as_an_archival_group;
    Must "Fedora 6, archival groups" a_container_that_is_no_archival_group_does_not_become_one;
    Must "Fedora 6, archival groups" an_archival_group_that_is_changed_remains_one;
    Must "Fedora 6, archival groups" a_change_in_an_archival_group_is_a_version_of_the_group;
    Must "Fedora 6, archival groups" a_version_of_an_archival_group_lists_what_was_in_it_then;
    Should "Fedora 6.5, archival groups" a_tombstone_in_an_archival_group_is_not_deleted;
};

/// Those about servers that have transactions.
pub const IN_TRANSACTIONS: &[Statement] = statements! {
    Must "Fedora 6, archival groups" two_transactions_do_not_change_the_same_archival_group;
    Must "Fedora 6, archival groups" a_request_without_a_transaction_changes_nothing_in_an_archival_group_that_one_holds;
    Must "Fedora 6, archival groups" an_archival_group_in_which_a_transaction_changes_something_is_not_deleted;
};

/// An archival group with a part.
struct Group<'a> {
    site: &'a Site,
    address: String,
    part: String,
}

impl<'a> Group<'a> {
    async fn create(site: &'a Site) -> Result<Self> {
        let created = ask_for_group(site, Method::POST, site.container(), "BasicContainer").await?;
        created.expect(StatusCode::CREATED)?;
        let address = site.absolute(created.header("location").context("a group has no address")?)?;
        let part = create_in(site, &address, "text/turtle", "", "BasicContainer").await?;
        Ok(Self { site, address, part })
    }

    async fn change_part(&self) -> Result<Answer> {
        self.site.send(Method::PUT, &self.part, &[TURTLE], TITLED).await
    }

    async fn delete(self) {
        let _ = self.site.send(Method::DELETE, &self.address, &[], "").await;
    }

    /// The addresses of its versions, oldest first.
    async fn versions(&self) -> Result<Vec<String>> {
        let timemap = self.site.get(&self.address, &[]).await?.link("timemap").context("the group has no TimeMap")?;
        let listed = self.site.get(&timemap, &[("accept", "application/link-format")]).await?;
        let mut versions: Vec<_> =
            Link::parse_all(&listed.text()).into_iter().filter(|link| link.is("memento")).collect();
        versions.sort_by_key(|link| httpdate::parse_http_date(link.parameter("datetime").unwrap_or_default()).ok());
        Ok(versions.into_iter().map(|link| link.target).collect())
    }
}

/// Requests a group that is of another type of LDP too.
async fn ask_for_group(site: &Site, method: Method, at: &str, model: &str) -> Result<Answer> {
    let (group, model) = (format!("<{GROUP}>; rel=\"type\""), format!("<{LDP}{model}>; rel=\"type\""));
    let (media_type, body) = if model.contains("NonRDFSource") { ("text/plain", BYTES) } else { ("text/turtle", "") };
    let headers = [("content-type", media_type), ("link", group.as_str()), ("link", model.as_str())];
    site.send(method, at, &headers, body).await
}

async fn is_group(site: &Site, address: &str) -> Result<bool> {
    Ok(site.send(Method::HEAD, address, &[], "").await?.is_of_type(GROUP))
}

async fn a_container_is_created_as_an_archival_group_if_a_link_says_so(sample: &Sample<'_>) -> Result<()> {
    Group::create(sample.site).await?.delete().await;
    Ok(())
}

async fn an_archival_group_names_its_type_in_its_links(sample: &Sample<'_>) -> Result<()> {
    let group = Group::create(sample.site).await?;
    let (of_group, of_part) = (is_group(sample.site, &group.address).await?, is_group(sample.site, &group.part).await?);
    group.delete().await;
    ensure!(of_group, "it is none");
    ensure!(!of_part, "what is in it is one too");
    Ok(())
}

async fn an_archival_group_contains_containers_and_binaries_at_any_depth(sample: &Sample<'_>) -> Result<()> {
    let group = Group::create(sample.site).await?;
    let inner = create_in(sample.site, &group.part, "text/turtle", "", "BasicContainer").await?;
    let binary = create_in(sample.site, &inner, "text/plain", BYTES, "NonRDFSource").await?;
    let read = sample.site.get(&binary, &[]).await?;
    group.delete().await;
    read.expect(StatusCode::OK)?;
    ensure!(read.text() == BYTES, "other bytes: {}", read.text());
    Ok(())
}

async fn an_archival_group_within_another_one_is_a_conflict(sample: &Sample<'_>) -> Result<()> {
    let group = Group::create(sample.site).await?;
    let inner = format!("{}/inner", group.part);
    let mut refused = Vec::new();
    for (method, at) in [(Method::POST, &group.address), (Method::POST, &group.part), (Method::PUT, &inner)] {
        refused.push(ask_for_group(sample.site, method, at, "BasicContainer").await?);
    }
    group.delete().await;
    refused.iter().try_for_each(|answer| answer.expect(StatusCode::CONFLICT))
}

async fn bytes_are_not_created_as_an_archival_group(sample: &Sample<'_>) -> Result<()> {
    let refused = ask_for_group(sample.site, Method::POST, sample.site.container(), "NonRDFSource").await?;
    ensure!(refused.status.is_client_error(), "status {}", refused.status);
    Ok(())
}

async fn a_container_that_is_no_archival_group_does_not_become_one(sample: &Sample<'_>) -> Result<()> {
    // Whether the request is refused or the type is ignored is not said.
    ask_for_group(sample.site, Method::PUT, &sample.container, "BasicContainer").await?;
    ensure!(!is_group(sample.site, &sample.container).await?, "it is one now");
    Ok(())
}

async fn an_archival_group_that_is_changed_remains_one(sample: &Sample<'_>) -> Result<()> {
    let group = Group::create(sample.site).await?;
    let changed = sample.site.send(Method::PUT, &group.address, &[TURTLE], TITLED).await?;
    let remains = is_group(sample.site, &group.address).await?;
    group.delete().await;
    ensure!(changed.status.is_success(), "status {}", changed.status);
    ensure!(remains, "it is none any more");
    Ok(())
}

async fn a_change_in_an_archival_group_is_a_version_of_the_group(sample: &Sample<'_>) -> Result<()> {
    let group = Group::create(sample.site).await?;
    let before = group.versions().await?;
    tokio::time::sleep(SECOND).await;
    let changed = group.change_part().await?;
    let after = group.versions().await?;
    group.delete().await;
    ensure!(changed.status.is_success(), "status {}", changed.status);
    ensure!(after.len() == before.len() + 1, "{} versions, and {} before", after.len(), before.len());
    Ok(())
}

async fn a_version_of_an_archival_group_lists_what_was_in_it_then(sample: &Sample<'_>) -> Result<()> {
    let group = Group::create(sample.site).await?;
    tokio::time::sleep(SECOND).await;
    let changed = sample.site.send(Method::PUT, &group.address, &[TURTLE], TITLED).await?;
    ensure!(changed.status.is_success(), "status {}", changed.status);
    tokio::time::sleep(SECOND).await;
    let later = create_in(sample.site, &group.address, "text/turtle", "", "BasicContainer").await?;
    let versions = group.versions().await?;
    // The change of the group is the last version but that which a later part may have made.
    let mut of_change = None;
    for version in versions.iter().rev() {
        let read = sample.site.get(version, &[("accept", "application/n-triples")]).await?;
        if read.text().contains("\"changed\"") && !read.text().contains(&later) {
            of_change = Some(read.text());
            break;
        }
    }
    let part = group.part.clone();
    group.delete().await;
    let of_change = of_change.context("each version with the change lists what came later")?;
    ensure!(of_change.contains(&part), "it does not list what was in the group: {of_change}");
    Ok(())
}

async fn a_tombstone_in_an_archival_group_is_not_deleted(sample: &Sample<'_>) -> Result<()> {
    let group = Group::create(sample.site).await?;
    let deleted = sample.site.send(Method::DELETE, &group.part, &[], "").await?;
    let gone = sample.site.get(&group.part, &[]).await?;
    let tombstone = gone.link("hasTombstone").unwrap_or_else(|| format!("{}/fcr:tombstone", group.part));
    let answer = sample.site.send(Method::DELETE, &tombstone, &[], "").await?;
    group.delete().await;
    ensure!(deleted.status.is_success(), "status {} of the deletion", deleted.status);
    answer.expect(StatusCode::METHOD_NOT_ALLOWED)
}

/// Changes a part of a group in a transaction, and sends a request about the group meanwhile.
async fn while_one_changes_it(
    sample: &Sample<'_>,
    request: impl AsyncFnOnce(&Group<'_>) -> Result<Answer>,
) -> Result<Answer> {
    let group = Group::create(sample.site).await?;
    let open = Open::begin(sample.site).await?;
    let changed = open.ask(Method::PUT, &group.part, TITLED).await?;
    let meanwhile = request(&group).await;
    open.abort().await?;
    group.delete().await;
    ensure!(changed.status.is_success(), "status {} in the transaction", changed.status);
    meanwhile
}

async fn two_transactions_do_not_change_the_same_archival_group(sample: &Sample<'_>) -> Result<()> {
    let refused = while_one_changes_it(sample, async |group| {
        let other = Open::begin(sample.site).await?;
        let refused = other.ask(Method::POST, &group.address, "").await;
        let _ = other.abort().await;
        refused
    });
    refused.await?.expect(StatusCode::CONFLICT)
}

async fn a_request_without_a_transaction_changes_nothing_in_an_archival_group_that_one_holds(
    sample: &Sample<'_>,
) -> Result<()> {
    let created =
        while_one_changes_it(sample, async |group| sample.site.send(Method::POST, &group.address, &[TURTLE], "").await);
    created.await?.expect(StatusCode::CONFLICT)
}

async fn an_archival_group_in_which_a_transaction_changes_something_is_not_deleted(sample: &Sample<'_>) -> Result<()> {
    let deleted =
        while_one_changes_it(sample, async |group| sample.site.send(Method::DELETE, &group.address, &[], "").await);
    deleted.await?.expect(StatusCode::CONFLICT)
}
