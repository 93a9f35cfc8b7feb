//! Publishes invented runs: for those that work on the portal. The argument is a folder that does not
//! exist yet; the archive is beside it.

#[path = "../tests/all/invented/mod.rs"]
mod invented;

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = PathBuf::from(std::env::args().nth(1).ok_or("name a folder")?);
    let archive = out.with_extension("archive");
    for run in invented::runs(120) {
        invented::add(&archive, &run)?;
    }
    std::fs::create_dir_all(archive.join("notes"))?;
    println!("{:?}", testbed::portal::publish(&archive, &out)?);
    Ok(())
}
