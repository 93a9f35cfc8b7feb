//! Feeds that read what is beside a plan.
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use testbed::inputs::Inputs;
use testbed::plan::Plan;

use crate::support::{Run, ok, serve};

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_a_folder_are_bodies_with_their_names_lengths_and_digests() {
    let folder = tempfile::tempdir().unwrap();
    let files = [("a.bin", vec![0xff; 3_000]), ("empty", Vec::new()), ("ü ber.txt", b"text".to_vec())];
    fs::create_dir(folder.path().join("bodies")).unwrap();
    for (name, bytes) in &files {
        fs::write(folder.path().join("bodies").join(name), bytes).unwrap();
    }
    // Only files count, also if another feed reads a folder in it.
    fs::create_dir(folder.path().join("bodies/further")).unwrap();
    fs::write(folder.path().join("bodies/further/deep.bin"), "deep").unwrap();
    let scenario = r#"
        feeds = [
            { name = "file", kind = "files", folder = "bodies" },
            { name = "deep", kind = "files", folder = "bodies/further" },
        ]
        [[steps]]
        name = "put"
        method = "PUT"
        path = "/${user}"
        headers = { X-Bytes = "${file.bytes}", X-Sha256 = "${file.sha256}", X-Deep = "${deep.name}" }
        body = { feed = "file" }
        [[steps]]
        name = "get"
        path = "/${user}"
        check = { contains = "file ${file.name};" }
    "#;
    fs::write(folder.path().join("put.toml"), scenario).unwrap();
    let plan = "name = \"files\"\nscenarios = [{ scenario = \"put.toml\" }]\nworkers = 2\n\
                load = { shape = \"constant\", rate = 12, duration = \"1s\" }\n";
    let inputs = Inputs::of_plan(Plan::parse(plan).unwrap(), folder.path()).unwrap();
    let of_files = inputs.digests().into_iter().filter(|input| input.name.starts_with("file "));
    let of_files: Vec<(String, Option<u64>)> = of_files.map(|input| (input.name, input.bytes)).collect();
    let wanted = [("a.bin", 3_000), ("empty", 0), ("further/deep.bin", 4), ("ü ber.txt", 4)];
    let wanted: [(String, Option<u64>); 4] = wanted.map(|(name, bytes)| (format!("file bodies/{name}"), Some(bytes)));
    assert_eq!(of_files, wanted);

    // The server knows files by their bytes, and answers with their names.
    let sent = Arc::new(Mutex::new(Vec::new()));
    let known = files.clone();
    let into = sent.clone();
    let address = serve(move |request: Request<Bytes>| {
        let path = request.uri().path().to_owned();
        let mut answer = ok();
        if request.method() == Method::PUT {
            let (body, headers) = (request.body(), request.headers());
            let (bytes, sha256) = (body.len().to_string(), hex::encode(Sha256::digest(body)));
            let is_right =
                headers["x-bytes"] == *bytes && headers["x-sha256"] == *sha256 && headers["x-deep"] == *"deep.bin";
            let file = known.iter().find(|(_, bytes)| bytes.as_slice() == &body[..]).map(|(name, _)| *name);
            into.lock().push((path, file.filter(|_| is_right)));
        } else {
            match into.lock().iter().find(|(known, _)| *known == path) {
                Some((_, Some(name))) => *answer.body_mut() = Full::new(Bytes::from(format!("file {name};"))),
                _ => *answer.status_mut() = StatusCode::NOT_FOUND,
            }
        }
        std::future::ready(answer)
    })
    .await;
    let (measured, _) = Run { inputs, folder }.measure(address).await;
    let all = &measured.summary.all;
    assert_eq!((all.due, all.done), (24, 24), "{:?}", measured.summary.errors);
    // One after the other over the users of all workers.
    let sent = sent.lock();
    let names: BTreeSet<_> = sent.iter().filter_map(|(_, file)| *file).collect();
    assert_eq!(names, BTreeSet::from(["a.bin", "empty", "ü ber.txt"]));
    for (name, _) in &files {
        assert_eq!(sent.iter().filter(|(_, file)| *file == Some(*name)).count(), 4, "{name}");
    }
    assert_eq!(all.sent_bytes, 4 * (3_000 + 4));
}
