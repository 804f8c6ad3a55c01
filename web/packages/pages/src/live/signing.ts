import type { Bytes } from '../content/index.ts'

/** The key by which a publisher signs heads, with its public half. */
export interface SigningKey {
  readonly public: Bytes
  /** The private half, which the browser can store without showing it. `null` for a key in script, which is never stored. */
  readonly stored: CryptoKey | null
  sign(bytes: Bytes): Promise<Bytes>
}

/** Makes a new key. Nobody can export it from the browser's cryptography. */
export async function newSigningKey(): Promise<SigningKey> {
  const subtle = await subtleWithEd25519()
  if (subtle === null) return inScript(crypto.getRandomValues(new Uint8Array(32)))
  const pair = (await subtle.generateKey('Ed25519', false, ['sign', 'verify'])) as CryptoKeyPair
  return storedSigningKey(new Uint8Array(await subtle.exportKey('raw', pair.publicKey)), pair.privateKey)
}

/** The key with these halves, the private one as the browser has stored it. */
export function storedSigningKey(publicKey: Bytes, privateKey: CryptoKey): SigningKey {
  return {
    public: publicKey,
    stored: privateKey,
    sign: async (bytes) => new Uint8Array(await crypto.subtle.sign('Ed25519', privateKey, bytes)),
  }
}

/** The key of a secret seed, in script: for browsers without Ed25519, for pages that are not secure contexts, and for tests. */
export async function inScript(seed: Bytes): Promise<SigningKey> {
  const { ed25519 } = await import('@noble/curves/ed25519.js')
  return {
    public: ed25519.getPublicKey(seed) as Bytes,
    stored: null,
    sign: async (bytes) => ed25519.sign(bytes, seed) as Bytes,
  }
}

/** Whether the signature of these bytes is of this public key. Rejects if the code that verifies it does not load. */
export async function verifySignature(key: Bytes, signature: Bytes, bytes: Bytes): Promise<boolean> {
  const subtle = await subtleWithEd25519()
  if (subtle === null) return verifyInScript(key, signature, bytes)
  try {
    const imported = await subtle.importKey('raw', key, 'Ed25519', false, ['verify'])
    return await subtle.verify('Ed25519', imported, signature, bytes)
  } catch {
    return false // The key is no point of the curve.
  }
}

async function verifyInScript(key: Bytes, signature: Bytes, bytes: Bytes): Promise<boolean> {
  const { ed25519 } = await import('@noble/curves/ed25519.js')
  try {
    return ed25519.verify(signature, bytes, key, { zip215: false })
  } catch {
    return false
  }
}

let found: Promise<SubtleCrypto | null> | undefined

/** The browser's cryptography, if it has Ed25519. */
function subtleWithEd25519(): Promise<SubtleCrypto | null> {
  const subtle = globalThis.crypto.subtle as SubtleCrypto | undefined
  found ??=
    subtle === undefined
      ? Promise.resolve(null)
      : subtle.generateKey('Ed25519', false, ['sign', 'verify']).then(
          () => subtle,
          () => null,
        )
  return found
}
