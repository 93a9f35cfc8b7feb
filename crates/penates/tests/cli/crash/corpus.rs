//! Volumes in several versions: how they are changed and read, and what there may have been of them
//! at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bytes::Bytes;
use hathi::{Sampler, SynthOptions, SynthVolume, VolumeId, VolumeReader};
use http::header::CONTENT_TYPE;
use http::request::Builder;
use http::{Method, Request, StatusCode};
use jiff::Timestamp;
use penates::client::multipart::{Content, Form, Part};
use penates::client::{self, Body, Client, ClientError};
use serde::Deserialize;

use super::PLAN_LIFE;
use crate::harness::*;

/// How often an archive that breaks is requested in all.
const ARCHIVE_TRIES: u32 = 5;

/// The entries of an archive, by name.
pub type Entries = BTreeMap<String, Vec<u8>>;

/// A request: its path, its head and its body.
pub type Asking = (String, Builder, Body);

/// The volumes in all their versions.
pub struct Corpus {
    pub ids: Vec<VolumeId>,
    /// By version and volume.
    pub volumes: Vec<Vec<SynthVolume>>,
    /// The entries of a download, by version and volume.
    pub entries: Vec<Vec<Entries>>,
    /// A pairtree of each version.
    pub pairtrees: Vec<PathBuf>,
}

impl Corpus {
    /// Makes so many volumes, in versions with these numbers of pages.
    pub fn make(folder: &Path, volumes: usize, versions: &[u32]) -> Self {
        let samples = penates::samples::volumes().into_iter().map(|parts| VolumeReader::new(parts).unwrap());
        let sampler = Sampler::from_volumes(samples.take(3).collect::<Vec<_>>()).unwrap();
        let version = |pages: &u32| {
            let volumes = volumes as u64;
            let options = SynthOptions { seed: 9, volumes, pages_per_volume: Some(*pages), page_scale: 1.0 };
            sampler.volumes(&options).collect::<Vec<_>>()
        };
        let volumes: Vec<Vec<SynthVolume>> = versions.iter().map(version).collect();
        let pairtrees: Vec<PathBuf> = (0..versions.len()).map(|version| folder.join(version.to_string())).collect();
        for (volumes, pairtree) in volumes.iter().zip(&pairtrees) {
            volumes.iter().for_each(|volume| volume.write_pairtree(pairtree).unwrap());
        }
        let ids = volumes[0].iter().map(|volume| volume.id.clone()).collect::<Vec<_>>();
        let entries_of = |pairtree: &PathBuf| {
            ids.iter().map(|id| expected_entries(&pairtree.join(hathi::pairtree_path(id)))).collect()
        };
        let entries = pairtrees.iter().map(entries_of).collect();
        Self { entries, ids, volumes, pairtrees }
    }

    /// The version of a volume to which these entries belong; half of one belongs to none.
    pub fn version_of(&self, volume: usize, entries: &Entries) -> usize {
        let same = (0..self.entries.len()).find(|version| &self.entries[*version][volume] == entries);
        same.unwrap_or_else(|| panic!("{} is half visible: {:?}", self.ids[volume], entries.keys()))
    }
}

/// A change of a volume, and the milliseconds in which it was made at the earliest and at the
/// latest.
#[derive(Clone, Copy, Debug)]
pub struct Change<T> {
    /// What it made of the volume. `None`: it deleted the volume.
    pub to: Option<T>,
    pub began: i64,
    pub ended: i64,
}

/// What there may have been of a volume when a millisecond ended. `made` are all its changes, in
/// their order.
pub fn at<T: Copy>(made: &[Change<T>], moment: i64) -> Vec<Option<T>> {
    let surely = made.iter().rposition(|change| change.ended <= moment);
    let before = surely.and_then(|last| made[last].to);
    let since = &made[surely.map_or(0, |last| last + 1)..];
    let open = since.iter().filter(|change| change.began <= moment);
    std::iter::once(before).chain(open.map(|change| change.to)).collect()
}

/// The time in milliseconds.
pub fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

/// The address of a volume.
pub fn address(id: &VolumeId) -> String {
    format!("/volumes/{}", client::segment(id))
}

/// The request that imports a volume.
pub fn import(volume: &SynthVolume) -> Asking {
    let part = |name, bytes: &Vec<u8>| Part {
        name,
        content_type: "application/octet-stream",
        content: Content::Memory(bytes.clone().into()),
    };
    let parts = vec![part("zip", &volume.zip), part("mets", &volume.mets), part("record", &volume.record)];
    let form = Form::new(parts);
    let request = Request::builder().method(Method::PUT).header(CONTENT_TYPE, form.content_type());
    (address(&volume.id), request, client::stream(form.pieces()))
}

/// The request that deletes a volume.
pub fn deletion(id: &VolumeId) -> Asking {
    (address(id), Request::builder().method(Method::DELETE), client::empty())
}

/// Whether it is said that there is nothing.
pub fn is_gone(error: &ClientError) -> bool {
    matches!(error.status(), Some(StatusCode::NOT_FOUND | StatusCode::GONE))
}

/// The server's list of versions of a volume.
#[derive(Deserialize)]
struct List {
    versions: Vec<Listed>,
}

/// A version in the list.
#[derive(Deserialize)]
pub struct Listed {
    pub address: String,
    /// When it became current.
    pub time: Timestamp,
    pub current: bool,
    pub pages: u32,
}

/// The versions of a volume that are kept, oldest first.
pub async fn versions(client: &Client, id: &VolumeId) -> Vec<Listed> {
    let list: Result<List, _> = client.get_json(&format!("{}/versions/?limit=10000", address(id))).await;
    match list {
        Ok(list) => list.versions,
        Err(error) if is_gone(&error) => Vec::new(),
        Err(error) => panic!("{id}: {error}"),
    }
}

/// What an archive as of a time has of a volume.
pub enum Then {
    /// These entries.
    There(Entries),
    /// It did not exist then, or was deleted.
    Absent,
    /// There was a version, and it is not kept any more.
    NotKept,
}

/// Reads an archive of volumes as of the end of a millisecond. It has what there was of each, or
/// says what became of it. `more` are further parameters.
pub async fn archived(client: &Client, ids: &[VolumeId], moment: i64, more: &str) -> Vec<Then> {
    let named: Vec<&str> = ids.iter().map(VolumeId::as_str).collect();
    let as_of = format!("{:.3}", Timestamp::from_millisecond(moment).unwrap());
    let [named, time] = [&named.join("|"), &as_of].map(|value| client::query_value(value));
    let archive = whole_archive(client, &format!("/volumes?volumeIDs={named}&as_of={time}{more}")).await.unwrap();
    let entries = unzip(&archive);
    let errors = entries.get("ERROR.err").map(|errors| String::from_utf8_lossy(errors)).unwrap_or_default();
    let then = |id: &VolumeId| {
        let folder = format!("{}/", id.cleaned());
        let of_it = entries.iter().filter(|(name, _)| name.starts_with(&folder));
        let of_it: Entries = of_it.map(|(name, text)| (name.clone(), text.clone())).collect();
        let says = |why: &str| errors.contains(&format!("{why}: {id}\n"));
        let (was_absent, was_dropped) = (says("Offending key"), says("the version of that time is not kept"));
        match (of_it.is_empty(), was_absent, was_dropped) {
            (false, false, false) => Then::There(of_it),
            (true, true, false) => Then::Absent,
            (true, false, true) => Then::NotKept,
            _ => panic!("{id} as of {as_of}: {} pages, and {errors}", of_it.len()),
        }
    };
    ids.iter().map(then).collect()
}

/// The bytes of an archive. A stream that takes longer than a plan lives, as on a machine that
/// hangs for some seconds, is cut and requested again. One that breaks earlier has lost data.
pub async fn whole_archive(client: &Client, address: &str) -> Result<Bytes, ClientError> {
    let mut tries = 1;
    loop {
        let asked = Instant::now();
        match client::whole(client.get(address, "application/zip").await?).await {
            Ok(bytes) => return Ok(bytes),
            Err(error) => {
                let has_run_out = asked.elapsed() >= PLAN_LIFE;
                assert!(has_run_out && tries < ARCHIVE_TRIES, "an archive cannot be read: {error}");
            }
        }
        println!("an archive broke and is requested again");
        tries += 1;
    }
}
