/** Content as blocks named by their hashes: CIDs, UnixFS, chunking, and reading it back. */
export type { Bytes } from './bytes.ts'
export { concat, isSameBytes } from './bytes.ts'
export { buildDirectory, buildFile, unixfsV1_2025 } from './build.ts'
export type { BuildOptions, BuiltBlock, BuiltRoot, NamedBlob, Profile } from './build.ts'
export {
  CID_BYTES_MAX, cidOf, cidOfBlock, DAG_PB, decodeCid, decodePrefix, encodeCid, encodePrefix, IDENTITY,
  inlineBytes, makeCid, parseCid, RAW, SHA2_256,
} from './cid.ts'
export type { Cid, CidKey, CidPrefix } from './cid.ts'
export { ContentError, malformed } from './error.ts'
export type { ContentProblem } from './error.ts'
export { bytesOf, decodeFields, int32Of, MessageWriter, uintOf } from './protobuf.ts'
export { findFile } from './find.ts'
export type { Found } from './find.ts'
export { blocksInOrder } from './order.ts'
export { BlockStore, readSlice, sizeOf } from './store.ts'
export type { Blocks, StoreNews } from './store.ts'
export { listFiles, readFile } from './read.ts'
export { decodeFsNode } from './unixfs.ts'
export type { FsNode } from './unixfs.ts'
export type { FileEntry } from './read.ts'
export { BLOCKS_MAX, dagBytesMax, DagWalk, DEPTH_MAX } from './walk.ts'
export type { WalkLimits, WantedBlock } from './walk.ts'
