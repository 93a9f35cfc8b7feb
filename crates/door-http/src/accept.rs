//! Content negotiation (RFC 9110, section 12): which of the offered representations and codings a
//! client prefers.

use http::{HeaderMap, HeaderName, header};
use mediatype::{MediaType, MediaTypeList, Name, ReadParams, names};

/// RFC 6906: a parameter that distinguishes representations of one media type.
const PROFILE: Name<'static> = Name::new_unchecked("profile");

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
}

/// The value of the offer that `Accept` prefers; offers are in the server's order of preference. Of
/// the media ranges that match an offer, the most specific one gives its quality (section 12.5.1).
/// A profile that no offer has is ignored. Returns the first offer if there is no media range in
/// `Accept`, and `None` if no offer is acceptable. Malformed elements are skipped.
pub fn media_type<'a, T>(headers: &HeaderMap, offers: &'a [Offer<T>]) -> Option<&'a T> {
    let values: Vec<_> = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let accept = values.join(",");
    let profiles: Vec<_> = offers.iter().filter_map(|offer| offer.profile).collect();
    let ranges: Vec<_> =
        MediaTypeList::new(&accept).flatten().filter_map(|range| Range::new(&range, &profiles)).collect();
    if ranges.is_empty() {
        return offers.first().map(|offer| &offer.value);
    }
    let quality = |offer: &Offer<T>| {
        let matching = ranges.iter().filter_map(|range| Some((range.specificity(offer)?, range.quality)));
        matching.max().map_or(0, |(_, quality)| quality)
    };
    let mut best = None;
    for offer in offers {
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
    profile: Option<&'static str>,
    /// In thousandths.
    quality: u16,
}

impl Range {
    fn new(range: &MediaType<'_>, profiles: &[&'static str]) -> Option<Self> {
        let parameter = |name: Name<'_>| range.get_param(name).map(|value| value.unquoted_str().into_owned());
        let quality = match parameter(names::Q) {
            Some(text) => quality(&text)?,
            None => 1_000,
        };
        let known = |named: &str| profiles.iter().copied().find(|profile| *profile == named);
        Some(Self {
            kind: range.ty.as_str().to_ascii_lowercase(),
            subtype: match range.suffix {
                Some(suffix) => format!("{}+{suffix}", range.subty).to_ascii_lowercase(),
                None => range.subty.as_str().to_ascii_lowercase(),
            },
            profile: parameter(PROFILE).and_then(|named| named.split_ascii_whitespace().find_map(known)),
            quality,
        })
    }

    /// How specifically the range matches the offer; `None` if it does not match.
    fn specificity<T>(&self, offer: &Offer<T>) -> Option<u8> {
        let (kind, subtype) = offer.media_type.split_once('/')?;
        match (self.kind.as_str(), self.subtype.as_str()) {
            ("*", "*") => Some(0),
            (own, "*") if own == kind => Some(1),
            (own, own_subtype) if own == kind && own_subtype == subtype => match self.profile {
                None => Some(2),
                Some(_) if offer.profile == self.profile => Some(3),
                Some(_) => None,
            },
            _ => None,
        }
    }
}

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// No coding.
    Identity,
    /// RFC 1952.
    Gzip,
}

/// The coding to send (section 12.5.3): gzip if the client prefers it at least as much as the plain
/// text. `None` if neither is acceptable.
pub fn coding(headers: &HeaderMap) -> Option<Coding> {
    let codings = weighted(headers, &header::ACCEPT_ENCODING);
    let named = |names: &[&str]| {
        codings.iter().find(|(coding, _)| names.contains(&coding.as_str())).map(|(_, quality)| *quality)
    };
    let any = named(&["*"]);
    let gzip = named(&["gzip", "x-gzip"]).or(any).unwrap_or(0);
    // Identity is acceptable unless excluded. A coding that the client names ranks at least as high
    // as one that it does not name.
    let identity = named(&["identity"]).or(any);
    match (gzip, identity) {
        (0, Some(0)) => None,
        (0, _) => Some(Coding::Identity),
        (gzip, Some(identity)) if identity > gzip => Some(Coding::Identity),
        _ => Some(Coding::Gzip),
    }
}

/// The elements of a list with qualities in thousandths, in lower case, without other parameters.
/// Malformed elements are skipped.
fn weighted(headers: &HeaderMap, name: &HeaderName) -> Vec<(String, u16)> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let element = |element: &str| {
        let mut fields = element.split(';').map(|field| field.trim().to_ascii_lowercase());
        let value = fields.next().filter(|value| !value.is_empty())?;
        let quality = fields.find_map(|field| field.strip_prefix("q=").map(quality)).unwrap_or(Some(1_000))?;
        Some((value, quality))
    };
    values.flat_map(|value| value.split(',').filter_map(element)).collect()
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
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    const EXPANDED: &str = "http://www.w3.org/ns/json-ld#expanded";
    const FLATTENED: &str = "http://www.w3.org/ns/json-ld#flattened";
    const OFFERS: [Offer<&str>; 5] = [
        Offer::new("text/plain", "plain"),
        Offer::new("application/ld+json", "compacted"),
        Offer { media_type: "application/ld+json", profile: Some(EXPANDED), value: "expanded" },
        Offer { media_type: "application/ld+json", profile: Some(FLATTENED), value: "flattened" },
        Offer::new("text/html", "html"),
    ];

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::try_from(value).unwrap())])
    }

    fn chosen(accept: &str) -> Option<&'static str> {
        media_type(&headers(header::ACCEPT, accept), &OFFERS).copied()
    }

    #[test]
    fn the_first_offer_is_sent_to_clients_that_ask_for_nothing_or_anything() {
        assert_eq!(media_type(&HeaderMap::new(), &OFFERS), Some(&"plain"));
        for accept in ["", "*/*", "text/*", "text/plain", "nonsense", "text/plain;charset=utf-8"] {
            assert_eq!(chosen(accept), Some("plain"), "{accept}");
        }
    }

    #[test]
    fn the_best_liked_type_is_sent_and_the_servers_order_decides_among_equals() {
        assert_eq!(chosen("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), Some("html"));
        assert_eq!(chosen("text/plain;q=0.2, Application/LD+JSON;q=0.3"), Some("compacted"));
        assert_eq!(chosen("text/html, application/ld+json"), Some("compacted"));
        assert_eq!(chosen("text/*;q=0.9, text/plain;q=0"), Some("html"));
        assert_eq!(chosen("text/plain;q=0, */*;q=0.1"), Some("compacted"));
    }

    #[test]
    fn several_header_lines_are_one_list() {
        let mut headers = headers(header::ACCEPT, "text/plain;q=0.1");
        headers.append(header::ACCEPT, HeaderValue::from_static("text/html"));
        assert_eq!(media_type(&headers, &OFFERS), Some(&"html"));
    }

    #[test]
    fn a_profile_chooses_among_offers_of_one_type() {
        let expanded = format!("application/ld+json;profile=\"{EXPANDED}\"");
        assert_eq!(chosen(&expanded), Some("expanded"));
        let flattened = format!("application/ld+json; profile=\"{FLATTENED}\"; q=0.4, text/plain;q=0.3");
        assert_eq!(chosen(&flattened), Some("flattened"));
        assert_eq!(chosen(&format!("{expanded};q=0, application/ld+json;q=0.5")), Some("compacted"));
        assert_eq!(chosen(&format!("{expanded};q=0.5, application/ld+json;q=0.1")), Some("expanded"));
        let unknown = "application/ld+json;profile=\"http://iiif.io/api/image/2/context.json\"";
        assert_eq!(chosen(unknown), Some("compacted"));
    }

    #[test]
    fn what_is_not_acceptable_is_not_sent() {
        for accept in ["image/png", "*/*;q=0", "text/*;q=0, application/ld+json;q=0, image/*"] {
            assert_eq!(chosen(accept), None, "{accept}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_understood_or_skipped(value in "[ -~]{0,80}") {
            let _ = chosen(&value);
            let _ = coding(&headers(header::ACCEPT_ENCODING, &value));
        }
    }

    fn coded(accept_encoding: &str) -> Option<Coding> {
        coding(&headers(header::ACCEPT_ENCODING, accept_encoding))
    }

    #[test]
    fn gzip_is_sent_only_to_clients_that_ask_for_it() {
        assert_eq!(coding(&HeaderMap::new()), Some(Coding::Identity));
        for value in ["gzip", "deflate, gzip;q=0.5, br", "*", "x-gzip", "gzip;q=0.8, identity;q=0.8"] {
            assert_eq!(coded(value), Some(Coding::Gzip), "{value}");
        }
        for value in ["", "br", "gzip;q=0", "identity", "gzip;q=0.5, identity", "identity;q=0.7, gzip;q=0.2"] {
            assert_eq!(coded(value), Some(Coding::Identity), "{value}");
        }
        for value in ["identity;q=0", "*;q=0", "br, *;q=0"] {
            assert_eq!(coded(value), None, "{value}");
        }
    }
}
