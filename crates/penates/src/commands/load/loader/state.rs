//! What a resource should be: what is said about it, its statements and its bytes.

use anyhow::{Context, ensure};
use preservation::about::About;
use rdf::{Graph, Iri, Limits, NamedNode, NamedOrBlankNode, Syntax, Term};

use super::super::source::Bytes;
use super::Loader;

/// The most bytes of the statements about one resource.
pub const DESCRIPTION_BYTES_MAX: u64 = 64 << 20;

/// A state of a resource.
pub struct State {
    /// What is said about it.
    pub about: About,
    /// The statements of clients.
    pub statements: Statements,
    /// Its bytes.
    pub bytes: Option<Bytes>,
}

/// Statements about a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statements {
    /// N-Triples with the addresses of the exported repository.
    Exported(Vec<u8>),
    /// The same as they are stored here, with the addresses of this repository.
    Moved(bytes::Bytes),
}

impl Statements {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Exported(text) => text.is_empty(),
            Self::Moved(text) => text.is_empty(),
        }
    }
}

impl From<Vec<u8>> for Statements {
    fn from(exported: Vec<u8>) -> Self {
        Self::Exported(exported)
    }
}

impl Loader {
    /// Statements as they are stored here.
    pub(super) fn statements(&self, state: &State) -> anyhow::Result<bytes::Bytes> {
        match &state.statements {
            Statements::Exported(text) => Ok(self.moved(&state.about, parsed(&state.about, text)?)),
            Statements::Moved(text) => Ok(text.clone()),
        }
    }

    /// Statements as they are stored here, with the addresses of this repository in the place of those
    /// of the exported one.
    pub fn moved(&self, about: &About, statements: Graph) -> bytes::Bytes {
        let move_node = |node: &mut NamedNode| {
            let rest = node.as_str().strip_prefix(about.repository.trim_end_matches('/'));
            let is_within = |rest: &&str| rest.is_empty() || rest.starts_with(['/', '#', '?']);
            if let Some(rest) = rest.filter(is_within) {
                *node = NamedNode::new_unchecked(format!("{}{rest}", self.root.trim_end_matches('/')));
            }
        };
        let moved = statements.into_iter().map(|mut triple| {
            if let NamedOrBlankNode::NamedNode(node) = &mut triple.subject {
                move_node(node);
            }
            move_node(&mut triple.predicate);
            if let Term::NamedNode(node) = &mut triple.object {
                move_node(node);
            }
            triple
        });
        rdf::to_stored(&moved.collect()).into()
    }
}

/// The graph of exported statements.
pub fn parsed(about: &About, statements: &[u8]) -> anyhow::Result<Graph> {
    let limits = Limits { body_bytes: DESCRIPTION_BYTES_MAX as usize, triples: usize::MAX, ..Limits::default() };
    let base = Iri::parse(about.repository.clone()).context("the address of the exported repository")?;
    ensure!(about.repository.ends_with('/'), "the address of the exported repository has no slash at its end");
    rdf::parse(statements, Syntax::NTriples, &base, &limits).context("its statements")
}
