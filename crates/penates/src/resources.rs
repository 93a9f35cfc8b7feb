//! Resources of the repository, named by their paths from its root.

use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

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
        let names: Vec<_> = names.map(|name| utf8_percent_encode(name, NAME).to_string()).collect();
        format!("{}/{}", self.base.trim_end_matches('/'), names.join("/"))
    }

    /// The path to request for the list of a resource's versions.
    pub fn versions(&self, resource: &str) -> String {
        format!("{}/fcr:versions", self.address(resource).trim_end_matches('/'))
    }
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
