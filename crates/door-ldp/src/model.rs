//! Interaction models (LDP 1.0, sections 4 and 5): which one a client requests, and which types
//! express it.

use heads::ResourcePath;
use http::HeaderMap;
use rdf::vocab::ldp;
use rdf::{Graph, NamedNodeRef, Term};
use repository::{Kind, Membership, Resource};

use crate::errors::LdpError;
use crate::settings::DefaultModel;
use crate::{fedora, links, timegate};

/// An interaction model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Statements.
    RdfSource,
    /// Statements, and other resources within.
    Container(Members),
    /// A container that is an archival group (Fedora).
    Group(Members),
    /// Bytes.
    Binary,
}

/// How a container makes membership statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Members {
    /// Not at all.
    Basic,
    /// For each child.
    Direct,
    /// For the member that each child names.
    Indirect,
}

impl Members {
    /// The type of such a container.
    pub fn class(self) -> NamedNodeRef<'static> {
        match self {
            Self::Basic => ldp::BASIC_CONTAINER,
            Self::Direct => ldp::DIRECT_CONTAINER,
            Self::Indirect => ldp::INDIRECT_CONTAINER,
        }
    }

    /// The kind of a container, by its rule.
    pub fn of(membership: &Membership) -> Self {
        match membership {
            Membership::Basic => Self::Basic,
            Membership::Direct(_) => Self::Direct,
            Membership::Indirect(..) => Self::Indirect,
        }
    }
}

impl Model {
    /// The model of a resource.
    pub fn of(resource: &Resource) -> Self {
        match resource.kind() {
            Kind::RdfSource => Self::RdfSource,
            Kind::Container { membership, .. } if resource.is_group() => Self::Group(Members::of(membership)),
            Kind::Container { membership, .. } => Self::Container(Members::of(membership)),
            Kind::Binary(_) => Self::Binary,
        }
    }

    /// All types of it, the most general first.
    pub fn types(self) -> Vec<NamedNodeRef<'static>> {
        match self {
            Self::RdfSource => vec![ldp::RESOURCE, ldp::RDF_SOURCE],
            Self::Container(members) => vec![ldp::RESOURCE, ldp::RDF_SOURCE, ldp::CONTAINER, members.class()],
            Self::Group(members) => {
                vec![ldp::RESOURCE, ldp::RDF_SOURCE, ldp::CONTAINER, members.class(), fedora::ARCHIVAL_GROUP]
            }
            Self::Binary => vec![ldp::RESOURCE, ldp::NON_RDF_SOURCE],
        }
    }

    /// Whether it has other resources within.
    pub fn is_container(self) -> bool {
        matches!(self, Self::Container(_) | Self::Group(_))
    }

    /// Whether a request that asks for this model may change a resource that has `current`: it names
    /// no other model, and maybe a more general one.
    pub fn fits(self, current: Self) -> bool {
        match (self, current) {
            (Self::Container(asked), Self::Group(members)) => asked == members,
            (Self::RdfSource, current) => current != Self::Binary,
            (asked, current) => asked == current,
        }
    }

    /// The further types of Fedora's vocabulary that a resource at this path has.
    pub fn fedora_types(self, path: &ResourcePath) -> Vec<NamedNodeRef<'static>> {
        let mut types = vec![fedora::RESOURCE];
        match self {
            Self::Container(_) | Self::Group(_) => types.push(fedora::CONTAINER),
            Self::Binary => types.push(fedora::BINARY),
            Self::RdfSource => {}
        }
        types.extend(path.is_root().then_some(fedora::REPOSITORY_ROOT));
        types
    }

    /// Refuses links to features that this server does not have: access rules for a resource (Web
    /// Access Control), and types that are not interaction models. Ignoring them would mislead the
    /// client. `keeps_versions`: versions are kept of what the request makes or changes, so that it
    /// has the types of a versioned resource (Fedora API, section 4).
    pub fn refuse_unknown(headers: &HeaderMap, keeps_versions: bool) -> Result<(), LdpError> {
        let links = links::of(headers);
        if links.iter().any(|link| link.has_rel("acl")) {
            return Err(LdpError::NotOffered(
                "a resource has no access rules of its own here: leave out `rel=\"acl\"`".to_owned(),
            ));
        }
        let is_known = |class: &str| {
            let of_every_kind = [fedora::RESOURCE, fedora::CONTAINER, fedora::BINARY, fedora::ARCHIVAL_GROUP];
            class.starts_with(ldp::NAMESPACE) || of_every_kind.iter().any(|known| known.as_str() == class)
        };
        let is_had = |class: &str| keeps_versions && timegate::is_of_versioned(class);
        let is_refused = |class: &str| !is_known(class) && !is_had(class);
        match links.iter().find(|link| link.has_rel("type") && is_refused(&link.target)) {
            Some(link) if timegate::is_of_versioned(&link.target) => Err(LdpError::NotOffered(format!(
                "no versions are kept here (history.resources, history.trees): leave out the type {}",
                link.target
            ))),
            Some(link) => Err(LdpError::Model(format!("{} is not an interaction model here", link.target))),
            None => Ok(()),
        }
    }

    /// Whether a type means an interaction model, except for types of every graph.
    pub fn is_told_by(class: NamedNodeRef<'_>) -> bool {
        let container = [ldp::CONTAINER, ldp::BASIC_CONTAINER, ldp::DIRECT_CONTAINER, ldp::INDIRECT_CONTAINER];
        container.contains(&class) || class == ldp::NON_RDF_SOURCE
    }

    /// The model that a request names by `Link: rel="type"`; `None` if it names none. `is_graph`:
    /// the body could be a graph.
    pub fn asked(headers: &HeaderMap, is_graph: bool) -> Result<Option<Self>, LdpError> {
        let types: Vec<_> =
            links::of(headers).into_iter().filter(|link| link.has_rel("type")).map(|link| link.target).collect();
        let is_group = types.iter().any(|class| class == fedora::ARCHIVAL_GROUP.as_str());
        let of_ldp = types.iter().filter_map(|class| class.strip_prefix(ldp::NAMESPACE));
        // A group is a container.
        let names: Vec<_> = of_ldp.chain(is_group.then_some("Container")).map(str::to_owned).collect();
        Ok(match Self::of_types(&names, is_graph)? {
            Some(Self::Container(members)) if is_group => Some(Self::Group(members)),
            model => model,
        })
    }

    /// The model of types in the namespace of LDP: the most specific one.
    fn of_types(types: &[String], is_graph: bool) -> Result<Option<Self>, LdpError> {
        let mut container = None;
        let (mut any, mut source, mut binary) = (false, false, false);
        for name in types {
            let members = match name.as_str() {
                "Resource" => {
                    any = true;
                    continue;
                }
                "RDFSource" => {
                    source = true;
                    continue;
                }
                "NonRDFSource" => {
                    binary = true;
                    continue;
                }
                "Container" => None,
                "BasicContainer" => Some(Members::Basic),
                "DirectContainer" => Some(Members::Direct),
                "IndirectContainer" => Some(Members::Indirect),
                other => return Err(LdpError::Model(format!("ldp:{other} is not an interaction model"))),
            };
            container = match (container, members) {
                (Some(Some(known)), Some(another)) if known != another => {
                    return Err(LdpError::Model("a container is of one kind only".to_owned()));
                }
                (Some(known), another) => Some(known.or(another)),
                (None, members) => Some(members),
            };
        }
        match (binary, container, source || any) {
            (true, None, _) if !source => Ok(Some(Self::Binary)),
            (true, ..) => Err(LdpError::Model("a resource is either a graph or bytes".to_owned())),
            (false, Some(members), _) => Ok(Some(Self::Container(members.unwrap_or(Members::Basic)))),
            (false, None, true) if source || is_graph => Ok(Some(Self::RdfSource)),
            (false, None, true) => Ok(Some(Self::Binary)),
            (false, None, false) => Ok(None),
        }
    }

    /// The model of a graph whose client requested none: the container type that the graph states,
    /// or the configured default.
    pub fn of_graph(graph: &Graph, subject: &str, default: DefaultModel) -> Result<Self, LdpError> {
        let said = types_in(graph, subject).into_iter().filter(|name| name.ends_with("Container")).collect::<Vec<_>>();
        if said.is_empty() && names_members(graph, subject) {
            return Err(LdpError::Model(
                "the graph says ldp:membershipResource, which a Direct or an Indirect Container has: say which it is by \
                 Link: <http://www.w3.org/ns/ldp#DirectContainer>; rel=\"type\" (or #IndirectContainer), or \
                 <http://www.w3.org/ns/ldp#BasicContainer> or #RDFSource if it is a statement like any other"
                    .to_owned(),
            ));
        }
        Ok(Self::of_types(&said, true)?.unwrap_or(match default {
            DefaultModel::Container => Self::Container(Members::Basic),
            DefaultModel::RdfSource => Self::RdfSource,
        }))
    }
}

/// Whether a graph says where the members of its subject are listed.
fn names_members(graph: &Graph, subject: &str) -> bool {
    let subject = NamedNodeRef::new_unchecked(subject);
    graph.objects(subject.into(), ldp::MEMBERSHIP_RESOURCE).next().is_some()
}

/// The local names of the types in the namespace of LDP that a graph gives a subject.
fn types_in(graph: &Graph, subject: &str) -> Vec<String> {
    let subject = NamedNodeRef::new_unchecked(subject);
    let types = graph.objects(subject.into(), rdf::vocab::rdf::TYPE);
    let local = types.filter_map(|object| match object {
        Term::NamedNode(class) => class.as_str().strip_prefix(ldp::NAMESPACE).map(str::to_owned),
        _ => None,
    });
    local.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn asked(types: &[&str], is_graph: bool) -> Result<Option<Model>, LdpError> {
        Model::of_types(&types.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), is_graph)
    }

    #[test]
    fn the_most_specific_type_is_the_model() {
        assert_eq!(asked(&[], true).unwrap(), None);
        assert_eq!(asked(&["Resource"], true).unwrap(), Some(Model::RdfSource));
        assert_eq!(asked(&["Resource"], false).unwrap(), Some(Model::Binary));
        assert_eq!(asked(&["RDFSource", "Resource"], false).unwrap(), Some(Model::RdfSource));
        assert_eq!(asked(&["NonRDFSource"], true).unwrap(), Some(Model::Binary));
        assert_eq!(asked(&["Container"], true).unwrap(), Some(Model::Container(Members::Basic)));
        assert_eq!(
            asked(&["Container", "DirectContainer", "RDFSource"], true).unwrap(),
            Some(Model::Container(Members::Direct))
        );
    }

    #[test]
    fn contradictory_and_unknown_types_are_refused() {
        for types in [
            &["NonRDFSource", "Container"][..],
            &["NonRDFSource", "RDFSource"],
            &["BasicContainer", "DirectContainer"],
            &["Page"],
        ] {
            assert!(asked(types, true).is_err(), "{types:?}");
        }
    }
}
