//! Texts with values in them: `/rest/${user}`, `Bearer ${token.value}`; `$$` is a `$`.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// A text with values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// The number of a value.
    Value(usize),
}

/// The names of all values of a scenario, each with its number.
#[derive(Clone, Debug, Default)]
pub struct Names(BTreeMap<String, usize>);

impl Names {
    /// Adds a name, and returns its number.
    pub fn add(&mut self, name: &str) -> usize {
        let next = self.0.len();
        *self.0.entry(name.to_owned()).or_insert(next)
    }

    /// The number of a name.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.0.get(name).copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn listed(&self) -> String {
        self.0.keys().map(|name| format!("${{{name}}}")).collect::<Vec<_>>().join(", ")
    }
}

impl Template {
    /// Parses a text. An error says what is wrong and which names there are.
    pub fn parse(text: &str, names: &Names) -> Result<Self, String> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        let mut plain = String::new();
        while let Some((before, after)) = rest.split_once('$') {
            plain.push_str(before);
            rest = match after.as_bytes().first() {
                Some(b'$') => {
                    plain.push('$');
                    &after[1..]
                }
                Some(b'{') => {
                    let (name, after) = after[1..].split_once('}').ok_or("`${` without `}`; write `$$` for a `$`")?;
                    let Some(number) = names.number(name) else {
                        return Err(format!("there is no ${{{name}}} here, only {}", names.listed()));
                    };
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    pieces.push(Piece::Value(number));
                    after
                }
                _ => return Err("a `$` without `{name}`; write `$$` for a `$`".to_owned()),
            };
        }
        plain.push_str(rest);
        pieces.push(Piece::Text(plain));
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        Ok(Self(pieces))
    }

    /// The text with its values. A value that is not there is empty.
    pub fn filled(&self, values: &[String]) -> Cow<'_, str> {
        match self.0.as_slice() {
            [] => Cow::Borrowed(""),
            [Piece::Text(text)] => Cow::Borrowed(text),
            pieces => {
                let piece = |piece| match piece {
                    &Piece::Value(number) => values.get(number).map_or("", String::as_str),
                    Piece::Text(text) => text,
                };
                Cow::Owned(pieces.iter().map(piece).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn names() -> Names {
        let mut names = Names::default();
        names.add("user");
        names.add("word.text");
        names
    }

    #[test]
    fn values_stand_where_their_names_are() {
        let filled = |text| {
            let template = Template::parse(text, &names()).unwrap();
            template.filled(&["7".to_owned(), "sea".to_owned()]).into_owned()
        };
        assert_eq!(filled("/rest/${user}/${word.text}.txt"), "/rest/7/sea.txt");
        assert_eq!(filled("$${user} costs $$3"), "${user} costs $3");
        assert_eq!(filled(""), "");
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_there_are() {
        let refused = |text| Template::parse(text, &names()).unwrap_err();
        assert_eq!(refused("${nobody}"), "there is no ${nobody} here, only ${user}, ${word.text}");
        assert!(refused("${user").contains('}'));
        assert!(refused("$user").contains("$$"));
    }
}
