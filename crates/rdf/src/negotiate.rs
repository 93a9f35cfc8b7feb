//! Proactive content negotiation by media type (RFC 9110, section 12.5.1), with the `profile`
//! parameter that distinguishes forms of JSON-LD.

use mediatype::{MediaTypeList, Name, ReadParams, names};

use crate::syntax::{JsonLdForm, PROFILE, Syntax};

/// A representation that the server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer<T> {
    /// Its media type, without parameters.
    pub media_type: &'static str,
    /// The `profile` that distinguishes it from other offers of its media type.
    pub profile: Option<&'static str>,
    /// The caller's value for the offer.
    pub value: T,
}

impl<T> Offer<T> {
    /// An offer of a media type without profile, such as `text/html`.
    pub const fn new(media_type: &'static str, value: T) -> Self {
        Self { media_type, profile: None, value }
    }

    /// An offer of a syntax.
    pub const fn of(syntax: Syntax, value: T) -> Self {
        Self { media_type: syntax.media_type(), profile: syntax.profile(), value }
    }
}

/// Chooses the offer that `Accept` prefers; `offers` are in the server's order of preference. The
/// most specific media range that matches an offer gives its quality. Returns `None` if no offer is
/// acceptable, and the first offer if there is no `Accept` or no media range in it.
///
/// Malformed elements are skipped. Join several header lines with commas before.
pub fn negotiate<'a, T>(accept: Option<&str>, offered: &'a [Offer<T>]) -> Option<&'a T> {
    let ranges: Vec<Range> = MediaTypeList::new(accept.unwrap_or_default()).flatten().filter_map(Range::new).collect();
    if ranges.is_empty() {
        return offered.first().map(|offer| &offer.value);
    }
    let quality = |offer: &Offer<T>| {
        let matching = ranges.iter().filter_map(|range| Some((range.specificity(offer)?, range.quality)));
        matching.max().map_or(0, |(_, quality)| quality)
    };
    let mut best = None;
    for offer in offered {
        let quality = quality(offer);
        if quality > 0 && best.is_none_or(|(_, other)| quality > other) {
            best = Some((offer, quality));
        }
    }
    best.map(|(offer, _)| &offer.value)
}

/// A media range with its weight.
struct Range {
    kind: String,
    subtype: String,
    form: Option<JsonLdForm>,
    /// In thousandths.
    quality: u16,
}

impl Range {
    fn new(range: mediatype::MediaType<'_>) -> Option<Self> {
        let parameter = |name: Name<'_>| range.get_param(name).map(|value| value.unquoted_str().into_owned());
        let quality = match parameter(names::Q) {
            Some(text) => quality(&text)?,
            None => 1_000,
        };
        Some(Self {
            kind: range.ty.as_str().to_ascii_lowercase(),
            subtype: match range.suffix {
                Some(suffix) => format!("{}+{suffix}", range.subty).to_ascii_lowercase(),
                None => range.subty.as_str().to_ascii_lowercase(),
            },
            form: parameter(PROFILE).and_then(|profiles| JsonLdForm::from_profiles(&profiles)),
            quality,
        })
    }

    /// How specifically the range matches the offer; `None` if it does not match.
    fn specificity<T>(&self, offer: &Offer<T>) -> Option<u8> {
        let (kind, subtype) = offer.media_type.split_once('/')?;
        match (self.kind.as_str(), self.subtype.as_str()) {
            ("*", "*") => Some(0),
            (own, "*") if own == kind => Some(1),
            (own, own_subtype) if own == kind && own_subtype == subtype => match self.form {
                None => Some(2),
                Some(form) if offer.profile == Some(form.profile()) => Some(3),
                Some(_) => None,
            },
            _ => None,
        }
    }
}

/// A quality value (section 12.4.2) in thousandths.
fn quality(text: &str) -> Option<u16> {
    let quality: f32 = text.parse().ok()?;
    // At most 1,000, so nothing is truncated.
    (0.0..=1.0).contains(&quality).then(|| (quality * 1_000.0).round() as u16)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const HTML: &str = "html";

    fn chosen(accept: Option<&str>) -> Option<&'static str> {
        let offers = [
            Offer::of(Syntax::Turtle, "turtle"),
            Offer::of(Syntax::JsonLd(JsonLdForm::Compacted), "compacted"),
            Offer::of(Syntax::NTriples, "n-triples"),
            Offer::of(Syntax::RdfXml, "rdf/xml"),
            Offer::of(Syntax::JsonLd(JsonLdForm::Expanded), "expanded"),
            Offer::of(Syntax::JsonLd(JsonLdForm::Flattened), "flattened"),
            Offer::new("text/html", HTML),
        ];
        negotiate(accept, &offers).copied()
    }

    #[test]
    fn turtle_is_sent_to_clients_that_ask_for_nothing_or_anything() {
        for accept in [None, Some(""), Some("*/*"), Some("text/*"), Some("text/turtle"), Some("nonsense")] {
            assert_eq!(chosen(accept), Some("turtle"), "{accept:?}");
        }
    }

    #[test]
    fn the_preferred_syntax_is_sent_and_the_servers_order_decides_among_equals() {
        assert_eq!(chosen(Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")), Some(HTML));
        assert_eq!(chosen(Some("application/n-triples;q=0.5, application/rdf+xml;q=0.6")), Some("rdf/xml"));
        assert_eq!(chosen(Some("application/rdf+xml, application/n-triples")), Some("n-triples"));
        assert_eq!(chosen(Some("Application/LD+JSON; q=0.9, text/turtle; q=0.8")), Some("compacted"));
        assert_eq!(chosen(Some("text/turtle;q=0, */*;q=0.1")), Some("compacted"));
        assert_eq!(chosen(Some("text/*;q=0.9, text/turtle;q=0")), Some(HTML));
        assert_eq!(chosen(Some("text/turtle;charset=utf-8")), Some("turtle"));
    }

    #[test]
    fn a_profile_chooses_the_form_of_json_ld() {
        let expanded = "application/ld+json;profile=\"http://www.w3.org/ns/json-ld#expanded\"";
        assert_eq!(chosen(Some(expanded)), Some("expanded"));
        assert_eq!(
            chosen(Some(
                "application/ld+json; profile=\"http://www.w3.org/ns/json-ld#flattened\"; q=0.4, text/turtle;q=0.3"
            )),
            Some("flattened")
        );
        assert_eq!(chosen(Some(&format!("{expanded};q=0, application/ld+json;q=0.5"))), Some("compacted"));
        assert_eq!(chosen(Some(&format!("{expanded};q=0.5, application/ld+json;q=0.1"))), Some("expanded"));
    }

    #[test]
    fn an_unknown_profile_is_ignored() {
        assert_eq!(
            chosen(Some("application/ld+json;profile=\"http://iiif.io/api/image/2/context.json\"")),
            Some("compacted")
        );
    }

    #[test]
    fn an_unacceptable_syntax_is_not_sent() {
        for accept in ["image/png", "text/turtle;q=0", "*/*;q=0", "application/ld+json;q=0, image/*"] {
            assert_eq!(chosen(Some(accept)), None, "{accept}");
        }
    }
}
