//! The syntax of `Forwarded` (RFC 7239, section 4).

/// What one proxy says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    /// `for`: where it got the request from.
    pub(super) node: Option<String>,
    /// `proto`: the scheme of that request.
    pub(super) proto: Option<String>,
    /// `host`: its host.
    pub(super) host: Option<String>,
}

/// The elements of a line, in order; `None` if it is malformed. A client that sends half a quoted
/// string makes the line malformed, and so gains nothing.
pub(super) fn elements(line: &str) -> Option<Vec<Element>> {
    let mut elements = Vec::new();
    let mut element = None;
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (pair, after) = pair(rest)?;
        if let Some((name, value)) = pair {
            element.get_or_insert_with(Element::default).set(name, value)?;
        }
        let after = after.trim_start();
        rest = match after.chars().next() {
            Some(';') => &after[1..],
            Some(',') => {
                elements.extend(element.take());
                &after[1..]
            }
            Some(_) => return None,
            None => "",
        };
        rest = rest.trim_start();
    }
    elements.extend(element);
    Some(elements)
}

type Pair<'l> = (&'l str, String);

/// A pair, if there is one before the next separator, and what follows it.
fn pair(text: &str) -> Option<(Option<Pair<'_>>, &str)> {
    if text.starts_with([';', ',']) {
        return Some((None, text));
    }
    let (name, value) = text.split_once('=')?;
    let is_name =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~!#$&'*+^`|%".contains(&byte));
    if !is_name {
        return None;
    }
    let (value, after) = match value.strip_prefix('"') {
        Some(quoted) => unquoted(quoted)?,
        None => plain(value)?,
    };
    Some((Some((name, value)), after))
}

/// A value without quotes. Ports and addresses in brackets should have quotes, but not every proxy
/// writes them.
fn plain(text: &str) -> Option<(String, &str)> {
    let end = text.find(|character: char| ";,\"= \t".contains(character)).unwrap_or(text.len());
    let (value, after) = text.split_at(end);
    (!value.is_empty()).then(|| (value.to_owned(), after))
}

/// The rest of a quoted string (RFC 9110, section 5.6.4), and what follows it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            _ => value.push(character),
        }
    }
    None
}

impl Element {
    /// Sets a parameter, which an element has at most once. There may be unknown ones.
    fn set(&mut self, name: &str, value: String) -> Option<()> {
        let parameter = match () {
            () if name.eq_ignore_ascii_case("for") => &mut self.node,
            () if name.eq_ignore_ascii_case("proto") => &mut self.proto,
            () if name.eq_ignore_ascii_case("host") => &mut self.host,
            () => return Some(()),
        };
        parameter.replace(value).is_none().then_some(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_element_says_where_from_how_and_to_which_host() {
        let line =
            r#"for="[2001:db8::17]:4711";PROTO=https;by=203.0.113.43;host="books.example.org:8443", For=192.0.2.9"#;
        let first = Element {
            node: Some("[2001:db8::17]:4711".to_owned()),
            proto: Some("https".to_owned()),
            host: Some("books.example.org:8443".to_owned()),
        };
        let second = Element { node: Some("192.0.2.9".to_owned()), ..Element::default() };
        assert_eq!(elements(line).unwrap(), [first, second]);
        assert_eq!(elements(r#"for="a\"b,c""#).unwrap()[0].node.as_deref(), Some("a\"b,c"));
        for empty in ["", " ", ",", ";,; ,"] {
            assert_eq!(elements(empty).unwrap(), [], "{empty}");
        }
    }

    #[test]
    fn what_is_no_list_of_pairs_is_malformed() {
        for line in [
            "192.0.2.1",
            "for",
            "for=",
            "=a",
            "for=\"192.0.2.1",
            "for=\"a\\",
            "for=a for=b",
            "for=a;for=b",
            "for=\"a\"b",
            "for=a=b",
            "f r=a",
        ] {
            assert_eq!(elements(line), None, "{line}");
        }
    }

    #[test]
    fn half_a_quoted_string_of_a_client_hides_no_element_of_a_proxy() {
        for client in ["for=\"", "for=a;x=\"", "x=\"\\"] {
            for proxy in ["for=192.0.2.1", "for=\"[2001:db8::1]\"", "for=\"[2001:db8::1]:1\";host=\"a.example\""] {
                assert_eq!(elements(&format!("{client}, {proxy}")), None, "{client}, {proxy}");
            }
        }
    }
}
