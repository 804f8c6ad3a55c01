import { utf8, type Bytes } from '../content/index.ts'

/** AES-256-GCM with the key of one page's records. */
export interface RecordCipher {
  seal(nonce: Bytes, content: Bytes): Promise<Bytes>
  /** `null` if the ciphertext was changed. */
  open(nonce: Bytes, sealed: Bytes): Promise<Bytes | null>
}

/** The values derived from a key and the start of a header. */
export interface Secrets {
  /** Stands in the header. It matches one key only. */
  readonly commitment: Bytes
  readonly cipher: RecordCipher
}

export type DeriveSecrets = (key: Bytes, salt: Bytes) => Promise<Secrets>

const SECRET_BYTES = 32
const COMMITMENT = utf8('watchfire private commitment')
const RECORDS = utf8('watchfire private records')

/** WebCrypto if available. It exists only over HTTPS and on localhost. */
export const deriveSecrets: DeriveSecrets = globalThis.crypto?.subtle === undefined ? deriveInScript : deriveInBrowser

export async function deriveInBrowser(key: Bytes, salt: Bytes): Promise<Secrets> {
  const { subtle } = crypto
  const secret = await subtle.importKey('raw', key, 'HKDF', false, ['deriveBits'])
  const expand = async (info: Bytes) =>
    new Uint8Array(await subtle.deriveBits({ name: 'HKDF', hash: 'SHA-256', salt, info }, secret, 8 * SECRET_BYTES))
  const aes = await subtle.importKey('raw', await expand(RECORDS), 'AES-GCM', false, ['encrypt', 'decrypt'])
  return {
    commitment: await expand(COMMITMENT),
    cipher: {
      seal: async (iv, content) => new Uint8Array(await subtle.encrypt({ name: 'AES-GCM', iv }, aes, content)),
      open: (iv, sealed) => orNull(async () => new Uint8Array(await subtle.decrypt({ name: 'AES-GCM', iv }, aes, sealed))),
    },
  }
}

/** About ten times slower. Loaded only when needed. */
export async function deriveInScript(key: Bytes, salt: Bytes): Promise<Secrets> {
  const [{ gcm }, { hkdf }, { sha256 }] = await Promise.all([
    import('@noble/ciphers/aes.js'),
    import('@noble/hashes/hkdf.js'),
    import('@noble/hashes/sha2.js'),
  ])
  const expand = (info: Bytes) => new Uint8Array(hkdf(sha256, key, salt, info, SECRET_BYTES))
  const aes = expand(RECORDS)
  return {
    commitment: expand(COMMITMENT),
    cipher: {
      seal: async (nonce, content) => new Uint8Array(gcm(aes, nonce).encrypt(content)),
      open: (nonce, sealed) => orNull(async () => new Uint8Array(gcm(aes, nonce).decrypt(sealed))),
    },
  }
}

/** The plaintext, or `null` if the cipher rejects the ciphertext. */
const orNull = (decrypt: () => Promise<Bytes>): Promise<Bytes | null> => decrypt().catch(() => null)
