//! Exports of what changes meanwhile.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use clap::Parser;
use hathi::VolumeId;
use heads::Keep;
use http::{Method, header};
use preservation::ocfl::{layout, parsed};
use preservation::{archived, archived_volume};
use server::config::Config;
use server::{App, Via};
use store::SystemClock;
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tower::ServiceExt;

use super::{ExportArgs, ocfl};
use crate::client::Client;

/// A small sample volume.
const VOLUME: &str = "psia.ark:/13960/t0ks80527";

/// What changes, and the list of its versions.
struct Changing {
    list: &'static str,
    changed: &'static str,
    media_type: &'static str,
}

const CONTAINER: Changing = Changing { list: "/rest/a/fcr:versions", changed: "/rest/a", media_type: "text/turtle" };
const PAGE: Changing = Changing {
    list: "/volumes/psia.ark%3A%2F13960%2Ft0ks80527/versions/",
    changed: "/volumes/psia.ark%3A%2F13960%2Ft0ks80527/pages/3",
    media_type: "text/plain",
};

/// Puts a description or a text.
async fn put(router: Router, path: &str, media_type: &str, title: &str) {
    let request = Request::builder().method(Method::PUT).uri(format!("http://localhost{path}"));
    let body = Body::from(format!("<> <http://purl.org/dc/terms/title> \"{title}\" ."));
    let response = router.oneshot(request.header(header::CONTENT_TYPE, media_type).body(body).unwrap()).await.unwrap();
    assert!(response.status().is_success(), "{path}: {}", response.status());
}

/// A router that changes the container and the page so many times when it has listed the versions.
fn changing(router: Router, times: usize) -> Router {
    let inner = router.clone();
    router.layer(from_fn(move |request: Request, next: Next| {
        let inner = inner.clone();
        let changing = [CONTAINER, PAGE].into_iter().find(|changing| request.uri().path() == changing.list);
        async move {
            let response = next.run(request).await;
            let Some(Changing { changed, media_type, .. }) = changing else { return response };
            // All of the list is of the time before the changes.
            let (head, body) = response.into_parts();
            let list = to_bytes(body, 1 << 20).await.unwrap();
            for n in 0..times {
                put(inner.clone(), changed, media_type, &format!("later {n}")).await;
            }
            Response::from_parts(head, Body::from(list))
        }
    }))
}

/// A command line of the command alone.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: ExportArgs,
}

#[tokio::test]
async fn what_loses_a_version_while_it_is_exported_is_exported_with_all_that_is_in_it() {
    let id = VolumeId::parse(VOLUME).unwrap();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/pairtree");
    // After two changes no version is kept that was listed.
    for times in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let (data, place) = (folder.path().join("data"), folder.path().join("archive"));
        let store = EmbeddedStore::open(&data, EmbeddedOptions::default(), Arc::new(SystemClock)).unwrap();
        let mut config = Config::default();
        config.history.resources = Keep::Newest(1);
        config.history.volumes = Keep::Newest(1);
        let app = App::open(config, store).await.unwrap();
        let files = hathi::discover(&samples.join(hathi::pairtree_path(&id))).next().unwrap().unwrap();
        let volumes = &app.library().volumes;
        volumes.import(files.open().unwrap(), ::volumes::Unchanged::Skip, |_| {}).await.unwrap();
        let router = app.router(Via::InProcess);
        for (path, media_type, title) in [
            (CONTAINER.changed, CONTAINER.media_type, "one"),
            ("/rest/a/b", "text/turtle", "in it"),
            (CONTAINER.changed, CONTAINER.media_type, "two"),
            (PAGE.changed, PAGE.media_type, "two"),
        ] {
            put(router.clone(), path, media_type, title).await;
        }

        let Line { args } = Line::parse_from(["export", "", place.to_str().unwrap(), "--as", "ocfl"]);
        let exported = ocfl::export(&args, &Client::in_process(changing(router, times))).await.unwrap();
        // The root is one of the resources.
        assert_eq!((exported.resources, exported.volumes, exported.left_out), (3, 1, None));
        let versions = |object: &str| {
            let inventory = fs::read(place.join(layout::place(object)).join("inventory.json")).unwrap();
            let versions = parsed(&inventory).unwrap().versions.into_values();
            versions.filter_map(|version| version.message).collect::<Vec<_>>()
        };
        for object in [archived::id(["a"].into_iter()), archived_volume::id(VOLUME)] {
            let versions = versions(&object);
            assert_eq!(versions.len(), 1, "{object}: {versions:?}");
            assert_eq!(versions[0] == "the current state", times == 2, "{object}: {versions:?}");
        }
        assert_eq!(versions(&archived::id(["a", "b"].into_iter())).len(), 1);
    }
}
