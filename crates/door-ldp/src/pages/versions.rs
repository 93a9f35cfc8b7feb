//! The page of the versions of a resource: what happened, newest first, day by day, with a form that
//! compares any two versions. The address has the page and, once a version was chosen, that too, so
//! that it can be compared with one on another page.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::response::Response;
use door_http::body::with_share;
use heads::RevisionId;
use http::{HeaderValue, Method, StatusCode, header};
use maud::{Markup, html};
use repository::{Change, Moment, Versions};

use super::{about_part, local, terms};
use crate::address::{At, FORMS};
use crate::conditions::{Reading, Validators};
use crate::errors::LdpError;
use crate::format::Format;
use crate::links;
use crate::request::{LdpRequest, empty, unsent};
use crate::timemap::{COMPARED, Query};
use crate::version_name::VersionName;

/// Versions on a page if the client does not say.
const VERSIONS: usize = 100;
/// Most versions on a page for people.
const VERSIONS_MAX: usize = 500;

/// A version with its name.
type Named = (VersionName, RevisionId);

/// A page of the history.
struct History {
    /// What happened, newest first. A deletion has no name.
    moments: Vec<(Moment, Option<VersionName>)>,
    /// The version with which the page of newer ones begins at the bottom, to the millisecond: the
    /// name of a second means all versions of it.
    newer: Option<VersionName>,
    /// The version with which the page of older ones begins at the top, likewise.
    older: Option<VersionName>,
    /// The newest version of all.
    newest: Option<Named>,
    /// The version that is the current state.
    current: Option<RevisionId>,
    /// The version that is to be compared with another one.
    chosen: Option<Named>,
    /// Whether only versions that a client asked for are kept.
    are_explicit: bool,
}

impl History {
    /// Whether there are two versions, here or on other pages.
    fn has_two(&self) -> bool {
        let here = self.moments.iter().filter(|(_, name)| name.is_some()).count();
        here + usize::from(self.older.is_some()) + usize::from(self.newer.is_some()) > 1
    }

    /// The mark of what the page shows.
    fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.moments.iter().for_each(|(moment, _)| moment.version.revision.hash(&mut hasher));
        let shown = hasher.finish();
        let name = |name: Option<VersionName>| name.map(|name| name.to_string()).unwrap_or_default();
        let newest = name(self.newest.map(|(name, _)| name));
        format!("{shown:x}.{}.{}.{newest}", name(self.newer), name(self.older))
    }

    /// The newest earlier version of the page that is the same as the one of a moment, unless
    /// nothing happened between them.
    fn same_as(&self, moment: &Moment) -> Option<VersionName> {
        let fingerprint = moment.fingerprint?;
        let mut earlier = self.moments.iter().filter(|(earlier, _)| earlier.version.revision < moment.version.revision);
        let (same, name) = earlier.find(|(earlier, _)| earlier.fingerprint == Some(fingerprint))?;
        name.filter(|_| !moment.version.follows(&same.version))
    }

    /// The versions that the form proposes to compare, the older one first: the two newest of the
    /// page, or that which was chosen and the newest other one.
    fn proposed(&self) -> [Option<RevisionId>; 2] {
        let versions = self.moments.iter().filter(|(_, name)| name.is_some());
        let mut revisions = versions.map(|(moment, _)| moment.version.revision);
        match self.chosen {
            Some((_, chosen)) => [Some(chosen), revisions.find(|revision| *revision != chosen)],
            None => {
                let newer = revisions.next();
                [revisions.next(), newer]
            }
        }
    }
}

impl LdpRequest {
    /// The page of all versions, or of the two that are to be compared.
    pub async fn page_of_versions(&self, versions: &Versions, query: &Query) -> Result<Response, LdpError> {
        let mut response = empty(StatusCode::OK);
        let headers = response.headers_mut();
        Format::Html.insert(headers);
        headers.insert(header::VARY, HeaderValue::from_static("accept"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        if let [Some(older), Some(newer)] = query.compared {
            return self.compare(versions, [older, newer], response).await;
        }
        let (share, _turn) = self.turn_to_read(0).await?;
        let history = self.history(versions, query).await?;
        self.describe_timemap(headers);
        for (relation, query) in [("prev", self.to_newer(query, &history)), ("next", self.to_older(query, &history))] {
            query
                .iter()
                .for_each(|query| links::append(headers, &format!("{}{query}", self.iri_at(At::All)), relation));
        }
        let variant = format!("{:x}{}{}", Format::Html.tag(), u8::from(self.reads_only), history.tag());
        let validators = Validators::of_graph(versions.newest(), None, &variant);
        // Another version may follow within the same second, and versions may leave the list
        // without a new one. So it has no date.
        validators.insert_tag(headers);
        if validators.reading_undated(&self.headers)? == Reading::NotModified {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok(unsent(response));
        }
        if self.method == Method::HEAD {
            return Ok(unsent(response));
        }
        let page = about_part(&self.site, &self.target, format!("Versions of /{}", self.path()));
        *response.body_mut() = with_share(page.with(&self.shown(query, &history)), share)?.into();
        Ok(response)
    }

    /// Reads a page. Its memory does not depend on the number of versions.
    async fn history(&self, versions: &Versions, query: &Query) -> Result<History, LdpError> {
        let chosen = match query.compared {
            [Some(name), None] | [None, Some(name)] => Some(self.state(versions, name).await?),
            _ => None,
        };
        let chosen = chosen.map(|state| (state.name, state.resource.revision()));
        let newest = match self.ends(versions).await? {
            Some([_, newest]) => Some((self.name_of(versions, newest).await?, newest)),
            None => None,
        };
        let limit = query.limit.unwrap_or(VERSIONS).min(VERSIONS_MAX);
        let [from, mut to] = query.revisions();
        if query.from.is_some() && query.until.is_none() {
            // The page begins at its bottom.
            let upwards = versions.page(from, to, limit + 1).await?;
            to = upwards.get(limit).map_or(to, |above| above.revision);
        }
        let found = versions.newest_first(from, to, limit).await?;
        let mut of_page: Vec<_> = found.iter().filter(|moment| moment.change != Change::Deleted).collect();
        of_page.reverse();
        let of_page: Vec<_> = of_page.into_iter().map(|moment| moment.version).collect();
        let [below, above] = match (of_page.first(), of_page.last()) {
            (Some(first), Some(last)) => [first.revision, last.revision.successor()],
            _ => [from, to],
        };
        let mut names = self.names_of(versions, &of_page).await?;
        let with_name = |moment: Moment| {
            let name = if moment.change == Change::Deleted { None } else { names.pop() };
            (moment, name)
        };
        let moments = found.into_iter().map(with_name).collect();
        let bound = |revision: RevisionId| VersionName::of(revision, false);
        let newer = versions.revision_from(above).await?.map(bound);
        let older = versions.revision_below(below).await?.map(bound);
        let current = versions.is_live().then(|| versions.newest());
        let are_explicit = self.library().repository.are_versions_explicit(self.path());
        Ok(History { moments, newer, older, newest, current, chosen, are_explicit })
    }

    /// The query of the page of newer versions.
    fn to_newer(&self, query: &Query, history: &History) -> Option<String> {
        Some(Query { from: Some(history.newer?), until: None, ..*query }.written())
    }

    /// The query of the page of older versions.
    fn to_older(&self, query: &Query, history: &History) -> Option<String> {
        Some(Query { from: None, until: Some(history.older?), ..*query }.written())
    }

    /// The address of a query of this page.
    fn address(&self, query: &Query) -> String {
        format!("{}{}", local(&self.iri_at(At::All)), query.written())
    }

    fn shown(&self, query: &Query, history: &History) -> Markup {
        let days = history.moments.chunk_by(|(one, _), (other, _)| day(one) == day(other));
        html! {
            @if let Some((name, revision)) = history.chosen {
                p.note {
                    "You chose the version of " (self.version(name, revision))
                    " to compare it. Mark another version, here or on a page of newer or older ones. "
                    a href=(self.address(&Query { compared: [None, None], ..*query })) { "Choose none" }
                }
            }
            @if history.moments.is_empty() { p { "There are no versions here." } }
            // Without an address a form leads to the page itself.
            form {
                @if let Some((name, _)) = history.chosen { input type="hidden" name=(COMPARED[0]) value=(name); }
                @if history.has_two() {
                    div.row.find {
                        button.primary { "Compare" }
                        span {
                            @if history.chosen.is_some() { "the version that you chose with the one that you mark" }
                            @else { "the two versions that you mark" }
                        }
                    }
                }
                @for moments in days {
                    h2 { (moments.first().map(|(moment, _)| day(moment)).unwrap_or_default()) }
                    ol.list.history { @for (moment, name) in moments { (self.moment(query, history, moment, *name)) } }
                }
            }
            (self.pages(query, history))
        }
    }

    fn pages(&self, query: &Query, history: &History) -> Markup {
        let [newer, older] = [self.to_newer(query, history), self.to_older(query, history)];
        let newest = Query { from: None, until: None, ..*query };
        html! {
            @if newer.is_some() || older.is_some() {
                nav.row.pager aria-label="Pages of the versions" {
                    span.row {
                        @if let Some(newer) = newer {
                            a.button rel="prev" href=(format!("{}{newer}", local(&self.iri_at(At::All)))) { "Newer versions" }
                            a href=(self.address(&newest)) { "Newest" }
                        }
                    }
                    @if let Some(older) = older {
                        a.button rel="next" href=(format!("{}{older}", local(&self.iri_at(At::All)))) { "Older versions" }
                    }
                }
            }
        }
    }

    /// An entry of the list.
    fn moment(&self, query: &Query, history: &History, moment: &Moment, name: Option<VersionName>) -> Markup {
        let revision = moment.version.revision;
        let what = what(moment.change, history.are_explicit);
        let Some(name) = name else {
            return html! {
                li { span.choice {} div { (terms::clock(revision.time())) " " span.what { (what) } } span {} }
            };
        };
        let is_chosen = history.chosen.is_some_and(|(_, chosen)| chosen == revision);
        html! {
            li {
                span.choice { @if history.has_two() && !is_chosen { (choice(history, name, revision)) } }
                div {
                    a href=(local(&self.iri_at(At::Version(name)))) { (terms::clock(revision.time())) }
                    " " span.what { (what) }
                    @if history.current == Some(revision) { " " span.badge { "current" } }
                    @if is_chosen { " " span.badge { "chosen" } }
                    br;
                    code { (name) }
                    @if let Some(len_bytes) = moment.len_bytes { " · " (terms::size(len_bytes)) }
                    @if let Some(same) = history.same_as(moment) {
                        br;
                        "The same as version " a href=(local(&self.iri_at(At::Version(same)))) { (same) }
                    }
                }
                span.row.facts { (self.actions(query, history, name, revision)) }
            }
        }
    }

    /// What a person may do with a version.
    fn actions(&self, query: &Query, history: &History, name: VersionName, revision: RevisionId) -> Markup {
        let newest = history.newest.filter(|(_, newest)| *newest != revision).map(|(newest, _)| newest);
        let with_newest = Query { compared: [Some(name), newest], ..Query::default() };
        let chosen = Query { compared: [Some(name), None], ..*query };
        // Read out of their place, links need to say which version they are about.
        let link = |address: String, text: &str| {
            html! { a href=(address) aria-label={ (text) ": version " (name) } { (text) } }
        };
        html! {
            @if newest.is_some() { (link(self.address(&with_newest), "Compare with the newest")) }
            @if history.has_two() && history.chosen.is_none() { (link(self.address(&chosen), "Choose")) }
            @if !self.reads_only && history.current != Some(revision) { (link(self.restoring(name), "Restore")) }
        }
    }

    /// The address of the form that restores a version.
    fn restoring(&self, name: VersionName) -> String {
        format!("{}?restore={name}", local(&self.site.iri_of(self.path(), FORMS)))
    }
}

/// The marks by which a version becomes one of the two to compare. If one was chosen before, only
/// the other one is to be marked.
fn choice(history: &History, name: VersionName, revision: RevisionId) -> Markup {
    let proposed = history.proposed();
    let fields = if history.chosen.is_some() { 1..2 } else { 0..2 };
    html! {
        @for at in fields {
            label {
                input type="radio" name=(COMPARED[at]) value=(name) checked[proposed[at] == Some(revision)];
                " " @if history.chosen.is_some() { "other" } @else { (COMPARED[at]) }
                span.visually-hidden { " version: " (name) }
            }
        }
    }
}

fn day(moment: &Moment) -> String {
    terms::day(moment.version.revision.time())
}

/// What happened, for people. Where versions are explicit, a change alone makes no version, and
/// restoring makes one: so a version that begins with a change was restored.
fn what(change: Change, are_explicit: bool) -> &'static str {
    match change {
        Change::Received => "Version added",
        Change::Description | Change::Bytes | Change::DescriptionAndBytes if are_explicit => "Restored",
        Change::Created => "Created",
        Change::CreatedAgain => "Created or brought back",
        Change::Description => "Description changed",
        Change::Bytes => "Bytes changed",
        Change::DescriptionAndBytes => "Description and bytes changed",
        Change::Nothing => "Version made",
        Change::Deleted => "Deleted",
    }
}
