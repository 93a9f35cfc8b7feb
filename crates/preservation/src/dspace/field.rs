//! Fields of metadata, and the properties that they become.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::DIM;

const DC: &str = "http://purl.org/dc/elements/1.1/";
const DCTERMS: &str = "http://purl.org/dc/terms/";
const BIBO: &str = "http://purl.org/ontology/bibo/";

/// Characters of names that are not encoded (RFC 3986, section 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A value of a field, as `dim:field` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The schema, such as `dc`.
    pub schema: String,
    /// The element, such as `contributor`.
    pub element: String,
    /// The qualifier, such as `author`.
    pub qualifier: Option<String>,
    /// The language, as DSpace writes it: `en_US`.
    pub language: Option<String>,
    /// The value.
    pub value: String,
}

/// The property that a field becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Its address. No other field of the schemas `dc` and `dcterms` has the same.
    pub address: String,
    /// A wider property that common tools know, and that the field has as well.
    pub wider: Option<String>,
    /// Whether a value that is an address on the web names a resource.
    pub may_be_resource: bool,
}

/// Fields of the schema `dc` that another vocabulary has: element, qualifier (in small letters),
/// and property.
const KNOWN: [(&str, &str, &str, &str); 43] = [
    ("contributor", "author", DCTERMS, "creator"),
    ("coverage", "spatial", DCTERMS, "spatial"),
    ("coverage", "temporal", DCTERMS, "temporal"),
    ("date", "available", DCTERMS, "available"),
    ("date", "copyright", DCTERMS, "dateCopyrighted"),
    ("date", "created", DCTERMS, "created"),
    ("date", "issued", DCTERMS, "issued"),
    ("date", "submitted", DCTERMS, "dateSubmitted"),
    ("date", "updated", DCTERMS, "modified"),
    ("description", "", DCTERMS, "description"),
    ("description", "abstract", DCTERMS, "abstract"),
    ("description", "tableofcontents", DCTERMS, "tableOfContents"),
    ("format", "extent", DCTERMS, "extent"),
    ("format", "medium", DCTERMS, "medium"),
    ("identifier", "citation", DCTERMS, "bibliographicCitation"),
    ("identifier", "doi", BIBO, "doi"),
    ("identifier", "isbn", BIBO, "isbn"),
    ("identifier", "issn", BIBO, "issn"),
    ("identifier", "sici", BIBO, "sici"),
    ("identifier", "uri", DCTERMS, "identifier"),
    ("language", "iso", DCTERMS, "language"),
    ("relation", "conformsto", DCTERMS, "conformsTo"),
    ("relation", "hasformat", DCTERMS, "hasFormat"),
    ("relation", "haspart", DCTERMS, "hasPart"),
    ("relation", "hasversion", DCTERMS, "hasVersion"),
    ("relation", "isbasedon", DCTERMS, "references"),
    ("relation", "isformatof", DCTERMS, "isFormatOf"),
    ("relation", "ispartof", DCTERMS, "isPartOf"),
    ("relation", "isreferencedby", DCTERMS, "isReferencedBy"),
    ("relation", "isreplacedby", DCTERMS, "isReplacedBy"),
    ("relation", "isrequiredby", DCTERMS, "isRequiredBy"),
    ("relation", "isversionof", DCTERMS, "isVersionOf"),
    ("relation", "replaces", DCTERMS, "replaces"),
    ("relation", "requires", DCTERMS, "requires"),
    ("relation", "uri", DCTERMS, "relation"),
    ("rights", "accessrights", DCTERMS, "accessRights"),
    ("rights", "holder", DCTERMS, "rightsHolder"),
    ("rights", "license", DCTERMS, "license"),
    ("rights", "uri", DCTERMS, "rights"),
    ("source", "uri", DCTERMS, "source"),
    ("title", "", DCTERMS, "title"),
    ("title", "alternative", DCTERMS, "alternative"),
    ("audience", "", DCTERMS, "audience"),
];

/// The elements of Dublin Core 1.1 that keep their name without a qualifier.
const ELEMENTS: [&str; 13] = [
    "contributor",
    "coverage",
    "creator",
    "date",
    "format",
    "identifier",
    "language",
    "publisher",
    "relation",
    "rights",
    "source",
    "subject",
    "type",
];

/// The elements of which a qualified field is one too: an advisor is a contributor. The date of a
/// step in DSpace is not a date of the work.
const WIDER: [&str; 5] = ["contributor", "coverage", "relation", "subject", "type"];

/// The properties of `http://purl.org/dc/terms/`, as DSpace's schema `dcterms` has them.
const TERMS: [&str; 55] = [
    "abstract",
    "accessRights",
    "accrualMethod",
    "accrualPeriodicity",
    "accrualPolicy",
    "alternative",
    "audience",
    "available",
    "bibliographicCitation",
    "conformsTo",
    "contributor",
    "coverage",
    "created",
    "creator",
    "date",
    "dateAccepted",
    "dateCopyrighted",
    "dateSubmitted",
    "description",
    "educationLevel",
    "extent",
    "format",
    "hasFormat",
    "hasPart",
    "hasVersion",
    "identifier",
    "instructionalMethod",
    "isFormatOf",
    "isPartOf",
    "isReferencedBy",
    "isReplacedBy",
    "isRequiredBy",
    "isVersionOf",
    "issued",
    "language",
    "license",
    "mediator",
    "medium",
    "modified",
    "provenance",
    "publisher",
    "references",
    "relation",
    "replaces",
    "requires",
    "rights",
    "rightsHolder",
    "source",
    "spatial",
    "subject",
    "tableOfContents",
    "temporal",
    "title",
    "type",
    "valid",
];

impl Field {
    /// Whether it is this field of the schema `dc`.
    pub(super) fn is(&self, element: &str, qualifier: Option<&str>) -> bool {
        self.schema == "dc" && self.element == element && self.qualifier.as_deref() == qualifier
    }

    /// The first value of a field of the schema `dc`.
    pub(super) fn first<'a>(fields: &'a [Self], element: &str, qualifier: Option<&str>) -> Option<&'a str> {
        let value = fields.iter().find(|field| field.is(element, qualifier)).map(|field| field.value.as_str());
        value.filter(|value| !value.is_empty())
    }

    /// Whether DSpace shows it to nobody but administrators, unless it is set otherwise: the
    /// provenance names people by their addresses (`metadata.hide.dc.description.provenance`).
    pub fn is_hidden(&self) -> bool {
        self.is("description", Some("provenance")) || self.is("provenance", None)
    }

    /// Its name: schema, element and qualifier, with dots between them.
    pub fn name(&self) -> String {
        let qualifier = self.qualifier.iter().map(String::as_str);
        [self.schema.as_str(), &self.element].into_iter().chain(qualifier).collect::<Vec<_>>().join(".")
    }

    /// The property that it becomes.
    pub fn property(&self) -> Property {
        let qualifier = self.qualifier.as_deref().unwrap_or_default().to_ascii_lowercase();
        let element = self.element.as_str();
        let is_dc = self.schema == "dc";
        let known = KNOWN.iter().find(|(of, by, ..)| is_dc && *of == element && *by == qualifier);
        let address = match known {
            Some((_, _, vocabulary, name)) => format!("{vocabulary}{name}"),
            None if is_dc && qualifier.is_empty() && ELEMENTS.contains(&element) => format!("{DC}{element}"),
            None if self.schema == "dcterms" && qualifier.is_empty() && TERMS.contains(&element) => {
                format!("{DCTERMS}{element}")
            }
            None => format!("{DIM}{}", utf8_percent_encode(&self.name(), UNRESERVED)),
        };
        let is_wider = is_dc && !qualifier.is_empty() && address.starts_with(DIM) && WIDER.contains(&element);
        let wider = is_wider.then(|| format!("{DC}{element}"));
        let may_be_resource = qualifier == "uri" && element != "identifier";
        Property { address, wider, may_be_resource }
    }

    /// Its language as a tag of RFC 5646, as far as that follows from how DSpace writes it.
    pub fn language_tag(&self) -> Option<String> {
        let language = self.language.as_deref()?.trim().replace('_', "-");
        let is_part =
            |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_first = |part: &str| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_alphabetic());
        let is_tag = language.split('-').all(is_part) && language.split('-').next().is_some_and(is_first);
        is_tag.then_some(language)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn field(name: &str) -> Field {
        let mut parts = name.splitn(3, '.').map(str::to_owned);
        Field {
            schema: parts.next().unwrap_or_default(),
            element: parts.next().unwrap_or_default(),
            qualifier: parts.next(),
            language: None,
            value: String::new(),
        }
    }

    #[test]
    fn fields_become_properties_that_common_tools_know_and_all_others_keep_their_name() {
        let none = None::<&str>;
        for (name, address, wider) in [
            ("dc.title", "http://purl.org/dc/terms/title", none),
            ("dc.contributor.author", "http://purl.org/dc/terms/creator", none),
            ("dc.contributor", "http://purl.org/dc/elements/1.1/contributor", none),
            (
                "dc.contributor.advisor",
                "http://www.dspace.org/xmlns/dspace/dim#dc.contributor.advisor",
                Some("http://purl.org/dc/elements/1.1/contributor"),
            ),
            ("dc.date.accessioned", "http://www.dspace.org/xmlns/dspace/dim#dc.date.accessioned", none),
            ("dc.relation.ispartof", "http://purl.org/dc/terms/isPartOf", none),
            ("dcterms.isPartOf", "http://purl.org/dc/terms/isPartOf", none),
            ("dcterms.isPartOf.x", "http://www.dspace.org/xmlns/dspace/dim#dcterms.isPartOf.x", none),
            ("local.Sign atur", "http://www.dspace.org/xmlns/dspace/dim#local.Sign%20atur", none),
        ] {
            let property = field(name).property();
            assert_eq!((property.address.as_str(), property.wider.as_deref()), (address, wider), "{name}");
        }
    }

    #[test]
    fn no_two_fields_of_dublin_core_become_one_property() {
        let qualified = KNOWN.iter().map(|(element, qualifier, ..)| (*element, *qualifier));
        let all = qualified.chain(ELEMENTS.iter().map(|element| (*element, "")));
        let mut names: HashMap<String, String> = HashMap::new();
        for (element, qualifier) in all {
            let name = format!("dc.{element}.{qualifier}");
            let property = field(name.trim_end_matches('.')).property().address;
            assert_eq!(names.insert(property.clone(), name.clone()), None, "{name}: {property}");
        }
    }

    #[test]
    fn languages_are_tags_if_they_can_be() {
        for (written, tag) in [
            ("en_US", Some("en-US")),
            ("de", Some("de")),
            ("*", None),
            ("", None),
            ("e", None),
            ("zh_Hans_CN", Some("zh-Hans-CN")),
        ] {
            let field = Field { language: Some(written.to_owned()), ..field("dc.title") };
            assert_eq!(field.language_tag().as_deref(), tag, "{written}");
        }
    }
}
