use bytes::Bytes;
use serde::Deserialize;
use watchfire_content::dag_pb::Node;
use watchfire_content::unixfs::{Kind, ModifiedAt, UnixFs};
use watchfire_content::{Block, Cid};

use crate::{from_hex, vectors};

/// `nodes.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nodes {
    nodes: Vec<NodeVector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeVector {
    about: String,
    cid: String,
    hex: String,
    links: Vec<LinkVector>,
    data: String,
    unixfs: UnixFsVector,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct LinkVector {
    cid: String,
    name: String,
    tsize: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnixFsVector {
    kind: String,
    data: Option<String>,
    filesize: Option<u64>,
    #[serde(default)]
    block_sizes: Vec<u64>,
    hash_type: Option<u64>,
    fanout: Option<u64>,
    mode: Option<u32>,
    mtime: Option<TimeVector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimeVector {
    seconds: i64,
    nanos: Option<u32>,
}

impl UnixFsVector {
    fn unixfs(self) -> UnixFs {
        let kind = match &self.kind[..] {
            "file" => Kind::File,
            "directory" => Kind::Directory,
            "symlink" => Kind::Symlink,
            "hamt-shard" => Kind::HamtShard,
            other => panic!("unknown kind {other}"),
        };
        UnixFs {
            kind,
            data: self.data.map(|data| from_hex(&data).into()),
            filesize: self.filesize,
            block_sizes: self.block_sizes,
            hash_type: self.hash_type,
            fanout: self.fanout,
            mode: self.mode,
            modified_at: self
                .mtime
                .map(|TimeVector { seconds, nanos }| ModifiedAt { seconds, nanos }),
        }
    }
}

fn links(node: &Node) -> Vec<LinkVector> {
    let vector = |link: &watchfire_content::dag_pb::Link| LinkVector {
        cid: link.cid.to_string(),
        name: link.name.clone().expect("kubo writes names"),
        tsize: link.tsize.expect("kubo writes sizes"),
    };
    node.links.iter().map(vector).collect()
}

#[test]
fn nodes_of_kubo_are_decoded_as_by_kubo() {
    for vector in vectors::<Nodes>("nodes.json").nodes {
        let about = &vector.about;
        let cid: Cid = vector.cid.parse().unwrap();
        let block = Block::verify(cid, from_hex(&vector.hex).into()).expect(about);
        let node = Node::decode(block.bytes()).expect(about);
        assert_eq!(links(&node), vector.links, "{about}");

        let data: Bytes = from_hex(&vector.data).into();
        assert_eq!(node.data.as_ref(), Some(&data), "{about}");
        let unixfs = UnixFs::decode(&data).expect(about);
        assert_eq!(unixfs, vector.unixfs.unixfs(), "{about}");

        assert_eq!(unixfs.encode(), data, "{about}");
        assert_eq!(&node.encode(), block.bytes(), "{about}");
    }
}
