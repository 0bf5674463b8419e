//! SQLite: one writer, many readers, one file a table. Knows the model and the scenario's outline; starts nothing.

pub mod arms;
pub mod calibrations;
pub mod campaigns;
pub mod chunks;
mod error;
pub mod events;
pub mod histograms;
pub mod idempotency;
pub mod launched;
mod lock;
pub mod rows;
pub mod runs;
pub mod trials;

use std::{
    fs::File,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use sqlx::{
    Connection, Sqlite, SqliteConnection, SqlitePool, Transaction,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

pub use error::StoreError;
pub use rows::{CampaignDetail, HistogramRow, PartState, RunDetail, RunFilter, RunRow, Series, StoredEvent};

use crate::model::{CampaignId, HistogramRecord, RunId, RunState, Trial, Verdict};

/// A transaction of the only writer; the functions of the tables' files compose in it.
pub type Write = Transaction<'static, Sqlite>;

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!();

/// How long a reader or the writer waits for the other's lock on the file.
const BUSY: Duration = Duration::from_secs(5);
const READERS: u32 = 4;

/// The database of one server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    writer: SqlitePool,
    readers: SqlitePool,
    /// The limit of [`Store::limit_pages`]; 0 without one.
    pages: Arc<AtomicU32>,
    /// Held as long as any clone lives: a second server must not write the same runs.
    _lock: Arc<File>,
}

impl Store {
    /// Opens or creates the database and brings it to the newest shape.
    ///
    /// # Errors
    /// When the file cannot be written, or another server holds it.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        let lock = lock::take(path)?;
        // FULL for all writes: states, steps and verdicts must survive a power cut, and samples come in batches.
        let options = SqliteConnectOptions::new()
            .filename(path)
            .foreign_keys(true)
            .busy_timeout(BUSY)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        let open =
            |source: Box<dyn std::error::Error + Send + Sync>| StoreError::Open { path: path.to_owned(), source };
        let pages = Arc::new(AtomicU32::new(0));
        let limit = Arc::clone(&pages);
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .after_connect(move |connection, _| {
                let pages = limit.load(Ordering::Relaxed);
                Box::pin(async move { set_page_limit(connection, pages).await })
            })
            // On a full disk SQLite undoes the transaction by itself; sqlx goes on believing in it and would refuse
            // every later one on this connection.
            .before_acquire(|connection, _| {
                let clean = !connection.is_in_transaction();
                Box::pin(async move { Ok(clean) })
            })
            .connect_with(options.clone().create_if_missing(true))
            .await
            .map_err(|source| open(source.into()))?;
        MIGRATIONS.run(&writer).await.map_err(|source| open(source.into()))?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .connect_with(options.read_only(true))
            .await
            .map_err(|source| open(source.into()))?;
        Ok(Self { writer, readers, pages, _lock: Arc::new(lock) })
    }

    /// Begins a transaction of the only writer; waits while another is open. Dropping it undoes it.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn begin(&self) -> Result<Write, StoreError> {
        // IMMEDIATE: a transaction that reads first and writes later must not fail half way.
        Ok(self.writer.begin_with("begin immediate").await?)
    }

    /// Bounds the database file, in pages of 4 KiB. Beyond it, writing fails as on a full disk ([`StoreError::Full`]).
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub async fn limit_pages(&self, pages: u32) -> Result<(), StoreError> {
        self.pages.store(pages, Ordering::Relaxed);
        Ok(set_page_limit(&mut *self.writer.acquire().await?, pages).await?)
    }

    /// Whether the database answers.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ping(&self) -> Result<(), StoreError> {
        sqlx::query("select 1").execute(&self.readers).await?;
        Ok(())
    }

    /// Runs, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        runs::list(&mut *self.readers.acquire().await?, filter).await
    }

    /// One run as lists show it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn row(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        runs::row(&mut *self.readers.acquire().await?, run).await
    }

    /// Everything of one run but its series. One consistent reading: trials, notes and `last_seq` are of one moment.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn detail(&self, run: RunId) -> Result<Option<RunDetail>, StoreError> {
        let mut tx = self.readers.begin().await?;
        let Some(mut detail) = runs::detail(&mut tx, run).await? else { return Ok(None) };
        detail.trials = trials::of(&mut tx, run).await?;
        detail.inventories = arms::of(&mut tx, run).await?;
        detail.notes = events::notes(&mut tx, run).await?;
        Ok(Some(detail))
    }

    /// One campaign with what has become of its parts.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn campaign(&self, id: CampaignId) -> Result<Option<CampaignDetail>, StoreError> {
        let mut tx = self.readers.begin().await?;
        campaigns::detail(&mut tx, id).await
    }

    /// Campaigns, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn campaigns(&self) -> Result<Vec<CampaignDetail>, StoreError> {
        let mut tx = self.readers.begin().await?;
        campaigns::list(&mut tx).await
    }

    /// The run of each part of a campaign, where there is one.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn runs_of(&self, campaign: &CampaignDetail) -> Result<Vec<Option<RunDetail>>, StoreError> {
        let mut runs = Vec::new();
        for part in &campaign.parts {
            runs.push(match part.run {
                Some(run) => self.detail(run).await?,
                None => None,
            });
        }
        Ok(runs)
    }

    /// Series of one run, of the named metrics (all when empty), thinned to about `max_points` each.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn series(&self, run: RunId, metrics: &[&str], max_points: usize) -> Result<Vec<Series>, StoreError> {
        let mut tx = self.readers.begin().await?;
        let mut all = chunks::series(&mut tx, run, metrics).await?;
        for series in &mut all {
            series.points = chunks::thin(std::mem::take(&mut series.points), max_points);
        }
        Ok(all)
    }

    /// Stored events of a run after the given number, in order.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn events(&self, run: RunId, after: u64) -> Result<Vec<StoredEvent>, StoreError> {
        events::after(&mut *self.readers.acquire().await?, run, after).await
    }

    /// Measured trials of a run, in order.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn trials(&self, run: RunId) -> Result<Vec<Trial>, StoreError> {
        trials::of(&mut *self.readers.acquire().await?, run).await
    }

    /// The verdict of a run that has one.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn verdict(&self, run: RunId) -> Result<Option<Verdict>, StoreError> {
        runs::verdict(&mut *self.readers.acquire().await?, run).await
    }

    /// Which histograms a run has, without their contents; of one step when it is given.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn histogram_list(&self, run: RunId, step: Option<u32>) -> Result<Vec<HistogramRow>, StoreError> {
        histograms::list(&mut *self.readers.acquire().await?, run, step).await
    }

    /// Histograms of one step of a run, whole.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn histograms(&self, run: RunId, step: u32) -> Result<Vec<HistogramRecord>, StoreError> {
        histograms::of_step(&mut *self.readers.acquire().await?, run, step).await
    }

    /// Runs in a state, oldest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn in_state(&self, state: RunState) -> Result<Vec<RunRow>, StoreError> {
        runs::in_state(&mut *self.readers.acquire().await?, state).await
    }

    /// Interrupted runs whose root may still be on its target, with the target's name.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn uncleaned(&self) -> Result<Vec<(RunId, String)>, StoreError> {
        runs::uncleaned(&mut *self.readers.acquire().await?).await
    }

    /// The newest measurement of a machine's generator.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn calibration(&self, host: &str) -> Result<Option<calibrations::Calibration>, StoreError> {
        calibrations::newest(&mut *self.readers.acquire().await?, host).await
    }

    /// Processes that runs have started and not reported as stopped.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn launched(&self) -> Result<Vec<launched::Launched>, StoreError> {
        launched::all(&mut *self.readers.acquire().await?).await
    }

    /// Closes both sides, so that the last of the write-ahead log is folded into the file.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

async fn set_page_limit(connection: &mut SqliteConnection, pages: u32) -> Result<(), sqlx::Error> {
    if pages > 0 {
        // A pragma takes no parameters; a number cannot carry SQL.
        let sql = sqlx::AssertSqlSafe(format!("pragma max_page_count = {pages}"));
        sqlx::query(sql).execute(connection).await?;
    }
    Ok(())
}
