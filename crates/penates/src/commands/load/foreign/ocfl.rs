//! Loads the objects of a storage root of OCFL that another program wrote: each is a container with
//! its files below it. Its versions are loaded one after the other, oldest first.
//!
//! The description of the container says which object it is, and which version was loaded last. So
//! the same command continues an interrupted load, and loads versions that were added since.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use heads::ResourcePath;
use preservation::names;
use preservation::ocfl::inventory::Version;
use preservation::ocfl::{Content, Object, each_object};
use preservation::read::{ReadError, ReadResult};
use rdf::{Graph, Term};
use tokio::task::spawn_blocking;

use super::super::loader::{Counts, Loader, Sent, State};
use super::super::source::Bytes;
use super::{DCTERMS, binary, container, containers_to, statements_about};
use crate::client::ClientError;
use crate::exit::full_message;

/// The objects of a checked storage root: their identifiers and folders, in the order of the former.
pub type Objects = BTreeMap<String, PathBuf>;

/// Checks all of a storage root, before anything of it is loaded.
pub async fn checked(folder: &Path) -> anyhow::Result<Objects> {
    let (place, shown) = (folder.to_owned(), folder.display().to_string());
    let checked = spawn_blocking(move || {
        let mut objects = Objects::new();
        each_object(&place, &mut |folder| {
            let object = Object::open(folder)?;
            object.check_files()?;
            match objects.insert(object.id().to_owned(), folder.to_owned()) {
                Some(other) => Err(ReadError::Invalid {
                    name: folder.display().to_string(),
                    why: format!("{} is the object {} too", other.display(), object.id()),
                }),
                None => Ok(()),
            }
        })?;
        ReadResult::Ok(objects)
    });
    checked.await?.with_context(|| format!("{shown}: nothing was loaded"))
}

/// Loads objects below a container, which is created.
pub async fn load(objects: &Objects, into: &ResourcePath, loader: &Loader) -> anyhow::Result<Counts> {
    for above in containers_to(into).into_iter().chain([into.to_string()]) {
        loader.create(&container(&above, Vec::new())).await?;
    }
    let mut counts = Counts::default();
    for (id, folder) in objects {
        let name = name_of(id);
        let loading = Loading { path: format!("{into}/{name}"), id, folder, loader };
        match loading.load().await {
            Ok((0, _)) => counts.unchanged += 1,
            Ok((_, bytes)) => {
                counts.new += 1;
                counts.bytes += bytes;
            }
            Err(error) if error.downcast_ref().is_some_and(ClientError::stops_all) => return Err(error),
            Err(error) => {
                note!("{id}: {}", full_message(error.as_ref()));
                counts.failed += 1;
            }
        }
    }
    Ok(counts)
}

/// The name of the container for an object: its identifier, encoded if that cannot be a name.
fn name_of(id: &str) -> String {
    let is_name = !id.contains('/') && !id.starts_with("fcr:") && ResourcePath::parse(id).is_ok() && !id.is_empty();
    if is_name { id.to_owned() } else { names::encoded(id) }
}

/// An object that is being loaded.
struct Loading<'a> {
    path: String,
    id: &'a str,
    folder: &'a Path,
    loader: &'a Loader,
}

type Files = BTreeMap<String, Content>;

/// The folders that a file is in, the outermost one first.
fn folders_above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(move |(end, _)| &path[..end])
}

impl Loading<'_> {
    /// Returns how many versions were loaded, and how many bytes were sent.
    async fn load(&self) -> anyhow::Result<(usize, u64)> {
        let object = Object::open(self.folder)?;
        let versions = object.versions();
        let mut done = match self.loader.create(&self.container(0, None)).await? {
            (Sent::Made, _) => 0,
            (Sent::IsThere, _) => self.loaded().await?,
        };
        ensure!(done <= versions.len(), "there is the object with more versions");
        let before_all = done;
        let mut bytes = 0;
        let mut before = match done.checked_sub(1) {
            Some(newest) => object.files(versions[newest]),
            None => Files::new(),
        };
        for version in &versions[done..] {
            let files = object.files(version);
            bytes += self.change(&object, &before, &files).await.with_context(|| format!("version {}", done + 1))?;
            done += 1;
            self.loader.replace_statements(&self.container(done, Some(version))).await?;
            before = files;
        }
        Ok((done - before_all, bytes))
    }

    /// Makes the files of a version from those of the one before. What is not as it is in one of the two
    /// was changed here, and stays: the version is not loaded.
    async fn change(&self, object: &Object, before: &Files, files: &Files) -> anyhow::Result<u64> {
        for (path, content) in before.iter().filter(|(path, _)| !files.contains_key(*path)) {
            let state = self.file(object, path, content);
            // An interrupted load may have deleted it.
            if self.loader.is_there(&state.about.path).await? {
                let compared = self.loader.compare(&state, false).await;
                compared.with_context(|| format!("/{} is not deleted", state.about.path))?;
            }
            self.loader.forget(&state.about).await?;
        }
        self.remove_folders(before, files).await?;
        let (mut bytes, mut folders) = (0, HashSet::new());
        for (path, content) in
            files.iter().filter(|(path, content)| before.get(*path).is_none_or(|had| had.digest != content.digest))
        {
            for folder in folders_above(path) {
                if folders.insert(folder) {
                    self.loader.create(&container(&self.at(folder), Vec::new())).await?;
                }
            }
            let state = self.file(object, path, content);
            let (sent, sent_bytes) = self.loader.create(&state).await?;
            bytes += sent_bytes;
            // An interrupted load left it, or it is of the version before.
            if matches!(sent, Sent::IsThere)
                && let Err(error) = self.loader.compare_bytes(&state).await
            {
                let named = || format!("/{}", state.about.path);
                let Some(had) = before.get(path) else { return Err(error.context(named())) };
                self.loader.compare_bytes(&self.file(object, path, had)).await.with_context(named)?;
                bytes += self.loader.replace_bytes(&state).await?;
            }
        }
        Ok(bytes)
    }

    /// Deletes the containers that were made for files of the version before, unless the next one needs
    /// them, or they are not as they were made: a file may have the name of one now.
    async fn remove_folders(&self, before: &Files, files: &Files) -> anyhow::Result<()> {
        let needed: HashSet<_> = files.keys().flat_map(|path| folders_above(path)).collect();
        let folders: BTreeSet<_> = before.keys().flat_map(|path| folders_above(path)).collect();
        // A container comes after those that are in it.
        for folder in folders.into_iter().rev().filter(|folder| !needed.contains(folder)) {
            let state = container(&self.at(folder), Vec::new());
            let path = &state.about.path;
            if self.loader.is_there(path).await? {
                let is_empty = self.loader.within(path).next().await?.is_none();
                if !is_empty || !self.loader.is_same(&state).await? {
                    continue;
                }
            }
            self.loader.forget(&state.about).await?;
        }
        Ok(())
    }

    /// A file of a version.
    fn file(&self, object: &Object, path: &str, content: &Content) -> State {
        let Content { place, digest } = content.clone();
        binary(&self.at(path), Bytes { source: place.into(), algorithm: object.algorithm(), digest })
    }

    fn at(&self, path: &str) -> String {
        format!("{}/{path}", self.path)
    }

    /// The container, with what is said about the object when so many of its versions are loaded.
    fn container(&self, loaded: usize, version: Option<&Version>) -> State {
        let mut said = vec![("identifier", self.id.to_owned()), ("hasVersion", format!("v{loaded}"))];
        if let Some(Version { created, message, user, .. }) = version {
            said.push(("modified", created.clone()));
            said.extend(message.clone().map(|message| ("description", message)));
            said.extend(user.clone().map(|user| ("contributor", user.name)));
        }
        let said = said.into_iter().map(|(property, value)| (format!("{DCTERMS}{property}"), value));
        container(&self.path, statements_about(&self.path, said))
    }

    /// How many versions a container that is there says that were loaded.
    async fn loaded(&self) -> anyhow::Result<usize> {
        let said = self.loader.own_statements(&self.container(0, None)).await?;
        let texts = |property: &str| texts(&said, &format!("{DCTERMS}{property}"));
        let version = texts("hasVersion").iter().find_map(|version| version.strip_prefix('v')?.parse().ok());
        match version.filter(|_| texts("identifier").iter().any(|id| id == self.id)) {
            Some(version) => Ok(version),
            None => bail!("there is another resource at /{}", self.path),
        }
    }
}

/// The texts that statements have as values of a property.
fn texts(statements: &Graph, property: &str) -> Vec<String> {
    let of_property = statements.iter().filter(|triple| triple.predicate.as_str() == property);
    let text = of_property.filter_map(|triple| match &triple.object {
        Term::Literal(literal) => Some(literal.value().to_owned()),
        _ => None,
    });
    text.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_the_name_of_its_container_or_is_encoded() {
        for (id, name) in [
            ("ark:12148_b", "ark:12148_b"),
            ("info:fedora/a b", "info=3Afedora=2Fa=20b"),
            ("..", "=2E=2E"),
            ("fcr:versions", "fcr=3Aversions"),
            ("a\nb", "a=0Ab"),
        ] {
            assert_eq!(name_of(id), name);
        }
    }
}
