//! Nodes that start anew in the middle of it all.
//!
//! What such a node had posted counts as failed. A PUT to it whose sender does not know yet that it
//! has arrived may arrive again; nothing else may.

use gannet_rdma::Failure;

use super::{FAILED, Traffic, engine};

impl Traffic {
    /// Starts the nodes anew whose time has come.
    pub(super) fn restart_nodes(&mut self) {
        while let Some(&(at, node)) = self.restarts.last()
            && at <= self.path.now
        {
            self.restarts.pop();
            self.poll();
            self.path.forget(node);
            self.end_messages(node);
            self.expect_anew(node);
            let configuration = &mut self.configurations[node];
            *configuration = configuration.clone().restarted();
            let memory = self.path.engines[node].memory().clone();
            self.path.engines[node] = engine(configuration.clone(), memory, &self.pages[node]);
        }
    }

    /// Ends what a node had posted, and notes what may come to it again.
    fn end_messages(&mut self, node: usize) {
        for tag in 0..self.messages.len() {
            let message = self.messages[tag];
            let poster = if message.is_get { message.to } else { message.from };
            let is_posted = !self.to_post[poster].contains(&(tag as u32));
            if self.outcomes[tag].is_some() || !is_posted {
                continue;
            }
            if poster == node {
                self.outcomes[tag] = Some(Err(Failure::Unreachable));
                if message.is_get {
                    self.fill(tag as u32, FAILED);
                }
            } else if message.to == node {
                self.again[tag] = true;
            }
        }
    }

    /// All PUTs to a node that have no outcome are to come, from the first one on.
    fn expect_anew(&mut self, node: usize) {
        for (&(from, _), expected) in self.expected.iter_mut().filter(|(way, _)| way.1 == node) {
            let open = (0..self.messages.len()).filter(|&tag| {
                let message = self.messages[tag];
                let is_way = !message.is_get && (message.from, message.to) == (from, node);
                is_way && self.outcomes[tag].is_none()
            });
            *expected = open.map(|tag| tag as u32).collect();
        }
    }
}
