import type { Bytes } from '../content/index.ts'

const KEY_BYTES = 32

/** A new key for one page. */
export function newKey(): Bytes {
  return crypto.getRandomValues(new Uint8Array(KEY_BYTES))
}

/** The key as in a link: base64url without padding. */
export function writeKey(key: Uint8Array): string {
  return btoa(String.fromCharCode(...key))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
}

/** The key in a link. `null` if it is not valid, for example truncated. */
export function readKey(text: string): Bytes | null {
  if (!/^[\w-]{43}$/.test(text)) return null
  const letters = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
  const key = Uint8Array.from(letters, (letter) => letter.charCodeAt(0))
  // The last letter has two bits that belong to no byte.
  return writeKey(key) === text ? key : null
}
