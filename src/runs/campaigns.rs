//! Campaigns: asks for the run of one part after the other, each at the load that an earlier one found.

use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;

use super::{AskedBy, Runs, SubmitError};
use crate::{
    model::{CampaignId, RunId, StopCode, Verdict},
    scenario::Campaign,
    store::{CampaignDetail, PartState, StoreError, campaigns},
};

/// Between a run that is over and the store that says so.
const BETWEEN: Duration = Duration::from_millis(200);

/// What comes next in a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextPart {
    /// This run belongs to it and is not over, or was asked for now.
    Run(RunId),
    /// Every part has run, or cannot.
    Over,
    /// There is no such campaign.
    Unknown,
}

impl Runs {
    /// Stores a campaign; [`Runs::next_of`] takes it on.
    ///
    /// # Errors
    /// When the store cannot be written, or the server is shutting down.
    pub async fn begin_campaign(&self, campaign: &Campaign, by: AskedBy) -> Result<CampaignId, SubmitError> {
        let inner = &self.0;
        if inner.stopping.is_cancelled() {
            return Err(SubmitError::Closing);
        }
        let id = CampaignId::new();
        let mut tx = inner.store.begin().await?;
        campaigns::insert(&mut tx, id, campaign, by.as_str(), inner.clock.now_ns()).await?;
        tx.commit().await.map_err(StoreError::from)?;
        Ok(id)
    }

    /// Takes a campaign on: the run that is under way, or the one that comes next. A part whose load nobody found gets no
    /// run, and the parts behind it go on.
    ///
    /// # Errors
    /// When the store cannot be used, or the server is shutting down.
    pub async fn next_of(&self, id: CampaignId) -> Result<NextPart, SubmitError> {
        let store = &self.0.store;
        let Some(detail) = store.campaign(id).await? else { return Ok(NextPart::Unknown) };
        let by =
            [AskedBy::Page, AskedBy::Api, AskedBy::CommandLine].into_iter().find(|by| by.as_str() == detail.origin);
        for (at, part) in detail.campaign.parts.iter().enumerate() {
            match &detail.parts[at] {
                PartState { run: Some(run), .. } if store.row(*run).await?.is_some_and(|row| !row.state.is_over()) => {
                    return Ok(NextPart::Run(*run));
                }
                PartState { run: None, why: None } => {}
                PartState { .. } => continue,
            }
            let verdicts = self.verdicts(&detail).await?;
            let resolved =
                part.resolve(|of| verdicts.iter().find(|(name, _)| name == of).map(|(_, found)| found.clone()));
            let asked = match (self.stopped(&detail).await?, resolved) {
                (Some(stopped), _) => Err(format!("someone stopped {stopped}")),
                (None, Ok(text)) => {
                    // The same run again, should the program have ended between this and the next line of code.
                    let key = format!("campaign {id} part {at}");
                    match self.submit(&text, by.unwrap_or(AskedBy::Api), Some(&key)).await {
                        Ok(submitted) => Ok(submitted.id),
                        Err(SubmitError::Faults(faults)) => Err(format!("its scenario is not sound here: {faults}")),
                        Err(error) => return Err(error),
                    }
                }
                (None, Err(why)) => Err(why),
            };
            let state = PartState { run: asked.as_ref().ok().copied(), why: asked.as_ref().err().cloned() };
            let mut tx = store.begin().await?;
            campaigns::set_part(&mut tx, id, at, &state).await?;
            tx.commit().await.map_err(StoreError::from)?;
            if let Ok(run) = asked {
                return Ok(NextPart::Run(run));
            }
        }
        Ok(NextPart::Over)
    }

    /// Takes a campaign on until it is over, in the background.
    pub fn drive_campaign(&self, id: CampaignId) {
        let runs = self.clone();
        self.0.tasks.spawn(async move {
            while let Ok(NextPart::Run(run)) = runs.next_of(id).await {
                let Some(mut events) = runs.follow(run) else {
                    tokio::time::sleep(BETWEEN).await;
                    continue;
                };
                let over = async { while !matches!(events.recv().await, Err(RecvError::Closed)) {} };
                tokio::select! {
                    () = over => {}
                    () = runs.0.stopping.cancelled() => return,
                }
            }
        });
    }

    /// Takes on what an earlier program left unfinished.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn drive_unfinished_campaigns(&self) -> Result<(), StoreError> {
        for detail in self.0.store.campaigns().await? {
            let waits = detail.parts.iter().any(|part| part.run.is_none() && part.why.is_none());
            if waits && detail.origin != AskedBy::CommandLine.as_str() {
                self.drive_campaign(detail.id);
            }
        }
        Ok(())
    }

    /// The part that someone stopped: who stops one does not want the next.
    async fn stopped(&self, detail: &CampaignDetail) -> Result<Option<String>, StoreError> {
        for (part, state) in detail.campaign.parts.iter().zip(&detail.parts) {
            if let Some(run) = state.run
                && self.0.store.row(run).await?.is_some_and(|row| row.stop_code == Some(StopCode::UserAbort))
            {
                return Ok(Some(part.name.clone()));
            }
        }
        Ok(None)
    }

    /// What the parts found so far, by their names.
    async fn verdicts(&self, detail: &CampaignDetail) -> Result<Vec<(String, Verdict)>, StoreError> {
        let mut all = Vec::new();
        for (part, state) in detail.campaign.parts.iter().zip(&detail.parts) {
            if let Some(run) = state.run
                && let Some(verdict) = self.0.store.verdict(run).await?
            {
                all.push((part.name.clone(), verdict));
            }
        }
        Ok(all)
    }
}
