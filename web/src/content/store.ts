import type { Cid } from './cid.ts'

export interface BlockStore { has(cid: Cid): boolean }
