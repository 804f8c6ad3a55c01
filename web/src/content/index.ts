/** Content as blocks identified by hash: CIDs, UnixFS, chunking and reading. */
export type { Bytes } from './bytes.ts'
export { compareBytes, concat, isSameBytes } from './bytes.ts'
export { buildDirectory, buildFile, unixfsV1_2025 } from './build-dag.ts'
export type { BuildOptions, BuiltBlock, BuiltRoot, LeafSource, NamedBlob, Profile } from './build-dag.ts'
export {
  CID_BYTES_MAX,
  cidOf,
  cidOfBlock,
  DAG_PB,
  decodeCid,
  decodePrefix,
  encodeCid,
  encodePrefix,
  IDENTITY,
  inlineBytes,
  makeCid,
  parseCid,
  RAW,
  SHA2_256,
} from './cid.ts'
export type { Cid, CidKey, CidPrefix } from './cid.ts'
export { ContentError, malformed } from './error.ts'
export { type ContentProblem, linkSentence, problemSentence } from './problem.ts'
export { bytesOf, decodeFields, int32Of, MessageWriter, uintOf } from './protobuf.ts'
export { findFile } from './find-file.ts'
export type { FindResult } from './find-file.ts'
export { blocksInOrder } from './block-order.ts'
export { MemoryBlockStore, readSlice } from './block-store.ts'
export type { BlockStore } from './block-store.ts'
export { BlockTable, sizeOf } from './block-table.ts'
export type { Leaf, StoreEvent } from './block-table.ts'
export { isEntryName } from './unixfs.ts'
export { listFiles, readFile } from './read-files.ts'
export { decodeFsNode } from './unixfs.ts'
export type { FsNode } from './unixfs.ts'
export type { FileEntry, FileListing } from './read-files.ts'
export { BLOCKS_MAX, dagBytesMax, DagWalk, DEPTH_MAX } from './dag-walk.ts'
export type { WalkLimits, WantedBlock } from './dag-walk.ts'
