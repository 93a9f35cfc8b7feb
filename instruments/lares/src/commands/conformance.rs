//! `lares conformance`: prints how a server keeps to RFC 7089, to the Fedora API, and to what Fedora has beside it.

use anyhow::Context;
use clap::Args;
use conformance::judge;
use conformance::site::Site;
use conformance::statement::Level;
use terminal::exit::CliError;
use terminal::output::Output;

/// Arguments of `lares conformance`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares conformance http://127.0.0.1:8080/rest/
  lares conformance http://127.0.0.1:8080/rest/ --feed http://127.0.0.1:8080/feed
  lares conformance http://127.0.0.1:8080/rest/ --external http://127.0.0.1:8000/some-bytes
  lares conformance http://127.0.0.1:8081/fcrepo/rest/ --header 'Authorization: Basic …'")]
pub struct ConformanceArgs {
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

/// Judges a server.
pub async fn run(arguments: ConformanceArgs) -> anyhow::Result<()> {
    let headers = arguments.header.iter().map(|header| {
        let (name, value) = header.split_once(':').with_context(|| format!("`{header}` is no header"))?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    });
    let site = Site::new(&arguments.container, arguments.feed, &headers.collect::<anyhow::Result<Vec<_>>>()?)?;
    let site = site.with_external(arguments.external);
    let judged = judge(&site).await?;
    let mut output = Output::stdout();
    for one in &judged {
        let kept = if one.violation.is_none() { "yes" } else { "NO" };
        output.line(format!("{kept:3} {:6} {:17} {}", one.level, one.source, one.says))?;
        if let Some(violation) = &one.violation {
            output.line(format!("    {violation}"))?;
        }
    }
    if site.feed().is_none() {
        output.line("not judged: notifications (Fedora API, 6), because there is no --feed")?;
    }
    if site.external().is_none() {
        output.line("not judged: content stored elsewhere (Fedora API, 3.9), because there is no --external")?;
    }
    let is_violated = |level| judged.iter().any(|one| one.level == level && one.violation.is_some());
    output.finish()?;
    if is_violated(Level::Must) { Err(CliError::Incomplete.into()) } else { Ok(()) }
}
