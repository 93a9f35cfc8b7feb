//! The list for people.

use http::HeaderValue;
use volumes::find::{Described, Field, Order};

use super::asked::Asked;
use super::format::{End, cell};
use crate::asking::segment;

const BEGIN: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<title>Volumes</title>
<style>body{font:1rem/1.6 system-ui,sans-serif;max-width:80rem;margin:2rem auto;padding:0 1.25rem}form{display:flex;flex-wrap:wrap;gap:.75rem;align-items:end;margin:0 0 1.5rem}label{display:grid;font-size:.85rem}input,button{font:inherit}table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #8884}td.n,th.n{text-align:right}</style>
<h1>Volumes</h1>
";

/// Allows only the style in the page, by its digest, and a form that asks for this list again.
/// Texts come from outside, and one that contains markup must not load or run anything.
pub const SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'sha256-IUNfwKzxEcM3qqnb9SbZT3yc7JB2cIk/N1wW0khkC7A='; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
);

/// The fields by which the form searches, with a hint.
const SEARCHED: [(Field, &str); 4] =
    [(Field::Title, "salmon"), (Field::Author, "Frost"), (Field::Year, "1800..1900"), (Field::Language, "eng")];

/// What is before the first row: the form, and the heads of the columns, which sort.
pub fn begin(asked: &Asked) -> String {
    let given = |field: Field| {
        let named = |(name, _): &&(String, String)| name.eq_ignore_ascii_case(field.name());
        asked.kept.iter().rev().find(named).map(|(_, value)| escaped(value)).unwrap_or_default()
    };
    let input = |(field, hint): (Field, &str)| {
        let (name, value) = (field.name(), given(field));
        format!("<label>{name}<input name=\"{name}\" value=\"{value}\" placeholder=\"{hint}\"></label>\n")
    };
    let inputs: String = SEARCHED.into_iter().map(input).collect();
    let heads: String = asked.fields.iter().map(|field| head(asked, *field)).collect();
    format!(
        "{BEGIN}<form action=\"\">\n<input type=\"hidden\" name=\"format\" value=\"html\">\n{inputs}<button>Find</button>\n</form>\n<table>\n<thead><tr>{heads}</tr></thead>\n"
    )
}

fn head(asked: &Asked, field: Field) -> String {
    let descending = asked.sort == Some(Order { by: field, descending: false });
    let arrow = match asked.sort {
        Some(order) if order.by == field => {
            if order.descending {
                " ↓"
            } else {
                " ↑"
            }
        }
        _ => "",
    };
    let address = escaped(&asked.sorted_by(Order { by: field, descending }));
    format!("<th{}><a href=\"{address}\">{field}</a>{arrow}", class(field))
}

fn class(field: Field) -> &'static str {
    if field.is_number() { " class=\"n\"" } else { "" }
}

/// A volume.
pub fn row(fields: &[Field], volume: &Described) -> String {
    let cells = fields.iter().map(|field| match field {
        Field::Id => {
            format!("<td><a href=\"{}\">{}</a>", segment(&volume.id), escaped(volume.id.as_str()))
        }
        _ => format!("<td{}>{}", class(*field), escaped(&cell(*field, volume))),
    });
    format!("<tr>{}\n", cells.collect::<String>())
}

/// What is behind the last row.
pub fn end(end: &End) -> String {
    let more =
        end.address.as_ref().map(|address| format!("<p><a rel=\"next\" href=\"{}\">More</a></p>\n", escaped(address)));
    let total = end.total.map(|total| format!("<p>{total} in all.</p>\n"));
    format!("</table>\n{}{}</html>\n", total.unwrap_or_default(), more.unwrap_or_default())
}

/// Text as HTML shows it.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_security_policy_allows_only_the_style_of_the_page() {
        let style = BEGIN.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        let source = format!("style-src 'sha256-{}';", STANDARD.encode(Sha256::digest(style)));
        assert!(SECURITY_POLICY.to_str().unwrap().contains(&source), "the digest of the style is {source}");
    }
}
