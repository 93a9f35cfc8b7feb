//! Conditions on what is known of a volume, and the small language in which they are written.
//!
//! ```text
//! conditions = condition { "and" condition }
//! condition  = field operator value
//! field      = "id" | "title" | "author" | "language" | "rights" | "year" | "pages" | "bytes"
//! operator   = "=" | "!=" | "~" (texts) | "<" | "<=" | ">" | ">=" (numbers)
//! value      = a word | '…' | "…"
//! ```

use std::str::FromStr;

use thiserror::Error;

use super::described::Described;
use super::field::Field;

/// What a field must be. A volume without a value of the field satisfies only [`Test::IsNot`] and
/// [`Test::Outside`]. Texts are compared without regard to case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// The text contains this one.
    Contains(Text),
    /// The text begins with this one.
    Begins(Text),
    /// The text is this one.
    Is(Text),
    /// The text is not this one.
    IsNot(Text),
    /// The number is between these, inclusive.
    Within(i64, i64),
    /// The number is not between these.
    Outside(i64, i64),
}

/// A text in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(String);

impl Text {
    /// The lower case of a text.
    pub fn of(text: &str) -> Self {
        Self(text.to_lowercase())
    }
}

/// A condition on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The field.
    pub field: Field,
    /// What it must be.
    pub test: Test,
}

impl Condition {
    /// Whether a volume with this number or lower-case text in its field satisfies it.
    fn holds(&self, number: Option<i64>, text: Option<&str>) -> bool {
        match &self.test {
            Test::Contains(Text(part)) => text.is_some_and(|text| text.contains(part)),
            Test::Begins(Text(start)) => text.is_some_and(|text| text.starts_with(start)),
            Test::Is(Text(whole)) => text.is_some_and(|text| text == whole),
            Test::IsNot(Text(whole)) => text.is_none_or(|text| text != whole),
            Test::Within(least, most) => number.is_some_and(|number| (*least..=*most).contains(&number)),
            Test::Outside(least, most) => number.is_none_or(|number| !(*least..=*most).contains(&number)),
        }
    }
}

/// Conditions that all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions(pub Vec<Condition>);

impl Conditions {
    /// Whether a volume satisfies those that `of` selects by their field.
    pub fn hold(&self, volume: &Described, of: impl Fn(Field) -> bool) -> bool {
        // Each field is made lower-case once, however many conditions there are on it.
        let mut lower: [Option<Option<String>>; Field::ALL.len()] = Default::default();
        self.0.iter().filter(|condition| of(condition.field)).all(|condition| {
            let field = condition.field;
            let text = lower[field as usize].get_or_insert_with(|| volume.text(field).map(str::to_lowercase));
            condition.holds(volume.number(field), text.as_deref())
        })
    }

    /// Fails for more conditions than a request may have.
    pub fn check_count(&self) -> Result<(), ConditionError> {
        if self.0.len() <= CONDITIONS_MAX {
            return Ok(());
        }
        Err(ConditionError { column: 1, problem: format!("a request has at most {CONDITIONS_MAX} conditions") })
    }

    /// Whether there is one on a field.
    pub fn ask(&self, of: impl Fn(Field) -> bool) -> bool {
        self.0.iter().any(|condition| of(condition.field))
    }
}

/// Why conditions cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("column {column}: {problem}")]
pub struct ConditionError {
    /// The place, in characters from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: String,
}

/// Texts longer than this are refused, in bytes: conditions are compared with every volume.
const CONDITIONS_BYTES_MAX: usize = 4_096;

/// The most conditions of a request: each is compared with every volume.
const CONDITIONS_MAX: usize = 32;

impl FromStr for Conditions {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let error = |column, problem: &str| ConditionError { column, problem: problem.to_owned() };
        if text.len() > CONDITIONS_BYTES_MAX {
            return Err(error(1, &format!("conditions have at most {CONDITIONS_BYTES_MAX} bytes")));
        }
        let words = words(text)?;
        let mut words = words.iter().peekable();
        let end = text.chars().count() + 1;
        let mut conditions = Vec::new();
        loop {
            let (column, name) = words.next().map_or((end, ""), |word| (word.column, word.plain()));
            let field = Field::named(name).ok_or_else(|| error(column, &format!("{}{FIELDS}", found(name))))?;
            let (column, operator) = words.next().map_or((end, ""), |word| (word.column, word.operator()));
            let operator = Operator::of(field, operator).map_err(|expected| error(column, &expected))?;
            let value = words.next().ok_or_else(|| error(end, "a value is missing"))?;
            let test = operator.test(value).map_err(|expected| error(value.column, &expected))?;
            conditions.push(Condition { field, test });
            match words.next() {
                None => {
                    let conditions = Self(conditions);
                    return conditions.check_count().map(|()| conditions);
                }
                Some(word) if word.plain().eq_ignore_ascii_case("and") => {}
                Some(word) => return Err(error(word.column, "expected `and` or the end; quote a value with spaces")),
            }
        }
    }
}

const FIELDS: &str = "expected a field: id, title, author, year, language, rights, pages or bytes";

fn found(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("`{name}` is no field; ") }
}

/// A word of the language.
struct Word {
    column: usize,
    text: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Quoted,
    Operator,
}

impl Word {
    fn plain(&self) -> &str {
        if self.kind == Kind::Plain { &self.text } else { "" }
    }

    fn operator(&self) -> &str {
        if self.kind == Kind::Operator { &self.text } else { "" }
    }
}

const OPERATORS: [char; 5] = ['=', '!', '<', '>', '~'];

fn words(text: &str) -> Result<Vec<Word>, ConditionError> {
    let mut words = Vec::new();
    let mut rest = text.chars().zip(1..).peekable();
    while let Some((first, column)) = rest.next() {
        let (mut text, kind) = (
            String::new(),
            match first {
                '\'' | '"' => Kind::Quoted,
                _ if OPERATORS.contains(&first) => Kind::Operator,
                _ => Kind::Plain,
            },
        );
        if first.is_whitespace() {
            continue;
        }
        if kind == Kind::Quoted {
            loop {
                match rest.next() {
                    Some((c, _)) if c == first => break,
                    Some((c, _)) => text.push(c),
                    None => {
                        return Err(ConditionError { column, problem: format!("the quote {first} is not closed") });
                    }
                }
            }
        } else {
            text.push(first);
            let belongs = |c: char| match kind {
                Kind::Operator => c == '=',
                _ => !c.is_whitespace() && !OPERATORS.contains(&c) && c != '\'' && c != '"',
            };
            while let Some((c, _)) = rest.next_if(|(c, _)| belongs(*c)) {
                text.push(c);
            }
        }
        words.push(Word { column, text, kind });
    }
    Ok(words)
}

/// An operator that fits its field.
#[derive(Clone, Copy)]
enum Operator {
    Contains,
    Is,
    IsNot,
    Equal,
    Unequal,
    Below,
    AtMost,
    Above,
    AtLeast,
}

impl Operator {
    fn of(field: Field, operator: &str) -> Result<Self, String> {
        let name = field.name();
        match (field.is_number(), operator) {
            (false, "~") => Ok(Self::Contains),
            (false, "=") => Ok(Self::Is),
            (false, "!=") => Ok(Self::IsNot),
            (true, "=") => Ok(Self::Equal),
            (true, "!=") => Ok(Self::Unequal),
            (true, "<") => Ok(Self::Below),
            (true, "<=") => Ok(Self::AtMost),
            (true, ">") => Ok(Self::Above),
            (true, ">=") => Ok(Self::AtLeast),
            (false, _) => Err(format!("{name} is a text: expected =, != or ~ (contains)")),
            (true, _) => Err(format!("{name} is a number: expected =, !=, <, <=, > or >=")),
        }
    }

    fn test(self, value: &Word) -> Result<Test, String> {
        if value.kind == Kind::Operator {
            return Err(format!("expected a value, found {}", value.text));
        }
        let text = || Text::of(&value.text);
        let number = || value.text.parse::<i64>().map_err(|_| format!("`{}` is no whole number", value.text));
        Ok(match self {
            Self::Contains => Test::Contains(text()),
            Self::Is => Test::Is(text()),
            Self::IsNot => Test::IsNot(text()),
            Self::Equal => number().map(|number| Test::Within(number, number))?,
            Self::Unequal => number().map(|number| Test::Outside(number, number))?,
            Self::Below => Test::Within(i64::MIN, number()?.saturating_sub(1)),
            Self::AtMost => Test::Within(i64::MIN, number()?),
            Self::Above => Test::Within(number()?.saturating_add(1), i64::MAX),
            Self::AtLeast => Test::Within(number()?, i64::MAX),
        })
    }
}

/// A range of numbers: `1850`, `1850..1900`, `..1900` or `1850..`; both ends are included.
pub fn parse_range(text: &str) -> Option<Test> {
    let end = |text: &str, open: i64| if text.is_empty() { Some(open) } else { text.parse().ok() };
    match text.split_once("..") {
        Some(("", "")) => None,
        Some((least, most)) => Some(Test::Within(end(least, i64::MIN)?, end(most, i64::MAX)?)),
        None => text.parse().ok().map(|number| Test::Within(number, number)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Conditions {
        text.parse().unwrap()
    }

    fn taylor() -> Described {
        Described {
            id: "yale.39002015008130".parse().unwrap(),
            title: Some("Life of Major General Zachary Taylor".to_owned()),
            author: Some("Frost, John 1800-1859; École, Ä".to_owned()),
            year: Some(1847),
            language: Some("eng".to_owned()),
            rights: None,
            pages: 412,
            bytes: 721_188,
        }
    }

    #[test]
    fn a_volume_satisfies_conditions_that_all_hold() {
        for (text, expected) in [
            ("year<1848", true),
            ("year < 1847", false),
            ("year<=1847 and year>=1847", true),
            ("year>1847", false),
            ("year!=1847", false),
            ("title ~ zachary", true),
            ("title~'major general'", true),
            ("title=taylor", false),
            ("author~école", true),
            ("language=ENG AND pages>400", true),
            ("language!=eng", false),
            ("rights!=pd", true),
            ("rights=pd", false),
            ("id=yale.39002015008130", true),
            ("bytes=721188", true),
        ] {
            assert_eq!(read(text).hold(&taylor(), |_| true), expected, "{text}");
        }
    }

    #[test]
    fn an_error_names_the_column_at_which_it_is() {
        for (text, column, part) in [
            ("", 1, "expected a field"),
            ("yaer<1900", 1, "`yaer` is no field"),
            ("year", 5, "is a number"),
            ("year~1900", 5, "is a number"),
            ("title<b", 6, "is a text"),
            ("year<", 6, "a value is missing"),
            ("year<abc", 6, "`abc` is no whole number"),
            ("year<=<1900", 7, "expected a value"),
            ("title~zachary taylor", 15, "expected `and`"),
            ("title~'zachary", 7, "is not closed"),
            ("année<1900 ", 1, "is no field"),
            ("title~ä and jahr=1", 13, "`jahr` is no field"),
            ("year<1900 and", 14, "expected a field"),
            ("'year'<1900", 1, "expected a field"),
        ] {
            let error = text.parse::<Conditions>().unwrap_err();
            assert!(error.column == column && error.problem.contains(part), "{text}: {error}");
        }
        assert!("x".repeat(CONDITIONS_BYTES_MAX + 1).parse::<Conditions>().is_err());
        let many = |count| vec!["year>1"; count].join(" and ").parse::<Conditions>();
        assert!(many(CONDITIONS_MAX).is_ok());
        assert!(many(CONDITIONS_MAX + 1).unwrap_err().problem.contains("at most 32"));
    }

    #[test]
    fn ranges_include_both_ends() {
        assert_eq!(parse_range("..1900"), Some(Test::Within(i64::MIN, 1900)));
        assert_eq!(parse_range("1850.."), Some(Test::Within(1850, i64::MAX)));
        assert_eq!(parse_range("1850..1900"), Some(Test::Within(1850, 1900)));
        assert_eq!(parse_range("1850"), Some(Test::Within(1850, 1850)));
        for wrong in ["", "..", "a..", "1..b", "1900-"] {
            assert_eq!(parse_range(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_within_its_columns(text in "\\PC{0,40}") {
            if let Err(error) = text.parse::<Conditions>() {
                prop_assert!((1..=text.chars().count() + 1).contains(&error.column));
            }
        }
    }
}
