/** Live pages: entries that a publisher appends while the page is open. The Rust twin is `crates/content/src/live`. */
export { type Beginning, type Block, decodeBeginning, encodeBeginning } from './beginning.ts'
export { decodeEntry, encodeEntry, ENTRIES_MAX, type Entry, TEXT_BYTES_MAX } from './entry.ts'
export { LiveError, type LiveProblem } from './error.ts'
export { NODE_BYTES_MAX } from './fields.ts'
export { type Head, HEAD_BYTES, signHead, verifyHead } from './head.ts'
export { History, type NewEntry, type Offer, type SignEntry, type Split } from './history.ts'
export { newSigningKey, type SigningKey, storedSigningKey } from './signing.ts'
