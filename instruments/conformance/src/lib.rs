//! Judges a server by the normative statements of RFC 7089 (Memento) and of the Fedora API
//! Specification 1.0 about resources, content stored elsewhere, versions, notifications and fixity,
//! of Fedora Atomic Batch Operations, and of Fedora's documentation of its search and of its archival
//! groups. It needs only the address of a container in which it may create resources, so it judges
//! any server. For notifications it needs the address of a collection too, and for content stored
//! elsewhere an address to which the server may link.
//!
//! How to read it: [`statement`] is a statement and its judgement; [`memento`], [`resources`],
//! [`external`], [`fedora`], [`notifications`], [`transactions`], [`groups`] and [`search`] have the
//! statements, each a function with its name; [`sample`] makes the resources that they look at;
//! [`site`] sends requests, and [`link`] reads links. `main.rs` prints a table.

mod external;
mod fedora;
mod groups;
mod link;
mod memento;
mod notifications;
mod resources;
mod sample;
mod search;
pub mod site;
pub mod statement;
mod transactions;

use anyhow::Result;
use futures::StreamExt;
use futures::stream;

use sample::Sample;
use site::Site;
use statement::Judged;

/// Judges a server by all statements, in their order.
///
/// # Errors
/// If the resources to look at cannot be created.
pub async fn judge(site: &Site) -> Result<Vec<Judged>> {
    let sample = Sample::create(site).await?;
    let notifications = if sample.notifications.is_some() { notifications::STATEMENTS } else { &[] };
    let external = if site.external().is_some() { external::STATEMENTS } else { &[] };
    let all = memento::STATEMENTS.iter().chain(resources::STATEMENTS).chain(external::REFUSALS).chain(external);
    let all = all.chain(fedora::STATEMENTS).chain(search::STATEMENTS).chain(notifications);
    let (transactions, in_groups) = match transactions::are_offered(site).await? {
        true => (transactions::STATEMENTS, groups::IN_TRANSACTIONS),
        false => (&[][..], &[][..]),
    };
    let all = all.chain(groups::STATEMENTS).chain(transactions).chain(in_groups);
    let judged = stream::iter(all).then(|statement| statement.judge(&sample)).collect().await;
    sample.delete().await;
    Ok(judged)
}
