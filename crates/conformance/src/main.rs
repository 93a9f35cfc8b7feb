//! Prints how a server keeps to RFC 7089, to the Fedora API, and to what Fedora has beside it.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use conformance::judge;
use conformance::site::Site;
use conformance::statement::Level;

/// Judges a server by the statements of RFC 7089 (Memento), of the Fedora API about resources,
/// content stored elsewhere, versions, notifications and fixity, of Fedora Atomic Batch Operations
/// about transactions, if it has any, and of Fedora's documentation of its search and archival
/// groups. The exit code is 1 if it violates a MUST.
#[derive(Parser)]
#[command(after_help = "Examples:
  conformance http://127.0.0.1:8080/rest/
  conformance http://127.0.0.1:8080/rest/ --feed http://127.0.0.1:8080/feed
  conformance http://127.0.0.1:8080/rest/ --external http://127.0.0.1:8000/some-bytes
  conformance http://127.0.0.1:8081/fcrepo/rest/ --header 'Authorization: Basic …'")]
struct Arguments {
    /// The address of a container in which resources may be created. They are deleted afterwards.
    container: String,
    /// A header of each request.
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The address of an Activity Streams collection that has the server's notifications in pages.
    /// Without it they are not judged.
    #[arg(long, value_name = "URL")]
    feed: Option<String>,
    /// The address of content to which the server may link. Without it, what the server makes of
    /// such links is not judged.
    #[arg(long, value_name = "URL")]
    external: Option<String>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let headers = arguments.header.iter().map(|header| {
        let (name, value) = header.split_once(':').with_context(|| format!("`{header}` is no header"))?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    });
    let site = Site::new(&arguments.container, arguments.feed, &headers.collect::<Result<Vec<_>>>()?)?;
    let site = site.with_external(arguments.external);
    let judged = judge(&site).await?;
    for one in &judged {
        let kept = if one.violation.is_none() { "yes" } else { "NO" };
        println!("{kept:3} {:6} {:17} {}", one.level, one.source, one.says);
        if let Some(violation) = &one.violation {
            println!("    {violation}");
        }
    }
    if site.feed().is_none() {
        println!("not judged: notifications (Fedora API, 6), because there is no --feed");
    }
    if site.external().is_none() {
        println!("not judged: content stored elsewhere (Fedora API, 3.9), because there is no --external");
    }
    let is_violated = |level| judged.iter().any(|one| one.level == level && one.violation.is_some());
    Ok(if is_violated(Level::Must) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
