//! `penates tree`

use clap::Args;
use futures::TryStreamExt;
use heads::VOLUMES;
use http::{Method, StatusCode, header};
use percent_encoding::percent_decode_str;
use serde_json::json;

use crate::cli::{OutputArgs, ReachArgs};
use crate::client::{self, Client, ClientError};
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
    /// Path of the container from the root of the repository. The contents of `volumes` are listed
    /// only if you name it.
    #[arg(default_value = "")]
    resource: String,
    /// How deep to go.
    #[arg(long, value_name = "N", default_value_t = 8)]
    depth: usize,
    /// Where the repository is.
    #[command(flatten)]
    base: BaseArgs,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Where.
    #[command(flatten)]
    reach: ReachArgs,
}

/// A resource in the tree.
struct Node {
    /// The path to request.
    address: String,
    /// The names from the root of the repository.
    resource: String,
    /// Depth below the requested container.
    depth: usize,
}

impl Node {
    /// Its own name; for the requested container, all names.
    fn name(&self) -> &str {
        match self.depth {
            0 => &self.resource,
            _ => self.resource.rsplit('/').next().unwrap_or_default(),
        }
    }

    fn print(&self, is_container: bool, form: OutputArgs, output: &mut Output) -> anyhow::Result<()> {
        let Self { address, resource, depth } = self;
        if form.json {
            let shown = json!({"resource": resource, "address": address, "depth": depth, "container": is_container});
            return output.json(&shown);
        }
        output.line(format!("{}{}{}", "  ".repeat(*depth), self.name(), if is_container { "/" } else { "" }))
    }

    /// The child at this address.
    fn child(&self, address: String) -> Self {
        let name = address.rsplit('/').next().unwrap_or_default();
        let name = percent_decode_str(name).decode_utf8_lossy();
        let resource = if self.resource.is_empty() { name.into_owned() } else { format!("{}/{name}", self.resource) };
        Self { address, resource, depth: self.depth + 1 }
    }
}

/// Runs it.
pub async fn run(args: TreeArgs) -> anyhow::Result<()> {
    let reached = Reached::open(&args.reach).await?;
    let outcome = report(&reached.client, &args).await;
    reached.close().await?;
    outcome
}

async fn report(client: &Client, args: &TreeArgs) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    let resource = args.resource.trim_matches('/').to_owned();
    // The nodes that are still to be printed. A container is printed before its contents.
    let mut waiting = vec![Node { address: args.base.address(&resource), resource, depth: 0 }];
    while let Some(node) = waiting.pop() {
        let is_container = match is_container(client, &node.address).await {
            // It was deleted since it was listed.
            Err(error) if node.depth > 0 && is_away(&error) => continue,
            is_container => is_container?,
        };
        node.print(is_container, args.output, &mut output)?;
        // A user who looks around does not want all pages of a library.
        let is_library = node.depth > 0 && node.resource == VOLUMES;
        if is_container && node.depth < args.depth && !is_library {
            let children = match children(client, &node.address).await {
                Err(error) if node.depth > 0 && is_away(&error) => continue,
                children => children?,
            };
            let mut children: Vec<_> = children.into_iter().map(|child| node.child(child)).collect();
            children.sort_by(|one, other| other.resource.cmp(&one.resource));
            waiting.extend(children);
        }
    }
    output.finish()
}

pub(super) fn is_away(error: &ClientError) -> bool {
    matches!(error.status(), Some(StatusCode::NOT_FOUND | StatusCode::GONE))
}

/// Uses OPTIONS, because its refusals have a body with the reason, and those of HEAD have none.
pub(super) async fn is_container(client: &Client, address: &str) -> Result<bool, ClientError> {
    let request = http::Request::builder().method(Method::OPTIONS);
    let response = client.ask(address, request, client::empty()).await?;
    let links = response.headers().get_all(header::LINK).iter().filter_map(|link| link.to_str().ok());
    Ok(links.into_iter().any(|link| link.starts_with("<http://www.w3.org/ns/ldp#Container>")))
}

/// The addresses of a container's children.
pub(super) async fn children(client: &Client, address: &str) -> Result<Vec<String>, ClientError> {
    let lines = client.get_lines(address, "application/n-triples").await?;
    let child = |line: &str| contained(line).map(|path| client.relative(&path).to_owned());
    lines.try_filter_map(async |line| Ok(child(&line))).try_collect().await
}

/// The address of the child in a containment statement (N-Triples, section 2).
fn contained(line: &str) -> Option<String> {
    let (_, said) = line.split_once(' ')?;
    let object = said.strip_prefix(CONTAINS)?.trim_start().strip_prefix('<')?.split_once('>')?.0;
    // The server's own name does not matter: the path is enough.
    object.splitn(4, '/').nth(3).map(|path| format!("/{path}"))
}
