export type { Cid } from './cid.ts'
export type { BlockStore } from './store.ts'
