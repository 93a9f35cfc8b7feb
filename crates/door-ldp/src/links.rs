//! `Link` headers (RFC 8288), and fields of headers that have quoted strings in them.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// A link that a client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its target.
    pub target: String,
    /// Its parameters, names in lower case.
    pub parameters: Vec<(String, String)>,
}

impl Link {
    /// Whether it has this relation type.
    pub fn has_rel(&self, rel: &str) -> bool {
        let rels = self.parameters.iter().filter(|(name, _)| name == "rel");
        rels.flat_map(|(_, value)| value.split_ascii_whitespace()).any(|known| known.eq_ignore_ascii_case(rel))
    }
}

/// The links of a request. Malformed ones are skipped.
pub fn of(headers: &HeaderMap) -> Vec<Link> {
    let links = values(headers, &header::LINK).into_iter();
    links.flat_map(|value| split(&value, ',').into_iter().filter_map(parse).collect::<Vec<_>>()).collect()
}

fn parse(text: &str) -> Option<Link> {
    let (target, rest) = text.trim().strip_prefix('<')?.split_once('>')?;
    let parameters = split(rest, ';').into_iter().filter_map(parameter).collect();
    Some(Link { target: target.to_owned(), parameters })
}

/// Adds a link to a response.
pub fn append(headers: &mut HeaderMap, target: &str, rel: &str) {
    append_value(headers, format!("<{target}>; rel=\"{rel}\""));
}

/// Adds a link whose context is not the requested resource (RFC 8288, section 3.2).
pub fn append_of(headers: &mut HeaderMap, anchor: &str, target: &str, rel: &str) {
    append_value(headers, format!("<{target}>; rel=\"{rel}\"; anchor=\"{anchor}\""));
}

/// Adds a link with further parameters, whose values need no quoting.
pub fn append_with(headers: &mut HeaderMap, target: &str, rel: &str, parameters: &[(&str, &str)]) {
    append_value(headers, link(target, rel, parameters));
}

/// A link, as in a header and in `application/link-format` (RFC 6690).
pub fn link(target: &str, rel: &str, parameters: &[(&str, &str)]) -> String {
    let parameters: String = parameters.iter().map(|(name, value)| format!("; {name}=\"{value}\"")).collect();
    format!("<{target}>; rel=\"{rel}\"{parameters}")
}

fn append_value(headers: &mut HeaderMap, value: String) {
    // IRIs are percent-encoded here, so it is a value.
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.append(header::LINK, value);
    }
}

/// All values of a header, in ASCII or plain UTF-8.
pub fn values(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

/// The parts of a text between separators outside of quoted strings and angle brackets.
pub fn split(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut quoted, mut bracketed, mut escaped) = (0, false, false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' if !bracketed => quoted = !quoted,
            '<' if !quoted => bracketed = true,
            '>' if !quoted => bracketed = false,
            _ if character == separator && !quoted && !bracketed => {
                parts.push(&text[start..at]);
                start = at + character.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// A parameter: its name in lower case, and its value without quotes; empty if it has none.
pub fn parameter(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let name = name.trim().to_ascii_lowercase();
    let value = value.trim();
    let unquoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    let value = unquoted.map_or_else(|| value.to_owned(), |quoted| quoted.replace("\\\"", "\"").replace("\\\\", "\\"));
    (!name.is_empty()).then_some((name, value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn links_are_separated_despite_quotes_and_brackets() {
        let mut headers = HeaderMap::new();
        let value = r#"<http://a/?x=1,2>; rel="type next"; title="a, \"b\"", <http://b>;REL=type"#;
        headers.append(header::LINK, HeaderValue::from_static(value));
        headers.append(header::LINK, HeaderValue::from_static("nonsense, <http://c>; rel=other"));
        let links = of(&headers);
        assert_eq!(
            links.iter().map(|link| &*link.target).collect::<Vec<_>>(),
            ["http://a/?x=1,2", "http://b", "http://c"]
        );
        assert_eq!(links.iter().map(|link| link.has_rel("type")).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(links[0].parameters[1], ("title".to_owned(), "a, \"b\"".to_owned()));
    }
}
