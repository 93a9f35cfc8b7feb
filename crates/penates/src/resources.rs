//! Resources of the repository, named by their paths from its root.

use anyhow::Context;
use clap::Args;
use http::{Method, Request, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::client::{self, Client};

/// Characters of a name that are not encoded in a path (RFC 3986, section 3.3), except `%`.
const NAME: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b'@')
    .remove(b'+')
    .remove(b'=')
    .remove(b',');

/// The relation from a container to its children.
pub const CONTAINS: &str = "<http://www.w3.org/ns/ldp#contains>";

/// Asks for the statements of clients alone.
pub const OWN_STATEMENTS: &str = "return=representation; omit=\"http://www.w3.org/ns/ldp#PreferContainment \
                                  http://www.w3.org/ns/ldp#PreferMembership \
                                  http://fedora.info/definitions/v4/repository#ServerManaged\"";

/// Asks for all statements that do not follow from the contents of a container.
const WITHOUT_CONTENTS: &str = "return=representation; omit=\"http://www.w3.org/ns/ldp#PreferContainment \
                                http://www.w3.org/ns/ldp#PreferMembership\"";

/// The class of the root of a repository, at the end of a statement.
const IS_ROOT: &str = "<http://fedora.info/definitions/v4/repository#RepositoryRoot> .";

/// Where the repository is.
#[derive(Clone, Debug, Args)]
pub struct BaseArgs {
    /// The path under which the server has its repository.
    #[arg(long, value_name = "PATH", default_value = "/rest/")]
    base: String,
}

impl BaseArgs {
    /// The path to request for a resource, given its path from the root of the repository. Slashes
    /// separate names.
    pub fn address(&self, resource: &str) -> String {
        let names = resource.split('/').filter(|name| !name.is_empty());
        let names: Vec<_> = names.map(encoded).collect();
        format!("{}/{}", self.base.trim_end_matches('/'), names.join("/"))
    }

    /// The path to request for the list of a resource's versions.
    pub fn versions(&self, resource: &str) -> String {
        format!("{}/fcr:versions", self.address(resource).trim_end_matches('/'))
    }
}

/// A name as it is in a path.
pub fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NAME).to_string()
}

/// The address that statements have for the root of the repository, with a slash at its end.
pub async fn repository(client: &Client, base: &BaseArgs) -> anyhow::Result<String> {
    let request = Request::builder().method(Method::GET).header(header::ACCEPT, "application/n-triples");
    let request = request.header("prefer", WITHOUT_CONTENTS);
    let response = client.ask(&base.address(""), request, client::empty()).await?;
    let statements = client::whole(response).await?;
    let statements = String::from_utf8_lossy(&statements);
    let root = statements.lines().find(|line| line.ends_with(IS_ROOT)).and_then(|line| line.strip_prefix('<'));
    let (root, _) = root.and_then(|line| line.split_once('>')).context("the server does not say where its root is")?;
    Ok(root.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_requested_below_the_base() {
        let base = BaseArgs { base: "/rest/".to_owned() };
        assert_eq!(base.address(""), "/rest/");
        assert_eq!(base.address("/letters/my first/"), "/rest/letters/my%20first");
        assert_eq!(base.address("100%"), "/rest/100%25");
    }
}
