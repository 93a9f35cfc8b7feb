//! The parameters in the query of a request. Each is given once. A route of this server alone
//! refuses those that it does not have. Resources ignore them, because any client may add some to
//! an address. Only a parameter that would mean another resource is refused.

use std::borrow::Cow;

use door_http::parameters;

use crate::errors::LdpError;

/// The parameters of a request for a resource: for a page of its members, and for its archive.
pub const OF_RESOURCES: [&str; 5] = ["limit", "after", "before", "last", "depth"];

/// Refuses a request about a graph of another name than `own` (SPARQL 1.1 Graph Store Protocol,
/// section 4.2). It means another resource, and if this were ignored, a client that deletes that
/// would delete the one that it asks. The default graph is the resource.
pub fn refuse_other_graph(query: Option<&str>, own: &str) -> Result<(), LdpError> {
    let mut fields = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    match fields.any(|(name, value)| name == "graph" && value != own) {
        true => Err(LdpError::parameter("graph", format!("the only graph here is {own}"))),
        false => Ok(()),
    }
}

/// The parameters of a request.
pub struct Parameters<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Parameters<'a> {
    /// Those of a route that has `known` ones and refuses others.
    pub fn only(query: Option<&'a str>, known: &[&'static str]) -> Result<Self, LdpError> {
        Self::read(query, known, |name| {
            Err(LdpError::UnknownParameter { name: name.to_owned(), known: known.join(", ") })
        })
    }

    /// Those that are `known`. Others are ignored, unless only their spelling differs from a known
    /// one.
    pub fn among(query: Option<&'a str>, known: &[&'static str]) -> Result<Self, LdpError> {
        Self::read(query, known, |name| match parameters::misspelt(name, known) {
            Some(meant) => Err(LdpError::parameter(name, format!("it is written `{meant}`"))),
            None => Ok(()),
        })
    }

    fn read(
        query: Option<&'a str>,
        known: &[&'static str],
        check_other: impl Fn(&str) -> Result<(), LdpError>,
    ) -> Result<Self, LdpError> {
        let mut fields: Vec<(Cow<str>, Cow<str>)> = Vec::with_capacity(known.len());
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if !known.contains(&&*name) {
                check_other(&name)?;
            } else if fields.iter().any(|(other, _)| *other == name) {
                return Err(LdpError::parameter(&name, "it is given more than once"));
            } else {
                fields.push((name, value));
            }
        }
        Ok(Self(fields))
    }

    /// The value of a parameter, which may be empty.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| &**value)
    }

    /// The value of a parameter, read.
    pub fn read_as<T>(&self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, LdpError> {
        self.value(name).map(|value| read(value).map_err(|why| LdpError::parameter(name, why))).transpose()
    }

    /// A number from 1.
    pub fn number(&self, name: &str, max: usize) -> Result<Option<usize>, LdpError> {
        let within = |text: &str| text.parse().ok().filter(|number| (1..=max).contains(number));
        self.read_as(name, |text| within(text).ok_or_else(|| format!("it is a number from 1 to {max}")))
    }

    /// Whether something is so.
    pub fn truth(&self, name: &str) -> Result<Option<bool>, LdpError> {
        self.read_as(name, |text| text.parse().map_err(|_| "it is true or false".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_graph_of_another_name_is_another_resource() {
        let own = "http://localhost/rest/a";
        for query in
            [None, Some("default"), Some("graph=http://localhost/rest/a"), Some("graph=http%3A//localhost/rest/a")]
        {
            refuse_other_graph(query, own).unwrap();
        }
        for query in ["graph=http://localhost/rest/a/b", "graph", "graph=http://localhost/rest/a&graph=b"] {
            refuse_other_graph(Some(query), own).unwrap_err();
        }
    }

    #[test]
    fn a_parameter_is_given_once_and_a_misspelt_one_is_none() {
        let among = |query| Parameters::among(Some(query), &OF_RESOURCES).map(|found| found.0.len());
        assert_eq!(among("limit=5&_=1&utm_source=x&_=2").unwrap(), 1);
        for query in ["limit=5&limit=5", "Limit=5", "de-pth=2"] {
            among(query).unwrap_err();
        }
        let only = |query| Parameters::only(Some(query), &["restore", "contents"]).map(|found| found.0.len());
        assert_eq!(only("restore=&contents=true").unwrap(), 2);
        for query in ["restor=1", "restore=&restore=", "restore=&x"] {
            only(query).unwrap_err();
        }
    }
}
