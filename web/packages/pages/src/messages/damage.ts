import { part } from './part.ts'

/** The reasons why content is malformed, for the developers of the software that created it. */
export const damage = part('damage', {
  entryName: 'an entry with an impossible name',
  fieldCut: 'a protobuf field is cut short',
  numberEndless: 'a number without end',
  fieldNumber: 'a protobuf field without a number',
  fieldTypeUnknown: 'a protobuf field of an unknown type',
  fieldTypeWrong: 'a protobuf field of the wrong type',
  numberRange: 'a number out of range',
  numberLong: 'a number longer than it needs to be',
  noFileSystem: 'a node that is not part of a file system',
  typeless: 'a UnixFS node without a type',
  sizeSum: 'a file whose sizes do not add up',
  sizeLinks: 'a file with sizes for other links than its own',
  dataTwice: 'a node with data twice',
  nodeField: 'a node with an unknown field',
  linkField: 'a link with an unknown field',
  linkNowhere: 'a link to nothing',
  nameUtf8: 'a name that is not UTF-8',
  cidLong: 'a CID that is too long',
  noCid: 'not a CID',
  cidVersion: 'a CID of unknown version',
  cidDigest: 'a CID with too long a digest',
  cidLength: 'a CID of the wrong length',
  noShard: 'an invalid shard',
  entryTwice: 'two entries of one name',
  blockSize: 'a block whose size differs from the stated one',
  noFile: 'a part of a file that is not a file itself',
  innerKept: 'an inner block kept as a file',
  shardHash: 'a sharded directory with an unknown hash function',
  shardSlot: 'a shard entry without its slot',
  shardMap: 'a shard whose map does not fit its entries',
  shardWidths: 'a directory of shards of several widths',
  shardDepth: 'a shard nested deeper than its hash allows',
  shardAstray: 'an entry in the wrong shard for its name',
  shardWidth: 'a sharded directory of unsupported width',
})

/** The key of one of these texts. */
export type Damage = Parameters<typeof damage>[0]
