import type { Bytes } from './bytes.ts'

export type Sha256 = (bytes: Bytes) => Promise<Bytes>

/** WebCrypto if available. It exists only over HTTPS and on localhost. */
export const sha256: Sha256 = globalThis.crypto?.subtle === undefined ? sha256InScript : sha256InBrowser

export async function sha256InBrowser(bytes: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
}

/** About ten times slower. Loaded only when needed. */
export async function sha256InScript(bytes: Bytes): Promise<Bytes> {
  const noble = await import('@noble/hashes/sha2.js')
  return new Uint8Array(noble.sha256(bytes))
}
