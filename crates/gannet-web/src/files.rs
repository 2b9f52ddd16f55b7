//! Files of the runs: which there are, reading one back to see whether it is sound, and taking a copy.
//!
//! A file is asked for by its number. Only what the recorder has named has one, so no request can name a path.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH};
use axum::http::{HeaderValue, StatusCode};
use gannet_control::station::Verified;
use hyper::body::Frame;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::calls::{Ask, Nothing, Reply};
use crate::limits::{DOWNLOAD_BYTES_PER_S, DOWNLOADS_MAX, FILES_MAX};
use crate::problem::Problem;
use crate::site::Shared;

/// The kind of a copy of a file.
pub(crate) const KIND: &str = "application/octet-stream";

/// Bytes of a piece of a file on its way.
const PIECE: usize = 64 << 10;
/// Pieces that wait for a client to take them.
const PIECES: usize = 4;

/// What reading a file back came to: whether it is sound, and what was found, for people.
pub type Verdict = (bool, String);

/// Reads a file back, and tells whether it is as it was written.
pub type Verifier = fn(&Path) -> Verdict;

/// The files that have numbers, and what is known of them.
#[derive(Default)]
pub(crate) struct Shelf {
    files: Mutex<Files>,
    downloads: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Files {
    /// Each with its run; the number of a file is its place, counted from 1.
    paths: Vec<(Option<u32>, PathBuf)>,
    verified: HashMap<usize, Check>,
}

/// What is known of whether a file is sound.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
#[schemars(rename = "FileCheck")]
pub(crate) enum Check {
    /// It is being read.
    Running {
        /// Bytes read so far; absent where the system does not tell.
        read: Option<u64>,
        /// For how long, in seconds.
        elapsed_s: f64,
        #[serde(skip)]
        thread: Option<PathBuf>,
        #[serde(skip)]
        begin: Option<Instant>,
    },
    /// It has been read.
    Over {
        /// Whether it is as it was written.
        sound: bool,
        /// Whether the run did it by itself, at its end.
        by_run: bool,
        /// What was found.
        told: String,
    },
}

/// A file of a run.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RunFile")]
pub(crate) struct Listed {
    /// Its number, as long as this process lives.
    id: usize,
    /// Number of its run.
    run: Option<u32>,
    /// Its name.
    name: String,
    /// Where it is on the machine of the run.
    path: String,
    /// Its size in bytes; absent where it is not there any more.
    bytes: Option<u64>,
    /// When it was changed last, in seconds since 1970.
    changed: Option<f64>,
    /// Whether it is sound, if somebody asked, or the run looked by itself.
    check: Option<Check>,
}

/// What is said with the command to read a file back: nothing.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Verify {}

/// A file that is asked for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Its number.
    id: usize,
}

impl Shelf {
    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives numbers to files of a run that have none.
    fn place(&self, run: Option<u32>, paths: impl IntoIterator<Item = PathBuf>) {
        let mut files = self.files();
        for path in paths {
            let path = std::path::absolute(&path).unwrap_or(path);
            let is_known = files.paths.iter().any(|(_, known)| *known == path);
            if !is_known && files.paths.len() < FILES_MAX {
                files.paths.push((run, path));
            }
        }
    }

    /// Notes which files a run read back itself, unless somebody asked for it since.
    fn note(&self, verified: Vec<Verified>) {
        let mut files = self.files();
        for Verified { file, items, missing, problem } in verified {
            let Some(place) = files.paths.iter().position(|(_, known)| *known == file) else {
                continue;
            };
            let sound = problem.is_none();
            let lost =
                if missing > 0 { format!(", {missing} of them missing") } else { String::new() };
            let told = problem.unwrap_or_else(|| format!("{items} items{lost}"));
            files.verified.entry(place + 1).or_insert(Check::Over { sound, by_run: true, told });
        }
    }

    fn path(&self, id: usize) -> Result<PathBuf, Problem> {
        let files = self.files();
        let found = id.checked_sub(1).and_then(|place| files.paths.get(place));
        found.map(|(_, path)| path.clone()).ok_or_else(|| {
            let detail = match files.paths.len() {
                0 => "no file is finished yet".to_owned(),
                most => format!("there is no file {id}; there are 1 to {most}"),
            };
            Problem::new(StatusCode::NOT_FOUND, "unknown-file", detail)
        })
    }

    /// All files, with what the disk tells of them.
    fn listed(&self) -> Vec<Listed> {
        let files = self.files();
        let all = files.paths.clone();
        let verified = files.verified.clone();
        drop(files);
        let listed = |(place, (run, path)): (usize, (Option<u32>, PathBuf))| {
            let metadata = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file);
            let changed = metadata.as_ref().and_then(|it| it.modified().ok());
            let changed = changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            Listed {
                id: place + 1,
                run,
                name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                path: path.to_string_lossy().into_owned(),
                bytes: metadata.map(|it| it.len()),
                changed: changed.map(|it| it.as_secs_f64()),
                check: verified.get(&(place + 1)).map(Check::now),
            }
        };
        all.into_iter().enumerate().map(listed).collect()
    }

    /// Has `verifier` read a file back, unless another is being read: then that one.
    fn verify(
        self: &Arc<Self>,
        id: usize,
        path: PathBuf,
        verifier: Verifier,
    ) -> Result<Check, usize> {
        let mut files = self.files();
        let running =
            files.verified.iter().find(|(_, check)| matches!(check, Check::Running { .. }));
        if let Some((other, _)) = running {
            return Err(*other);
        }
        let shelf = Arc::clone(self);
        let work = move || {
            if let Some(Check::Running { thread, .. }) = shelf.files().verified.get_mut(&id) {
                *thread = fs::read_link("/proc/thread-self").ok();
            }
            let (sound, told) = verifier(&path);
            shelf.files().verified.insert(id, Check::Over { sound, by_run: false, told });
        };
        let begin = Some(Instant::now());
        let check = Check::Running { read: None, elapsed_s: 0.0, thread: None, begin };
        files.verified.insert(id, check.clone());
        // It is left alone when the process ends: it changes nothing.
        if thread::Builder::new().name("gannet-verify".into()).spawn(work).is_err() {
            let told = "the system gives no thread".into();
            files.verified.insert(id, Check::Over { sound: false, by_run: false, told });
        }
        Ok(check)
    }
}

impl Check {
    /// The same as it is now.
    fn now(&self) -> Self {
        let Self::Running { thread, begin, .. } = self else { return self.clone() };
        let counters = thread
            .as_ref()
            .and_then(|thread| fs::read_to_string(Path::new("/proc").join(thread).join("io")).ok());
        let read =
            counters.and_then(|text| text.lines().next()?.strip_prefix("rchar: ")?.parse().ok());
        let elapsed_s = begin.map_or(0.0, |begin| begin.elapsed().as_secs_f64());
        Self::Running { read, elapsed_s, thread: thread.clone(), begin: *begin }
    }
}

/// The files of all runs, oldest first.
pub(crate) async fn list(ask: Ask<Nothing>) -> Result<Reply<Vec<Listed>>, Problem> {
    shelve(&ask.shared)?;
    let shelf = Arc::clone(&ask.shared.shelf);
    // A disk may not answer.
    let listed = spawn_blocking(move || shelf.listed()).await;
    listed.map(Reply::json).map_err(|_defect| Problem::busy())
}

/// Gives numbers to the files that there are, unless nobody knows now.
fn shelve(shared: &Shared) -> Result<(), Problem> {
    let station = shared.desk.commands.station.iter();
    for run in station.flat_map(|station| station.runs()) {
        let paths = run.files.into_iter().chain(run.exports).chain(run.tables);
        shared.shelf.place(run.number, paths);
        shared.shelf.note(run.verified);
    }
    let snapshot = shared.snapshot()?;
    let recorder = &snapshot.recorder;
    let paths = recorder.files.iter().chain(&recorder.exports).chain(snapshot.tables()).cloned();
    shared.shelf.place(Some(snapshot.run), paths);
    Ok(())
}

/// Where the file of this number is.
fn named(shared: &Shared, id: usize) -> Result<PathBuf, Problem> {
    shelve(shared)?;
    shared.shelf.path(id)
}

/// Reads a file back.
pub(crate) async fn verify(ask: Ask<Verify>) -> Result<Check, Problem> {
    let id = ask.place("id")?;
    let shared = &ask.shared;
    let path = named(shared, id)?;
    let verifier = shared.desk.commands.verifier.ok_or_else(|| {
        let detail = "this process reads no files back; `gannet verify` does";
        Problem::new(StatusCode::NOT_FOUND, "no-verifier", detail)
    })?;
    shared.shelf.verify(id, path, verifier).map_err(|other| {
        let detail = format!("file {other} is being read; one is read at a time");
        let problem = Problem::new(StatusCode::CONFLICT, "verifying", detail);
        problem.while_it_is(json!({ "verifying": other }))
    })
}

/// A copy of a file.
pub(crate) async fn content(ask: Ask<Wanted>) -> Result<Reply<String>, Problem> {
    let path = named(&ask.shared, ask.wanted.id)?;
    let busy = |what: String| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", what);
    let place = Place::take(&ask.shared.shelf.downloads).ok_or_else(|| {
        busy(format!("{DOWNLOADS_MAX} files are on their way already; ask again"))
    })?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let opened = spawn_blocking(move || open(&path)).await;
    let (file, bytes) = opened.map_err(|_defect| Problem::busy())?.map_err(|error| {
        let detail = format!("{name} cannot be read: {error}");
        Problem::new(StatusCode::GONE, "not-there", detail)
    })?;
    let (pieces, taken) = mpsc::channel(PIECES);
    thread::Builder::new()
        .name("gannet-file".into())
        .spawn(move || send(file, bytes, &pieces, place))
        .map_err(|_none| busy("the system gives no thread; ask again".into()))?;
    let reply = Reply::bytes(KIND, Body::new(Pieces(taken))).with(CONTENT_LENGTH, bytes.into());
    let disposition = format!("attachment; filename*=UTF-8''{}", escaped(&name));
    let disposition = HeaderValue::try_from(disposition);
    Ok(disposition.into_iter().fold(reply, |reply, it| reply.with(CONTENT_DISPOSITION, it)))
}

/// Opens a file and tells its length; not what a link in its place names.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    match (metadata.dev(), metadata.ino()) == (found.dev(), found.ino()) {
        true => Ok((file, metadata.len())),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it was replaced just now")),
    }
}

/// Sends a file piece by piece, no faster than the recorder can bear; ends when nobody takes it any more.
fn send(file: File, bytes: u64, pieces: &mpsc::Sender<io::Result<Bytes>>, _place: Place) {
    let (mut file, begin, mut sent) = (file.take(bytes), Instant::now(), 0_u64);
    loop {
        let mut piece = vec![0; PIECE.min((bytes - sent) as usize)];
        if piece.is_empty() {
            return;
        }
        // One that has become shorter ends the connection: the client is not to take it for whole.
        let read = file.read_exact(&mut piece).map(|()| Bytes::from(piece));
        let (is_over, length) = (read.is_err(), read.as_ref().map_or(0, Bytes::len));
        if pieces.blocking_send(read).is_err() || is_over {
            return;
        }
        sent += length as u64;
        let due = Duration::from_secs_f64(sent as f64 / DOWNLOAD_BYTES_PER_S);
        thread::sleep(due.saturating_sub(begin.elapsed()));
    }
}

/// One of the files that may be on their way.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(taken: &Arc<AtomicUsize>) -> Option<Self> {
        let more = |count| (count < DOWNLOADS_MAX).then_some(count + 1);
        let found = taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        found.ok().map(|_| Self(Arc::clone(taken)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A file on its way.
struct Pieces(mpsc::Receiver<io::Result<Bytes>>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

/// A name as RFC 8187 has it in a header.
fn escaped(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let escaped = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    name.bytes().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_their_numbers() {
        let shelf = Shelf::default();
        assert!(shelf.path(1).is_err());
        shelf.place(Some(1), ["/a".into(), "/b".into()]);
        shelf.place(Some(2), ["/b".into(), "/c".into()]);
        let paths: Vec<_> = (1..4).map(|id| shelf.path(id).unwrap()).collect();
        assert_eq!(paths, ["/a", "/b", "/c"].map(PathBuf::from));
        for unknown in [0, 4, usize::MAX] {
            assert!(shelf.path(unknown).is_err());
        }
        shelf.place(None, (0..2 * FILES_MAX).map(|at| format!("/{at}").into()));
        assert_eq!(shelf.files().paths.len(), FILES_MAX);
    }

    #[test]
    fn what_a_run_read_back_is_known_until_somebody_asks() {
        let shelf = Arc::new(Shelf::default());
        shelf.place(Some(1), ["/a".into(), "/b".into()]);
        let file = |file: &str, problem: Option<&str>| Verified {
            file: file.into(),
            items: 7,
            missing: 0,
            problem: problem.map(str::to_owned),
        };
        let read = || vec![file("/a", None), file("/b", Some("torn")), file("/elsewhere", None)];
        let told = || {
            let checks = shelf.listed().into_iter().map(|file| match file.check {
                Some(Check::Over { sound, by_run, told }) => (sound, by_run, told),
                other => panic!("{other:?}"),
            });
            checks.collect::<Vec<_>>()
        };
        shelf.note(read());
        assert_eq!(told(), [(true, true, "7 items".into()), (false, true, "torn".into())]);
        let asked = Check::Over { sound: false, by_run: false, told: "worn".into() };
        shelf.files().verified.insert(1, asked);
        shelf.note(read());
        assert_eq!(told()[0], (false, false, "worn".into()));
    }

    #[test]
    fn one_file_is_read_back_at_a_time() {
        static HELD: Mutex<()> = Mutex::new(());
        fn verifier(path: &Path) -> Verdict {
            drop(HELD.lock());
            (path.ends_with("a"), "<b>x</b>".into())
        }
        let shelf = Arc::new(Shelf::default());
        shelf.place(Some(1), ["/a".into(), "/b".into()]);
        let held = HELD.lock().unwrap();
        assert!(matches!(shelf.verify(1, "/a".into(), verifier), Ok(Check::Running { .. })));
        assert_eq!(shelf.verify(2, "/b".into(), verifier).unwrap_err(), 1);
        assert!(matches!(shelf.listed()[0].check, Some(Check::Running { .. })));
        drop(held);
        let begin = Instant::now();
        let (sound, told) = loop {
            match shelf.listed().swap_remove(0).check {
                Some(Check::Over { sound, told, .. }) => break (sound, told),
                _ => assert!(begin.elapsed() < Duration::from_secs(60)),
            }
            thread::sleep(Duration::from_millis(5));
        };
        assert_eq!((sound, &*told), (true, "<b>x</b>"));
        assert!(shelf.verify(2, "/b".into(), verifier).is_ok());
    }

    #[test]
    fn a_name_is_safe_in_a_header() {
        assert_eq!(escaped("a_1.glog"), "a_1.glog");
        assert_eq!(escaped("a\"\r\nb é"), "a%22%0D%0Ab%20%C3%A9");
    }

    #[test]
    fn only_so_many_are_on_their_way() {
        let taken = Arc::<AtomicUsize>::default();
        let places: Vec<_> = (0..DOWNLOADS_MAX).map(|_| Place::take(&taken).unwrap()).collect();
        assert!(Place::take(&taken).is_none());
        drop(places);
        assert!(Place::take(&taken).is_some());
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        assert!(open(Path::new("/dev/zero")).is_err());
        assert!(open(Path::new("/no such file")).is_err());
        assert!(open(Path::new("/proc/self/exe")).is_err(), "a link");
    }
}
