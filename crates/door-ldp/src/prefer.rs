//! `Prefer` (RFC 7240; LDP 1.0, section 7.2; LDP Paging, section 7; what Fedora adds).

use std::collections::BTreeSet;

use http::{HeaderMap, HeaderName, HeaderValue};
use rdf::vocab::ldp;

use crate::fedora;
use crate::links::{parameter, split, values};

/// What a client prefers.
pub const PREFER: HeaderName = HeaderName::from_static("prefer");
/// RFC 7240, section 3.
pub const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// A container without its contents, and the older name of the preference.
const MINIMAL: [&str; 2] = [ldp::PREFER_MINIMAL_CONTAINER.as_str(), ldp::PREFER_EMPTY_CONTAINER.as_str()];

/// Names of supported preferences.
const CONTAINMENT: &str = ldp::PREFER_CONTAINMENT.as_str();
const MEMBERSHIP: &str = ldp::PREFER_MEMBERSHIP.as_str();
const SERVER_MANAGED: &str = fedora::SERVER_MANAGED.as_str();
/// Fedora API, section 3.1.1: from the vocabulary of Web Annotation.
const CONTAINED_DESCRIPTIONS: &str = "http://www.w3.org/ns/oa#PreferContainedDescriptions";

/// Fedora API, section 3.1.1.
const INBOUND_REFERENCES: &str = "http://fedora.info/definitions/fcrepo#PreferInboundReferences";

/// A client's preferences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preferences {
    /// Whether to send containment.
    pub containment: bool,
    /// Whether to send membership.
    pub membership: bool,
    /// Whether to send server-managed statements: times, sizes, digests, types.
    pub managed: bool,
    /// Whether to send the stored description.
    pub description: bool,
    /// Whether to send the descriptions of children.
    pub contained_descriptions: bool,
    /// Whether to send the statements of other resources that refer to it.
    pub inbound_references: bool,
    /// The preferred kind of response.
    pub answer: Option<ReturnPreference>,
    /// Whether the server understood all of `include` and `omit`.
    is_understood: bool,
    /// Members per page, if pages are preferred.
    pub members_max: Option<usize>,
    /// Whether to ignore server-managed statements in a body instead of checking them.
    pub lenient: bool,
}

/// A kind of response (RFC 7240, section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnPreference {
    /// Minimal.
    Minimal,
    /// With the current representation.
    Representation,
}

impl ReturnPreference {
    /// As in headers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Minimal => "return=minimal",
            Self::Representation => "return=representation",
        }
    }
}

impl Default for Preferences {
    fn default() -> Self {
        Self {
            containment: true,
            membership: true,
            managed: true,
            description: true,
            contained_descriptions: false,
            inbound_references: false,
            answer: None,
            is_understood: true,
            members_max: None,
            lenient: false,
        }
    }
}

impl Preferences {
    /// The preferences of a request. Unknown ones are ignored (section 2).
    pub fn of(headers: &HeaderMap) -> Self {
        let mut preferences = Self::default();
        for value in values(headers, &PREFER) {
            split(&value, ',').into_iter().for_each(|preference| preferences.add(preference));
        }
        preferences
    }

    /// Whether to send statements from the descriptions of other resources.
    pub fn of_others(&self) -> bool {
        self.contained_descriptions || self.inbound_references
    }

    /// The same preferences without these statements.
    #[must_use]
    pub fn without_others(self) -> Self {
        let is_understood = self.is_understood && !self.of_others();
        Self { contained_descriptions: false, inbound_references: false, is_understood, ..self }
    }

    /// The `Preference-Applied` of a response that follows these; none if some part was not
    /// understood, because its syntax cannot express parts of a preference.
    pub fn applied(&self) -> Option<&'static str> {
        self.answer.filter(|_| self.is_understood).map(ReturnPreference::name)
    }

    /// Sets `Preference-Applied`.
    pub fn confirm(&self, answer: &mut HeaderMap) {
        if let Some(applied) = self.applied() {
            answer.insert(PREFERENCE_APPLIED, HeaderValue::from_static(applied));
        }
    }

    /// Sets it, if the client prefers a minimal response to a change, which is the default.
    pub fn confirm_minimal(headers: &HeaderMap, answer: &mut HeaderMap) {
        let preferences = Self::of(headers);
        if preferences.answer == Some(ReturnPreference::Minimal) {
            preferences.confirm(answer);
        }
    }

    /// Distinguishes representations of one state by their preferences.
    pub fn tag(&self) -> u8 {
        let (containment, membership) = (self.containment, self.membership);
        let others = [self.contained_descriptions, self.inbound_references];
        let bits = [containment, membership, !self.managed, !self.description, others[0], others[1]];
        bits.iter().enumerate().map(|(bit, is_set)| u8::from(*is_set) << bit).sum()
    }

    fn add(&mut self, preference: &str) {
        let mut fields = split(preference, ';').into_iter().filter_map(parameter);
        let Some((name, value)) = fields.next() else { return };
        let parameters: Vec<_> = fields.collect();
        match (name.as_str(), value.as_str()) {
            ("handling", "lenient") => self.lenient = true,
            ("return", "minimal") => {
                self.answer = Some(ReturnPreference::Minimal);
                (self.containment, self.membership) = (false, false);
            }
            ("return", "representation") => {
                self.answer = Some(ReturnPreference::Representation);
                self.choose(&parameters);
            }
            _ => {}
        }
    }

    fn choose(&mut self, parameters: &[(String, String)]) {
        let named = |parameter: &str| -> BTreeSet<&str> {
            let of_name = parameters.iter().filter(|(name, _)| name == parameter);
            of_name.flat_map(|(_, value)| value.split_ascii_whitespace()).collect()
        };
        let (included, omitted) = (named("include"), named("omit"));
        let is_among = |iris: &BTreeSet<&str>| MINIMAL.iter().any(|iri| iris.contains(iri));
        let (only_minimal, no_minimal) = (is_among(&included), is_among(&omitted));
        let wanted = |iri: &str, otherwise: bool| !omitted.contains(iri) && (included.contains(iri) || otherwise);
        self.containment = wanted(CONTAINMENT, !only_minimal);
        self.membership = wanted(MEMBERSHIP, !only_minimal);
        self.managed = wanted(SERVER_MANAGED, !no_minimal);
        self.description = !no_minimal;
        self.contained_descriptions = wanted(CONTAINED_DESCRIPTIONS, false);
        self.inbound_references = wanted(INBOUND_REFERENCES, false);
        let known = [CONTAINMENT, MEMBERSHIP, SERVER_MANAGED, CONTAINED_DESCRIPTIONS, INBOUND_REFERENCES];
        let is_known = included.union(&omitted).all(|iri| known.contains(iri) || MINIMAL.contains(iri));
        self.is_understood = is_known && included.is_disjoint(&omitted);
        let count =
            parameters.iter().find(|(name, _)| name == "max-member-count").and_then(|(_, value)| value.parse().ok());
        self.members_max = count.filter(|count| *count > 0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const REPRESENTATION: Option<&str> = Some("return=representation");

    fn of(value: &str) -> Preferences {
        Preferences::of(&HeaderMap::from_iter([(PREFER, value.parse().unwrap())]))
    }

    fn choosing(parameter: &str, iris: &[&str]) -> Preferences {
        of(&format!("return=representation; {parameter}=\"{}\"", iris.join(" ")))
    }

    #[test]
    fn the_client_chooses_what_is_included_and_omitted() {
        let listed =
            |preferences: Preferences| (preferences.containment, preferences.membership, preferences.applied());
        assert_eq!(listed(of("respond-async")), (true, true, None));
        assert_eq!(listed(of("return=minimal")), (false, false, Some("return=minimal")));
        assert_eq!(listed(choosing("include", &MINIMAL[..1])), (false, false, REPRESENTATION));
        assert_eq!(listed(choosing("include", &[MINIMAL[1], MEMBERSHIP])), (false, true, REPRESENTATION));
        assert_eq!(listed(choosing("include", &[CONTAINMENT])), (true, true, REPRESENTATION));
        assert_eq!(listed(choosing("omit", &[CONTAINMENT])), (false, true, REPRESENTATION));
        assert_eq!(listed(choosing("omit", &[CONTAINMENT, MEMBERSHIP])), (false, false, REPRESENTATION));

        let itself = |preferences: Preferences| (preferences.managed, preferences.description, preferences.applied());
        assert_eq!(itself(of("return=minimal")), (true, true, Some("return=minimal")));
        assert_eq!(itself(choosing("include", &MINIMAL)), (true, true, REPRESENTATION));
        assert_eq!(itself(choosing("omit", &MINIMAL[..1])), (false, false, REPRESENTATION));
        assert_eq!(itself(choosing("omit", &[SERVER_MANAGED])), (false, true, REPRESENTATION));
        assert!(choosing("omit", &MINIMAL).containment);
        assert!(choosing("include", &[CONTAINED_DESCRIPTIONS]).contained_descriptions);
        assert!(!choosing("omit", &[CONTAINED_DESCRIPTIONS]).contained_descriptions);
    }

    #[test]
    fn an_unknown_preference_is_not_reported_as_applied() {
        for parameter in ["include", "omit"] {
            let preferences = choosing(parameter, &["http://example.org/unknown", CONTAINMENT]);
            assert_eq!(preferences.applied(), None);
            assert_eq!(preferences.containment, parameter == "include", "what is understood is followed");
        }
        let both = format!("return=representation; include=\"{CONTAINMENT}\"; omit=\"{CONTAINMENT}\"");
        assert_eq!(of(&both).applied(), None);
        assert_eq!(of("return=representation").applied(), REPRESENTATION);
        assert_eq!(choosing("include", &[CONTAINED_DESCRIPTIONS]).without_others().applied(), None);
    }

    #[test]
    fn different_representations_have_different_tags() {
        let all = [
            of(""),
            of("return=minimal"),
            choosing("omit", &MINIMAL),
            choosing("omit", &[SERVER_MANAGED]),
            choosing("omit", &[CONTAINMENT]),
            choosing("omit", &[MEMBERSHIP]),
            choosing("include", &[CONTAINED_DESCRIPTIONS]),
            choosing("include", &[INBOUND_REFERENCES]),
        ];
        let tags: BTreeSet<_> = all.iter().map(Preferences::tag).collect();
        assert_eq!(tags.len(), all.len());
    }

    #[test]
    fn a_page_size_is_a_number_above_zero() {
        let size = |value: &str| of(&format!("return=representation; max-member-count=\"{value}\"")).members_max;
        assert_eq!((size("20"), size("0"), size("many"), size("-1")), (Some(20), None, None, None));
    }
}
