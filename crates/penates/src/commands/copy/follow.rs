//! `penates copy --follow`: keeps a copy up to date.
//!
//! A first pass copies everything. Meanwhile and afterwards the source's change feed names what
//! changed, and that is copied, with its versions. Now and then a further pass compares everything,
//! because the feed does not name all that a store has: the audit, selections, records, and what was
//! collected. The target stays an unfinished copy. A command without `--follow` ends it while the
//! source is there, and `penates promote` if the source is lost.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use heads::RevisionId;
use http::StatusCode;
use library::following::{self, Changed, Following};
use server::{App, Via};
use store::copying::{Copier, CopyError, Followed};
use store::wire::{self, ChangedObject, Changes};
use store::{Clock, Store, StoreError, SystemClock, Table, UnixMillis};
use tokio::net::UnixStream;

use super::report::Report;
use super::{CopyArgs, open_target, source};
use crate::client::{Client, ClientError, query_value};
use crate::exit::{CliError, full_message};
use crate::served::ServedStore;
use crate::settings::{self, Flags, StoreLocation};
use crate::{interrupt, local, reach};

/// The pause between two looks at a feed that has nothing new.
const PAUSE: Duration = Duration::from_secs(1);

/// The pause before a source that failed is tried again, at first and at most.
const FAILED_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// How often tokens are copied, and the place noted if nothing happens. The feed does not name
/// tokens, and one that was revoked must not come back.
const NOTED_EVERY: Duration = Duration::from_secs(10);

/// Runs it until the process is asked to end.
pub(super) async fn run(args: &CopyArgs) -> anyhow::Result<()> {
    let (target, _) = open_target(args).await?;
    let mut report = Report::new(args);
    let asked_to_end = interrupt::asked_to_end()?;
    let outcome = tokio::select! {
        () = asked_to_end => Ok(()),
        failed = keep_up(args, &target, &mut report) => failed.map(|never| match never {}),
    };
    target.close().await?;
    outcome
}

/// Follows, and begins again when the source was out of reach.
async fn keep_up(args: &CopyArgs, target: &Arc<dyn Store>, report: &mut Report) -> anyhow::Result<Infallible> {
    let mut pause = FAILED_PAUSES[0];
    loop {
        let begun = Instant::now();
        let error = match Connected::to(args).await {
            Ok(source) => {
                let Err(error) = follow(args, &source, target.clone(), report).await;
                source.close().await?;
                error
            }
            Err(error) => error,
        };
        if !is_passing(&error) {
            return Err(error.context("the copy is not up to date; the same command continues it"));
        }
        report.failed(&error)?;
        if begun.elapsed() > FAILED_PAUSES[1] {
            pause = FAILED_PAUSES[0];
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(FAILED_PAUSES[1]);
    }
}

/// Whether the same may succeed later without anybody doing something about the copy.
fn is_passing(error: &anyhow::Error) -> bool {
    let is_of_store = |error: &StoreError| error.is_passing();
    match (error.downcast_ref(), error.downcast_ref(), error.downcast_ref::<ClientError>()) {
        (Some(CopyError::Store(error)), ..) => is_of_store(error),
        // Somebody changed the source between two reads of it.
        (Some(CopyError::Differs { .. }), ..) => true,
        (_, Some(error), _) => is_of_store(error),
        (.., Some(error)) => error.passing_after().is_some(),
        _ => matches!(error.downcast_ref(), Some(CliError::Unreachable(_))),
    }
}

fn is_damage(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(CopyError::Store(StoreError::Corrupt { .. })))
}

/// The source, as it is reached now.
struct Connected {
    client: Client,
    store: Arc<dyn Store>,
    name: String,
    /// Opened by this process: a store that many processes may open.
    app: Option<App>,
}

impl Connected {
    async fn to(args: &CopyArgs) -> anyhow::Result<Self> {
        let from = args.source();
        let settings = settings::load(&from, Flags::of(&from)?)?.settings;
        let name = source::name_of(args, &settings);
        let (client, app) = match (args.server(), settings.place()) {
            (Some(server), _) => (source::client_of(args, server)?, None),
            (None, StoreLocation::Folder(folder)) => {
                // Nothing changes in a folder that no server holds. This process must not hold it
                // when one wants to.
                let socket = reach::socket_path(folder);
                if let Err(error) = UnixStream::connect(&socket).await {
                    let what = format!("no server holds {}: {error}", folder.display());
                    return Err(CliError::Unreachable(what).into());
                }
                (Client::socket(socket), None)
            }
            (None, StoreLocation::Cluster(_)) => {
                let store = local::open_ungated(&settings).await.map_err(local::cannot_open)?;
                let app = App::open(settings.server.clone(), store).await?;
                (Client::in_process(app.router(Via::InProcess)), Some(app))
            }
        };
        let store = Arc::new(ServedStore::open(client.clone(), args.rate()).await?);
        Ok(Self { client, store, name, app })
    }

    async fn close(self) -> anyhow::Result<()> {
        match self.app {
            Some(app) => Ok(app.close().await?),
            None => Ok(()),
        }
    }
}

async fn follow(
    args: &CopyArgs,
    source: &Connected,
    target: Arc<dyn Store>,
    report: &mut Report,
) -> anyhow::Result<Infallible> {
    super::refuse_fast_records(source.store.as_ref(), target.as_ref()).await?;
    let copier = super::begin_into(source.store.clone(), following::standby(target), &source.name).await?;
    let followed = place_of(&copier, source).await?;
    report.begin(copier.progress());
    let mut follower = Follower {
        args,
        client: &source.client,
        copier: &copier,
        following: Following::default(),
        followed,
        report,
        noted_at: None,
        pass_begun: SystemClock.now(),
    };
    loop {
        if follower.is_pass_due() {
            follower.pass().await?;
        }
        if follower.round().await? {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Where the copy is. A new one begins with the present.
async fn place_of(copier: &Copier, source: &Connected) -> anyhow::Result<Followed> {
    if let Some(followed) = copier.followed().await? {
        return Ok(followed);
    }
    let lineage = following::lineage(source.store.as_ref()).await?;
    let lineage = lineage.context("the source has no root: serve it once")?.to_string();
    let cursor = source.client.get_json::<Changes>(wire::CHANGES_PATH).await?.end;
    let followed = Followed { lineage, cursor, whole: None, until: None };
    begin_anew(copier, &followed).await?;
    Ok(followed)
}

/// What changed before the cursor is found by a pass from the beginning.
async fn begin_anew(copier: &Copier, followed: &Followed) -> anyhow::Result<()> {
    copier.begin_pass_anew().await?;
    Ok(copier.set_followed(followed).await?)
}

struct Follower<'a> {
    args: &'a CopyArgs,
    client: &'a Client,
    copier: &'a Copier,
    following: Following,
    followed: Followed,
    report: &'a mut Report,
    /// When the place was noted last, and tokens were copied.
    noted_at: Option<Instant>,
    /// When the pass over everything began that runs, or ran last.
    pass_begun: UnixMillis,
}

impl Follower<'_> {
    fn is_pass_due(&self) -> bool {
        self.followed.whole.is_none_or(|whole| SystemClock.now().since(whole) >= self.args.whole_every)
    }

    /// Compares everything, and goes on following meanwhile.
    async fn pass(&mut self) -> anyhow::Result<()> {
        self.pass_begun = SystemClock.now();
        let copier = self.copier;
        match copier.pass_with(async || self.round().await.map(|_| ())).await {
            // Following goes on, and the next pass tries again.
            Err(error) if self.followed.whole.is_some() && is_damage(&error) => {
                self.report.damaged(&Bytes::from_static(b"a pass over everything"), &full_message(error.as_ref()));
                copier.begin_pass_anew().await?;
            }
            // It went on where an interrupted one had stopped: what that had compared is not compared
            // now. The next one is whole. Before the first has ended, the feed has all that changed.
            Ok(pass) if !pass.is_whole && self.followed.whole.is_some() => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error),
        }
        self.followed.whole = Some(self.pass_begun);
        Ok(copier.set_followed(&self.followed).await?)
    }

    /// Copies what changed since the last round. Returns whether nothing more is known to have.
    async fn round(&mut self) -> anyhow::Result<bool> {
        let path = format!("{}?after={}", wire::CHANGES_PATH, query_value(&self.followed.cursor));
        let asked_at = Instant::now();
        let page: Changes = match self.client.get_json(&path).await {
            Err(error) if error.status() == Some(StatusCode::GONE) => return self.begin_again(&error).await,
            page => page?,
        };
        let changed = changed_in(&page.objects)?;
        for (object, why) in self.following.copy_changed(self.copier, &changed).await? {
            self.report.damaged(&object, &why);
        }
        let is_due = self.noted_at.is_none_or(|at| at.elapsed() >= NOTED_EVERY);
        if is_due {
            self.copier.copy_table(Table::Tokens).await?;
        }
        let was_whole = self.followed.until.is_some();
        self.followed.cursor = page.end;
        // Before everything was copied once, no time is one of which the target has all.
        if self.followed.whole.is_some() {
            self.followed.until = Some(page.until);
            self.report.is_up_to(page.until, page.now.since(page.until), asked_at);
        }
        if is_due || !changed.is_empty() || self.followed.until.is_some() != was_whole {
            self.copier.set_followed(&self.followed).await?;
            self.noted_at = Some(Instant::now());
        }
        self.report.report(&self.followed)?;
        Ok(page.is_last)
    }

    /// The feed no longer has what comes next: everything is compared, from the present on. A pass
    /// that runs begins again, because changes of what it has compared are lost too.
    async fn begin_again(&mut self, why: &ClientError) -> anyhow::Result<bool> {
        note!("{why}; comparing everything");
        let cursor = self.client.get_json::<Changes>(wire::CHANGES_PATH).await?.end;
        self.followed = Followed { cursor, whole: None, ..self.followed.clone() };
        self.pass_begun = SystemClock.now();
        begin_anew(self.copier, &self.followed).await?;
        Ok(false)
    }
}

/// Each object once, with the first of its revisions.
fn changed_in(objects: &[ChangedObject]) -> anyhow::Result<Vec<Changed>> {
    let mut first: HashMap<&str, RevisionId> = HashMap::new();
    let mut order = Vec::new();
    for ChangedObject { object, revision } in objects {
        let revision = RevisionId::parse(revision).context("a revision of the feed cannot be read")?;
        let earliest = first.entry(object).or_insert_with(|| {
            order.push(object);
            revision
        });
        *earliest = revision.min(*earliest);
    }
    let changed = |object: &String| Changed { object: Bytes::from(object.clone()), since: first[object.as_str()] };
    Ok(order.into_iter().map(changed).collect())
}
