//! The form of a Direct or an Indirect Container (LDP 1.0, sections 5.4 and 5.5): what a person
//! types in, as statements about the new container. The rules are those of any other request.

use heads::ResourcePath;
use maud::{Markup, html};
use rdf::Iri;
use rdf::vocab::{PREFIXES, ldp};
use serde_json::{Map, Value, json};

use super::sent::Sent;
use super::shown::{Shown, field, group_box};
use super::{Action, GROUP, SLUG, TITLE};
use crate::address::Site;
use crate::errors::LdpError;
use crate::model::Members;

/// The field with the kind of container.
const KIND: &str = "kind";
/// The field with the membership resource.
const MEMBERSHIP_RESOURCE: &str = "membership-resource";
/// The field with the direction of the membership statements.
const DIRECTION: &str = "direction";
/// The field with the relation of the membership statements.
const RELATION: &str = "relation";
/// The field with the inserted content relation.
const INSERTED: &str = "inserted-content-relation";

/// The kinds, with what they mean.
const KINDS: [(&str, &str); 2] = [
    ("direct", "Direct Container: each new child is a member"),
    ("indirect", "Indirect Container: each new child names a member"),
];

/// The directions, with what they mean.
const DIRECTIONS: [(&str, &str); 2] = [
    ("has-member", "from that resource to the member (hasMemberRelation)"),
    ("is-member-of", "from the member to that resource (isMemberOfRelation)"),
];

/// The class of the container that a form asks for, and what the form says of its members.
pub fn asked_for(sent: &Sent, site: &Site) -> Result<(Members, Map<String, Value>), LdpError> {
    let members = match sent.text(KIND) {
        "direct" => Members::Direct,
        "indirect" => Members::Indirect,
        _ => return Err(LdpError::parameter(KIND, "choose a Direct or an Indirect Container")),
    };
    let direction = match sent.text(DIRECTION) {
        "has-member" => ldp::HAS_MEMBER_RELATION,
        "is-member-of" => ldp::IS_MEMBER_OF_RELATION,
        _ => return Err(LdpError::parameter(DIRECTION, "choose a direction")),
    };
    if members == Members::Direct && !sent.text(INSERTED).is_empty() {
        return Err(LdpError::parameter(INSERTED, "only an Indirect Container has one"));
    }
    let mut statements = Map::new();
    for (name, property) in [
        (MEMBERSHIP_RESOURCE, ldp::MEMBERSHIP_RESOURCE),
        (RELATION, direction),
        (INSERTED, ldp::INSERTED_CONTENT_RELATION),
    ] {
        // The server adds what is left out. A direction alone means its usual relation.
        let typed = match (name, sent.text(name)) {
            (RELATION, "") => ldp::MEMBER.as_str(),
            (_, typed) => typed,
        };
        if !typed.is_empty() {
            statements.insert(property.as_str().to_owned(), json!({ "@id": iri(name, typed, site)? }));
        }
    }
    Ok((members, statements))
}

/// What a person means: a path in the repository, a name with a usual prefix, or a whole address.
fn iri(field: &str, typed: &str, site: &Site) -> Result<String, LdpError> {
    if typed.starts_with('/') {
        let path = ResourcePath::parse(typed.trim_matches('/'));
        return path.map(|path| site.iri(&path)).map_err(|error| LdpError::parameter(field, error.to_string()));
    }
    let names = |(prefix, namespace): &(&str, &str)| {
        Some(format!("{namespace}{}", typed.strip_prefix(prefix)?.strip_prefix(':')?))
    };
    let whole = PREFIXES.iter().find_map(names).unwrap_or_else(|| typed.to_owned());
    let why = "write a path that begins with /, a name such as dcterms:hasPart, or a whole address";
    Iri::parse(whole).map(Iri::into_inner).map_err(|_| LdpError::parameter(field, why))
}

/// The fields of the form. `may_be_group`: the container can be an archival group.
pub fn fields(shown: &Shown, may_be_group: bool) -> Markup {
    let typed = |field| shown.typed(Action::CreateWithMembers, field);
    let is_typed = |field, value, usual: &str| typed(field).unwrap_or(usual) == value;
    html! {
        p { "For each resource that is created in such a container, the server states that a resource has a member." }
        fieldset {
            legend { "Kind" }
            @for (kind, meaning) in KINDS {
                p { label { input type="radio" name=(KIND) value=(kind) checked[is_typed(KIND, kind, KINDS[0].0)]; " " (meaning) } }
            }
        }
        (field("members-title", TITLE, "Title", typed(TITLE)))
        (field("members-name", SLUG, "Name in the address (made of the title if it is empty)", typed(SLUG)))
        (field(
            "members-resource",
            MEMBERSHIP_RESOURCE,
            "Resource that has the members: a path such as /book, or an address (this container if it is empty)",
            typed(MEMBERSHIP_RESOURCE),
        ))
        p {
            label for="members-direction" { "Direction of the statements" }
            select id="members-direction" name=(DIRECTION) {
                @for (direction, meaning) in DIRECTIONS {
                    option value=(direction) selected[is_typed(DIRECTION, direction, DIRECTIONS[0].0)] { (meaning) }
                }
            }
        }
        (field(
            "members-relation",
            RELATION,
            "Relation of the statements, such as dcterms:hasPart (ldp:member if it is empty)",
            typed(RELATION),
        ))
        (field(
            "members-inserted",
            INSERTED,
            "For an Indirect Container: the relation by which a child names its member, such as foaf:primaryTopic \
             (the child itself if it is empty)",
            typed(INSERTED),
        ))
        @if may_be_group { (group_box(typed(GROUP))) }
        p { button.primary { "Add" } }
    }
}
