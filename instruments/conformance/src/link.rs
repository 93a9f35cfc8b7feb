//! Links in headers and in the media type `application/link-format` (RFC 8288, section 3; RFC 6690,
//! section 2).

/// A link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its target.
    pub target: String,
    parameters: Vec<(String, String)>,
}

impl Link {
    /// The links in a text. Malformed ones are left out.
    pub fn parse_all(text: &str) -> Vec<Self> {
        let mut links = Vec::new();
        let mut rest = text;
        while let Some((_, after)) = rest.split_once('<') {
            let Some((target, after)) = after.split_once('>') else { break };
            let end = end_of_link(after);
            let parameters = parameters(&after[..end]);
            links.push(Self { target: target.to_owned(), parameters });
            rest = &after[end..];
        }
        links
    }

    /// The value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether it has a relation.
    pub fn is(&self, relation: &str) -> bool {
        self.parameter("rel").is_some_and(|rel| rel.split_ascii_whitespace().any(|one| one == relation))
    }
}

/// The place of the comma that ends a link, or the end of the text.
fn end_of_link(text: &str) -> usize {
    outside_quotes(text, ',').next().unwrap_or(text.len())
}

fn parameters(text: &str) -> Vec<(String, String)> {
    let mut ends: Vec<_> = outside_quotes(text, ';').collect();
    ends.push(text.len());
    let mut begin = 0;
    let mut found = Vec::new();
    for end in ends {
        if let Some((name, value)) = text[begin..end].split_once('=') {
            found.push((name.trim().to_owned(), value.trim().trim_matches('"').to_owned()));
        }
        begin = (end + 1).min(text.len());
    }
    found
}

/// The places of a character that are not in a quoted string.
fn outside_quotes(text: &str, wanted: char) -> impl Iterator<Item = usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.char_indices().filter_map(move |(at, char)| {
        if is_escaped {
            is_escaped = false;
            return None;
        }
        match char {
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            _ => {}
        }
        (char == wanted && !is_quoted).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_and_semicolons_within_quotes_end_nothing() {
        let links = Link::parse_all(
            "<a>; rel=\"first memento\"; datetime=\"Sun, 15 Jun 2025 15:06:40 GMT\",\n<b,c>;rel=type , <d>;title=\"x; \\\"y\\\", z\"",
        );
        assert_eq!(links.iter().map(|link| link.target.as_str()).collect::<Vec<_>>(), ["a", "b,c", "d"]);
        assert_eq!(links[0].parameter("datetime"), Some("Sun, 15 Jun 2025 15:06:40 GMT"));
        assert!(links[0].is("memento") && links[0].is("first") && !links[0].is("last"));
        assert!(links[1].is("type"));
        assert_eq!(links[2].parameter("title"), Some("x; \\\"y\\\", z"));
    }
}
