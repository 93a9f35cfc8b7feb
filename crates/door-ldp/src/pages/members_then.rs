//! The members that a container had in an earlier state, a page at a time: each as it was then. The
//! list leads forward only. So each page reads it from its beginning, and holds what it shows.

use futures::{StreamExt, TryStreamExt, stream};
use heads::ResourcePath;
use maud::{Markup, html};
use repository::{Child, Resource, ResourceError};

use super::local;
use super::members::{MEMBERS, MEMBERS_MAX, READ_AT_ONCE, Row, pager_to, table};
use crate::address::At;
use crate::errors::LdpError;
use crate::query::Parameters;
use crate::request::LdpRequest;
use crate::statements::{is_container, paths_of};
use crate::timegate::State;
use crate::version_name::VersionName;

/// The parameter with the most members of a page.
const LIMIT: &str = "limit";

/// The parameter that leaves out so many members at the beginning of the list.
const AFTER: &str = "after";

/// Most members that a page leaves out, because it reads their names.
const AFTER_MAX: usize = 100_000;

/// Members that are left out together.
const LEFT_OUT_AT_ONCE: usize = 1_000;

/// What a query asks for.
pub struct Asked {
    /// Members that are left out at the beginning of the list.
    after: usize,
    /// The most that a page may leave out.
    after_max: usize,
    /// Most members of the page.
    members_max: usize,
}

impl Asked {
    /// Reads a query. Like every query of a resource it may have other fields.
    pub fn of(query: Option<&str>) -> Result<Self, LdpError> {
        Self::up_to(AFTER_MAX, query)
    }

    /// The same for a list of which a page leaves out at most so many.
    pub fn up_to(after_max: usize, query: Option<&str>) -> Result<Self, LdpError> {
        let asked = Parameters::among(query, &[LIMIT, AFTER])?;
        let after = asked.number(AFTER, after_max)?.unwrap_or(0);
        Ok(Self { after, after_max, members_max: asked.number(LIMIT, MEMBERS_MAX)?.unwrap_or(MEMBERS) })
    }

    /// Whether the page begins with the first member.
    pub fn is_first(&self) -> bool {
        self.after == 0
    }

    /// The page, before anything of the list is read.
    pub fn begin<T>(&self) -> PageOf<T> {
        PageOf { left_out: self.after, shown: Vec::new(), shown_max: self.members_max }
    }

    /// Links to other pages of the list at an address. `label` says what they are.
    pub fn pager(&self, label: &str, iri: &str, has_more: bool) -> Markup {
        let page = |after: usize| {
            let after = if after > 0 { format!("&{AFTER}={after}") } else { String::new() };
            format!("{}?{LIMIT}={}{after}", local(iri), self.members_max)
        };
        let back = (!self.is_first()).then(|| [page(self.after.saturating_sub(self.members_max)), page(0)]);
        let next = self.after + self.members_max;
        let has_next = has_more && next <= self.after_max;
        html! {
            @if has_more && !has_next { p.note { "There are more. Ask for Turtle to get all." } }
            (pager_to(label, back, has_next.then(|| page(next))))
        }
    }
}

/// A page of a list that is read from its beginning.
pub struct PageOf<T> {
    /// So many are still left out.
    left_out: usize,
    shown: Vec<T>,
    shown_max: usize,
}

impl<T> PageOf<T> {
    /// About how many to read next; `None` if the page is complete.
    pub fn wants(&self) -> Option<usize> {
        // One more says whether there is a next page.
        let missing = (self.shown_max + 1).saturating_sub(self.shown.len());
        let at_once = if self.left_out > 0 { self.left_out.min(LEFT_OUT_AT_ONCE) } else { missing };
        (missing > 0).then_some(at_once)
    }

    /// Takes what was read next.
    pub fn take(&mut self, more: Vec<T>) {
        let of_others = self.left_out.min(more.len());
        self.left_out -= of_others;
        self.shown.extend(more.into_iter().skip(of_others));
    }

    /// What the page shows, and whether there is more.
    pub fn end(mut self) -> (Vec<T>, bool) {
        let has_more = self.shown.len() > self.shown_max;
        self.shown.truncate(self.shown_max);
        (self.shown, has_more)
    }
}

impl LdpRequest {
    /// Some of the members that a container had in a state, with links to other pages of them.
    pub async fn members_then(&self, state: &State, asked: &Asked) -> Result<Markup, LdpError> {
        let (children, has_more) = self.names_then(state, asked).await?;
        let rows = stream::iter(paths_of(&state.resource, &children)).map(|path| self.member_then(state, path));
        let rows: Vec<_> = rows.buffered(READ_AT_ONCE).try_collect().await?;
        let iri = self.iri_at(At::Version(state.name));
        Ok(html! {
            h2 { "Contents" }
            @if rows.is_empty() {
                p { @if asked.is_first() { "This container was empty." } @else { "There are no more." } }
            } @else {
                (table(&self.site, None, &rows))
            }
            (asked.pager("Pages of the contents", &iri, has_more))
        })
    }

    /// The children on a page, and whether there are more.
    async fn names_then(&self, state: &State, asked: &Asked) -> Result<(Vec<Child>, bool), LdpError> {
        let mut members = self.library().repository.members_as_of(&state.resource, state.below).await?;
        let mut page = asked.begin();
        while let Some(at_once) = page.wants() {
            let Some(more) = members.more(at_once).await? else { break };
            // The page shows names only.
            page.take(more.into_iter().map(|child| Child { member: None, ..child }).collect());
        }
        Ok(page.end())
    }

    /// A member as it was in a state of its container.
    async fn member_then(&self, state: &State, path: ResourcePath) -> Result<Row, LdpError> {
        match self.found_then(state, &path).await {
            Ok(Some((member, name))) => Row::of(self.library(), member, At::Version(name)).await,
            Ok(None) | Err(LdpError::Resource(ResourceError::Absent(_) | ResourceError::Gone { .. })) => {
                Ok(Row::NotKept(path))
            }
            Err(LdpError::Resource(ResourceError::Objects(error))) if error.is_damage() => Ok(Row::Damaged(path)),
            Err(error) => Err(error),
        }
    }

    /// The version of a member that was in force, and the name by which it shows what it was.
    async fn found_then(
        &self,
        state: &State,
        path: &ResourcePath,
    ) -> Result<Option<(Resource, VersionName)>, LdpError> {
        let repository = &self.library().repository;
        if !repository.keeps_versions(path) {
            return Ok(None);
        }
        let versions = repository.versions_shown(path, self.settings().deleted_versions).await?;
        let Some(member) = versions.in_force(state.below).await? else { return Ok(None) };
        // A container has the members of the second, and not those with which its version began.
        let second = state.name.second();
        let has_second = is_container(&member) && repository.knows_as_of(path, second.end());
        let name = match has_second && versions.first_ever(second.first(), second.end()).await?.is_none() {
            true => VersionName::of_second(second),
            false => self.name_of(&versions, member.revision()).await?,
        };
        Ok(Some((member, name)))
    }
}
