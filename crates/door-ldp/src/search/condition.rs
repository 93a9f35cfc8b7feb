//! A condition: a field, an operator and a value, as in `modified>=2026-01-01`.

use jiff::{Timestamp, civil, tz::TimeZone};
use search::{Comparison, Condition, Glob};

use crate::address::Site;

/// The most bytes of a value.
const VALUE_BYTES_MAX: usize = 4_096;

/// The milliseconds of a day.
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1_000;

/// The most stars of a value.
const STARS_MAX: usize = 16;

/// A field of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The address.
    FedoraId,
    /// The time of creation.
    Created,
    /// The time of the last change.
    Modified,
    /// The size in bytes.
    ContentSize,
    /// The media type.
    MimeType,
    /// The types.
    RdfType,
}

impl Output {
    /// All fields, in Fedora's order.
    pub const ALL: [Self; 6] =
        [Self::FedoraId, Self::Created, Self::Modified, Self::ContentSize, Self::MimeType, Self::RdfType];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::FedoraId => "fedora_id",
            Self::Created => "created",
            Self::Modified => "modified",
            Self::ContentSize => "content_size",
            Self::MimeType => "mime_type",
            Self::RdfType => "rdf_type",
        }
    }

    /// The field with a name.
    pub fn parse(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|field| field.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("`{}` is no field; the fields are {known}", shortened(name))
        })
    }
}

/// The operators, longer ones before those that they begin with.
const OPERATORS: [(&str, Comparison); 5] = [
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
    ("=", Comparison::Equal),
];

/// Parses a condition.
pub fn parse(text: &str, site: &Site) -> Result<Condition, String> {
    let end = text.find(|character: char| !character.is_ascii_alphanumeric() && character != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let operator =
        OPERATORS.into_iter().find_map(|(operator, comparison)| Some((comparison, rest.strip_prefix(operator)?)));
    let (Some((comparison, value)), false) = (operator, name.is_empty()) else {
        return Err(format!(
            "`{}` is no condition: write a field, one of = < > <= >=, and a value, as in `mime_type=image/*`",
            shortened(text)
        ));
    };
    of_parts(Output::parse(name)?, comparison, value, site)
}

/// The condition of a field, an operator and a value.
fn of_parts(field: Output, comparison: Comparison, value: &str, site: &Site) -> Result<Condition, String> {
    let name = field.name();
    if value.is_empty() || value.starts_with(['<', '>']) {
        return Err(format!("the condition on `{name}` has no value, or one that begins with an operator"));
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(format!("the value for `{name}` has more than {VALUE_BYTES_MAX} bytes"));
    }
    match field {
        Output::FedoraId => {
            let id = id(value, site)?;
            match comparison {
                Comparison::Equal => Ok(Condition::Id(glob(name, &id)?)),
                comparison => Ok(Condition::IdOrder(comparison, without_star(name, id)?)),
            }
        }
        Output::Created => Ok(Condition::Created(comparison, time(name, value)?)),
        Output::Modified => Ok(Condition::Modified(comparison, time(name, value)?)),
        Output::ContentSize => size(comparison, value),
        Output::MimeType => match comparison {
            Comparison::Equal => Ok(Condition::MediaType(glob(name, value)?)),
            comparison => Ok(Condition::MediaTypeOrder(comparison, without_star(name, value.to_owned())?)),
        },
        Output::RdfType if comparison == Comparison::Equal => {
            let iri = full(value);
            Ok(Condition::Type(glob(name, &site.kept(&iri).unwrap_or(iri))?))
        }
        Output::RdfType => Err("types have no order: the only operator for `rdf_type` is =".to_owned()),
    }
}

/// The condition of a field of the form, whose times are days: the last day is included.
pub fn of_form(field: Output, comparison: Comparison, value: &str, site: &Site) -> Result<Condition, String> {
    Ok(match of_parts(field, comparison, value, site)? {
        Condition::Created(Comparison::LessOrEqual, _) => {
            Condition::Created(Comparison::LessOrEqual, end_of_time(field.name(), value)?)
        }
        Condition::Modified(Comparison::LessOrEqual, _) => {
            Condition::Modified(Comparison::LessOrEqual, end_of_time(field.name(), value)?)
        }
        condition => condition,
    })
}

/// The id of a resource in this repository: its path without a slash in front, `/fcr:metadata`
/// behind it for a description. Fedora's four ways to write it.
fn id(value: &str, site: &Site) -> Result<String, String> {
    let of_fedora = value.strip_prefix("info:fedora").filter(|path| path.is_empty() || path.starts_with(['/', '*']));
    let id = if let Some(path) = of_fedora {
        path.to_owned()
    } else if value.starts_with("http://") || value.starts_with("https://") {
        let foreign = || format!("{} is not an address in this repository", shortened(value));
        site.decoded(value).ok_or_else(foreign)?
    } else {
        value.to_owned()
    };
    let id = id.strip_prefix('/').unwrap_or(&id);
    Ok(id.strip_suffix('/').unwrap_or(id).to_owned())
}

fn glob(name: &str, value: &str) -> Result<Glob, String> {
    let glob = Glob::parse(value);
    match glob.stars() {
        0..=STARS_MAX => Ok(glob),
        _ => Err(format!("the value for `{name}` has more than {STARS_MAX} stars")),
    }
}

fn without_star(name: &str, value: String) -> Result<String, String> {
    match value.contains('*') {
        true => Err(format!("a value with a star has no order: the only operator for it on `{name}` is =")),
        false => Ok(value),
    }
}

/// An instant, or the beginning of a day (UTC), in milliseconds since 1970. Earlier ones are 1970.
fn time(name: &str, value: &str) -> Result<u64, String> {
    let (begins, _) = span(name, value)?;
    Ok(u64::try_from(begins).unwrap_or(0))
}

/// The same instant, or the last millisecond of a day.
fn end_of_time(name: &str, value: &str) -> Result<u64, String> {
    let (begins, len) = span(name, value)?;
    Ok(u64::try_from(begins + len - 1).unwrap_or(0))
}

/// When an instant or a day (UTC) begins, and how long it is, in milliseconds since 1970.
fn span(name: &str, value: &str) -> Result<(i64, i64), String> {
    let instant = || Some((value.parse::<Timestamp>().ok()?, 1));
    let day = || Some((value.parse::<civil::Date>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp(), DAY_MILLIS));
    // A time of day without an offset is parsed as a date too, and would lose its time.
    let day = || if value.contains(['T', 't', ' ']) { None } else { day() };
    let Some((begins, len)) = instant().or_else(day) else {
        return Err(format!(
            "`{}` is no time for `{name}`: write a day (2026-01-31) or an instant (2026-01-31T12:00:00Z)",
            shortened(value)
        ));
    };
    Ok((begins.as_millisecond(), len))
}

fn size(comparison: Comparison, value: &str) -> Result<Condition, String> {
    let bytes: i64 =
        value.parse().map_err(|_| format!("`{}` is no number of bytes for `content_size`", shortened(value)))?;
    Ok(match (u64::try_from(bytes), comparison) {
        (Ok(bytes), comparison) => Condition::Size(comparison, bytes),
        // All sizes are greater.
        (Err(_), Comparison::Greater | Comparison::GreaterOrEqual) => Condition::Size(Comparison::GreaterOrEqual, 0),
        (Err(_), _) => Condition::Size(Comparison::Less, 0),
    })
}

/// A type without Fedora's abbreviations.
fn full(value: &str) -> String {
    let names = [("ldp:", "http://www.w3.org/ns/ldp#"), ("fedora:", "http://fedora.info/definitions/v4/repository#")];
    let full = names.into_iter().find_map(|(prefix, full)| Some(format!("{full}{}", value.strip_prefix(prefix)?)));
    full.unwrap_or_else(|| value.to_owned())
}

/// A text of a client, for a message.
pub fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::{Extensions, HeaderMap, header};

    use super::*;
    use crate::settings::LdpSettings;

    fn site() -> Site {
        let headers = HeaderMap::from_iter([(header::HOST, "a.example".parse().unwrap())]);
        Site::of(&LdpSettings::default(), &"/rest/".parse().unwrap(), &headers, &Extensions::new()).unwrap()
    }

    #[test]
    fn an_id_is_written_in_four_ways() {
        for text in ["c1/ü", "/c1/ü", "info:fedora/c1/ü", "http://a.example/rest/c1/%C3%BC", "c1/ü/"] {
            let condition = parse(&format!("fedora_id={text}"), &site()).unwrap();
            assert_eq!(condition, Condition::Id(Glob::parse("c1/ü")), "{text}");
        }
        let star = parse("fedora_id=http://a.example/rest/c*", &site()).unwrap();
        assert_eq!(star, Condition::Id(Glob::parse("c*")));
        for refused in ["http://b.example/rest/c1", "http://a.example/other", "http://a.example/rest/%FF"] {
            parse(&format!("fedora_id={refused}"), &site()).unwrap_err();
        }
    }

    #[test]
    fn malformed_conditions_are_refused() {
        for text in [
            "",
            "=a",
            "fedora_id",
            "fedora_id!=a",
            "fedora_id=",
            "fedora_id=<a",
            "fedora_id=>a",
            "fedora_id<a*",
            "mime_type>*",
            "color=red",
            "created=yesterday",
            "created=2026-13-01",
            "created=2026-01-01T10:00:00",
            "modified>",
            "content_size=large",
            "content_size=1e3",
            "content_size=99999999999999999999",
            "rdf_type>a",
            "fedora id=a",
        ] {
            parse(text, &site()).expect_err(text);
        }
        parse(&format!("fedora_id={}", "a*".repeat(17)), &site()).unwrap_err();
        parse(&format!("fedora_id={}", "a".repeat(5_000)), &site()).unwrap_err();
    }

    #[test]
    fn times_sizes_and_types_are_read() {
        let of = |text| parse(text, &site()).unwrap();
        let day = 1_767_225_600_000;
        assert_eq!(of("created>=2026-01-01"), Condition::Created(Comparison::GreaterOrEqual, day));
        assert_eq!(of("modified<2026-01-01T01:00:00.5+01:00"), Condition::Modified(Comparison::Less, day + 500));
        assert_eq!(of("created>1960-01-01"), Condition::Created(Comparison::Greater, 0));
        assert_eq!(of("content_size>-1"), Condition::Size(Comparison::GreaterOrEqual, 0));
        assert_eq!(of("content_size=-1"), Condition::Size(Comparison::Less, 0));
        let binary = Condition::Type(Glob::parse("http://www.w3.org/ns/ldp#NonRDFSource"));
        assert_eq!(of("rdf_type=ldp:NonRDFSource"), binary);
        assert_eq!(of("rdf_type=http://a.example/rest/t#x"), Condition::Type(Glob::parse("penates:/t#x")));
    }
}
