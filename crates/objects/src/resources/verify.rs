//! Whether a resource reads back as it was written.

use crate::error::ObjectsResult;
use crate::library::Library;
use crate::resources::Resource;
use crate::resources::upload::DigestAlgorithm;

impl Library {
    /// Reads all of a resource. Answers what is wrong with it, if something is: a row or a content that its head names is missing
    /// or broken, or its bytes are not those that came in.
    pub async fn verify_resource(&self, resource: &Resource) -> ObjectsResult<Option<String>> {
        let read = self.read_whole(resource).await;
        match read {
            Ok(true) => Ok(None),
            Ok(false) => Ok(Some("its bytes are not those that came in".to_owned())),
            Err(error) if error.is_damage() => Ok(Some(error.to_string())),
            Err(error) => Err(error),
        }
    }

    /// Whether its bytes have the digest that its head says.
    async fn read_whole(&self, resource: &Resource) -> ObjectsResult<bool> {
        self.description(resource).await?;
        let Some(binary) = resource.body().binary() else { return Ok(true) };
        let digests = self.digests(resource, binary, &[DigestAlgorithm::Sha256]).await?;
        Ok(digests.iter().all(|(_, digest)| digest[..] == binary.sha256))
    }
}
