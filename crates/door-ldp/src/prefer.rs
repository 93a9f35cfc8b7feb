//! `Prefer` (RFC 7240; LDP 1.0, section 7.2; LDP Paging, section 7).

use http::{HeaderMap, HeaderName, HeaderValue};
use rdf::vocab::ldp;

use crate::links::{parameter, split, values};

const PREFER: HeaderName = HeaderName::from_static("prefer");
/// RFC 7240, section 3.
pub const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The wish for a whole answer (section 4.2).
pub const RETURN_REPRESENTATION: &str = "return=representation";

/// What a client would like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preferences {
    /// Whether to tell what a container contains.
    pub containment: bool,
    /// Whether to tell what follows from that.
    pub membership: bool,
    /// Which wish for a kind of answer was understood, as `Preference-Applied` says it.
    pub applied: Option<&'static str>,
    /// Members of one page, if pages are wanted.
    pub members_max: Option<usize>,
    /// Whether what is the server's in a body is to be passed over, rather than looked at.
    pub lenient: bool,
}

impl Preferences {
    /// Those of a request. What is not understood is passed over, as section 2 says.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut preferences =
            Self { containment: true, membership: true, applied: None, members_max: None, lenient: false };
        for value in values(headers, &PREFER) {
            split(&value, ',').into_iter().for_each(|preference| preferences.add(preference));
        }
        preferences
    }

    /// Says so, if the answer to a change is as short as the client likes it: it is, unless the client likes it otherwise.
    pub fn confirm_minimal(headers: &HeaderMap, answer: &mut HeaderMap) {
        if let Some(applied @ "return=minimal") = Self::of(headers).applied {
            answer.insert(PREFERENCE_APPLIED, HeaderValue::from_static(applied));
        }
    }

    fn add(&mut self, preference: &str) {
        let mut fields = split(preference, ';').into_iter().filter_map(parameter);
        let Some((name, value)) = fields.next() else { return };
        let parameters: Vec<_> = fields.collect();
        match (name.as_str(), value.as_str()) {
            ("handling", "lenient") => self.lenient = true,
            ("return", "minimal") => {
                self.applied = Some("return=minimal");
                (self.containment, self.membership) = (false, false);
            }
            ("return", "representation") => {
                self.applied = Some(RETURN_REPRESENTATION);
                self.choose(&parameters);
            }
            _ => {}
        }
    }

    fn choose(&mut self, parameters: &[(String, String)]) {
        let named = |parameter: &str, iri: &str| {
            let of_name = parameters.iter().filter(|(name, _)| name == parameter);
            of_name.flat_map(|(_, value)| value.split_ascii_whitespace()).any(|known| known == iri)
        };
        let included = |iri| named("include", iri);
        let minimal =
            included(ldp::PREFER_MINIMAL_CONTAINER.as_str()) || included(ldp::PREFER_EMPTY_CONTAINER.as_str());
        let wanted = |iri: &str| (!minimal || named("include", iri)) && !named("omit", iri);
        self.containment = wanted(ldp::PREFER_CONTAINMENT.as_str());
        self.membership = wanted(ldp::PREFER_MEMBERSHIP.as_str());
        let count =
            parameters.iter().find(|(name, _)| name == "max-member-count").and_then(|(_, value)| value.parse().ok());
        self.members_max = count.filter(|count| *count > 0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn preferred(value: &str) -> (bool, bool, Option<&'static str>) {
        let preferences = Preferences::of(&HeaderMap::from_iter([(PREFER, value.parse().unwrap())]));
        (preferences.containment, preferences.membership, preferences.applied)
    }

    #[test]
    fn what_is_included_and_omitted_is_what_the_client_says() {
        const REPRESENTATION: Option<&str> = Some("return=representation");
        let ldp = |names: &[&str]| {
            names.iter().map(|name| format!("http://www.w3.org/ns/ldp#{name}")).collect::<Vec<_>>().join(" ")
        };
        let include = |names: &[&str]| preferred(&format!("return=representation; include=\"{}\"", ldp(names)));
        let omit = |names: &[&str]| preferred(&format!("return=representation; omit=\"{}\"", ldp(names)));
        assert_eq!(preferred("respond-async"), (true, true, None));
        assert_eq!(preferred("return=minimal"), (false, false, Some("return=minimal")));
        assert_eq!(include(&["PreferMinimalContainer"]), (false, false, REPRESENTATION));
        assert_eq!(include(&["PreferMinimalContainer", "PreferMembership"]), (false, true, REPRESENTATION));
        assert_eq!(include(&["PreferContainment"]), (true, true, REPRESENTATION));
        assert_eq!(omit(&["PreferContainment"]), (false, true, REPRESENTATION));
        assert_eq!(omit(&["PreferContainment", "PreferMembership"]), (false, false, REPRESENTATION));
    }

    #[test]
    fn a_page_size_is_a_number_above_zero() {
        let size = |value: &str| {
            let value = format!("return=representation; max-member-count=\"{value}\"").parse().unwrap();
            Preferences::of(&HeaderMap::from_iter([(PREFER, value)])).members_max
        };
        assert_eq!((size("20"), size("0"), size("many"), size("-1")), (Some(20), None, None, None));
    }
}
