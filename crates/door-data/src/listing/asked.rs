//! What a request for the list asks: its parameters.

use area::Area;
use door_http::accept::{self, Offer};
use door_http::page;
use heads::ListToken;
use http::{HeaderMap, Uri};
use volumes::find::{Condition, Conditions, Field, Finding, Order, Test, Text, parse_range};

use super::format::{FORMATS, Format};
use crate::errors::DoorError;
use crate::params::Params;
use crate::settings::RepositoryPlace;

/// Most volumes of one part.
const LIMIT_MAX: usize = 10_000;

/// Volumes of a sorted list without a limit.
const SORTED: usize = 1_000;

/// Volumes of one page for people without a limit.
const ON_PAGE: usize = 100;

/// All parameters of the list.
const PARAMETERS: [&str; 14] = [
    "after", "limit", "format", "fields", "sort", "where", "id", "title", "author", "year", "language", "rights",
    "pages", "bytes",
];

/// A list of volumes, as it is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its format.
    pub format: Format,
    /// Where it begins.
    pub after: Option<ListToken>,
    /// The most volumes of this part; `None` for all.
    pub limit: Option<usize>,
    /// The fields of each volume.
    pub fields: Vec<Field>,
    /// Its order, if it is not that of the store.
    pub sort: Option<Order>,
    /// What volumes must satisfy.
    pub conditions: Conditions,
    /// The parameters with conditions and fields as they were sent, for the next part.
    pub kept: Vec<(String, String)>,
    /// The way from the list to the root of the server.
    pub to_root: String,
    /// To which volumes the client is limited.
    pub area: Area,
    /// Where the repository door is.
    pub repository: Option<RepositoryPlace>,
}

impl Asked {
    /// Reads the address.
    pub fn read(uri: &Uri, headers: &HeaderMap) -> Result<Self, DoorError> {
        let params = &Params::of_query(uri.query()).only(&PARAMETERS)?.filled();
        let format = format(params, headers)?;
        let sort = params.value("sort")?.map(order).transpose()?;
        let after = params.value("after")?.map(token).transpose()?;
        if sort.is_some() && after.is_some() {
            let value = params.value("after")?.unwrap_or_default().to_owned();
            let expected = "nothing, because a sorted list has one part";
            return Err(DoorError::MalformedParameter { name: "after", value, expected });
        }
        let limit = params
            .keyword("limit", "1 to 10000", |word| word.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit)))?;
        let usual = match (sort, format) {
            (Some(_), _) => Some(SORTED),
            (None, Format::Html) => Some(ON_PAGE),
            (None, _) => None,
        };
        Ok(Self {
            format,
            after,
            limit: limit.or(usual),
            fields: fields(params, format)?,
            sort,
            conditions: conditions(params)?,
            kept: params.pairs().filter(|(name, _)| is_kept(name)).collect(),
            to_root: page::to_root(uri.path()),
            area: Area::everywhere(),
            repository: None,
        })
    }

    /// Whether ids are all that is needed, of all volumes.
    pub fn is_of_ids(&self) -> bool {
        !self.area.is_limited()
            && self.fields == [Field::Id]
            && self.conditions == Conditions::default()
            && self.sort.is_none()
    }

    /// The search for it.
    pub fn finding(&self) -> Finding {
        let by_author = self.sort.is_some_and(|order| order.by == Field::Author);
        Finding {
            conditions: self.conditions.clone(),
            with_author: by_author || self.fields.contains(&Field::Author),
            after: self.after.clone(),
            area: self.area.clone(),
        }
    }

    /// The relative address of the part that begins after a place.
    pub fn next(&self, after: &ListToken) -> String {
        let limit = self.limit.unwrap_or(LIMIT_MAX);
        // Tokens need no percent-encoding.
        let begin = format!("?after={after}&limit={limit}&format={}", self.format.word());
        self.with_kept(begin)
    }

    /// The relative address of the same list by another order.
    pub fn sorted_by(&self, order: Order) -> String {
        let direction = if order.descending { "-" } else { "" };
        self.with_kept(format!("?format={}&sort={direction}{}", self.format.word(), order.by))
    }

    fn with_kept(&self, begin: String) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        self.kept.iter().for_each(|(name, value)| {
            query.append_pair(name, value);
        });
        let kept = query.finish();
        if kept.is_empty() { begin } else { format!("{begin}&{kept}") }
    }
}

/// Whether a parameter says which volumes and fields a list has, whatever its part.
fn is_kept(name: &str) -> bool {
    !["after", "limit", "format", "sort"].contains(&name)
}

fn format(params: &Params, headers: &HeaderMap) -> Result<Format, DoorError> {
    let by_word = |word: &str| FORMATS.iter().map(|(_, format)| *format).find(|format| format.word() == word);
    let asked = params.keyword("format", "text, json, ndjson, csv or html", by_word)?;
    let offers = FORMATS.map(|(media_type, format)| Offer::new(media_type, format));
    let preferred = || accept::media_type(headers, &offers).copied();
    let offered = || DoorError::NotAcceptable(FORMATS.map(|(media_type, _)| media_type).join(", "));
    asked.or_else(preferred).ok_or_else(offered)
}

fn token(value: &str) -> Result<ListToken, DoorError> {
    let expected = "the `next` of an earlier list";
    value.parse().map_err(|_| DoorError::MalformedParameter { name: "after", value: value.to_owned(), expected })
}

fn order(value: &str) -> Result<Order, DoorError> {
    let (descending, name) = value.strip_prefix('-').map_or((false, value), |name| (true, name));
    let expected = "a field, with - before it for the greatest first";
    let malformed = || DoorError::MalformedParameter { name: "sort", value: value.to_owned(), expected };
    Ok(Order { by: Field::named(name).ok_or_else(malformed)?, descending })
}

fn fields(params: &Params, format: Format) -> Result<Vec<Field>, DoorError> {
    let expected = "names of fields, each once, separated by commas";
    let malformed = |value: &str| DoorError::MalformedParameter { name: "fields", value: value.to_owned(), expected };
    let named = |name: &str| Field::named(name.trim()).ok_or_else(|| malformed(name));
    // Each field once: a name costs little in the address and much in every row.
    let named_once = |value: &str| {
        value.split(',').try_fold(Vec::new(), |mut fields, name| {
            let field = named(name)?;
            if fields.contains(&field) {
                return Err(malformed(name));
            }
            fields.push(field);
            Ok(fields)
        })
    };
    match (format, params.value("fields")?) {
        (Format::Text, None) => Ok(vec![Field::Id]),
        (Format::Text, Some(value)) => Err(DoorError::MalformedParameter {
            name: "fields",
            value: value.to_owned(),
            expected: "nothing, because a text has ids",
        }),
        (_, None) => Ok(Field::ALL.to_vec()),
        (_, Some(value)) => named_once(value),
    }
}

fn conditions(params: &Params) -> Result<Conditions, DoorError> {
    let mut conditions = Conditions::default();
    for (name, value) in params.pairs() {
        let value = value.trim();
        if name == "where" {
            let read: Conditions = value.parse().map_err(DoorError::Conditions)?;
            conditions.0.extend(read.0);
        } else if let Some(field) = Field::named(&name) {
            conditions.0.push(Condition { field, test: test(field, value)? });
        }
        conditions.check_count().map_err(DoorError::Conditions)?;
    }
    Ok(conditions)
}

/// What a parameter with the name of a field says.
fn test(field: Field, value: &str) -> Result<Test, DoorError> {
    let expected = "a number or a range: 1847, 1800..1900, ..1900 or 1800..";
    Ok(match field {
        Field::Id => Test::Begins(Text::of(value)),
        Field::Title | Field::Author => Test::Contains(Text::of(value)),
        Field::Language | Field::Rights => Test::Is(Text::of(value)),
        Field::Year | Field::Pages | Field::Bytes => parse_range(value)
            .ok_or_else(|| DoorError::MalformedParameter { name: field.name(), value: value.to_owned(), expected })?,
    })
}
