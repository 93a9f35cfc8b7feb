//! Content negotiation (RFC 9110, section 12): which of the offered representations the client
//! prefers.

use http::{HeaderMap, HeaderName, header};

/// The offered media type that `Accept` prefers; offers are in the server's order of preference. Of
/// the ranges that match, the most specific one counts (section 12.5.1). Without `Accept` it is the
/// first. `None` if none is acceptable.
pub fn media_type(headers: &HeaderMap, offered: &[&'static str]) -> Option<&'static str> {
    let ranges = weighted(headers, &header::ACCEPT);
    if ranges.is_empty() {
        return offered.first().copied();
    }
    let quality = |offer: &str| {
        let matching = ranges.iter().filter_map(|(range, quality)| Some((specificity(range, offer)?, *quality)));
        matching.max_by_key(|(specificity, _)| *specificity).map_or(0, |(_, quality)| quality)
    };
    let mut best = None;
    for offer in offered {
        let quality = quality(offer);
        if quality > 0 && best.is_none_or(|(_, other)| quality > other) {
            best = Some((*offer, quality));
        }
    }
    best.map(|(offer, _)| offer)
}

/// How specifically a media range matches a media type; `None` if it does not.
fn specificity(range: &str, media_type: &str) -> Option<u8> {
    let (kind, subtype) = range.split_once('/')?;
    let (offered_kind, offered_subtype) = media_type.split_once('/')?;
    match (kind, subtype) {
        ("*", "*") => Some(0),
        (kind, "*") if kind == offered_kind => Some(1),
        (kind, subtype) if kind == offered_kind && subtype == offered_subtype => Some(2),
        _ => None,
    }
}

/// A content coding of pages.
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

    use super::*;

    const OFFERED: [&str; 3] = ["text/plain", "application/json", "text/html"];

    fn liked(accept: &'static str) -> Option<&'static str> {
        media_type(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]), &OFFERED)
    }

    #[test]
    fn the_preferred_type_is_sent_and_the_servers_order_decides_among_equals() {
        assert_eq!(media_type(&HeaderMap::new(), &OFFERED), Some("text/plain"));
        assert_eq!(liked("*/*"), Some("text/plain"));
        assert_eq!(liked("application/json"), Some("application/json"));
        assert_eq!(liked("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), Some("text/html"));
        assert_eq!(liked("text/plain;q=0.2, Application/JSON;q=0.3"), Some("application/json"));
        assert_eq!(liked("text/*;q=0.9, text/plain;q=0"), Some("text/html"));
        assert_eq!(liked("image/png"), None);
    }

    fn coded(accept_encoding: &'static str) -> Option<Coding> {
        coding(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(accept_encoding))]))
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
