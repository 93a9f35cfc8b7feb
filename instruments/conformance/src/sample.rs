//! The resources that are looked at: an RDF source with three states, each of another second, a
//! binary, one that is deleted, and an empty container.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::{Method, StatusCode};

use crate::link::Link;
use crate::notifications::Notifications;
use crate::site::{Answer, Site};

/// A type of Memento that asks for versions (Fedora API, section 4).
pub const VERSIONED: &str = "<http://mementoweb.org/ns#OriginalResource>; rel=\"type\"";
/// Memento's times are seconds. States that differ in them need one each, and nothing says when it
/// is over.
pub const SECOND: Duration = Duration::from_millis(1_100);
/// The namespace of LDP.
pub const LDP: &str = "http://www.w3.org/ns/ldp#";
/// The relation to a document of constraints.
pub const CONSTRAINED_BY: &str = "http://www.w3.org/ns/ldp#constrainedBy";
/// Bytes of the binary.
pub const BYTES: &str = "some bytes";

/// The resources.
pub struct Sample<'a> {
    /// The server.
    pub site: &'a Site,
    /// An RDF source that was changed twice.
    pub original: String,
    /// The list of its versions.
    pub timemap: String,
    /// Its versions, oldest first, with their times.
    pub mementos: Vec<(String, String)>,
    /// A binary with a description that was changed.
    pub binary: String,
    /// A binary that was deleted.
    pub deleted: String,
    /// A container in which statements create resources of their own.
    pub container: String,
    /// Where notifications of all this are, if that is known.
    pub notifications: Option<Notifications<'a>>,
}

impl<'a> Sample<'a> {
    /// Creates them.
    pub async fn create(site: &'a Site) -> Result<Self> {
        let notifications = match site.feed() {
            Some(feed) => Some(Notifications::begin(site, feed).await?),
            None => None,
        };
        let original = create(site, "text/turtle", &title(1), "BasicContainer").await?;
        for n in 2..=3 {
            tokio::time::sleep(SECOND).await;
            change(site, &original, &title(n)).await?;
        }
        let binary = create(site, "text/plain", BYTES, "NonRDFSource").await?;
        describe(site, &binary).await?;
        let deleted = create(site, "text/plain", BYTES, "NonRDFSource").await?;
        let answer = site.send(Method::DELETE, &deleted, &[], "").await?;
        ensure!(answer.status.is_success(), "a deletion was refused: {} {}", answer.status, answer.text());
        let container = create(site, "text/turtle", "", "BasicContainer").await?;
        let timemap = timemap_of(site, &original).await?;
        let mementos = listed_in(site, &timemap).await?;
        ensure!(mementos.len() >= 2, "three states left {} versions in {timemap}", mementos.len());
        Ok(Self { site, original, timemap, mementos, binary, deleted, container, notifications })
    }

    /// Deletes them. What a server refuses to delete stays.
    pub async fn delete(self) {
        for url in [&self.original, &self.binary, &self.container] {
            let _ = self.site.send(Method::DELETE, url, &[], "").await;
        }
    }

    /// Asks the resource for its state at a time.
    pub async fn at(&self, time: &str) -> Result<Answer> {
        self.site.get(&self.original, &[("accept-datetime", time)]).await
    }

    /// The first version.
    pub fn first(&self) -> &(String, String) {
        &self.mementos[0]
    }

    /// The last version.
    pub fn last(&self) -> &(String, String) {
        &self.mementos[self.mementos.len() - 1]
    }

    /// The address of the first version of the binary.
    pub async fn first_of_binary(&self) -> Result<String> {
        let versions = listed_in(self.site, &timemap_of(self.site, &self.binary).await?).await?;
        Ok(versions.into_iter().next().context("the binary has no version")?.0)
    }
}

/// The address of the list of a resource's versions.
pub async fn timemap_of(site: &Site, url: &str) -> Result<String> {
    let timemap = site.get(url, &[]).await?.link("timemap").with_context(|| format!("{url} has no TimeMap"))?;
    site.absolute(&timemap)
}

/// The versions in a list, oldest first, with their times.
pub async fn listed_in(site: &Site, timemap: &str) -> Result<Vec<(String, String)>> {
    let listed = site.get(timemap, &[("accept", "application/link-format")]).await?;
    let mut versions: Vec<_> = Link::parse_all(&listed.text())
        .into_iter()
        .filter(|link| link.is("memento"))
        .map(|link| (link.target.clone(), link.parameter("datetime").unwrap_or_default().to_owned()))
        .collect();
    versions.sort_by_key(|(_, time)| httpdate::parse_http_date(time).ok());
    Ok(versions)
}

/// Replaces an RDF source by PUT.
pub async fn change(site: &Site, url: &str, body: &str) -> Result<()> {
    let current = site.get(url, &[]).await?;
    let tag = current.header("etag").unwrap_or("*").trim_start_matches("W/").to_owned();
    let headers = [("content-type", "text/turtle"), ("if-match", tag.as_str())];
    let changed = site.send(Method::PUT, url, &headers, body).await?;
    ensure!(changed.status.is_success(), "a change was refused: {} {}", changed.status, changed.text());
    Ok(())
}

/// Changes the description of a binary. Fedora finds descriptions only after a change.
async fn describe(site: &Site, binary: &str) -> Result<()> {
    let answer = site.send(Method::HEAD, binary, &[], "").await?;
    let description = answer.link("describedby").context("the binary has no description")?;
    let update = "INSERT { <> <http://purl.org/dc/terms/title> \"bytes\" } WHERE {}";
    let headers = [("content-type", "application/sparql-update")];
    let changed = site.send(Method::PATCH, &description, &headers, update).await?;
    ensure!(changed.status.is_success(), "a description was not changed: {} {}", changed.status, changed.text());
    Ok(())
}

fn title(n: u32) -> String {
    format!("<> <http://purl.org/dc/terms/title> \"state {n}\" .")
}

/// Creates a resource, versioned if the server wants to be asked for that. Returns its address.
pub async fn create(site: &Site, media_type: &str, body: &str, model: &str) -> Result<String> {
    create_in(site, site.container(), media_type, body, model).await
}

/// The same in a container.
pub async fn create_in(site: &Site, container: &str, media_type: &str, body: &str, model: &str) -> Result<String> {
    let model = format!("<{LDP}{model}>; rel=\"type\"");
    let headers = [("content-type", media_type), ("link", model.as_str()), ("link", VERSIONED)];
    let mut created = site.send(Method::POST, container, &headers, body).await?;
    if created.status.is_client_error() {
        created = site.send(Method::POST, container, &headers[..2], body).await?;
    }
    ensure!(created.status == StatusCode::CREATED, "nothing was created: {} {}", created.status, created.text());
    site.absolute(created.header("location").context("a new resource has no address")?)
}
