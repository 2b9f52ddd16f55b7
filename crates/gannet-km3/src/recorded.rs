//! Events that recordings hold, and where their hits were seen.

use std::collections::HashMap;

use gannet_control::config::{Config, Document};
use gannet_control::event::{Content, NoEvent, Recording};
use gannet_log::{Kind, Reader};
use gannet_wire::km3net::DetectorFile;
use gannet_wire::km3net::daq::{Event, Object, Objects, SnapshotHit};

use crate::detector::Km3Tables;
use crate::geometry::{Geometry, StoredModule};

/// Gives the events of a recording to `take`, in their order, until it says that this is enough.
///
/// # Errors
/// When the recording cannot be read, or is none of KM3NeT.
pub fn events(
    recording: &Recording,
    mut take: impl FnMut(&Event<'_>) -> bool,
) -> Result<(), NoEvent> {
    let file = recording.path.display();
    match &recording.content {
        Content::Log => {
            let unreadable = |error: gannet_log::Error| NoEvent::Unreadable(error.to_string());
            let mut reader = Reader::open(&recording.path).map_err(unreadable)?;
            let read = reader.each_sound(|chunk| {
                let is_object = chunk.header.label.kind == Kind::DAQ_OBJECTS;
                !is_object || of_objects(chunk.payload, &mut take).unwrap_or(true)
            });
            read.map_err(unreadable)
        }
        Content::Datagrams(_) => Err(NoEvent::NotKept(format!(
            "{file}: packets of modules are no events yet; a run finds these"
        ))),
        Content::Bytes(bytes) => match of_objects(bytes, &mut take) {
            Ok(_) => Ok(()),
            Err(error) => Err(NoEvent::NotKept(format!("{file}: {error}"))),
        },
    }
}

/// Whether more events are wanted after those of these objects.
fn of_objects(
    objects: &[u8],
    take: &mut impl FnMut(&Event<'_>) -> bool,
) -> gannet_wire::Result<bool> {
    for object in Objects::new(objects) {
        if let Object::Event(event) = object?
            && !take(&event)
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Where the modules of a run are, and how far their clocks are off.
pub struct Places {
    modules: HashMap<u32, StoredModule>,
}

impl Places {
    /// Those of the run that a recording is of.
    ///
    /// # Errors
    /// Why they are not known.
    pub fn of(recording: &Recording) -> Result<Self, String> {
        let file = recording.path.display();
        let Some(start) = &recording.start else {
            return Err(format!(
                "nothing tells where the modules were: {file} has no positions, and no log of the \
                 same name is beside it; draw the event from the log of its run"
            ));
        };
        let wrong = |cause: String| format!("{file}: what it tells of its run: {cause}");
        let stored = start.told.get("modules").filter(|modules| !modules.is_null());
        let modules: Vec<StoredModule> = match stored {
            Some(stored) => serde_json::from_value(stored.clone())
                .map_err(|error| wrong(format!("modules: {error}")))?,
            None => {
                let document = Document::new("configuration", &start.configuration);
                let config: Config<Km3Tables> =
                    document.read().map_err(|problem| wrong(problem.to_string()))?;
                if let Some(named) = &config.pipeline.detector_file {
                    let cause = format!(
                        "the positions of the modules are in {} and not in the log",
                        named.display()
                    );
                    return Err(wrong(cause));
                }
                let detector = DetectorFile::lattice(&config.pipeline.lattice);
                let ids = detector.modules().iter().map(|module| module.id);
                let all = Geometry::of(&detector, ids);
                all.map_err(|id| wrong(format!("there is no module {id}")))?.stored()
            }
        };
        Ok(Self { modules: modules.into_iter().map(|module| (module.id, module)).collect() })
    }

    /// Where and when a hit was seen.
    ///
    /// # Errors
    /// When its module is not of the run.
    pub fn of_hit(&self, SnapshotHit { module, hit }: &SnapshotHit) -> Result<Seen, String> {
        let unknown = || format!("nothing tells where module {module} was");
        let stored = self.modules.get(module).ok_or_else(unknown)?;
        let StoredModule { string, position: [.., height], t0_ns, .. } = stored;
        let t0 = t0_ns.get(usize::from(hit.channel)).copied().unwrap_or(0);
        let time = f64::from(hit.time) + f64::from(t0);
        Ok(Seen { time, height: *height, string: *string })
    }
}

/// Where and when a hit was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Calibrated time in its slice, in ns.
    pub time: f64,
    /// Height of its module, in m.
    pub height: f64,
    /// String of its module.
    pub string: u32,
}
