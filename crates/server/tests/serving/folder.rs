//! The data folder: its lock and its contents.

use std::sync::Arc;

use http::{Method, StatusCode};
use server::config::Access;
use store::{StoreError, SystemClock};
use store_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::support::{Server, VOLUME, on_free_ports, open_store};

#[tokio::test]
async fn a_second_server_on_a_folder_is_refused_and_the_first_goes_on() {
    let (server, folder) = Server::start(|_| {}).await;
    let second = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), Arc::new(SystemClock));
    assert!(matches!(second.err(), Some(StoreError::Held { .. })));
    assert_eq!(server.get("/readyz").await.status, StatusCode::OK);
    assert_eq!(server.admin(Method::GET, "/readyz").await.status, StatusCode::OK);
}

#[tokio::test]
async fn stored_data_survives_a_restart() {
    let (server, folder) = Server::start(|_| {}).await;
    let path = format!("/volumes/{VOLUME}/pages/7");
    let before = server.get(&path).await;
    server.end().await;
    let server = Server::serve(on_free_ports(), open_store(folder.path())).await;
    let after = server.get(&path).await;
    assert_eq!(
        (after.status, after.header("etag"), &after.body),
        (StatusCode::OK, before.header("etag"), &before.body)
    );
    assert!(!after.body.is_empty());
}

#[tokio::test]
async fn a_server_that_cannot_listen_releases_the_folder() {
    let (first, _first_folder) = Server::start(|_| {}).await;
    let folder = tempfile::tempdir().unwrap();
    let mut config = on_free_ports();
    config.listen.http = first.addresses.http.map(Into::into);
    let refused = server::serve(config, open_store(folder.path()), |_| panic!("it is not ready"), async {}).await;
    let message = refused.unwrap_err().to_string();
    assert!(message.contains(&first.http().to_string()), "{message}");
    Server::serve(on_free_ports(), open_store(folder.path())).await.end().await;
}

#[tokio::test]
async fn the_socket_for_proxies_cannot_take_the_path_of_the_administrators_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = on_free_ports();
    config.listen.http = Some(format!("unix:{}", folder.path().join("penates.sock").display()).parse().unwrap());
    let refused = server::serve(config, open_store(folder.path()), |_| panic!("it is not ready"), async {}).await;
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("another program listens there"), "{message}");
}

#[tokio::test]
async fn a_configuration_that_opens_the_text_to_everybody_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = on_free_ports();
    config.listen.http = Some("0.0.0.0:0".parse().unwrap());
    config.auth.write = Access::Open;
    let refused = server::serve(config, open_store(folder.path()), |_| panic!("it is not ready"), async {}).await;
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("auth.write_open_anywhere"), "{message}");
}
