//! What is known of a volume without its pages.

use hathi::VolumeId;
use heads::volume_body::VolumeBody;

use super::field::Field;

/// The most characters of an author's field, as of a title.
const AUTHOR_CHARS_MAX: usize = 1_000;

/// A volume in a list, with the fields of its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its id.
    pub id: VolumeId,
    /// `title` of its record, at most 1,000 characters.
    pub title: Option<String>,
    /// `names` of its record, joined by `; `, at most 1,000 characters; `None` also if it was not
    /// read.
    pub author: Option<String>,
    /// The year in `pubDate` of its record.
    pub year: Option<i64>,
    /// `language` of its record.
    pub language: Option<String>,
    /// `rightsAttributes` of its record.
    pub rights: Option<String>,
    /// How many pages it has.
    pub pages: u64,
    /// Bytes of its pages' texts.
    pub bytes: u64,
}

impl Described {
    /// A volume of which only the id is known.
    pub fn named(id: VolumeId) -> Self {
        Self { id, title: None, author: None, year: None, language: None, rights: None, pages: 0, bytes: 0 }
    }

    /// What the head of a volume says.
    pub(super) fn of(id: VolumeId, body: &VolumeBody) -> Self {
        Self {
            id,
            title: body.title.clone(),
            author: None,
            year: body.pub_date.as_deref().and_then(year),
            language: body.language.clone(),
            rights: body.rights.clone(),
            pages: body.pages.count,
            bytes: body.pages.bytes,
        }
    }

    /// Adds the names of its record.
    pub(super) fn with_names(self, names: &[String]) -> Self {
        let author: String = names.join("; ").chars().take(AUTHOR_CHARS_MAX).collect();
        Self { author: Some(author).filter(|author| !author.is_empty()), ..self }
    }

    /// The value of a field that is a text.
    pub fn text(&self, field: Field) -> Option<&str> {
        match field {
            Field::Id => Some(self.id.as_str()),
            Field::Title => self.title.as_deref(),
            Field::Author => self.author.as_deref(),
            Field::Language => self.language.as_deref(),
            Field::Rights => self.rights.as_deref(),
            Field::Year | Field::Pages | Field::Bytes => None,
        }
    }

    /// The value of a field that is a number.
    pub fn number(&self, field: Field) -> Option<i64> {
        let number = |number| i64::try_from(number).ok();
        match field {
            Field::Year => self.year,
            Field::Pages => number(self.pages),
            Field::Bytes => number(self.bytes),
            _ => None,
        }
    }

    /// Approximate bytes of memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        let texts = [Field::Id, Field::Title, Field::Author, Field::Language, Field::Rights];
        let texts: usize = texts.iter().filter_map(|field| self.text(*field)).map(str::len).sum();
        (texts + size_of::<Self>()) as u64
    }
}

/// The year in a date as catalogues write it (`1847`, `c1847`, `[1847?]`, `1847-1849`): the first
/// four digits in a row, without a digit beside them.
fn year(date: &str) -> Option<i64> {
    let mut runs = date.split(|c: char| !c.is_ascii_digit());
    runs.find(|run| run.len() == 4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_year_is_the_first_run_of_four_digits() {
        for (date, expected) in [
            ("1847", Some(1847)),
            ("c1847.", Some(1847)),
            ("[1847?]", Some(1847)),
            ("1847-1849", Some(1847)),
            ("18470101 or 1850", Some(1850)),
            ("0987", Some(987)),
            ("18--", None),
            ("", None),
            ("n.d.", None),
        ] {
            assert_eq!(year(date), expected, "{date}");
        }
    }
}
