//! A request that names volumes or pages: its parameters, the policies that it must satisfy, and
//! its turn to be planned.

use std::sync::Arc;

use ::audit::Requester;
use axum::extract::Request;
use budget::Share;
use volumes::{BulkPlan, BulkRequest, Planning, Waiting};

use crate::DataDoor;
use crate::asking::Within;
use crate::errors::DoorError;
use crate::params::Params;
use crate::policies;
use crate::retrieval::Retrieval;
use crate::settings::NAMED_BYTES;
use crate::waiting::while_waiting;

/// A parsed request, and its turn to be planned.
pub struct ListRequest<'door> {
    /// The requested volumes or pages.
    pub bulk: BulkRequest,
    /// Its turn.
    pub turn: Planning<'door>,
    /// Its parameters.
    pub params: Params,
    /// The share of memory for all this until it is planned.
    pub _share: Share,
}

impl<'door> ListRequest<'door> {
    /// Reads a request, and checks the policies as far as that is possible without the store, and
    /// that all volumes are within the client's area. With `None` the parameters decide between
    /// volumes and pages.
    pub async fn read(
        door: &'door DataDoor,
        retrieval: Option<Retrieval>,
        request: Request,
        requester: &Requester,
    ) -> Result<Self, DoorError> {
        let read = move |params: &Params, client: &Waiting| -> Result<BulkRequest, DoorError> {
            let retrieval = retrieval.map_or_else(|| params.retrieval(), Ok)?;
            params.bulk(retrieval, || client.lasts())
        };
        Self::read_with(door, request, requester, read).await
    }

    /// Does the same, but `read` reads the list.
    pub async fn read_with(
        door: &'door DataDoor,
        request: Request,
        requester: &Requester,
        read: impl FnOnce(&Params, &Waiting) -> Result<BulkRequest, DoorError> + Send + 'static,
    ) -> Result<Self, DoorError> {
        let (memory, party) = (&door.library.memory, requester.party());
        let Within(area) = Within::of(request.extensions());
        let (params, mut share) = Params::of_request(request, door.settings.form_bytes_max, memory, &party).await?;
        params.check_spelling()?;
        params.check_as_of(door.library.clock().now())?;
        policies::check_length(&door.settings, &params)?;
        let turn = door.library.volumes.planning(params.named_at_most(), party).await?;
        share.resize(share.bytes() + params.named_at_most() * NAMED_BYTES)?;
        // A list may have 100,000 ids and more: reading it would block a thread that serves other
        // requests.
        let read = while_waiting(move |client| {
            let bulk = read(&params, client)?;
            bulk.wanted.iter().try_for_each(|wanted| area.check_volume(&wanted.volume))?;
            Ok::<_, DoorError>((bulk, params, share))
        });
        let (bulk, params, share) = read.await??;
        policies::check_request(&door.settings, &bulk.wanted)?;
        policies::check_reportable(door.library.options().memory_bytes, &bulk.wanted)?;
        Ok(Self { bulk, turn, params, _share: share })
    }

    /// The plan for it, within the policies.
    pub async fn plan(&self, door: &DataDoor) -> Result<Arc<BulkPlan>, DoorError> {
        let plan = self.turn.plan(&self.bulk, door.settings.on_damage).await?;
        policies::check_plan(&door.settings, &plan)?;
        Ok(plan)
    }

    /// Checks the policies about pages for callers that make no plan. It makes a plan only if there
    /// are such policies.
    pub async fn check_pages(&self, door: &DataDoor) -> Result<(), DoorError> {
        if policies::limits_pages(&door.settings) {
            self.plan(door).await?;
        }
        Ok(())
    }
}
