//! Uploads: a few bytes are held and go into a row, many bytes go into a content of the store as
//! they arrive.

use std::pin::pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, Stream, StreamExt};
use heads::error::{ObjectsError, ObjectsResult};
use heads::keys;
use heads::path::ResourcePath;
use heads::resource_body::{Binary, Elsewhere, Handling};
use md5::Md5;
use parking_lot::Mutex;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use store::{Class, ContentId, StoreError, Table, boxed};
use thiserror::Error;

use crate::handle::Repository;
use crate::resource::Resource;

/// A digest algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DigestAlgorithm {
    /// RFC 1321.
    Md5,
    /// FIPS 180-4.
    Sha1,
    /// FIPS 180-4.
    Sha256,
    /// FIPS 180-4.
    Sha512,
}

/// Bytes that were uploaded. A caller that does not use them must call [`Repository::discard`].
#[derive(Clone, Debug)]
pub struct Uploaded {
    pub(super) place: UploadedPlace,
    /// Their length in bytes.
    pub len_bytes: u64,
    /// SHA-256 of them.
    pub sha256: [u8; 32],
    /// The other digests that were requested.
    pub digests: Vec<(DigestAlgorithm, Vec<u8>)>,
    /// Their media type.
    pub media_type: String,
    /// Their content disposition (RFC 6266).
    pub disposition: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum UploadedPlace {
    Small(Bytes),
    Content(ContentId),
    Elsewhere(Elsewhere),
}

impl Uploaded {
    /// Bytes that are stored elsewhere.
    pub fn elsewhere(url: String, handling: Handling) -> Self {
        Self {
            place: UploadedPlace::Elsewhere(Elsewhere { url, handling }),
            len_bytes: 0,
            sha256: [0; 32],
            digests: Vec::new(),
            media_type: String::new(),
            disposition: None,
        }
    }
}

/// Why an upload failed; nothing of it is kept.
#[derive(Debug, Error)]
pub enum UploadError<E> {
    /// The source broke off.
    #[error("the source of an upload broke off")]
    Source(E),
    /// The bytes could not be stored.
    #[error(transparent)]
    Objects(ObjectsError),
}

/// The digests of one stream of bytes: SHA-256 and the requested ones.
pub struct Hashing {
    len_bytes: u64,
    sha256: Sha256,
    others: Vec<(DigestAlgorithm, Box<dyn digest::DynDigest + Send>)>,
}

impl Hashing {
    /// A digest of no bytes yet.
    pub fn new(algorithms: &[DigestAlgorithm]) -> Self {
        let others = algorithms.iter().map(|algorithm| {
            let hasher: Box<dyn digest::DynDigest + Send> = match algorithm {
                DigestAlgorithm::Md5 => Box::new(Md5::new()),
                DigestAlgorithm::Sha1 => Box::new(Sha1::new()),
                DigestAlgorithm::Sha256 => Box::new(Sha256::new()),
                DigestAlgorithm::Sha512 => Box::new(Sha512::new()),
            };
            (*algorithm, hasher)
        });
        Self { len_bytes: 0, sha256: Sha256::new(), others: others.collect() }
    }

    /// Adds some more bytes.
    pub fn update(&mut self, piece: &[u8]) {
        self.len_bytes += piece.len() as u64;
        self.sha256.update(piece);
        self.others.iter_mut().for_each(|(_, hasher)| hasher.update(piece));
    }

    /// The requested digests.
    pub fn others(self) -> Vec<(DigestAlgorithm, Vec<u8>)> {
        self.others.into_iter().map(|(algorithm, hasher)| (algorithm, hasher.finalize().into_vec())).collect()
    }
}

/// The digests of bytes in memory.
pub fn digests_of(bytes: &[u8], algorithms: &[DigestAlgorithm]) -> Vec<(DigestAlgorithm, Vec<u8>)> {
    let mut hashing = Hashing::new(algorithms);
    hashing.update(bytes);
    hashing.others()
}

impl Repository {
    /// Receives bytes for the resource at `path`, which need not exist yet. Computes SHA-256 and
    /// the requested digests.
    pub async fn upload<E: Send + 'static>(
        &self,
        path: &ResourcePath,
        source: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
        algorithms: &[DigestAlgorithm],
    ) -> Result<Uploaded, UploadError<E>> {
        let mut source = Box::pin(source);
        let hashing = Arc::new(Mutex::new(Hashing::new(algorithms)));
        let small_max = self.heads.options().small_content_bytes;
        let mut held = BytesMut::new();
        let mut over = None;
        while let Some(piece) = source.next().await {
            let piece = piece.map_err(UploadError::Source)?;
            hashing.lock().update(&piece);
            if held.len() + piece.len() > small_max {
                over = Some(piece);
                break;
            }
            held.extend_from_slice(&piece);
        }
        let held = held.freeze();
        let place = match over {
            None => UploadedPlace::Small(held),
            Some(piece) => {
                let broken = Arc::new(Mutex::new(None));
                let rest = source.map({
                    let (hashing, broken) = (hashing.clone(), broken.clone());
                    move |piece| match piece {
                        Ok(piece) => {
                            hashing.lock().update(&piece);
                            Ok(piece)
                        }
                        Err(error) => {
                            *broken.lock() = Some(error);
                            Err(StoreError::Unavailable("the source of an upload broke off".to_owned()))
                        }
                    }
                });
                let all = stream::iter([Ok(held), Ok(piece)]).chain(rest).boxed();
                let owner = keys::resource_partition(path);
                let stored = self.heads.store().put_content(self.heads.call(Class::Content), owner, all).await;
                match (stored, broken.lock().take()) {
                    (Ok(id), _) => UploadedPlace::Content(id),
                    (Err(_), Some(error)) => return Err(UploadError::Source(error)),
                    (Err(error), None) => return Err(UploadError::Objects(error.into())),
                }
            }
        };
        let hashing = std::mem::replace(&mut *hashing.lock(), Hashing::new(&[]));
        Ok(Uploaded {
            place,
            len_bytes: hashing.len_bytes,
            sha256: hashing.sha256.clone().finalize().into(),
            digests: hashing.others(),
            media_type: String::new(),
            disposition: None,
        })
    }

    /// Stores the bytes of a version once more, so that a new head can name them. Fails like a read
    /// if they are damaged.
    #[boxed]
    pub async fn upload_again(&self, version: &Resource, binary: &Binary) -> ObjectsResult<Uploaded> {
        let uploaded = match binary.elsewhere() {
            Some(Elsewhere { url, handling }) => Uploaded::elsewhere(url.clone(), *handling),
            None => {
                let content = self.content(version, binary, 0..binary.len_bytes).await?;
                let uploaded = self.upload(version.path(), content, &[]).await.map_err(|error| match error {
                    UploadError::Source(error) | UploadError::Objects(error) => error,
                })?;
                if uploaded.sha256 != binary.sha256 {
                    self.discard(&uploaded).await;
                    return Err(ObjectsError::corrupt(Table::Contents, "the bytes of a version have another digest"));
                }
                uploaded
            }
        };
        let (media_type, disposition) = (binary.media_type.clone(), binary.disposition.clone());
        Ok(Uploaded { media_type, disposition, ..uploaded })
    }

    /// Reads bytes to their end without storing them, and returns their digests.
    pub async fn summed_up<E>(
        &self,
        source: impl Stream<Item = Result<Bytes, E>>,
        algorithms: &[DigestAlgorithm],
    ) -> Result<Vec<(DigestAlgorithm, Vec<u8>)>, E> {
        let mut hashing = Hashing::new(algorithms);
        let mut source = pin!(source);
        while let Some(piece) = source.next().await {
            hashing.update(&piece?);
        }
        Ok(hashing.others())
    }

    /// Deletes the content of an unused upload. If that fails, the content stays until the
    /// collector finds it.
    #[boxed]
    pub async fn discard(&self, uploaded: &Uploaded) {
        let UploadedPlace::Content(id) = &uploaded.place else { return };
        let id = *id;
        let discarded = async {
            let store = &self.heads.store();
            Ok::<_, StoreError>(
                store.condemn_content(self.heads.call(Class::Content), id).await?
                    && store.delete_content(self.heads.call(Class::Content), id).await?,
            )
        };
        match discarded.await {
            Ok(true) => {}
            Ok(false) => tracing::warn!(content = %id, "an upload that was not used is still there"),
            Err(error) => tracing::warn!(content = %id, %error, "an upload that was not used is still there"),
        }
    }

    /// Reads a resource's bytes and returns their digests.
    #[boxed]
    pub async fn digests(
        &self,
        resource: &Resource,
        binary: &Binary,
        algorithms: &[DigestAlgorithm],
    ) -> ObjectsResult<Vec<(DigestAlgorithm, Vec<u8>)>> {
        let mut hashing = Hashing::new(algorithms);
        let mut content = pin!(self.content(resource, binary, 0..binary.len_bytes).await?);
        while let Some(piece) = content.next().await {
            hashing.update(&piece?);
        }
        Ok(hashing.others())
    }
}
