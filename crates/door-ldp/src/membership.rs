//! Membership (LDP 1.0, sections 5.4 and 5.5): the rule in a container's description, and the
//! statements that follow from it.

use heads::ResourcePath;
use rdf::update::Removal;
use rdf::vocab::ldp;
use rdf::{Graph, NamedNode, NamedNodeRef, Term, Triple};
use repository::{Child, MemberRule, Membership, Relation};

use crate::address::{kept_iri, path_of_kept};
use crate::errors::LdpError;
use crate::fedora;
use crate::model::{Members, Model};

/// The rule of a resource with this model, if it is such a container.
pub fn rule_of(graph: &mut Graph, path: &ResourcePath, model: Model) -> Result<Membership, LdpError> {
    match model {
        Model::Container(members) | Model::Group(members) => rule(graph, path, members),
        Model::RdfSource | Model::Binary => Ok(Membership::Basic),
    }
}

/// The rule of a container, by its description (with stored IRIs). By default its members are its
/// own, by `ldp:member`.
fn rule(graph: &mut Graph, path: &ResourcePath, members: Members) -> Result<Membership, LdpError> {
    if members == Members::Basic {
        return Ok(Membership::Basic);
    }
    let own = kept_iri(path);
    let resource = match only(graph, &own, ldp::MEMBERSHIP_RESOURCE)? {
        Some(resource) => resource,
        None => say(graph, &own, ldp::MEMBERSHIP_RESOURCE, &own),
    };
    let has_member = only(graph, &own, ldp::HAS_MEMBER_RELATION)?;
    let is_member_of = only(graph, &own, ldp::IS_MEMBER_OF_RELATION)?;
    let relation = match (has_member, is_member_of) {
        (Some(relation), None) => Relation::HasMember(relation),
        (None, Some(relation)) => Relation::IsMemberOf(relation),
        (None, None) => Relation::HasMember(say(graph, &own, ldp::HAS_MEMBER_RELATION, ldp::MEMBER.as_str())),
        (Some(_), Some(_)) => {
            return Err(LdpError::Constraint {
                why: "a container has one membership relation, in one direction",
                statements: statements(graph, &own, &[ldp::HAS_MEMBER_RELATION, ldp::IS_MEMBER_OF_RELATION]),
            });
        }
    };
    let (Relation::HasMember(iri) | Relation::IsMemberOf(iri)) = &relation;
    if is_servers(iri) {
        return Err(LdpError::Constraint {
            why: "the server manages statements with this relation, so it cannot express membership",
            statements: statements(graph, &own, &[ldp::HAS_MEMBER_RELATION, ldp::IS_MEMBER_OF_RELATION]),
        });
    }
    let rule = MemberRule { resource, relation };
    if members == Members::Direct {
        return Ok(Membership::Direct(rule));
    }
    let inserted = match only(graph, &own, ldp::INSERTED_CONTENT_RELATION)? {
        Some(inserted) => inserted,
        None => say(graph, &own, ldp::INSERTED_CONTENT_RELATION, ldp::MEMBER_SUBJECT.as_str()),
    };
    Ok(Membership::Indirect(rule, inserted))
}

/// Whether the server manages statements with this relation: all of the vocabularies of LDP and
/// Fedora except `ldp:member`, which is made for membership.
fn is_servers(relation: &str) -> bool {
    let term = NamedNodeRef::new_unchecked(relation);
    let is_reserved = relation.starts_with(ldp::NAMESPACE) || fedora::is_of(term) || term == rdf::vocab::rdf::TYPE;
    is_reserved && term != ldp::MEMBER
}

/// Containment as a rule: it is like the rule of a Direct Container, with another relation.
pub fn of_containment(container: &ResourcePath) -> Membership {
    let relation = Relation::HasMember(ldp::CONTAINS.as_str().to_owned());
    Membership::Direct(MemberRule { resource: kept_iri(container), relation })
}

/// The resource of this repository, other than the container itself, to which a container gives
/// members.
pub fn members_for(membership: &Membership, container: &ResourcePath) -> Option<ResourcePath> {
    path_of_kept(&membership.rule()?.resource).filter(|path| path != container)
}

/// The member that a new child's description (with stored IRIs) names for its container.
pub fn member_named(membership: &Membership, graph: &Graph, child: &ResourcePath) -> Option<String> {
    let Membership::Indirect(_, inserted) = membership else { return None };
    let own = kept_iri(child);
    let mut objects = graph.objects(NamedNodeRef::new_unchecked(&own).into(), NamedNodeRef::new_unchecked(inserted));
    objects.find_map(|object| match object {
        Term::NamedNode(member) => Some(member.as_str().to_owned()),
        _ => None,
    })
}

/// Whether children name the members, instead of being members themselves.
pub fn is_named_by_children(membership: &Membership) -> bool {
    matches!(membership, Membership::Indirect(_, inserted) if inserted != ldp::MEMBER_SUBJECT.as_str())
}

/// The statement that follows from a child, with stored IRIs; `None` if none does.
pub fn statement(membership: &Membership, container: &ResourcePath, child: &Child) -> Option<Triple> {
    let rule = membership.rule()?;
    let member = match is_named_by_children(membership) {
        true => child.member.clone()?,
        false => kept_iri(&container.child(&child.name).ok()?),
    };
    Some(statement_of(rule, &member))
}

/// Bytes of the IRIs of a rule; 0 if there is none.
pub fn bytes_of(membership: &Membership) -> usize {
    let Some(rule) = membership.rule() else { return 0 };
    let (Relation::HasMember(relation) | Relation::IsMemberOf(relation)) = &rule.relation;
    let inserted = match membership {
        Membership::Indirect(_, inserted) => inserted.len(),
        Membership::Basic | Membership::Direct(_) => 0,
    };
    rule.resource.len() + relation.len() + inserted
}

/// The statement that a rule makes of a member.
pub fn statement_of(rule: &MemberRule, member: &str) -> Triple {
    let node = |iri: &str| NamedNode::new_unchecked(iri);
    let resource = node(&rule.resource);
    match &rule.relation {
        Relation::HasMember(relation) => Triple::new(resource, node(relation), node(member)),
        Relation::IsMemberOf(relation) => Triple::new(node(member), node(relation), resource),
    }
}

/// The member of a statement that could follow from a rule; `None` if it could not.
pub fn member_in<'a>(rule: &MemberRule, triple: &'a Triple) -> Option<&'a str> {
    let Term::NamedNode(object) = &triple.object else { return None };
    let rdf::NamedOrBlankNode::NamedNode(subject) = &triple.subject else { return None };
    let predicate = triple.predicate.as_str();
    match &rule.relation {
        Relation::HasMember(relation) => {
            (predicate == relation && subject.as_str() == rule.resource).then_some(object.as_str())
        }
        Relation::IsMemberOf(relation) => {
            (predicate == relation && object.as_str() == rule.resource).then_some(subject.as_str())
        }
    }
}

/// The statements of a rule that an update would delete.
pub enum Taken<'a> {
    /// That of one member.
    One(&'a str),
    /// Those of whatever members there are.
    All,
}

/// The statements of a rule that this removal of an update affects; `None` if it affects none.
pub fn taken<'a>(rule: &MemberRule, removal: &'a Removal) -> Option<Taken<'a>> {
    let subject = removal.subject.as_ref().map(NamedNode::as_str);
    let object = match &removal.object {
        Some(Term::NamedNode(object)) => Some(object.as_str()),
        Some(_) => return None,
        None => None,
    };
    let (relation, resource, member) = match &rule.relation {
        Relation::HasMember(relation) => (relation, subject, object),
        Relation::IsMemberOf(relation) => (relation, object, subject),
    };
    let fits = removal.predicate.as_ref().is_some_and(|predicate| predicate.as_str() == relation)
        && resource.is_none_or(|resource| resource == rule.resource);
    fits.then(|| member.map_or(Taken::All, Taken::One))
}

/// The only object of a relation, which must be an IRI; `None` if there is none.
fn only(graph: &Graph, subject: &str, predicate: NamedNodeRef<'_>) -> Result<Option<String>, LdpError> {
    let objects: Vec<_> = graph.objects(NamedNodeRef::new_unchecked(subject).into(), predicate).collect();
    match objects[..] {
        [] => Ok(None),
        [Term::NamedNode(object)] => Ok(Some(object.as_str().to_owned())),
        _ => Err(LdpError::Constraint {
            why: "this is allowed once, and its object must be an IRI",
            statements: statements(graph, subject, &[predicate]),
        }),
    }
}

fn say(graph: &mut Graph, subject: &str, predicate: NamedNodeRef<'_>, object: &str) -> String {
    graph.insert(Triple::new(
        NamedNode::new_unchecked(subject),
        predicate.into_owned(),
        NamedNode::new_unchecked(object),
    ));
    object.to_owned()
}

fn statements(graph: &Graph, subject: &str, predicates: &[NamedNodeRef<'_>]) -> Vec<String> {
    let subject = NamedNodeRef::new_unchecked(subject);
    let fits =
        |triple: &&Triple| triple.subject.as_ref() == subject.into() && predicates.contains(&triple.predicate.as_ref());
    graph.iter().filter(fits).map(ToString::to_string).collect()
}
