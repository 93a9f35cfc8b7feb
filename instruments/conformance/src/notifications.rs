//! The Fedora API Specification 1.0 on notifications (section 6). They are read from a collection of
//! Activity Streams 2.0 that has pages, because the specification names no way to get them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::Value;
use tokio::time::Instant;

use crate::sample::{LDP, Sample, create, create_in};
use crate::site::Site;
use crate::statement::{Statement, statements};

const ACTIVITY_STREAMS: &str = "https://www.w3.org/ns/activitystreams";
const MEDIA_TYPE: &str = "application/activity+json";
/// How late notifications may be.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(200);
/// The most pages that are read at a look.
const PAGES_MAX: usize = 100;

/// The statements, in the order of sections.
pub const STATEMENTS: &[Statement] = statements! {
    Must "Fedora API, 6.1" each_created_changed_or_deleted_resource_has_a_notification;
    Must "Fedora API, 6.1" a_container_has_a_notification_when_what_it_contains_changes;
    Must "Fedora API, 6.2" a_notification_is_an_activity_of_activity_streams;
    Should "Fedora API, 6.2" a_notification_uses_the_vocabulary_of_activity_streams;
    Must "Fedora API, 6.2" a_notification_names_the_resource_and_what_happened_to_it;
    Should "Fedora API, 6.2" a_notification_names_the_agent_that_caused_the_change;
    Should "Fedora API, 6.2" a_notification_names_the_types_of_the_resource;
    Should "Fedora API, 6.2" a_notification_names_the_inbox_of_the_resource;
    Should "Fedora API, 6.2" a_notification_does_not_contain_the_content_of_the_resource;
};

/// The types of activities (Activity Vocabulary, section 3.1).
const ACTIVITIES: &str = "
    Accept Add Announce Arrive Block Create Delete Dislike Flag Follow Ignore Invite Join Leave Like Listen
    Move Offer Question Read Reject Remove TentativeAccept TentativeReject Travel Undo Update View";

/// The properties of activities and objects (Activity Vocabulary, section 4), and what the context
/// of Activity Streams has for `ldp:inbox`.
const PROPERTIES: &str = "
    actor altitude attachment attributedTo audience bcc bto cc content contentMap context deleted describes
    duration endTime formerType generator height href hreflang icon id image inReplyTo inbox instrument
    latitude location longitude mediaType name nameMap object origin preview published replies result
    startTime summary summaryMap tag target to type updated url width";

/// The notifications of a server.
pub struct Notifications<'a> {
    site: &'a Site,
    /// The page that was the last one at the beginning.
    from: String,
}

impl<'a> Notifications<'a> {
    /// Notes the end of a collection.
    pub async fn begin(site: &'a Site, collection: &str) -> Result<Self> {
        let fetched = read(site, collection).await?;
        let from = fetched["last"].as_str().or_else(|| fetched["last"]["id"].as_str());
        let from = from.with_context(|| format!("{collection} names no last page"))?.to_owned();
        Ok(Self { site, from })
    }

    /// The notifications about a resource since then, oldest first, once there is one of a type.
    async fn until(&self, resource: &str, kind: &str) -> Result<Vec<Value>> {
        let begun = Instant::now();
        loop {
            let found = self.about(resource).await?;
            if found.iter().any(|one| is_of_type(one, kind)) {
                return Ok(found);
            }
            ensure!(begun.elapsed() < PATIENCE, "{resource} has no notification of type {kind}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn about(&self, resource: &str) -> Result<Vec<Value>> {
        let (mut found, mut page) = (Vec::new(), Some(self.from.clone()));
        for _ in 0..PAGES_MAX {
            let Some(url) = page else { break };
            let fetched = read(self.site, &url).await?;
            let items = ["orderedItems", "items"].into_iter().filter_map(|name| fetched[name].as_array()).flatten();
            // What a page has in its context holds for what is in the page.
            let whole = |one: &Value| {
                let mut one = one.clone();
                if one["@context"].is_null() {
                    one["@context"] = fetched["@context"].clone();
                }
                one
            };
            found.extend(items.filter(|one| subject(one) == Some(resource)).map(whole));
            page = fetched["next"].as_str().map(str::to_owned);
        }
        Ok(found)
    }
}

async fn read(site: &Site, url: &str) -> Result<Value> {
    let answer = site.get(url, &[("accept", MEDIA_TYPE)]).await?;
    ensure!(answer.status.is_success(), "{url}: status {}", answer.status);
    serde_json::from_slice(&answer.body).with_context(|| format!("{url} is no JSON"))
}

/// The resource that a notification is about.
fn subject(notification: &Value) -> Option<&str> {
    let object = &notification["object"];
    object.as_str().or_else(|| object["id"].as_str())
}

/// Whether a value has a type, alone or among others, with or without its namespace.
fn is_of_type(value: &Value, wanted: &str) -> bool {
    types(value).iter().any(|one| one.rsplit(['#', ':']).next() == Some(wanted))
}

fn types(value: &Value) -> Vec<&str> {
    match &value["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

fn of<'a>(sample: &'a Sample<'_>) -> Result<&'a Notifications<'a>> {
    sample.notifications.as_ref().context("no collection of notifications is known")
}

async fn of_the_original(sample: &Sample<'_>) -> Result<Vec<Value>> {
    of(sample)?.until(&sample.original, "Update").await
}

async fn each_created_changed_or_deleted_resource_has_a_notification(sample: &Sample<'_>) -> Result<()> {
    let all = of(sample)?;
    for (resource, kind) in [
        (&sample.original, "Create"),
        (&sample.original, "Update"),
        (&sample.binary, "Create"),
        (&sample.deleted, "Create"),
        (&sample.deleted, "Delete"),
    ] {
        all.until(resource, kind).await?;
    }
    Ok(())
}

async fn a_container_has_a_notification_when_what_it_contains_changes(sample: &Sample<'_>) -> Result<()> {
    let all = of(sample)?;
    let container = create(sample.site, "text/turtle", "", "BasicContainer").await?;
    let child = create_in(sample.site, &container, "text/turtle", "", "BasicContainer").await?;
    // A server notifies of what one request changed in any order: the next change comes after both.
    let answer = sample.site.send(Method::DELETE, &child, &[], "").await?;
    ensure!(answer.status.is_success(), "a deletion was refused: {}", answer.status);
    all.until(&child, "Delete").await?;
    let about = all.about(&container).await?;
    // What a server refuses to delete stays.
    let _ = sample.site.send(Method::DELETE, &container, &[], "").await;
    ensure!(about.iter().any(|one| is_of_type(one, "Update")), "its notifications are {about:?}");
    Ok(())
}

async fn a_notification_is_an_activity_of_activity_streams(sample: &Sample<'_>) -> Result<()> {
    for one in of_the_original(sample).await? {
        let context = &one["@context"];
        let is_named = |value: &Value| value.as_str() == Some(ACTIVITY_STREAMS);
        let is_there = is_named(context) || context.as_array().is_some_and(|all| all.iter().any(is_named));
        ensure!(is_there, "its context is {context}");
        ensure!(!types(&one).is_empty(), "it has no type: {one}");
    }
    Ok(())
}

/// Terms of other vocabularies have a prefix, or the notification defines them in its context. What
/// has neither says nothing.
async fn a_notification_uses_the_vocabulary_of_activity_streams(sample: &Sample<'_>) -> Result<()> {
    for one in of_the_original(sample).await? {
        let mut activities = ACTIVITIES.split_ascii_whitespace();
        ensure!(activities.any(|activity| is_of_type(&one, activity)), "its types are {:?}", types(&one));
        let context = one["@context"].as_array().into_iter().flatten();
        let defined: Vec<_> = context.filter_map(Value::as_object).flat_map(|terms| terms.keys()).collect();
        for value in [&one, &one["object"]] {
            let terms = value.as_object().into_iter().flat_map(|all| all.keys());
            let own = terms.filter(|term| !term.starts_with('@') && !term.contains(':') && !defined.contains(term));
            let is_known = |term: &str| PROPERTIES.split_ascii_whitespace().any(|known| known == term);
            let strange: Vec<_> = own.filter(|term| !is_known(term)).collect();
            ensure!(strange.is_empty(), "it has {strange:?}");
        }
    }
    Ok(())
}

async fn a_notification_names_the_resource_and_what_happened_to_it(sample: &Sample<'_>) -> Result<()> {
    let all = of_the_original(sample).await?;
    ensure!(is_of_type(&all[0], "Create"), "the first is of type {:?}", types(&all[0]));
    ensure!(all[1..].iter().all(|one| is_of_type(one, "Update")), "a change is no Update: {all:?}");
    Ok(())
}

async fn a_notification_names_the_agent_that_caused_the_change(sample: &Sample<'_>) -> Result<()> {
    let all = of_the_original(sample).await?;
    ensure!(all.iter().all(|one| !one["actor"].is_null()), "it names no actor");
    Ok(())
}

async fn a_notification_names_the_types_of_the_resource(sample: &Sample<'_>) -> Result<()> {
    for one in of_the_original(sample).await? {
        ensure!(is_of_type(&one["object"], "BasicContainer"), "the object has the types {:?}", types(&one["object"]));
    }
    Ok(())
}

async fn a_notification_names_the_inbox_of_the_resource(sample: &Sample<'_>) -> Result<()> {
    let inbox = format!("{}/inbox", sample.container);
    let body = format!("<> <{LDP}inbox> <{inbox}> .");
    let resource = create_in(sample.site, &sample.container, "text/turtle", &body, "BasicContainer").await?;
    for one in of(sample)?.until(&resource, "Create").await? {
        let places = [&one["inbox"], &one["object"]["inbox"]];
        let is_named = |place: &Value| place.as_str().or_else(|| place["id"].as_str()) == Some(inbox.as_str());
        ensure!(places.into_iter().any(is_named), "it does not name {inbox}: {one}");
    }
    Ok(())
}

async fn a_notification_does_not_contain_the_content_of_the_resource(sample: &Sample<'_>) -> Result<()> {
    let all = of_the_original(sample).await?;
    ensure!(!all.iter().any(|one| one.to_string().contains("state 1")), "it has a statement of the resource");
    Ok(())
}
