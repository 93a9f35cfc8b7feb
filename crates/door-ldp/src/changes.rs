//! From a received body to what is stored: a new resource, or the update of one.

use std::pin::pin;

use area::OutsideArea;
use futures::{StreamExt, stream};
use heads::{ObjectsError, ResourcePath};
use rdf::Graph;
use rdf::update::Removal;
use repository::{Kind, Membership, NewKind, NewResource, Resource, ResourceError, Update, Uploaded, Written};

use crate::address::kept_iri;
use crate::errors::LdpError;
use crate::held::Held;
use crate::incoming::Incoming;
use crate::managed::{self, Rules, Standing};
use crate::membership;
use crate::model::Model;
use crate::prefer::Preferences;
use crate::request::LdpRequest;
use crate::statements::{is_container, paths_of};
use crate::stored::{kept_description, references};

/// Children that are listed together.
const PAGE_CHILDREN: usize = 256;

/// Children that are read at the same time.
const READ_AT_ONCE: usize = 16;

impl LdpRequest {
    /// The resource to create at a path, in the given container.
    pub async fn new_resource(
        &self,
        incoming: &Incoming,
        path: &ResourcePath,
        above: Option<&Resource>,
    ) -> Result<NewResource, LdpError> {
        match incoming {
            Incoming::Graph(body, asked) => self.new_graph(body.graph(path, self).await?, *asked, path, above),
            Incoming::Binary(uploaded) => Ok(new_binary(uploaded)),
        }
    }

    /// Creates a resource in a container, under the requested name or a fresh one.
    pub async fn create_in(
        &self,
        container: &ResourcePath,
        wish: Option<&str>,
        incoming: &Incoming,
    ) -> Result<Written, LdpError> {
        let repository = &self.library().repository;
        match incoming {
            Incoming::Graph(body, asked) => {
                let graph = body.graph_in(container, wish, self).await?;
                let make = |above: &Resource, path: &ResourcePath| {
                    self.new_graph(graph.at(&self.site, path), *asked, path, Some(above))
                };
                repository.create_in::<LdpError>(container, wish, make).await
            }
            Incoming::Binary(uploaded) => {
                let make = |_: &Resource, _: &ResourcePath| Ok(new_binary(uploaded));
                repository.create_in::<LdpError>(container, wish, make).await
            }
        }
    }

    /// The resource of a graph (with stored IRIs) to create at a path, in the given container.
    pub fn new_graph(
        &self,
        mut graph: Graph,
        asked: Option<Model>,
        path: &ResourcePath,
        above: Option<&Resource>,
    ) -> Result<NewResource, LdpError> {
        let model = match asked {
            Some(model) => model,
            None => Model::of_graph(&graph, &kept_iri(path), self.settings().default_model)?,
        };
        let membership = membership::rule_of(&mut graph, path, model)?;
        let rules = [membership::of_containment(path), membership.clone()].map(|rule| (rule, path.clone()));
        let lenient = Preferences::of(&self.headers).lenient;
        let standing = Standing { path, model, resource: None, rules: &rules, rules_outside: &[], lenient };
        // It contains nothing yet, so no statement of containment or membership can be true.
        let graph = standing.strip_new(graph)?;
        let of_above = above.and_then(|above| match above.kind() {
            Kind::Container { membership, .. } => Some(membership),
            _ => None,
        });
        let member = of_above.and_then(|membership| membership::member_named(membership, &graph, path));
        let (kind, members_for) = match model {
            Model::Container(_) | Model::Group(_) => {
                let members_for = self.members_for(&membership, path)?;
                let is_group = matches!(model, Model::Group(_));
                let kind = if is_group { NewKind::Group(membership) } else { NewKind::Container(membership) };
                (kind, members_for)
            }
            Model::RdfSource => (NewKind::RdfSource, None),
            Model::Binary => return Err(LdpError::Internal("a graph was taken for bytes".to_owned())),
        };
        let refers_to = references(&graph, path).into_iter().collect();
        Ok(NewResource { kind, description: rdf::to_stored(&graph).into(), member, members_for, refers_to })
    }

    /// The resource to which a container gives members. It is changed by that, in a way, so it has
    /// to be within the client's area.
    pub fn members_for(
        &self,
        membership: &Membership,
        container: &ResourcePath,
    ) -> Result<Option<ResourcePath>, OutsideArea> {
        let members_for = membership::members_for(membership, container);
        members_for.iter().try_for_each(|path| self.area.check_resource(path))?;
        Ok(members_for)
    }

    /// Refuses a limited client a change of what is in a container that gives members to a resource
    /// outside the client's area, or that would itself be created outside. `path` is what is to be
    /// created or deleted.
    pub async fn may_touch_above(&self, path: &ResourcePath) -> Result<(), LdpError> {
        // Whatever contains the tree of the client is there already: nothing is created for it.
        let Some(tree) = self.area.tree_of(path) else { return Ok(()) };
        if let Some(above) = tree.parent()
            && let Err(ResourceError::Absent(_)) = self.library().repository.resource(&above).await
        {
            return Err(OutsideArea { what: format!("/{above}, which does not exist,") }.into());
        }
        // What is absent between is created with the resource, in the nearest container above.
        let mut next = path.parent();
        while let Some(above) = next {
            match self.library().repository.resource(&above).await {
                Ok(container) => return self.may_give_members(&container, path),
                Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) => next = above.parent(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Refuses a limited client what changes the members that a container gives, if they belong to a
    /// resource outside. The refusal does not name that: the client may not read the rule.
    fn may_give_members(&self, container: &Resource, path: &ResourcePath) -> Result<(), LdpError> {
        let Kind::Container { membership, .. } = container.kind() else { return Ok(()) };
        let has_rule = !matches!(membership, Membership::Basic);
        let is_outside = has_rule && !self.area.has_resource(container.path());
        match is_outside || self.members_for(membership, container.path()).is_err() {
            true => Err(OutsideArea { what: format!("what a change of /{path} changes elsewhere") }.into()),
            false => Ok(()),
        }
    }

    /// The same for a container that is itself changed or deleted, with the members that it gives.
    pub fn may_change_members_of(&self, container: &Resource) -> Result<(), LdpError> {
        self.may_give_members(container, container.path())
    }

    /// The same for all containers below one that is deleted with its contents. No index says which
    /// of them give members, so a limited client has everything below read first, as the deletion
    /// reads it again. What is made there meanwhile is not seen: only clients without these limits
    /// can make such a container.
    pub async fn may_change_members_below(&self, container: &Resource) -> Result<(), LdpError> {
        if !self.area.is_limited() || !is_container(container) {
            return Ok(());
        }
        // A deletion that is refused in the end may be asked for again and again, and goes on when its
        // client has left.
        let _turn = self.door.whole_readings.turn(&self.party).await?;
        let repository = &self.library().repository;
        let mut waiting = vec![(container.clone(), None)];
        while let Some((container, after)) = waiting.pop() {
            let page = match repository.children(&container, after.as_ref(), PAGE_CHILDREN).await {
                Ok(page) => page,
                // It was deleted meanwhile.
                Err(ObjectsError::Gone(_)) => continue,
                Err(error) => return Err(error.into()),
            };
            let paths = paths_of(&container, &page.children);
            // Depth first, so that at most one page of each level waits.
            waiting.extend(page.next.map(|next| (container, Some(next))));
            let reading = paths.into_iter().map(|path| async move { repository.resource(&path).await });
            let mut reading = pin!(stream::iter(reading).buffered(READ_AT_ONCE));
            while let Some(child) = reading.next().await {
                match child {
                    Ok(child) if is_container(&child) => {
                        self.may_change_members_of(&child)?;
                        waiting.push((child, None));
                    }
                    Ok(_) | Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// The change to this description, by an update with these removals.
    pub async fn described(
        &self,
        resource: &Resource,
        mut graph: Graph,
        removals: &[Removal],
    ) -> Result<Update, LdpError> {
        let path: &ResourcePath = self.path();
        self.may_change_members_of(resource)?;
        let model = Model::of(resource);
        let membership = membership::rule_of(&mut graph, path, model)?;
        // The rules are held until the description is checked.
        let mut held = Held::beside_body(self.library(), &self.party);
        let Rules { mut within, outside } = managed::rules(self.library(), &self.area, resource, &mut held).await?;
        let rule = (membership.clone(), path.clone());
        if !within.contains(&rule) {
            within.push(rule);
        }
        let lenient = Preferences::of(&self.headers).lenient;
        let standing =
            Standing { path, model, resource: Some(resource), rules: &within, rules_outside: &outside, lenient };
        standing.refuse_removing(self.library(), removals).await?;
        let graph = standing.strip(self.library(), graph).await?;
        let members_for = self.members_for(&membership, path)?;
        let mut refers_to = references(&graph, path);
        if !refers_to.is_empty() {
            let before = kept_description(self.library(), resource).await?;
            references(&before, path).iter().for_each(|known| _ = refers_to.remove(known));
        }
        let refers_to = refers_to.into_iter().collect();
        Ok(Update::Description { description: rdf::to_stored(&graph).into(), membership, members_for, refers_to })
    }
}

fn new_binary(uploaded: &Uploaded) -> NewResource {
    NewResource {
        kind: NewKind::Binary(uploaded.clone()),
        description: bytes::Bytes::new(),
        member: None,
        members_for: None,
        refers_to: Vec::new(),
    }
}
