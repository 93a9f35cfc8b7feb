//! Requests of a client that tries nothing again, and what it must see. `Err` is a request that
//! failed; what must never be seen fails the test.

use std::path::Path;
use std::process::Command;

use hathi::VolumeFiles;
use penates::client::segment;
use serde_json::Value;

use crate::harness::*;

/// How long a client waits for the end of an answer.
const CLIENT_PATIENCE_S: &str = "60";

/// Bytes of a large content: more than three MiB, so that Cassandra keeps it in some chunks, and
/// the last one is a short one.
const LARGE_BYTES: usize = (3 << 20) + 17;

/// Large contents that there are at a time, each replaced again and again.
pub const LARGE_SLOTS: u64 = 4;

/// What is in a container that is deleted, some of it in another container.
const INSIDE: &str = "{a,b,inner/c,inner/d}";

fn ran(flags: &[&str], args: &[&str]) -> Result<Vec<u8>, String> {
    let always = ["-sS", "--max-time", CLIENT_PATIENCE_S];
    let got = Command::new("curl").args(always).args(flags).args(args).output().unwrap();
    if got.status.success() {
        return Ok(got.stdout);
    }
    Err(format!("{}: {} {}", got.status, String::from_utf8_lossy(&got.stderr), String::from_utf8_lossy(&got.stdout)))
}

/// Requests something; the answer's body.
pub fn curl(args: &[&str]) -> Result<Vec<u8>, String> {
    ran(&["--fail-with-body", "--fail-early"], args)
}

/// Requests something; status and body of the answer. The server's own failures (5xx) are failures.
pub fn answer(args: &[&str]) -> Result<(u16, String), String> {
    let said = String::from_utf8(ran(&["-w", "\n%{http_code}"], args)?).unwrap();
    let (body, status) = said.rsplit_once('\n').unwrap();
    match status.parse().unwrap() {
        500.. => Err(said),
        status => Ok((status, body.to_owned())),
    }
}

/// Requests a change of a path; its status.
pub fn status(method: &str, url: &str, path: &str) -> Result<u16, String> {
    answer(&["-X", method, &format!("{url}/{path}")]).map(|(status, _)| status)
}

/// What was deleted is not there.
pub fn is_gone(url: &str, path: &str) -> Result<(), String> {
    let (status, body) = answer(&[&format!("{url}/{path}")])?;
    assert!(matches!(status, 404 | 410), "{path} was deleted, and is answered with {status}: {body}");
    Ok(())
}

pub fn id_of(files: &VolumeFiles) -> &hathi::VolumeId {
    files.id.as_ref().unwrap()
}

fn volume_path(files: &VolumeFiles) -> String {
    format!("volumes/{}", segment(id_of(files)))
}

/// Puts a volume, as it comes after a put whose answer was lost: then it may be there already.
pub fn import(url: &str, files: &VolumeFiles) -> Result<String, String> {
    let part = |name: &str, path: &Path| format!("{name}=@{}", path.display());
    let (zip, mets) = (part("zip", &files.zip), part("mets", &files.mets));
    curl(&["-X", "PUT", "-F", &zip, "-F", &mets, &format!("{url}/{}", volume_path(files))])?;
    Ok(id_of(files).to_string())
}

/// Puts a volume and deletes it; its path.
pub fn import_and_delete(url: &str, files: &VolumeFiles) -> Result<String, String> {
    import(url, files)?;
    let path = volume_path(files);
    curl(&["-X", "DELETE", &format!("{url}/{path}")])?;
    is_gone(url, &path)?;
    Ok(path)
}

/// Downloads volumes by a list of ids.
pub fn download(url: &str, ids: &str) -> Result<Vec<u8>, String> {
    curl(&["-G", "--data-urlencode", &format!("volumeIDs={ids}"), &format!("{url}/volumes")])
}

/// Downloads a volume, which must be all of what was imported.
pub fn download_whole(url: &str, files: &VolumeFiles) -> Result<(), String> {
    let (id, archive) = (id_of(files), download(url, id_of(files).as_str())?);
    assert!(unzip(&archive) == expected_entries(files.zip.parent().unwrap()), "{id} is seen by half");
    Ok(())
}

/// The ids of all volumes.
pub fn listed(url: &str) -> Result<Vec<String>, String> {
    let listed = String::from_utf8(curl(&[&format!("{url}/volumes/?format=text")])?).unwrap();
    Ok(sorted_lines(&listed))
}

/// Puts a text and reads it again at once.
pub fn put_text(url: &str, path: &str, text: &str) -> Result<(), String> {
    let address = format!("{url}/{path}");
    curl(&["-X", "PUT", "-H", "Content-Type: text/plain", "--data-binary", text, &address])?;
    is_text(url, path, text)
}

/// A text is there.
pub fn is_text(url: &str, path: &str, text: &str) -> Result<(), String> {
    let read = curl(&[&format!("{url}/{path}")])?;
    assert!(read == text.as_bytes(), "{path} was acknowledged as {text}, and is {}", String::from_utf8_lossy(&read));
    Ok(())
}

/// Makes a resource and deletes it.
pub fn make_and_delete(url: &str, path: &str) -> Result<(), String> {
    put_text(url, path, "it is deleted soon")?;
    curl(&["-X", "DELETE", &format!("{url}/{path}")])?;
    is_gone(url, path)
}

/// Makes a container with another one in it and deletes it with all that is in it.
pub fn make_and_delete_container(url: &str, path: &str) -> Result<(), String> {
    let inside = format!("{url}/{path}/{INSIDE}");
    curl(&["-X", "PUT", "-H", "Content-Type: text/plain", "--data-binary", "inside", &inside])?;
    curl(&["-X", "DELETE", &format!("{url}/{path}")])?;
    ["", "/a", "/inner", "/inner/d"].iter().try_for_each(|inside| is_gone(url, &format!("{path}{inside}")))
}

/// Makes the name of a deleted container free, and uses it again: only what is new is there.
pub fn use_name_again(url: &str, path: &str) -> Result<(), String> {
    curl(&["-X", "DELETE", &format!("{url}/{path}/fcr:tombstone")])?;
    put_text(url, &format!("{path}/a"), "used again")?;
    is_used_again(url, path)
}

/// What was in a container before its name was used again is not there.
pub fn is_used_again(url: &str, path: &str) -> Result<(), String> {
    is_text(url, &format!("{path}/a"), "used again")?;
    ["/b", "/inner", "/inner/d"].iter().try_for_each(|inside| is_gone(url, &format!("{path}{inside}")))
}

/// The bytes of a version of a large content, which begin with its number.
fn large(version: u64) -> Vec<u8> {
    let mut word = version.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = version.to_be_bytes().to_vec();
    while bytes.len() < LARGE_BYTES {
        // Marsaglia's xorshift: nothing that can be compressed.
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.truncate(LARGE_BYTES);
    bytes
}

fn large_address(url: &str, slot: u64) -> String {
    format!("{url}/rest/large/{slot}")
}

/// Puts a version of a large content over the one before and reads it again, all of it and a range
/// over the end of a chunk.
pub fn put_large(url: &str, upload: &Path, version: u64) -> Result<(), String> {
    let (bytes, address) = (large(version), large_address(url, version % LARGE_SLOTS));
    std::fs::write(upload, &bytes).unwrap();
    let body = format!("@{}", upload.display());
    curl(&["-X", "PUT", "-H", "Content-Type: application/octet-stream", "--data-binary", &body, &address])?;
    assert!(curl(&[&address])? == bytes, "version {version} of a large content was acknowledged, and is another one");
    let from = version as usize * 99_991 % (LARGE_BYTES - 300_000);
    let range = from..from + 300_000;
    let got = curl(&["-r", &format!("{}-{}", range.start, range.end - 1), &address])?;
    assert!(got == bytes[range], "a range of version {version} of a large content is another one");
    Ok(())
}

/// Reads a large content, which must be one version, whole; answers which.
pub fn read_large(url: &str, slot: u64) -> Result<u64, String> {
    let bytes = curl(&[&large_address(url, slot)])?;
    let version = u64::from_be_bytes(*bytes.first_chunk().unwrap());
    assert!(bytes == large(version) && version % LARGE_SLOTS == slot, "version {version} of {slot} is seen by half");
    Ok(version)
}

/// Makes a selection of volumes and reads it, which must give `archive`, whole and in part; its
/// path.
pub fn select(url: &str, ids: &str, archive: &[u8]) -> Result<String, String> {
    let selected = curl(&["--data-urlencode", &format!("volumeIDs={ids}"), &format!("{url}/selections")])?;
    let selected: Value = serde_json::from_slice(&selected).unwrap();
    let path = selected["address"].as_str().unwrap().trim_start_matches('/').to_owned();
    is_selection(url, &path, archive)?;
    let last = curl(&["-r", "-10000", &format!("{url}/{path}")])?;
    assert!(archive.ends_with(&last) && last.len() == 10_000, "{path}: a range is another one");
    Ok(path)
}

/// A selection is there.
pub fn is_selection(url: &str, path: &str, archive: &[u8]) -> Result<(), String> {
    assert!(curl(&[&format!("{url}/{path}")])? == archive, "{path}: another archive came");
    Ok(())
}

/// Ends a selection.
pub fn end_selection(url: &str, path: &str) -> Result<(), String> {
    curl(&["-X", "DELETE", &format!("{url}/{path}")])?;
    is_gone(url, path)
}
