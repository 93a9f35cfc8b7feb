//! The address of a store: `cassandra://host1,host2:9043/keyspace`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The beginning of every address.
const SCHEME: &str = "cassandra://";

/// The port of the native protocol, used if an address names none.
const PORT: u16 = 9042;

/// The longest name of a keyspace that Cassandra accepts.
const KEYSPACE_LEN_MAX: usize = 48;

/// Some nodes of a cluster, and a keyspace in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    hosts: Vec<String>,
    keyspace: String,
}

/// Why a text is not the address of a store.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not the address of a Cassandra store ({reason}): write cassandra://HOST[:PORT][,HOST…]/KEYSPACE")]
pub struct AddressError {
    text: String,
    reason: &'static str,
}

impl Address {
    /// Whether a text is meant to be the address of a Cassandra store.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// The nodes to contact first, each with its port.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// The keyspace.
    pub fn keyspace(&self) -> &str {
        &self.keyspace
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        parse(text).map_err(|reason| AddressError { text: text.to_owned(), reason })
    }
}

fn parse(text: &str) -> Result<Address, &'static str> {
    let rest = text.strip_prefix(SCHEME).ok_or("it does not begin with cassandra://")?;
    let (hosts, keyspace) = rest.split_once('/').ok_or("it names no keyspace")?;
    if hosts.contains('@') {
        return Err("user and password belong in the configuration");
    }
    let hosts = hosts.split(',').map(with_port).collect::<Result<_, _>>()?;
    check_keyspace(keyspace)?;
    Ok(Address { hosts, keyspace: keyspace.to_owned() })
}

/// Adds the default port to a host without one. An IPv6 address is in brackets.
fn with_port(host: &str) -> Result<String, &'static str> {
    let name_ends = host.rfind(']').map_or(0, |bracket| bracket + 1);
    let (name, port) = match host[name_ends..].rfind(':') {
        Some(colon) => (&host[..name_ends + colon], &host[name_ends + colon + 1..]),
        None => return if host.is_empty() { Err("a host is empty") } else { Ok(format!("{host}:{PORT}")) },
    };
    if name.is_empty() || name.contains(':') && name_ends == 0 {
        return Err("a host is not valid");
    }
    port.parse::<u16>().map_err(|_| "a port is not a number")?;
    Ok(host.to_owned())
}

/// Accepts only names that need no quotes in CQL, so that no name can mean anything else there.
fn check_keyspace(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > KEYSPACE_LEN_MAX {
        return Err("the name of the keyspace is empty or longer than 48 characters");
    }
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if !name.bytes().all(fits) || !name.as_bytes()[0].is_ascii_lowercase() {
        return Err("the name of a keyspace consists of a to z, 0 to 9 and _, and begins with a letter");
    }
    Ok(())
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.hosts.join(","), self.keyspace)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn hosts_get_the_port_that_they_do_not_name() {
        let address: Address = "cassandra://a,b:9043,[::1],[::1]:1/books_2".parse().unwrap();
        assert_eq!(address.hosts(), ["a:9042", "b:9043", "[::1]:9042", "[::1]:1"]);
        assert_eq!(address.keyspace(), "books_2");
        assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
    }

    #[test]
    fn a_text_that_is_not_an_address_is_refused_with_a_reason() {
        for (text, reason) in [
            ("data", "begin"),
            ("cassandra://a", "no keyspace"),
            ("cassandra:///k", "empty"),
            ("cassandra://a,/k", "empty"),
            ("cassandra://a:x/k", "port"),
            ("cassandra://a:99999/k", "port"),
            ("cassandra://::1/k", "is not valid"),
            ("cassandra://user:secret@a/k", "password"),
            ("cassandra://a/", "empty"),
            ("cassandra://a/Books", "a to z"),
            ("cassandra://a/k; DROP KEYSPACE k", "a to z"),
            ("cassandra://a/1k", "letter"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_folder_is_not_mistaken_for_an_address() {
        assert!(Address::is_meant("cassandra://a/k"));
        assert!(!Address::is_meant("cassandra"));
        assert!(!Address::is_meant("/var/lib/cassandra://"));
    }
}
