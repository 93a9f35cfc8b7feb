//! `penates tree`

use clap::Args;
use futures::TryStreamExt;
use http::{Method, header};
use objects::library::VOLUMES;
use serde_json::json;

use crate::cli::{OutputArgs, ReachArgs};
use crate::client::{self, Client};
use crate::output::Output;
use crate::reach::Reached;
use crate::resources::{BaseArgs, CONTAINS};

/// Arguments of `penates tree`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates tree
  penates tree letters --depth 1
  penates tree volumes --depth 1")]
pub struct TreeArgs {
    /// The container, from the root of the repository on. What is in `volumes` is only told where that is named.
    #[arg(default_value = "")]
    resource: String,
    /// How deep to go.
    #[arg(long, value_name = "N", default_value_t = 8)]
    depth: usize,
    /// Where the repository is.
    #[command(flatten)]
    base: BaseArgs,
    /// How the tree is told.
    #[command(flatten)]
    output: OutputArgs,
    /// Where.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Runs it.
pub async fn run(args: TreeArgs) -> anyhow::Result<()> {
    let reached = Reached::open(&args.reach).await?;
    let mut output = Output::stdout();
    // What is still to be told: its address, its name, how deep it is. A container is told before what is in it.
    let mut waiting = vec![(args.base.address(&args.resource), args.resource.clone(), 0)];
    while let Some((address, name, depth)) = waiting.pop() {
        let is_container = is_container(&reached.client, &address).await?;
        match args.output.json {
            true => output.json(&json!({"address": address, "depth": depth, "container": is_container}))?,
            false => output.line(format!("{}{name}{}", "  ".repeat(depth), if is_container { "/" } else { "" }))?,
        }
        // Whoever looks around does not mean all pages of a library.
        let is_library = depth > 0 && address == args.base.address(VOLUMES);
        if is_container && depth < args.depth && !is_library {
            let mut children = children(&reached.client, &address).await?;
            children.sort_by(|one, other| other.cmp(one));
            waiting.extend(children.into_iter().map(|child| {
                let name = child.rsplit('/').next().unwrap_or_default().to_owned();
                (child, name, depth + 1)
            }));
        }
    }
    output.finish()?;
    reached.close().await
}

async fn is_container(client: &Client, address: &str) -> anyhow::Result<bool> {
    let request = http::Request::builder().method(Method::HEAD);
    let response = client.ask(address, request, client::empty()).await?;
    let links = response.headers().get_all(header::LINK).iter().filter_map(|link| link.to_str().ok());
    Ok(links.into_iter().any(|link| link.starts_with("<http://www.w3.org/ns/ldp#Container>")))
}

/// The addresses of what is in a container.
async fn children(client: &Client, address: &str) -> anyhow::Result<Vec<String>> {
    let lines = client.get_lines(address, "application/n-triples").await?;
    let child = |line: String| {
        let object = line.split_once(CONTAINS)?.1.trim().strip_prefix('<')?.split_once('>')?.0.to_owned();
        // What the server goes by does not matter to who asked it: the path does.
        let path = object.splitn(4, '/').nth(3)?;
        Some(format!("/{path}"))
    };
    Ok(lines.try_filter_map(async |line| Ok(child(line))).try_collect().await?)
}
