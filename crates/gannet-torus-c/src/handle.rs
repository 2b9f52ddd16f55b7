//! What a program in C holds, without its pointers.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use gannet_fabric::torus::here;
use gannet_fabric::torus::user::{
    Completion, Local, Outcome, REGION_BYTES_MAX, Reach, RegionId, Remote, Request, User, UserError,
};
use gannet_lattice::Node;
use gannet_memory::SharedRegion;

/// What a function gives that has failed; the text says why.
pub const FAILED: i32 = -1;
/// What `put` and `get` give when completions have to be taken first.
pub const FULL: i32 = -2;
/// What functions give when the node of this host has ended.
pub const ENDED: i32 = -3;

/// Why a function failed: its value, and the words for it.
#[derive(Debug)]
pub struct Failed {
    pub code: i32,
    pub text: String,
}

impl Failed {
    pub fn new(text: impl Display) -> Self {
        Self { code: FAILED, text: text.to_string() }
    }
}

impl From<UserError> for Failed {
    fn from(error: UserError) -> Self {
        let code = match error {
            UserError::Full => FULL,
            UserError::Ended => ENDED,
            _ => FAILED,
        };
        Self { code, ..Self::new(error) }
    }
}

/// A process that uses the node of its host.
pub struct Handle {
    user: User,
    /// Memory by the number that the program has for it.
    regions: Vec<Option<RegionId>>,
}

impl Handle {
    /// Uses the node that listens at `path`, or the one of this host.
    pub fn open(path: Option<&Path>, process: u16) -> Result<Self, Failed> {
        let found =
            path.map_or_else(here::node, |path| Ok(path.to_owned())).map_err(Failed::new)?;
        let user = User::connect(&found, Some(process).filter(|&number| number > 0))?;
        Ok(Self { user, regions: Vec::new() })
    }

    /// Number of the process, node of the host, and nodes of the machine; no nodes while there is none.
    pub fn place(&self) -> (u16, u32, u32) {
        let place = self.user.place();
        let (node, nodes) = place.map_or((0, 0), |it| (it.node.0, it.lattice.nodes() as u32));
        (self.user.process(), node, nodes)
    }

    /// Registers new memory; gives its number.
    pub fn register(&mut self, bytes: usize, address: u64, reach: u32) -> Result<u32, Failed> {
        let reach = match reach {
            0 => Reach::Own,
            1 => Reach::Read,
            2 => Reach::Write,
            other => return Err(Failed::new(format!("{other} is no reach: it is 0, 1 or 2"))),
        };
        if bytes == 0 {
            return Err(Failed::new("memory of 0 bytes cannot be registered"));
        }
        // Making it takes long, and no node takes it.
        if bytes as u64 > REGION_BYTES_MAX {
            return Err(Failed::new(format!(
                "memory of {bytes} bytes cannot be registered at once, but {REGION_BYTES_MAX} at most"
            )));
        }
        let memory = SharedRegion::new(bytes).map_err(Failed::new)?;
        let region = self.user.register(memory, address, reach)?;
        let free = self.regions.iter().position(Option::is_none).unwrap_or(self.regions.len());
        self.regions.resize(self.regions.len().max(free + 1), None);
        self.regions[free] = Some(region);
        Ok(free as u32)
    }

    fn find(&self, region: u32) -> Result<RegionId, Failed> {
        let found = self.regions.get(region as usize).copied().flatten();
        found.ok_or_else(|| Failed::new(format!("there is no memory of number {region}")))
    }

    pub fn memory(&self, region: u32) -> Result<&SharedRegion, Failed> {
        Ok(self.user.region(self.find(region)?))
    }

    pub fn deregister(&mut self, region: u32) -> Result<(), Failed> {
        let found = self.find(region)?;
        self.regions[region as usize] = None;
        self.user.deregister(found)?;
        Ok(())
    }

    pub fn put(
        &mut self,
        from: (u32, u64),
        to: (u32, u16, u64),
        length: u32,
        tag: u32,
    ) -> Result<Request, Failed> {
        let from = Local { region: self.find(from.0)?, offset: from.1 };
        Ok(self.user.put(from, remote(to), length, tag)?)
    }

    pub fn get(
        &mut self,
        from: (u32, u16, u64),
        to: (u32, u64),
        length: u32,
    ) -> Result<Request, Failed> {
        let to = Local { region: self.find(to.0)?, offset: to.1 };
        Ok(self.user.get(remote(from), to, length)?)
    }

    /// The next thing that happened; fails when the node has ended and nothing is left to be told.
    pub fn poll(&mut self) -> Result<Option<Completion>, Failed> {
        let completion = self.user.poll();
        if completion.is_none() {
            self.check_node()?;
        }
        Ok(completion)
    }

    pub fn wait(&mut self, most: Duration) -> Result<(), Failed> {
        self.user.wait(most).map_err(Failed::new)
    }

    /// Fails when the node of this host has ended.
    pub fn check_node(&self) -> Result<(), Failed> {
        if self.user.has_ended() { Err(UserError::Ended.into()) } else { Ok(()) }
    }
}

fn remote((node, process, address): (u32, u16, u64)) -> Remote {
    Remote { node: Node(node), process, address }
}

/// An outcome as the header numbers them.
pub fn number(outcome: Outcome) -> u32 {
    match outcome {
        Outcome::Done => 0,
        Outcome::Unreachable => 1,
        Outcome::Unknown => 2,
        Outcome::OutOfRange => 3,
        Outcome::ReadOnly => 4,
        Outcome::Busy => 5,
        Outcome::Invalid => 6,
        Outcome::Ended => 7,
    }
}
