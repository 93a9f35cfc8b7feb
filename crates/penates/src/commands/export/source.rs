//! What is exported: the resources of a tree, and their states.

use std::cell::Cell;
use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::TryStreamExt;
use heads::VOLUMES;
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use percent_encoding::percent_decode_str;
use preservation::about::About;
use serde::Deserialize;

use crate::client::{self, Body, Client, ClientError};
use crate::commands::history::{VersionList, versions};
use crate::commands::tree::{children, is_away, is_container};
use crate::resources::{BaseArgs, OWN_STATEMENTS, encoded, repository};

/// Namespaces of the classes that are exported. Those of Memento depend on the request.
const CLASSES: [&str; 2] = ["http://www.w3.org/ns/ldp#", "http://fedora.info/definitions/v4/repository#"];

const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// A repository that is exported.
pub struct Source<'a> {
    client: &'a Client,
    /// The address that its statements have for its root.
    repository: String,
    /// Whether it was said that deleted resources are left out.
    is_warned: Cell<bool>,
}

/// A resource of the tree.
pub struct Node {
    /// The path to request.
    pub address: String,
    /// The names in its path.
    pub names: Vec<String>,
    /// When it was deleted (RFC 3339), if it was.
    pub deleted: Option<String>,
}

/// A line of the list of what was deleted from a container.
#[derive(Deserialize)]
struct Deleted {
    name: String,
    deleted: String,
}

/// A state of a resource, as the server sends it.
pub struct State {
    /// What is said about it.
    pub about: About,
    /// The response with its bytes, and their SHA-256 if the server says it.
    pub bytes: Option<(Response<Body>, Option<[u8; 32]>)>,
    /// The response with the statements of clients.
    pub statements: Response<Body>,
}

impl<'a> Source<'a> {
    pub async fn open(client: &'a Client, base: &BaseArgs) -> anyhow::Result<Self> {
        Ok(Self { client, repository: repository(client, base).await?, is_warned: Cell::new(false) })
    }

    /// The address that its statements have for its root.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Calls `export` with each resource of a tree, a container before the resources in it. It
    /// returns a number of bytes. Returns the number of resources, and of bytes. Volumes are left
    /// out. Resources that were deleted are included if `with_deleted`.
    pub async fn each(
        &self,
        base: &BaseArgs,
        resource: &str,
        with_deleted: bool,
        mut export: impl AsyncFnMut(&Node) -> anyhow::Result<u64>,
    ) -> anyhow::Result<(u64, u64)> {
        let names = resource.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let (mut resources, mut bytes) = (0, 0);
        let mut waiting = vec![Node { address: base.address(resource), names, deleted: None }];
        while let Some(node) = waiting.pop() {
            let exported: anyhow::Result<_> =
                async { Ok((self.is_container(&node).await?, export(&node).await?)) }.await;
            // It was deleted since it was listed. Only then may what is in it be left out too.
            if resources > 0 && exported.as_ref().is_err_and(is_gone) && self.is_away(&node).await? {
                continue;
            }
            let (is_container, len_bytes) = exported.with_context(|| format!("/{}", node.names.join("/")))?;
            resources += 1;
            bytes += len_bytes;
            let is_volumes = node.names.len() == 1 && node.names[0] == VOLUMES;
            if !is_container || is_volumes {
                continue;
            }
            let present = match node.deleted {
                None => match children(self.client, &node.address).await {
                    // It was deleted since it was exported.
                    Err(error) if is_away(&error) => Vec::new(),
                    present => present?,
                },
                Some(_) => Vec::new(),
            };
            if with_deleted {
                waiting.extend(self.deleted_from(&node).await?);
            }
            for child in present {
                let name = child.rsplit('/').next().unwrap_or_default();
                let name = percent_decode_str(name).decode_utf8().context("a name of a resource")?.into_owned();
                if node.names.is_empty() && name == VOLUMES {
                    continue;
                }
                let names = node.names.iter().cloned().chain([name]).collect();
                waiting.push(Node { address: child, names, deleted: None });
            }
        }
        Ok((resources, bytes))
    }

    /// Whether a resource is still deleted.
    pub async fn is_away(&self, node: &Node) -> anyhow::Result<bool> {
        match is_container(self.client, &node.address).await {
            Err(error) if is_away(&error) => Ok(true),
            there => Ok(there.map(|_| false)?),
        }
    }

    /// Whether a resource is a container, or was one when it was deleted.
    async fn is_container(&self, node: &Node) -> anyhow::Result<bool> {
        if node.deleted.is_none() {
            return Ok(is_container(self.client, &node.address).await?);
        }
        let VersionList { versions, .. } = self.versions(node).await?.unwrap_or_default();
        let Some((last, _)) = versions.last() else { return Ok(false) };
        Ok(is_container(self.client, &version_address(node, last)).await?)
    }

    /// What was deleted from a container and is not there again.
    async fn deleted_from(&self, node: &Node) -> anyhow::Result<Vec<Node>> {
        let list = format!("{}/fcr:versions?members=deleted", node.address.trim_end_matches('/'));
        let lines = match self.client.get_lines(&list, "application/x-ndjson").await {
            // Its name was freed meanwhile.
            Err(error) if error.status() == Some(StatusCode::GONE) => return Ok(Vec::new()),
            // The server keeps no versions, shows none of what is deleted, or has no such list.
            Err(error) if matches!(error.status(), Some(StatusCode::NOT_FOUND | StatusCode::NOT_ACCEPTABLE)) => {
                if self.versions(node).await.is_ok_and(|versions| versions.is_some()) && !self.is_warned.replace(true) {
                    note!("the server does not list what was deleted (ldp.deleted_versions): it is not exported");
                }
                return Ok(Vec::new());
            }
            lines => lines?,
        };
        let mut lines = std::pin::pin!(lines);
        // A name may be listed several times.
        let mut found = BTreeMap::new();
        while let Some(line) = lines.try_next().await? {
            let Deleted { name, deleted } = serde_json::from_str(&line).context("what was deleted")?;
            found.insert(name, deleted);
        }
        let deleted = found.into_iter().map(|(name, deleted)| {
            let address = format!("{}/{}", node.address.trim_end_matches('/'), encoded(&name));
            let names = node.names.iter().cloned().chain([name]).collect();
            Node { address, names, deleted: Some(deleted) }
        });
        Ok(deleted.collect())
    }

    /// The versions of a resource; `None` if the server keeps none.
    pub async fn versions(&self, node: &Node) -> anyhow::Result<Option<VersionList>> {
        Ok(versions(self.client, &node.address).await?)
    }

    /// The state of a resource at its address, or at that of a version.
    pub async fn state(&self, node: &Node, version: Option<&str>) -> anyhow::Result<State> {
        let address = match version {
            Some(version) => version_address(node, version),
            None => node.address.clone(),
        };
        // A redirection is one to bytes that are stored elsewhere. They are not fetched.
        let request = Request::builder().method(Method::GET).header(header::ACCEPT, "application/n-triples, */*;q=0.9");
        let response = self.client.send(&address, request.header("prefer", OWN_STATEMENTS), client::empty()).await?;
        if !response.status().is_success() && !response.status().is_redirection() {
            return Err(ClientError::of_response(response).await.into());
        }
        let headers = response.headers();
        let types = linked(headers, "type").filter(|class| CLASSES.iter().any(|known| class.starts_with(known)));
        let mut about = About {
            repository: self.repository.clone(),
            path: node.names.join("/"),
            types: types.map(str::to_owned).collect(),
            content_type: None,
            content_disposition: text(headers, header::CONTENT_DISPOSITION),
            last_modified: text(headers, header::LAST_MODIFIED),
            stored_at: text(headers, header::LOCATION),
            handling: None,
        };
        if !about.is_binary() {
            return Ok(State { about, bytes: None, statements: response });
        }
        about.content_type = text(headers, header::CONTENT_TYPE);
        let description = linked(headers, "describedby").next().context("the bytes have no description")?;
        // The server's own name does not matter: the path is enough.
        let path = description.splitn(4, '/').nth(3).map(|path| format!("/{path}")).unwrap_or_default();
        let request = Request::builder().method(Method::GET).header(header::ACCEPT, "application/n-triples");
        let request = request.header("prefer", OWN_STATEMENTS);
        let statements = self.client.ask(self.client.relative(&path), request, client::empty()).await?;
        let bytes = about.has_bytes().then(|| {
            let sha256 = text(response.headers(), REPR_DIGEST).as_deref().and_then(sha256);
            (response, sha256)
        });
        Ok(State { about, bytes, statements })
    }
}

fn version_address(node: &Node, version: &str) -> String {
    format!("{}/fcr:versions/{version}", node.address.trim_end_matches('/'))
}

/// Whether an error says that something was deleted, or is not there.
pub fn is_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(is_away)
}

/// Writes a response with `write`. Returns its length.
pub async fn received<E: Into<anyhow::Error>>(
    response: Response<Body>,
    mut write: impl FnMut(&[u8]) -> Result<(), E>,
) -> anyhow::Result<u64> {
    let (mut body, mut len_bytes) = (response.into_body(), 0);
    while let Some(frame) = body.frame().await {
        if let Ok(piece) = frame.map_err(|error| ClientError::Broken(error.into()))?.into_data() {
            write(&piece).map_err(Into::into)?;
            len_bytes += piece.len() as u64;
        }
    }
    Ok(len_bytes)
}

/// Refuses bytes that are not those that the server promised.
pub fn compare(promised: Option<[u8; 32]>, received: [u8; 32]) -> anyhow::Result<()> {
    ensure!(promised.is_none_or(|promised| promised == received), "its bytes have another digest");
    Ok(())
}

/// The SHA-256 in a `Repr-Digest` (RFC 9530, section 3).
fn sha256(value: &str) -> Option<[u8; 32]> {
    let value = value.split(',').find_map(|field| field.trim().strip_prefix("sha-256=:")?.strip_suffix(':'))?;
    BASE64.decode(value).ok()?.try_into().ok()
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    Some(String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned())
}

/// The targets of links with a relation.
fn linked<'a>(headers: &'a HeaderMap, relation: &'a str) -> impl Iterator<Item = &'a str> {
    let links = headers.get_all(header::LINK).iter().filter_map(|link| link.to_str().ok());
    links.filter_map(move |link| {
        let (target, parameters) = link.strip_prefix('<')?.split_once('>')?;
        parameters.contains(&format!("rel=\"{relation}\"")).then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_a_representation_is_read() {
        let header = "sha-512=:AA==:, sha-256=:mOpuTyFvL7S2n/+bOkSELDhobKaF8/VdxIxdP7EQe+Q=:";
        assert_eq!(sha256(header).map(|digest| digest[0]), Some(0x98));
        assert_eq!(sha256("sha-256=:AA==:"), None);
    }
}
