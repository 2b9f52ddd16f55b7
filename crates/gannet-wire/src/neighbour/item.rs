//! What neighbours say in sealed messages: of themselves, of other hosts, and of the machine.
//!
//! An item is one byte of its kind, one of zero, two of its length, and a body:
//!
//! ```text
//! alive   hears (1)                                       the sender of it is there, and hears the other end or not
//! advert  host (8) life (8) number (8) frame bytes (4) ports (2) 0 (2) name (32), then for each port
//!         other host (8) other port (2) port (2) state (1) 0 (3) name (16); of the state, bit 7 says that somebody was heard
//!         there, bit 6 that the port is one of the service network
//! order   number (8) master (8) sizes (3 of 2) nodes (2) frame bytes (4) 0 (4), then for each node
//!         host (8), its ports in the directions X+ X- Y+ Y- Z+ Z- (3: 4 bits each, 15 for none), and what of it is
//!         dead (1): bits 0 to 2 the cable that leads from it in the plus direction of x, y, z; bit 3 the node
//! taken   host (8) life (8) number (8) kind (1) 0 (7)     that item has come, and need not be sent again
//! ask     nothing                                         the sender has heard nothing for a while, and wants an answer
//! ```
//!
//! An advert of a host with a greater life, or with a greater number of the same life, is newer; so is an order with a
//! greater number, or with the same number and a lesser master.
//!
//! Source: ours.

use super::{FORMAT, HOST_NAME_MAX, HostId, Name, PORT_NAME_MAX};
use crate::error::{Error, Result};
use crate::layout::{array, check_len, put};
use crate::record::check_value;

/// Most hosts of a machine: an order for so many fits a datagram on Ethernet.
pub const HOSTS_MAX: usize = 96;
/// Most ports of a host.
pub const PORTS_MAX: usize = 15;
/// Bytes before the body of an item.
const HEAD_LEN: usize = 4;

const ALIVE: u8 = 1;
const ADVERT: u8 = 2;
const ORDER: u8 = 3;
const TAKEN: u8 = 4;
const ASK: u8 = 5;

const ADVERT_LEN: usize = 64;
const ADVERT_PORT_LEN: usize = 32;
/// Bits beside the state of a port.
const HEARD: u8 = 0x80;
const SERVICE: u8 = 0x40;
const ORDER_LEN: usize = 32;
const ORDER_NODE_LEN: usize = 12;
/// Stands for a direction without a port.
const NO_PORT: u8 = 0xf;
const TAKEN_LEN: usize = 32;
/// Bits of what can be dead of a node.
const DEAD: u8 = 0b1111;

/// How far an end of a cable is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PortState {
    /// Nobody is heard.
    #[default]
    Silent = 0,
    /// The other end is heard, and says that it does not hear this one.
    OneWay = 1,
    /// Both ends hear each other.
    Up = 2,
    /// Both ends hear each other, but much of what the other end sends is lost.
    Lossy = 3,
}

impl PortState {
    fn read(got: u8) -> Result<Self> {
        match got {
            0 => Ok(Self::Silent),
            1 => Ok(Self::OneWay),
            2 => Ok(Self::Up),
            3 => Ok(Self::Lossy),
            _ => Err(Error::Unknown { format: FORMAT, field: "state", got: got.into() }),
        }
    }
}

/// A port of a host, as its adverts have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdvertPort {
    /// Its number.
    pub port: u16,
    /// How far its cable is.
    pub state: PortState,
    /// Whether it is no cable, but a path over the service network.
    pub is_service: bool,
    /// Host and port at the other end, as they were last heard.
    pub other: Option<(HostId, u16)>,
    /// What people call it.
    pub name: Name<PORT_NAME_MAX>,
}

/// What a host tells all others of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advert {
    /// The host.
    pub host: HostId,
    /// Which life of it.
    pub life: u64,
    /// Number of the advert in that life.
    pub number: u64,
    /// Longest frame that all of its cables carry, bytes.
    pub frame_bytes: u32,
    /// What people call it.
    pub name: Name<HOST_NAME_MAX>,
    /// Its ports.
    pub ports: Vec<AdvertPort>,
}

/// What a machine of hosts is, and what of it is dead, as its master has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Number of the order.
    pub number: u64,
    /// The master.
    pub master: HostId,
    /// Sizes of the lattice in x, y and z.
    pub sizes: [u16; 3],
    /// Longest frame that all cables carry, bytes.
    pub frame_bytes: u32,
    /// The nodes of the lattice, x running fastest.
    pub nodes: Vec<OrderNode>,
}

/// A node of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderNode {
    /// Its host; 0 if none is known.
    pub host: HostId,
    /// The port of the host in the directions X+, X-, Y+, Y-, Z+ and Z-.
    pub ports: [Option<u8>; 6],
    /// What of it is dead: bits 0 to 2 the cable that leads from it in the plus direction of x, y and z, bit 3 the node.
    pub dead: u8,
}

/// Something that is passed on from host to host until all have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// An [`Advert`].
    Advert = ADVERT,
    /// An [`Order`].
    Order = ORDER,
}

/// Which advert or order has been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taken {
    /// What it is.
    pub kind: Kind,
    /// The host that has made it.
    pub host: HostId,
    /// Life of that host; 0 of an order.
    pub life: u64,
    /// Its number.
    pub number: u64,
}

/// A part of a sealed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The sender is there, and hears the other end, or does not.
    Alive(bool),
    /// What a host tells of itself.
    Advert(Advert),
    /// What the machine is.
    Order(Order),
    /// What has come need not be sent again.
    Taken(Taken),
    /// The sender has heard nothing for a while, and wants to be told whether the other end is there.
    Ask,
}

impl Item {
    /// Bytes of the item.
    pub fn buffer_len(&self) -> usize {
        HEAD_LEN
            + match self {
                Self::Alive(_) => 1,
                Self::Advert(advert) => ADVERT_LEN + ADVERT_PORT_LEN * advert.ports.len(),
                Self::Order(order) => ORDER_LEN + ORDER_NODE_LEN * order.nodes.len(),
                Self::Taken(_) => TAKEN_LEN,
                Self::Ask => 0,
            }
    }

    /// Writes the item to the front of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`buffer_len`](Self::buffer_len), or the item has more ports or nodes than one may have.
    pub fn emit(&self, bytes: &mut [u8]) {
        let bytes = &mut bytes[..self.buffer_len()];
        bytes.fill(0);
        let body_len = (bytes.len() - HEAD_LEN) as u16;
        put(bytes, 2, body_len.to_le_bytes());
        let (head, body) = bytes.split_at_mut(HEAD_LEN);
        head[0] = match self {
            Self::Alive(hears) => {
                body[0] = (*hears).into();
                ALIVE
            }
            Self::Advert(advert) => {
                emit_advert(advert, body);
                ADVERT
            }
            Self::Order(order) => {
                emit_order(order, body);
                ORDER
            }
            Self::Taken(taken) => {
                put(body, 0, taken.host.0.to_le_bytes());
                put(body, 8, taken.life.to_le_bytes());
                put(body, 16, taken.number.to_le_bytes());
                body[24] = taken.kind as u8;
                TAKEN
            }
            Self::Ask => ASK,
        };
    }

    /// Reads the item at the front of `bytes`, and gives what is behind it.
    ///
    /// # Errors
    /// When there is none.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8])> {
        check_len(FORMAT, bytes, HEAD_LEN)?;
        check_value(FORMAT, "reserved", 0, bytes[1].into())?;
        let (head, rest) = bytes.split_at(HEAD_LEN);
        let len = u16::from_le_bytes(array(head, 2)).into();
        check_len(FORMAT, rest, len)?;
        let (body, rest) = rest.split_at(len);
        let item = match head[0] {
            ALIVE => {
                check_value(FORMAT, "length", 1, len as u64)?;
                check_range("hears", 0, 1, body[0].into())?;
                Self::Alive(body[0] == 1)
            }
            ADVERT => Self::Advert(parse_advert(body)?),
            ORDER => Self::Order(parse_order(body)?),
            TAKEN => Self::Taken(parse_taken(body)?),
            ASK => {
                check_value(FORMAT, "length", 0, len as u64)?;
                Self::Ask
            }
            got => return Err(Error::Unknown { format: FORMAT, field: "item", got: got.into() }),
        };
        Ok((item, rest))
    }
}

fn check_range(field: &'static str, min: u64, max: u64, got: u64) -> Result<()> {
    if !(min..=max).contains(&got) {
        return Err(Error::Range { format: FORMAT, field, min, max, got });
    }
    Ok(())
}

fn emit_advert(advert: &Advert, body: &mut [u8]) {
    put(body, 0, advert.host.0.to_le_bytes());
    put(body, 8, advert.life.to_le_bytes());
    put(body, 16, advert.number.to_le_bytes());
    put(body, 24, advert.frame_bytes.to_le_bytes());
    put(body, 28, (advert.ports.len() as u16).to_le_bytes());
    put(body, 32, advert.name.0);
    for (port, body) in advert.ports.iter().zip(body[ADVERT_LEN..].chunks_mut(ADVERT_PORT_LEN)) {
        let (other, other_port) = port.other.unwrap_or_default();
        put(body, 0, other.0.to_le_bytes());
        put(body, 8, other_port.to_le_bytes());
        put(body, 10, port.port.to_le_bytes());
        let heard = if port.other.is_some() { HEARD } else { 0 };
        body[12] = port.state as u8 | heard | if port.is_service { SERVICE } else { 0 };
        put(body, 16, port.name.0);
    }
}

fn parse_advert(body: &[u8]) -> Result<Advert> {
    check_len(FORMAT, body, ADVERT_LEN)?;
    let count = u16::from_le_bytes(array(body, 28));
    check_range("ports", 0, PORTS_MAX as u64, count.into())?;
    let (head, ports) = body.split_at(ADVERT_LEN);
    check_value(FORMAT, "reserved", 0, u16::from_le_bytes(array(head, 30)).into())?;
    let expected = ADVERT_PORT_LEN * usize::from(count);
    check_value(FORMAT, "length", expected as u64, ports.len() as u64)?;
    let port = |body: &[u8]| {
        check_value(
            FORMAT,
            "reserved",
            0,
            array::<3>(body, 13).iter().copied().map(u64::from).sum(),
        )?;
        let other =
            (HostId(u64::from_le_bytes(array(body, 0))), u16::from_le_bytes(array(body, 8)));
        let was_heard = body[12] & HEARD != 0;
        if !was_heard {
            check_value(FORMAT, "other", 0, other.0.0 | u64::from(other.1))?;
        }
        Ok(AdvertPort {
            port: u16::from_le_bytes(array(body, 10)),
            state: PortState::read(body[12] & !(HEARD | SERVICE))?,
            is_service: body[12] & SERVICE != 0,
            other: was_heard.then_some(other),
            name: Name::parse(&body[16..], "port name")?,
        })
    };
    Ok(Advert {
        host: HostId(u64::from_le_bytes(array(head, 0))),
        life: u64::from_le_bytes(array(head, 8)),
        number: u64::from_le_bytes(array(head, 16)),
        frame_bytes: u32::from_le_bytes(array(head, 24)),
        name: Name::parse(&head[32..], "host name")?,
        ports: ports.chunks_exact(ADVERT_PORT_LEN).map(port).collect::<Result<_>>()?,
    })
}

fn emit_order(order: &Order, body: &mut [u8]) {
    put(body, 0, order.number.to_le_bytes());
    put(body, 8, order.master.0.to_le_bytes());
    for (at, size) in order.sizes.iter().enumerate() {
        put(body, 16 + 2 * at, size.to_le_bytes());
    }
    put(body, 22, (order.nodes.len() as u16).to_le_bytes());
    put(body, 24, order.frame_bytes.to_le_bytes());
    for (node, body) in order.nodes.iter().zip(body[ORDER_LEN..].chunks_mut(ORDER_NODE_LEN)) {
        put(body, 0, node.host.0.to_le_bytes());
        for (pair, place) in node.ports.chunks_exact(2).zip(&mut body[8..11]) {
            *place = pair[0].unwrap_or(NO_PORT) | pair[1].unwrap_or(NO_PORT) << 4;
        }
        body[11] = node.dead;
    }
}

fn parse_order(body: &[u8]) -> Result<Order> {
    check_len(FORMAT, body, ORDER_LEN)?;
    let sizes = [16, 18, 20].map(|at| u16::from_le_bytes(array(body, at)));
    let count = u16::from_le_bytes(array(body, 22));
    check_range("nodes", 1, HOSTS_MAX as u64, count.into())?;
    let product = sizes.iter().map(|&size| u64::from(size)).product();
    check_value(FORMAT, "nodes of the lattice", count.into(), product)?;
    check_value(FORMAT, "reserved", 0, u32::from_le_bytes(array(body, 28)).into())?;
    let rest = &body[ORDER_LEN..];
    let expected = ORDER_NODE_LEN as u64 * u64::from(count);
    check_value(FORMAT, "length", expected, rest.len() as u64)?;
    let node = |body: &[u8]| {
        check_range("what is dead", 0, DEAD.into(), body[11].into())?;
        let port = |at: usize| (body[8 + at / 2] >> (4 * (at % 2))) & 0xf;
        Ok(OrderNode {
            host: HostId(u64::from_le_bytes(array(body, 0))),
            ports: core::array::from_fn(|at| Some(port(at)).filter(|&port| port != NO_PORT)),
            dead: body[11],
        })
    };
    Ok(Order {
        number: u64::from_le_bytes(array(body, 0)),
        master: HostId(u64::from_le_bytes(array(body, 8))),
        sizes,
        frame_bytes: u32::from_le_bytes(array(body, 24)),
        nodes: rest.chunks_exact(ORDER_NODE_LEN).map(node).collect::<Result<_>>()?,
    })
}

fn parse_taken(body: &[u8]) -> Result<Taken> {
    check_value(FORMAT, "length", TAKEN_LEN as u64, body.len() as u64)?;
    let reserved: u64 = body[25..].iter().copied().map(u64::from).sum();
    check_value(FORMAT, "reserved", 0, reserved)?;
    let kind = match body[24] {
        ADVERT => Kind::Advert,
        ORDER => Kind::Order,
        got => {
            return Err(Error::Unknown {
                format: FORMAT,
                field: "what was taken",
                got: got.into(),
            });
        }
    };
    Ok(Taken {
        kind,
        host: HostId(u64::from_le_bytes(array(body, 0))),
        life: u64::from_le_bytes(array(body, 8)),
        number: u64::from_le_bytes(array(body, 16)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn advert() -> impl Strategy<Value = Advert> {
        let port = (any::<(u16, bool)>(), 0u8..4, any::<Option<(u64, u16)>>(), "[!-~]{0,16}")
            .prop_map(|((port, is_service), state, other, name)| AdvertPort {
                port,
                state: PortState::read(state).unwrap(),
                is_service,
                other: other.map(|(host, port)| (HostId(host), port)),
                name: Name::of(&name),
            });
        (any::<(u64, u64, u64, u32)>(), "[!-~]{0,32}", vec(port, 0..=PORTS_MAX)).prop_map(
            |((host, life, number, frame_bytes), name, ports)| Advert {
                host: HostId(host),
                life,
                number,
                frame_bytes,
                name: Name::of(&name),
                ports,
            },
        )
    }

    fn order() -> impl Strategy<Value = Order> {
        let sizes = [1u16..7, 1u16..5, 1u16..5];
        (sizes, any::<(u64, u64, u32)>()).prop_flat_map(|(sizes, (number, master, frame_bytes))| {
            let nodes = sizes.iter().map(|&size| usize::from(size)).product::<usize>();
            let port = || proptest::option::of(0u8..15);
            let ports = [port(), port(), port(), port(), port(), port()];
            let node = (any::<u64>(), ports, 0u8..16).prop_map(|(host, ports, dead)| OrderNode {
                host: HostId(host),
                ports,
                dead,
            });
            vec(node, nodes).prop_map(move |nodes| Order {
                number,
                master: HostId(master),
                sizes,
                frame_bytes,
                nodes,
            })
        })
    }

    fn item() -> impl Strategy<Value = Item> {
        let taken =
            any::<(u64, u64, u64, bool)>().prop_map(|(host, life, number, is_order)| Taken {
                kind: if is_order { Kind::Order } else { Kind::Advert },
                host: HostId(host),
                life,
                number,
            });
        prop_oneof![
            any::<bool>().prop_map(Item::Alive),
            advert().prop_map(Item::Advert),
            order().prop_map(Item::Order),
            taken.prop_map(Item::Taken),
            Just(Item::Ask),
        ]
    }

    proptest! {
        #[test]
        fn items_are_read_as_they_were_written(items in vec(item(), 0..5)) {
            let mut bytes = vec![0xff; items.iter().map(Item::buffer_len).sum()];
            let mut rest = &mut bytes[..];
            for item in &items {
                item.emit(rest);
                rest = &mut rest[item.buffer_len()..];
            }
            let mut rest = &bytes[..];
            for item in items {
                let (read, behind) = Item::parse(rest).unwrap();
                prop_assert_eq!(read, item);
                rest = behind;
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn no_bytes_make_it_panic(body in vec(any::<u8>(), 0..200), kind in 0u8..6) {
            let mut item = vec![kind, 0, body.len() as u8, 0];
            item.extend(&body);
            let _parsed = Item::parse(&item);
            let _parsed = Item::parse(&body);
        }
    }

    #[test]
    fn the_largest_order_and_advert_fit_a_datagram_on_ethernet() {
        let nodes = vec![OrderNode::default(); HOSTS_MAX];
        let order = Item::Order(Order { nodes, ..Order::default() });
        let ports = vec![AdvertPort::default(); PORTS_MAX];
        let advert = Item::Advert(Advert { ports, ..Advert::default() });
        // A seal is 16 bytes long, and each message tells that its sender is there.
        let beside = super::super::SEALED_AT + 16 + Item::Alive(true).buffer_len();
        assert!(order.buffer_len() + beside <= 1232, "{}", order.buffer_len());
        assert!(advert.buffer_len() + beside <= 1232, "{}", advert.buffer_len());
    }
}
