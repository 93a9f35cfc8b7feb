//! Fedora Atomic Batch Operations, the specification of transactions beside the Fedora API. Its
//! statements are judged of servers that have transactions: of the root, at the address of the
//! container.

use anyhow::{Context, Result, ensure};
use http::{Method, StatusCode};

use crate::sample::Sample;
use crate::site::{Answer, Site};
use crate::statement::{Statement, statements};

const ENDPOINT: &str = "http://fedora.info/definitions/v4/transaction#endpoint";
const COMMIT_ENDPOINT: &str = "http://fedora.info/definitions/v4/transaction#commitEndpoint";
const TURTLE: (&str, &str) = ("content-type", "text/turtle");

/// The statements, in the order of sections.
pub const STATEMENTS: &[Statement] = statements! {
    Must "Atomic Operations, endpoint" the_root_links_to_the_transaction_endpoint;
    Must "Atomic Operations, begin" a_created_transaction_has_an_address_and_a_commit_endpoint;
    Must "Atomic Operations, adding" the_answer_to_a_request_in_a_transaction_names_it;
    Must "Atomic Operations, adding" what_a_request_does_is_visible_in_its_transaction;
    Should "Atomic Operations, adding" what_a_request_does_is_not_visible_outside_its_transaction;
    Must "Atomic Operations, adding" a_request_in_an_inactive_transaction_is_a_conflict_and_changes_nothing;
    Must "Atomic Operations, expiration" answers_in_a_transaction_say_when_it_expires;
    Should "Atomic Operations, expiration" a_post_to_a_transaction_extends_its_life;
    Must "Atomic Operations, commit" a_committed_transaction_is_visible_to_all;
    Must "Atomic Operations, commit" the_address_of_a_committed_transaction_is_expired;
    Must "Atomic Operations, abort" nothing_of_an_aborted_transaction_is_left;
    Must "Atomic Operations, abort" the_address_of_an_aborted_transaction_is_expired;
};

/// Whether a server says that it has transactions.
pub async fn are_offered(site: &Site) -> Result<bool> {
    Ok(endpoint(site).await?.is_some())
}

async fn endpoint(site: &Site) -> Result<Option<String>> {
    let root = site.send(Method::HEAD, site.container(), &[], "").await?;
    root.link(ENDPOINT).map(|target| site.absolute(&target)).transpose()
}

/// A transaction.
pub struct Open<'a> {
    site: &'a Site,
    address: String,
    commit: String,
    begun: Answer,
}

impl<'a> Open<'a> {
    /// Begins one.
    pub async fn begin(site: &'a Site) -> Result<Self> {
        let endpoint = endpoint(site).await?.context("the root links to no transaction endpoint")?;
        let begun = site.send(Method::POST, &endpoint, &[], "").await?;
        begun.expect(StatusCode::CREATED)?;
        let address = site.absolute(begun.header("location").context("the transaction has no address")?)?;
        let commit = begun.link(COMMIT_ENDPOINT).context("the transaction has no commit endpoint")?;
        Ok(Self { site, address, commit: site.absolute(&commit)?, begun })
    }

    /// Sends a request in it.
    pub async fn ask(&self, method: Method, url: &str, body: &str) -> Result<Answer> {
        self.site.send(method, url, &[TURTLE, ("atomic-id", &self.address)], body).await
    }

    /// Creates a resource in it; returns the answer and the address.
    async fn create(&self) -> Result<(Answer, String)> {
        let created = self.ask(Method::POST, self.site.container(), "").await?;
        created.expect(StatusCode::CREATED)?;
        let address = self.site.absolute(created.header("location").context("a new resource has no address")?)?;
        Ok((created, address))
    }

    async fn commit(&self) -> Result<()> {
        self.site.send(Method::PUT, &self.commit, &[], "").await?.expect(StatusCode::NO_CONTENT)
    }

    /// Rolls it back.
    pub async fn abort(&self) -> Result<()> {
        self.site.send(Method::DELETE, &self.address, &[], "").await?.expect(StatusCode::NO_CONTENT)
    }

    async fn is_expired(&self) -> Result<()> {
        let known = self.site.get(&self.address, &[]).await?;
        ensure!(known.status == StatusCode::GONE, "status {} of a transaction that has ended", known.status);
        Ok(())
    }
}

async fn the_root_links_to_the_transaction_endpoint(sample: &Sample<'_>) -> Result<()> {
    endpoint(sample.site).await?.context("no link").map(|_| ())
}

async fn a_created_transaction_has_an_address_and_a_commit_endpoint(sample: &Sample<'_>) -> Result<()> {
    Open::begin(sample.site).await?.abort().await
}

async fn the_answer_to_a_request_in_a_transaction_names_it(sample: &Sample<'_>) -> Result<()> {
    let open = Open::begin(sample.site).await?;
    let (created, _) = open.create().await?;
    open.abort().await?;
    let named = created.header("atomic-id");
    ensure!(named == Some(&open.address), "Atomic-ID is {named:?}");
    Ok(())
}

async fn what_a_request_does_is_visible_in_its_transaction(sample: &Sample<'_>) -> Result<()> {
    let open = Open::begin(sample.site).await?;
    let (_, address) = open.create().await?;
    let seen = open.ask(Method::HEAD, &address, "").await?;
    open.abort().await?;
    seen.expect(StatusCode::OK)
}

async fn what_a_request_does_is_not_visible_outside_its_transaction(sample: &Sample<'_>) -> Result<()> {
    let open = Open::begin(sample.site).await?;
    let (_, address) = open.create().await?;
    let seen = sample.site.get(&address, &[]).await?;
    open.abort().await?;
    seen.expect(StatusCode::NOT_FOUND)
}

async fn a_request_in_an_inactive_transaction_is_a_conflict_and_changes_nothing(sample: &Sample<'_>) -> Result<()> {
    let open = Open::begin(sample.site).await?;
    open.abort().await?;
    let refused = open.ask(Method::PUT, &sample.original, "").await?;
    refused.expect(StatusCode::CONFLICT)?;
    let current = sample.site.get(&sample.original, &[("accept", "text/turtle")]).await?;
    ensure!(current.text().contains("state 3"), "the resource was changed");
    Ok(())
}

async fn answers_in_a_transaction_say_when_it_expires(sample: &Sample<'_>) -> Result<()> {
    let open = Open::begin(sample.site).await?;
    let (created, _) = open.create().await?;
    open.abort().await?;
    for answer in [&created, &open.begun] {
        let expires = answer.header("atomic-expires").context("no Atomic-Expires")?;
        httpdate::parse_http_date(expires).with_context(|| format!("Atomic-Expires: {expires}"))?;
    }
    Ok(())
}

async fn a_post_to_a_transaction_extends_its_life(sample: &Sample<'_>) -> Result<()> {
    let open = Open::begin(sample.site).await?;
    let begun = sample.site.get(&open.address, &[]).await?;
    let renewed = sample.site.send(Method::POST, &open.address, &[], "").await?;
    open.abort().await?;
    ensure!(renewed.status.is_success(), "status {}", renewed.status);
    let time = |answer: &Answer| httpdate::parse_http_date(answer.header("atomic-expires").unwrap_or_default());
    ensure!(time(&renewed)? >= time(&begun)?, "it expires earlier");
    Ok(())
}

async fn a_committed_transaction_is_visible_to_all(sample: &Sample<'_>) -> Result<()> {
    let open = Open::begin(sample.site).await?;
    let addresses = [open.create().await?.1, open.create().await?.1];
    open.commit().await?;
    for address in &addresses {
        sample.site.get(address, &[]).await?.expect(StatusCode::OK)?;
        let _ = sample.site.send(Method::DELETE, address, &[], "").await;
    }
    Ok(())
}

async fn the_address_of_a_committed_transaction_is_expired(sample: &Sample<'_>) -> Result<()> {
    let open = Open::begin(sample.site).await?;
    open.commit().await?;
    open.is_expired().await
}

async fn nothing_of_an_aborted_transaction_is_left(sample: &Sample<'_>) -> Result<()> {
    let open = Open::begin(sample.site).await?;
    let (_, address) = open.create().await?;
    open.abort().await?;
    sample.site.get(&address, &[]).await?.expect(StatusCode::NOT_FOUND)
}

async fn the_address_of_an_aborted_transaction_is_expired(sample: &Sample<'_>) -> Result<()> {
    let open = Open::begin(sample.site).await?;
    open.abort().await?;
    open.is_expired().await
}
