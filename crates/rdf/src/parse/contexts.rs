//! The built-in contexts (`contexts/`). Documents can name them by their addresses, though no
//! context is fetched.

use oxjsonld::JsonLdRemoteDocument;

/// Host and path of each, with its document. Both schemes name the same context.
const BUILT_IN: [(&str, &str); 2] = [
    ("www.w3.org/ns/anno.jsonld", include_str!("contexts/anno.json")),
    ("www.w3.org/ns/ldp.jsonld", include_str!("contexts/ldp.json")),
];

/// Bytes of the longest.
pub(super) const LONGEST_BYTES: usize = {
    let [(_, annotations), (_, containers)] = BUILT_IN;
    if annotations.len() > containers.len() { annotations.len() } else { containers.len() }
};

/// The document with the context at an address, if it is built in.
pub(super) fn built_in(iri: &str) -> Option<JsonLdRemoteDocument> {
    let address = iri.strip_prefix("https://").or_else(|| iri.strip_prefix("http://"))?;
    let (_, document) = BUILT_IN.iter().find(|(known, _)| *known == address)?;
    Some(JsonLdRemoteDocument { document: document.as_bytes().to_vec(), document_url: iri.to_owned() })
}

/// Whether a text names one of them, or could.
pub(super) fn is_built_in(text: &str) -> bool {
    BUILT_IN.iter().any(|(known, _)| text.ends_with(known))
}

/// Whether a text names one of them in which a term makes lists, or could.
pub(super) fn has_lists(text: &str) -> bool {
    BUILT_IN.iter().any(|(known, document)| text.ends_with(known) && document.contains("@list"))
}

/// The addresses of all of them, as text.
pub(super) fn addresses() -> String {
    BUILT_IN.map(|(address, _)| format!("http://{address}")).join(" and ")
}
