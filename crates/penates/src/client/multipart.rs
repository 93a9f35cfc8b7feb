//! A volume as `multipart/form-data` (RFC 7578), streamed from files or from memory.

use std::path::PathBuf;

use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use tokio_util::io::ReaderStream;

/// Bytes per read of a file.
const PIECE_BYTES: usize = 256 << 10;

/// The source of a part's bytes.
#[derive(Clone, Debug)]
pub enum Content {
    /// In memory.
    Memory(Bytes),
    /// In a file.
    File(PathBuf),
}

/// One part of a form.
#[derive(Clone, Debug)]
pub struct Part {
    /// The name of its field.
    pub name: &'static str,
    /// Its media type.
    pub content_type: &'static str,
    /// Its bytes.
    pub content: Content,
}

/// A form, ready to be sent.
pub struct Form {
    boundary: String,
    parts: Vec<Part>,
}

impl Form {
    /// A form of these parts, with a random boundary.
    pub fn new(parts: Vec<Part>) -> Self {
        Self { boundary: format!("penates-{:032x}", rand::random::<u128>()), parts }
    }

    /// The value of the header `Content-Type`.
    pub fn content_type(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    /// The body, piece by piece.
    pub fn pieces(self) -> impl Stream<Item = std::io::Result<Bytes>> + Send + 'static {
        let end = Bytes::from(format!("--{}--\r\n", self.boundary));
        let boundary = self.boundary;
        let parts = stream::iter(self.parts).flat_map(move |part| {
            let head = Bytes::from(format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\nContent-Type: {}\r\n\r\n",
                part.content_type,
                name = part.name,
            ));
            one(head).chain(content(part.content)).chain(one(Bytes::from_static(b"\r\n")))
        });
        parts.chain(one(end))
    }
}

fn one(bytes: Bytes) -> impl Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    stream::once(std::future::ready(Ok(bytes)))
}

fn content(content: Content) -> stream::BoxStream<'static, std::io::Result<Bytes>> {
    match content {
        Content::Memory(bytes) => one(bytes).boxed(),
        Content::File(path) => stream::once(tokio::fs::File::open(path))
            .map_ok(|file| ReaderStream::with_capacity(file, PIECE_BYTES))
            .try_flatten()
            .boxed(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn parts_of_memory_and_files_are_written_between_boundaries() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.zip");
        std::fs::write(&file, b"ZIP").unwrap();
        let form = Form::new(vec![
            Part { name: "zip", content_type: "application/zip", content: Content::File(file) },
            Part { name: "mets", content_type: "text/xml", content: Content::Memory(Bytes::from_static(b"<mets/>")) },
        ]);
        let boundary = form.content_type().split_once("boundary=").unwrap().1.to_owned();
        let body: Vec<Bytes> = form.pieces().try_collect().await.unwrap();
        let expected = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"zip\"; filename=\"zip\"\r\nContent-Type: application/zip\r\n\r\nZIP\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"mets\"; filename=\"mets\"\r\nContent-Type: text/xml\r\n\r\n<mets/>\r\n\
             --{boundary}--\r\n"
        );
        assert_eq!(String::from_utf8(body.concat()).unwrap(), expected);
    }

    #[tokio::test]
    async fn a_missing_file_fails_the_body() {
        let part =
            Part { name: "zip", content_type: "application/zip", content: Content::File("/nowhere/a.zip".into()) };
        let sent: std::io::Result<Vec<Bytes>> = Form::new(vec![part]).pieces().try_collect().await;
        assert_eq!(sent.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    }
}
