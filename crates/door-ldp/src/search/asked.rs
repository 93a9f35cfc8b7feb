//! What a request searches for.

use form_urlencoded::{Serializer, parse};
use search::{Comparison, Condition, Field, Query};

use super::condition;
use crate::address::Site;
use crate::errors::LdpError;
use crate::settings::SearchSettings;

pub use super::condition::Output;

/// Results of a page, if the request does not say.
const RESULTS: usize = 100;

/// The most results that are left out at the beginning. All of them have to be found first.
const OFFSET_MAX: usize = 10_000;

/// The most conditions.
const CONDITIONS_MAX: usize = 32;

/// The parameters that are given once. Each of the others is one more condition.
const ONCE: [&str; 7] =
    ["offset", "cursor", "fields", "order_by", "order", "max_results", "include_total_result_count"];

/// The parameters that the form of the page has for a field and an operator.
const SHORT: [(&str, Output, Comparison); 10] = [
    ("fedora_id", Output::FedoraId, Comparison::Equal),
    ("rdf_type", Output::RdfType, Comparison::Equal),
    ("mime_type", Output::MimeType, Comparison::Equal),
    ("created_from", Output::Created, Comparison::GreaterOrEqual),
    ("created_to", Output::Created, Comparison::LessOrEqual),
    ("modified_from", Output::Modified, Comparison::GreaterOrEqual),
    ("modified_to", Output::Modified, Comparison::LessOrEqual),
    ("size_from", Output::ContentSize, Comparison::GreaterOrEqual),
    ("size_to", Output::ContentSize, Comparison::LessOrEqual),
    ("content_size", Output::ContentSize, Comparison::Equal),
];

/// A search, as it was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The search.
    pub query: Query,
    /// The fields of each result.
    pub fields: Vec<Output>,
    /// Whether the request asked for anything.
    pub is_search: bool,
    /// Where the page begins, as the link `next` of another page says; `None`: at the beginning.
    pub cursor: Option<String>,
    /// The parameters, without those that say where a page begins.
    parameters: Vec<(String, String)>,
}

fn refused(why: impl Into<String>) -> LdpError {
    LdpError::Search(why.into())
}

impl Asked {
    /// From the query of a request.
    pub fn parse(query: &str, site: &Site, settings: &SearchSettings) -> Result<Self, LdpError> {
        let mut asked = Self {
            query: Query::all(RESULTS.min(settings.results_max)),
            fields: Output::ALL.to_vec(),
            is_search: false,
            cursor: None,
            parameters: Vec::new(),
        };
        let mut given = [false; ONCE.len()];
        for (name, value) in parse(query.as_bytes()) {
            // Fields of a form that were left empty.
            if value.is_empty() && name != "condition" {
                continue;
            }
            asked.is_search = true;
            if let Some(at) = ONCE.iter().position(|once| *once == name)
                && std::mem::replace(&mut given[at], true)
            {
                return Err(refused(format!("`{name}` is given more than once")));
            }
            match &*name {
                "offset" => asked.query.offset = offset(&value)?,
                "cursor" => asked.cursor = Some(value.into_owned()),
                name => {
                    asked.take(name, &value, site, settings)?;
                    asked.parameters.push((name.to_owned(), value.into_owned()));
                }
            }
        }
        // The first page counts all of them. Behind it there are only the rest.
        asked.query.counts &= asked.cursor.is_none();
        Ok(asked)
    }

    fn take(&mut self, name: &str, value: &str, site: &Site, settings: &SearchSettings) -> Result<(), LdpError> {
        let short = SHORT.iter().find(|(short, ..)| *short == name);
        match name {
            "condition" => self.add(condition::parse(value, site))?,
            "fields" => self.fields = fields(value)?,
            "order_by" => self.query.order_by = Some(order_by(value)?),
            "order" => self.query.is_descending = is_descending(value)?,
            "max_results" => self.query.max = max_results(value)?.min(settings.results_max),
            "include_total_result_count" => self.query.counts = counts(value)?,
            _ => match short {
                Some((_, field, comparison)) => self.add(condition::of_form(*field, *comparison, value, site))?,
                None => {
                    let known = ["condition"].into_iter().chain(ONCE).chain(SHORT.map(|(short, ..)| short));
                    let known = known.collect::<Vec<_>>().join(", ");
                    let name = condition::shortened(name);
                    return Err(refused(format!("the search has no parameter `{name}`; there are {known}")));
                }
            },
        }
        Ok(())
    }

    fn add(&mut self, condition: Result<Condition, String>) -> Result<(), LdpError> {
        self.query.conditions.push(condition.map_err(refused)?);
        match self.query.conditions.len() {
            0..=CONDITIONS_MAX => Ok(()),
            _ => Err(refused(format!("a search has at most {CONDITIONS_MAX} conditions"))),
        }
    }

    /// The query of the page that begins at a cursor.
    pub fn next(&self, cursor: &str, offset_left: usize) -> String {
        let mut next = Serializer::new(String::new());
        next.extend_pairs(&self.parameters);
        next.append_pair("cursor", cursor);
        if offset_left > 0 {
            next.append_pair("offset", &offset_left.to_string());
        }
        next.finish()
    }

    /// The query of the first page of the same search with another value of a parameter.
    pub fn with(&self, name: &str, value: &str) -> String {
        let others = self.parameters.iter().filter(|(known, _)| known != name);
        Serializer::new(String::new()).extend_pairs(others).append_pair(name, value).finish()
    }

    /// The value of a parameter, for the form of the page.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

fn number(name: &str, value: &str) -> Result<usize, LdpError> {
    value.parse().map_err(|_| refused(format!("`{name}` is a number that is not negative")))
}

fn offset(value: &str) -> Result<usize, LdpError> {
    let offset = number("offset", value)?;
    if offset > OFFSET_MAX {
        let why = format!("`offset` is at most {OFFSET_MAX}; to go further, follow the link `next` of each page");
        return Err(refused(why));
    }
    Ok(offset)
}

fn max_results(value: &str) -> Result<usize, LdpError> {
    number("max_results", value)
}

fn fields(value: &str) -> Result<Vec<Output>, LdpError> {
    if value.trim() == "*" {
        return Ok(Output::ALL.to_vec());
    }
    let mut fields = Vec::new();
    for name in value.split(',') {
        let field = Output::parse(name.trim()).map_err(refused)?;
        if !fields.contains(&field) {
            fields.push(field);
        }
    }
    Ok(fields)
}

fn order_by(value: &str) -> Result<Field, LdpError> {
    Ok(match Output::parse(value).map_err(refused)? {
        Output::FedoraId => Field::Path,
        Output::Created => Field::Created,
        Output::Modified => Field::Modified,
        Output::ContentSize => Field::Size,
        Output::MimeType => Field::MediaType,
        Output::RdfType => {
            return Err(refused("a resource has several types, so results are not ordered by `rdf_type`"));
        }
    })
}

fn is_descending(value: &str) -> Result<bool, LdpError> {
    match value {
        _ if value.eq_ignore_ascii_case("asc") => Ok(false),
        _ if value.eq_ignore_ascii_case("desc") => Ok(true),
        _ => Err(refused("`order` is asc or desc")),
    }
}

fn counts(value: &str) -> Result<bool, LdpError> {
    let why = |_| refused("`include_total_result_count` is true or false");
    value.to_ascii_lowercase().parse().map_err(why)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::{Extensions, HeaderMap, header};

    use super::*;
    use crate::settings::LdpSettings;

    fn asked(query: &str) -> Result<Asked, LdpError> {
        let headers = HeaderMap::from_iter([(header::HOST, "a.example".parse().unwrap())]);
        let site = Site::of(&LdpSettings::default(), &"/rest/".parse().unwrap(), &headers, &Extensions::new()).unwrap();
        Asked::parse(query, &site, &SearchSettings::default())
    }

    #[test]
    fn without_parameters_there_are_a_hundred_results_with_all_fields() {
        let asked = asked("").unwrap();
        assert_eq!((asked.query.max, asked.fields.len(), asked.is_search), (100, 6, false));
    }

    #[test]
    fn malformed_parameters_are_refused() {
        for query in [
            "offset=-1",
            "offset=10001",
            "max_results=-1",
            "max_results=many",
            "order=sideways",
            "order=asc&order=asc",
            "offset=1&condition=content_size%3E1&offset=2",
            "include_total_result_count=yes",
            "order_by=colour",
            "order_by=rdf_type",
            "fields=fedora_id,colour",
            "fields=,",
            "condition=",
            "conditions=fedora_id%3Da",
        ] {
            asked(query).expect_err(query);
        }
        let many = "condition=content_size%3E1&".repeat(33);
        asked(&many).unwrap_err();
        assert_eq!(asked(&many[..many.len() / 33 * 32]).unwrap().query.conditions.len(), 32);
        assert_eq!(asked("max_results=5000").unwrap().query.max, 1_000);
    }

    #[test]
    fn a_day_that_the_form_names_as_the_last_one_is_included() {
        let (begins, ends) = (1_767_225_600_000, 1_767_311_999_999);
        for (query, condition) in [
            ("modified_to=2026-01-01", Condition::Modified(Comparison::LessOrEqual, ends)),
            ("created_to=2026-01-01", Condition::Created(Comparison::LessOrEqual, ends)),
            ("modified_from=2026-01-01", Condition::Modified(Comparison::GreaterOrEqual, begins)),
            ("modified_to=2026-01-01T00:00:00Z", Condition::Modified(Comparison::LessOrEqual, begins)),
            ("created_to=1960-01-01", Condition::Created(Comparison::LessOrEqual, 0)),
            // Fedora's parameter means the beginning.
            ("condition=modified%3C%3D2026-01-01", Condition::Modified(Comparison::LessOrEqual, begins)),
        ] {
            assert_eq!(asked(query).unwrap().query.conditions, [condition], "{query}");
        }
    }

    #[test]
    fn the_fields_of_the_form_are_conditions_and_empty_ones_are_none() {
        let asked = asked("fedora_id=a*&rdf_type=&modified_from=2026-01-01&size_to=5&order=desc").unwrap();
        assert_eq!(asked.query.conditions.len(), 3);
        assert!(asked.query.is_descending);
        assert_eq!(asked.parameter("fedora_id"), Some("a*"));
    }
}
