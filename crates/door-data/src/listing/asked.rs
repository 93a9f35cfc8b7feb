//! What a request for the list asks: its parameters.

use std::str::FromStr;

use area::Area;
use door_http::accept::{self, Offer};
use door_http::page;
use heads::ListToken;
use http::{HeaderMap, Uri};
use volumes::find::{Condition, Conditions, Field, Finding, Order, Part, Place, Test, Text, parse_range};

use super::format::{FORMATS, Format};
use crate::errors::DoorError;
use crate::params::Params;
use crate::settings::RepositoryPlace;

/// Most volumes of one part.
const LIMIT_MAX: usize = 10_000;

/// Volumes of one part of a sorted list without a limit. They are many, since all volumes are
/// looked at for each part.
const SORTED: usize = 1_000;

/// Volumes of one page for people without a limit.
const ON_PAGE: usize = 100;

/// All parameters of the list.
const PARAMETERS: [&str; 15] = [
    "after", "before", "limit", "format", "fields", "sort", "where", "id", "title", "author", "year", "language",
    "rights", "pages", "bytes",
];

/// A list of volumes, as it is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its format.
    pub format: Format,
    /// Where it begins in the order of the store; `None`: at the first volume.
    pub after: Option<ListToken>,
    /// Where it ends in the order of the store, if that is asked for. Where it begins is then found
    /// out (`back.rs`).
    pub before: Option<ListToken>,
    /// Which part it is in another order.
    pub part: Part,
    /// The most volumes of this part; `None` for all.
    pub limit: Option<usize>,
    /// The fields of each volume.
    pub fields: Vec<Field>,
    /// Its order, if it is not that of the store.
    pub sort: Option<Order>,
    /// What volumes must satisfy.
    pub conditions: Conditions,
    /// The parameters with conditions and fields as they were sent, for other parts.
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
        let (after, before, part) = match sort {
            None => {
                let (after, before) = places(params, format, |_: &ListToken| true)?;
                (after, before, Part::First)
            }
            Some(order) => {
                let (after, before) = places(params, format, |place: &Place| place.order() == order)?;
                let part = before.map(Part::Before).or(after.map(Part::After));
                (None, None, part.unwrap_or(Part::First))
            }
        };
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
            before,
            part,
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

    /// Whether all volumes are in it.
    pub fn is_of_all(&self) -> bool {
        !self.area.is_limited() && self.conditions == Conditions::default()
    }

    /// Whether ids are all that is needed, of all volumes.
    pub fn is_of_ids(&self) -> bool {
        self.is_of_all() && self.fields == [Field::Id] && self.sort.is_none()
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
    pub fn next(&self, after: &str) -> String {
        self.address(&format!("after={after}&"))
    }

    /// The relative addresses of the part that ends where another one begins, and of the first
    /// part.
    pub fn back(&self, begins: &str) -> [String; 2] {
        [self.address(&format!("before={begins}&")), self.address("")]
    }

    /// The relative address of a part. `place` is the beginning of its query. Tokens need no
    /// percent-encoding.
    fn address(&self, place: &str) -> String {
        let limit = self.limit.unwrap_or(LIMIT_MAX);
        self.in_order(format!("?{place}limit={limit}&format={}", self.format.word()), self.sort)
    }

    /// The relative address of the same list by another order.
    pub fn sorted_by(&self, order: Order) -> String {
        self.in_order(format!("?format={}", self.format.word()), Some(order))
    }

    /// An address with an order and with what is kept.
    fn in_order(&self, mut begin: String, order: Option<Order>) -> String {
        if let Some(Order { by, descending }) = order {
            begin += &format!("&sort={}{by}", if descending { "-" } else { "" });
        }
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
    !["after", "before", "limit", "format", "sort"].contains(&name)
}

fn format(params: &Params, headers: &HeaderMap) -> Result<Format, DoorError> {
    let by_word = |word: &str| FORMATS.iter().map(|(_, format)| *format).find(|format| format.word() == word);
    let asked = params.keyword("format", "text, json, ndjson, csv or html", by_word)?;
    let offers = FORMATS.map(|(media_type, format)| Offer::new(media_type, format));
    let preferred = || accept::media_type(headers, &offers).copied();
    let offered = || DoorError::NotAcceptable(FORMATS.map(|(media_type, _)| media_type).join(", "));
    asked.or_else(preferred).ok_or_else(offered)
}

/// The places behind which a part begins (`after`) or up to which it goes (`before`), at most one
/// of them. `is_of_list` says whether a place is one in this list.
fn places<P: FromStr>(
    params: &Params,
    format: Format,
    is_of_list: impl Fn(&P) -> bool,
) -> Result<(Option<P>, Option<P>), DoorError> {
    let place = |name: &'static str, refused: Option<&'static str>| -> Result<Option<P>, DoorError> {
        let Some(value) = params.value(name)? else { return Ok(None) };
        let malformed = |expected| DoorError::MalformedParameter { name, value: value.to_owned(), expected };
        if let Some(expected) = refused {
            return Err(malformed(expected));
        }
        let place = value.parse::<P>().ok().filter(&is_of_list);
        place.map(Some).ok_or_else(|| malformed("a place that an earlier part of the same list names"))
    };
    let after = place("after", None)?;
    let of_programs = (format != Format::Html).then_some("nothing, because only pages for people lead back");
    let of_both = after.as_ref().map(|_| "nothing, because `after` is given too");
    let before = place("before", of_programs.or(of_both))?;
    Ok((after, before))
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
